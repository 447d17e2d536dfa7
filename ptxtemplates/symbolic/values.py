"""What a register holds while data is symbolic: bits where they are known, and a shadow beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ptxtemplates.emulator.operations import DTYPES
from ptxtemplates.errors import PtxTemplatesError

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]


class UndecidedError(PtxTemplatesError):
    """A program of which nothing can be said this way, and why."""


class Value(NamedTuple):
    """One value for each lane of a launch.

    Attributes
    ----------
    bits : numpy.ndarray, shape (lanes,)
        An unsigned integer as wide as the value, or bool for a predicate.
    shadow : numpy.ndarray or None
        What a domain keeps beside the bits; None where it has nothing to say of any lane.
    full : bool
        Whether it is known to have something to say of every lane's value as a whole.
    """

    bits: npt.NDArray[Any]
    shadow: npt.NDArray[Any] | None = None
    full: bool = False

    @property
    def size(self) -> int:
        """Bytes of a lane's value."""
        return int(self.bits.dtype.itemsize)

    def typed(self, kind: str) -> npt.NDArray[Any]:
        """Return the bits as the NumPy type of a PTX type of this width."""
        return self.bits if self.bits.dtype == np.bool_ else self.bits.view(DTYPES[kind])


def plain(values: npt.NDArray[Any]) -> Value:
    """Make a value without a shadow of an array of any type."""
    return Value(values if values.dtype == np.bool_ else values.view(f"u{values.dtype.itemsize}"))


def resized(bits: npt.NDArray[Any], size: int, *, signed: bool) -> npt.NDArray[Any]:
    """Return bits cut to a number of bytes, or extended with zeros or the sign."""
    if bits.dtype == np.bool_ or bits.dtype.itemsize == size:
        return bits
    source = bits.view(f"i{bits.dtype.itemsize}") if signed else bits
    target: npt.NDArray[Any] = source.astype(f"{'i' if signed else 'u'}{size}").view(f"u{size}")
    return target
