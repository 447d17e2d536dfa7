"""The programs of `tests.gpu.test_instructions` work, and what is wrong is seen: on the stand-in, and assembled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from ptxtemplates.emulator.operations import TABLE
from ptxtemplates.gpu.place import GUARD, Device
from ptxtemplates.references.case import Input
from tests.emulator.operations.running import spellings
from tests.gpu.approximate_programs import (
    Bounds,
    approximate_program,
    approximate_spellings,
    beyond,
    bounds_of,
    share,
    typed,
)
from tests.gpu.instruction_checks import approximate_faults, exact_faults, missing, warp_faults
from tests.gpu.instruction_programs import exact_program, groups, is_approximate
from tests.gpu.warp_programs import ATOMICS, atomics, exchanging, steady_seeds
from tests.helpers.assembler import assemble

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.standins import Machine
    from tests.gpu.warp_programs import WarpProgram

FEW: Final = (("add", "sm_75"), ("add", "sm_90"), ("addc", "sm_75"), ("subc", "sm_75"), ("cvt", "sm_80"),
              ("setp", "sm_75"), ("div", "sm_75"), ("lop3", "sm_75"), ("min", "sm_100"))  # fmt: skip
GROUPS: Final = groups(approximate=False)
LOWER: Final = {"sm_80": "sm_75", "sm_86": "sm_80", "sm_90": "sm_89", "sm_100": "sm_90"}
"""The next lower target than each that an instruction asks for, and that differs in what it has."""


def text_of(program: WarpProgram) -> str:
    return program.texts[program.kernel].text


def test_nothing_is_left_out() -> None:
    """Every spelling of the emulator's table is in a program, except those of which the ISA says nothing."""
    tested = {text for texts in groups(approximate=False).values() for text in texts}
    every = {text for opcode in TABLE for text in spellings(opcode)}
    assert every - tested - set(approximate_spellings()) == {
        "rcp.approx.ftz.f64", "rsqrt.approx.f64", "rsqrt.approx.ftz.f64",
    }  # fmt: skip
    assert not any(map(is_approximate, tested))


@pytest.mark.parametrize(("opcode", "target"), GROUPS, ids=map("-".join, GROUPS))
def test_the_lowest_target_is_the_lowest(opcode: str, target: str) -> None:
    """Assembled for it; and refused, instruction for instruction, for the next lower one."""
    program = exact_program(opcode, target)
    assemble(program.text, target)
    if target in LOWER:
        lower = program.text.replace(f".target {target}", f".target {LOWER[target]}")
        with pytest.raises(AssertionError) as refusal:
            assemble(lower, LOWER[target])
        lines = lower.splitlines()
        at_fault = [int(number) - 1 for number in re.findall(r"line (\d+)[;,]", str(refusal.value))]
        assert {lines[number].split()[0] for number in at_fault} >= set(GROUPS[opcode, target])


@pytest.mark.parametrize("spelling", approximate_spellings())
def test_approximate_programs_assemble(spelling: str) -> None:
    assemble(approximate_program(spelling).text, approximate_spellings()[spelling])


@pytest.mark.parametrize(("opcode", "target"), FEW, ids=map("-".join, FEW))
def test_exact_results(install: Callable[..., Machine], opcode: str, target: str) -> None:
    program = exact_program(opcode, target)
    machine = install(program.kernel)
    assert exact_faults(program, Device()) == []
    rows = program.columns.shape[1]

    def disturb() -> None:
        """Change the lowest bits of the last column of results: what is a NaN stays one."""
        memory = list(machine.memories.values())[-1]
        memory[GUARD + 8 * rows * (len(program.results) - 1) : -GUARD : 8] ^= 1

    machine.after_launch = disturb
    [fault] = exact_faults(program, Device())
    assert fault.startswith(f"{program.results[-1].spelling} of 0x")
    assert fault.endswith(" in the emulator")


