"""Chosen data for the domain of real numbers: a function of name, index and seed, the same for both texts."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.emulator.operations import DTYPES
from ptxtemplates.symbolic.hashing import mixed

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

SPECIAL: Final = -1
"""Seed of data with NaN, infinities, zeros of both signs and subnormal numbers among it, as those below."""

_FIRST: Final = 0x9E3779B9
_SPECIALS: Final = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -3e-42, 2.0], np.float32)


def contents(seed: int) -> Callable[[str, str, npt.NDArray[np.int64]], npt.NDArray[Any]]:
    """Return what gives elements of any buffer: floats in (-2, 2), integers of all bits."""

    def elements(name: str, kind: str, indices: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        first = zlib.crc32(f"{seed} {name}".encode())
        numbers = mixed(indices.astype(np.uint64) + np.uint64((first << 32) + _FIRST))
        dtype = DTYPES[kind]
        if dtype.kind in "iu":
            return numbers.astype(f"u{dtype.itemsize}").view(dtype)
        low, high = numbers & np.uint64(0xFFFFFFFF), numbers >> np.uint64(32)
        values = ((low + high).astype(np.float64) / 2**31 - 2).astype(dtype)
        if seed <= SPECIAL:
            # one in eight, or in two: what needs two special numbers at once, or one among ordinary ones
            choice = mixed(numbers) % np.uint64((8 if seed % 2 else 2) * len(_SPECIALS))
            special = choice < len(_SPECIALS)
            values[special] = _SPECIALS[choice[special].astype(np.intp)].astype(dtype)
        return np.asarray(values)

    return elements
