"""How accurate the approximate instructions are: rounded correctly, or as bad as the ISA lets them be."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from ptxtemplates.emulator.operations.values import Array, bits_of
from ptxtemplates.ptx.statements import Instruction

# odd, with bits in no order: multiplication carries every bit of a word into the upper ones
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


class Worst(NamedTuple):
    """Every approximate result at an edge of its documented bound (`BOUNDS`).

    Which edge is a function of the seed, the instruction (its line and opcode) and the operands' bits: equal
    inputs give equal outputs, as on a GPU.

    Attributes
    ----------
    seed : int
        Not negative.
    """

    seed: int

    def chooser(self, instruction: Instruction) -> Callable[..., Array]:
        """Return a function from an instruction's sources to booleans, one a lane."""
        name = zlib.crc32(f"{self.seed}:{instruction.line}:{instruction.text}".encode())
        start = np.uint64(name * int(_MULTIPLIER) & _MASK)

        def choose(*sources: Array) -> Array:
            state = np.full(sources[0].shape, start)
            for source in sources:
                state ^= bits_of(source)
                for _ in range(2):
                    state *= _MULTIPLIER
                    state ^= state >> np.uint64(29)
            chosen: Array = state & np.uint64(1) != 0
            return chosen

        return choose


Accuracy: TypeAlias = Worst
"""What `decode` takes; without one, results are rounded correctly."""
