"""Random programs, against one thread at a time in Python integers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ptxtemplates.emulator import emulate
from tests.emulator.program_text import text
from tests.emulator.random_programs import SLOTS, random_program
from tests.emulator.scalar import WARP, Interpreter

BLOCKS = ((32, 1, 1), (1, 1, 1), (31, 1, 1), (33, 1, 1), (8, 5, 1), (96, 1, 1), (16, 2, 3))


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed: int) -> None:
    block = BLOCKS[seed % len(BLOCKS)]
    threads, grid = math.prod(block), 1 + seed % 3
    program = random_program(seed, full_warps=threads % WARP == 0)
    out = np.zeros((grid, threads, SLOTS), np.uint32)
    ptx = text(program, block)
    report = emulate(ptx, "k", (grid, 1, 1), block, [out], step_limit=100_000)
    expected = [[[0] * SLOTS for _ in range(threads)] for _ in range(grid)]
    interpreter = Interpreter(program.functions)
    for number in range(grid):
        interpreter.block([{"%r0": thread, "%r1": number} for thread in range(threads)], expected[number])
    assert report.findings == (), ptx
    wrong = np.argwhere(out != np.array(expected, np.uint32))
    assert not wrong.size, f"block, thread, slot {wrong[0].tolist()}\n{ptx}"
