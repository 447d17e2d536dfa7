"""Numbers for terms: equal terms have equal numbers, and other ones, as good as surely, others.

64 bits, keyed by a secret of the process: nobody can write a text whose terms collide on purpose.
"""

from __future__ import annotations

import hashlib
import secrets
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers: TypeAlias = "npt.NDArray[np.uint64]"

_SECRET: Final = secrets.token_bytes(32)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
OPAQUE: Final = np.uint64((1 << 63) - 1)
_SHIFT_A, _SHIFT_B, _SHIFT_C = np.uint64(30), np.uint64(27), np.uint64(31)


@cache
def number_of(word: str) -> np.uint64:
    """Return the number of a word, such as an instruction's name."""
    digest = hashlib.blake2b(word.encode(), digest_size=8, key=_SECRET).digest()
    return np.uint64(int.from_bytes(digest, "big"))


STEP: Final = number_of("byte") | np.uint64(1)
"""Byte j of the value that term t stands for has the number t + j STEP."""


def combined(operator: np.uint64 | Numbers, *operands: Numbers) -> Numbers:
    """Return the number of an operator applied to operands; their order counts."""
    total: Numbers = np.asarray(operator)
    for operand in operands:
        total = mixed(total * STEP + operand)
    # the upper half is for numbers that mean more than equality
    total = total & OPAQUE
    return np.where(total == 0, np.uint64(1), total)


def mixed(numbers: Numbers) -> Numbers:
    """Scatter numbers, one to one (the finaliser of the generator splitmix64)."""
    numbers = (numbers ^ (numbers >> _SHIFT_A)) * _FIRST
    numbers = (numbers ^ (numbers >> _SHIFT_B)) * _SECOND
    return numbers ^ (numbers >> _SHIFT_C)
