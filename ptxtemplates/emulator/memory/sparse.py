"""Tensors of many GiB of which a launch touches little."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

PAGE: Final = 1 << 16
"""Bytes of a page."""


class SparseArray:
    """A contiguous array whose pages exist once they are touched.

    ``array[i, j] = block`` and ``array[i, j]`` write and read the contiguous part that leading indices
    select; what is read is a copy.

    Parameters
    ----------
    shape : tuple of int
        Extents, outermost first.
    dtype : numpy dtype
        Of an element.
    fill : number
        Value of every element that nobody wrote.
    written : bool
        Whether that value counts as written: if not, a kernel that reads it makes a finding.

    Attributes
    ----------
    pool : numpy.ndarray
        Bytes of the pages that exist, one behind the other.
    pages : numpy.ndarray of int32
        Number of each page in `pool`; -1 where it does not exist.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: npt.DTypeLike, fill: float = 0, *, written: bool = True
    ) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.fill = np.array(fill, self.dtype)
        self.written = written
        self.nbytes = math.prod(shape) * self.dtype.itemsize
        self.pages = np.full(-(-self.nbytes // PAGE), -1, np.int32)
        self.pool = np.zeros(0, np.uint8)
        self.is_written = np.zeros(0, np.bool_)
        """For each byte of `pool` whether it was written, unless all count as written."""
        self._count = 0

    def ensure(self, numbers: npt.NDArray[np.integer[Any]]) -> None:
        """Let pages exist."""
        missing = np.unique(numbers[self.pages[numbers] < 0])
        if not missing.size:
            return
        needed = self._count + missing.size
        if needed * PAGE > self.pool.size:
            room = max(needed, 2 * self._count, 16) * PAGE
            self.pool = np.concatenate([self.pool, np.tile(self._filled(), (room - self.pool.size) // PAGE)])
            if not self.written:
                self.is_written = np.concatenate(
                    [self.is_written, np.zeros(room - self.is_written.size, bool)]
                )
        self.pages[missing] = np.arange(self._count, needed, dtype=np.int32)
        self._count = needed

    def _filled(self) -> npt.NDArray[np.uint8]:
        return np.full(PAGE // self.dtype.itemsize, self.fill).view(np.uint8)

    def __getitem__(self, index: int | tuple[int, ...]) -> npt.NDArray[Any]:
        places, shape = self._places(index)
        return self.pool[places].view(self.dtype).reshape(shape)

    def __setitem__(self, index: int | tuple[int, ...], values: npt.ArrayLike) -> None:
        places, shape = self._places(index)
        content = np.ascontiguousarray(np.broadcast_to(np.asarray(values, self.dtype), shape))
        self.pool[places] = content.reshape(-1).view(np.uint8)
        if not self.written:
            self.is_written[places] = True

    def _places(self, index: int | tuple[int, ...]) -> tuple[npt.NDArray[np.int64], tuple[int, ...]]:
        """Return where the bytes of a part lie in `pool`, and its shape."""
        leading = index if isinstance(index, tuple) else (index,)
        start = 0
        for number, extent in zip(leading, self.shape, strict=False):
            if not 0 <= number < extent:
                raise IndexError(f"index {leading} is outside the shape {self.shape}")
            start = start * extent + number
        shape = self.shape[len(leading) :]
        count = math.prod(shape) * self.dtype.itemsize
        offsets = np.arange(start * count, (start + 1) * count, dtype=np.int64)
        return self.place(offsets), shape

    def place(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return where bytes lie in `pool`; their pages exist afterwards."""
        numbers = offsets // PAGE
        self.ensure(numbers)
        return self.pages[numbers].astype(np.int64) * PAGE + offsets % PAGE