@pytest.mark.parametrize("spelling", approximate_spellings())
def test_approximate_results(install: Callable[..., Machine], spelling: str) -> None:
    """The correctly rounded ones are inside; a result beside its bound is not."""
    program = approximate_program(spelling)
    bounds = bounds_of(program)
    machine = install(program.kernel)
    assert approximate_faults(program, Device()) == ([], 0.0)
    with np.errstate(invalid="ignore"):
        wide = (bounds.high > bounds.rounded) & (bounds.high < np.finfo(np.float16).max)
    at = int(wide.argmax())
    next_one = np.nextafter(bounds.high[at], np.array(np.inf, bounds.high.dtype))

    def disturb() -> None:
        memory = list(machine.memories.values())[-1][GUARD:-GUARD]
        halves = 2 if spelling.endswith("x2") else 1
        start = 8 * (at // halves) + 2 * (at % halves)
        memory[start : start + next_one.dtype.itemsize] = np.array(next_one).reshape(1).view(np.uint8)

    machine.after_launch = disturb
    faults, used = approximate_faults(program, Device())
    assert len(faults) == 1
    assert faults[0].startswith(f"{spelling} of 0x")
    assert faults[0].endswith("; 1 results are outside")
    assert used > 1


def test_what_counts_as_outside() -> None:
    def floats(*values: float) -> Any:
        return np.array(values, np.float32)

    low, high = floats(1, 0, 0, 0, np.nan), floats(2, 0, 0, 0, np.nan)
    bounds = Bounds(low, high, floats(1.5, 0, -0.0, 0, np.nan))
    assert beyond(floats(1, 0, -0.0, 0, np.nan), bounds).tolist() == [False] * 5
    assert beyond(floats(2.5, -0.0, 0, np.nan, 1), bounds).tolist() == [True] * 5
    assert share(floats(1.25, 0, 0, 0, np.nan), bounds) == 0.5


def test_packed_words() -> None:
    words = np.array([0x3C00_4000, 0xBC00_0000], np.uint64)
    assert typed(words, "f16x2").tolist() == [2.0, 1.0, 0.0, -1.0]
    assert typed(words, "b32") is words


def test_atomics(install: Callable[..., Machine]) -> None:
    program = atomics()
    assemble(text_of(program), "sm_75")
    machine = install(program.kernel)
    assert warp_faults(program, Device()) == []
    sums = Device().run(program.case, program.texts).contents("out", 0, 2 * len(ATOMICS)).reshape(2, -1)
    operands = program.case.buffers["in"]
    assert isinstance(operands, Input)
    first = operands.array[0].astype(np.uint32)
    assert sums[0, 0] == first.sum(dtype=np.uint32)
    assert sums[1, 0] == first[: len(first) // 3].sum(dtype=np.uint32)

    def disturb() -> None:
        list(machine.memories.values())[-1][GUARD] ^= 1

    machine.after_launch = disturb
    [fault] = warp_faults(program, Device())
    assert fault.startswith("out[0] is 0x")


@pytest.mark.parametrize("seed", steady_seeds()[:3])
def test_random_programs(install: Callable[..., Machine], seed: int) -> None:
    program = exchanging(seed)
    install(program.kernel)
    assert warp_faults(program, Device()) == []


@pytest.mark.parametrize("seed", steady_seeds())
def test_random_programs_assemble(seed: int) -> None:
    assemble(text_of(exchanging(seed)), "sm_80")


def test_random_programs_exchange_values_in_every_way() -> None:
    whole = "".join(text_of(exchanging(seed)) for seed in steady_seeds())
    for opcode in ("shfl.sync.up", "shfl.sync.down", "shfl.sync.bfly", "shfl.sync.idx", "vote.sync.ballot",
                   "vote.sync.all", "match.any", "match.all", "redux.sync.add", "bar.red.popc", "call"):  # fmt: skip
        assert opcode in whole, opcode


def test_architectures_that_have_no_such_instructions() -> None:
    assert missing("sm_75", "sm_90") is None
    assert missing("sm_100", "sm_120") is None
    assert missing("sm_100", "sm_90") == "sm_90 has no instructions of sm_100"
