"""Sizes of PTX types, and of a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ptxtemplates.emulator.operations import DTYPES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BITS: Final = {
    **{name: 1 if name == "pred" else dtype.itemsize * 8 for name, dtype in DTYPES.items()},
    "bf16": 16,
}
"""Bits of each PTX type; a packed type has those of both halves."""

WARP: Final = 32
"""Threads of a warp."""

Values: TypeAlias = "npt.NDArray[Any]"
"""A value for each thread of each block: shape (blocks, threads), or 1 along an axis on which all agree."""
Lanes: TypeAlias = "npt.NDArray[np.bool_]"
"""Which threads, shape (blocks, threads)."""
