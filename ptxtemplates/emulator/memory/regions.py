"""One buffer of global memory: its place, its bytes, and what is known about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from ptxtemplates.emulator.memory.sparse import SparseArray

    Indices = npt.NDArray[np.int64]

_RECORDS: Final = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)} | {16: np.dtype(np.complex128)}
"""A type of each size that one access can move at once."""


class Region:
    """A buffer.

    Attributes
    ----------
    name : str
        What findings call it.
    names : set of str
        Of all parameters that point to it.
    base, size : int
        Its address and its bytes.
    constant : bool
        Whether kernels may only read it.
    previous : bool
        Whether the kernel before in the stream fills it.
    shared : bool
        Whether a store of this kernel may reach it, so that blocks can conflict about it.
    """

    def __init__(
        self,
        name: str,
        base: int,
        data: npt.NDArray[np.uint8] | SparseArray,
        *,
        written: bool = True,
        constant: bool = False,
        previous: bool = False,
    ) -> None:
        self.name = name
        self.names = {name}
        self.base = base
        self.size = data.nbytes
        self.constant = constant
        self.previous = previous
        self.shared = False
        self._sparse: SparseArray | None = None
        self._views: dict[int, npt.NDArray[Any]] = {}
        self._written: npt.NDArray[np.bool_] | None = None
        if isinstance(data, np.ndarray):
            self._data = data
            if not written:
                self._written = np.zeros(data.size, np.bool_)
        else:
            self._sparse = data

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.base + self.size

    def bytes_at(self, offsets: Indices) -> Indices:
        """Return where bytes are kept: their index in `records`, for a size of 1."""
        return offsets if self._sparse is None else self._sparse.place(offsets)

    def records(self, size: int) -> npt.NDArray[Any]:
        """Return the bytes that are kept as values of `size` bytes."""
        if self._sparse is not None:
            return self._sparse.pool.view(_RECORDS[size])
        if size not in self._views:
            usable = self.size - self.size % size
            self._views[size] = self._data[:usable].view(_RECORDS[size])
        return self._views[size]

    @property
    def written(self) -> npt.NDArray[np.bool_] | None:
        """For each byte that is kept whether anyone wrote it; None where all count as written."""
        if self._sparse is not None:
            return None if self._sparse.written else self._sparse.is_written
        return self._written

    @property
    def kept(self) -> int:
        """How many bytes are kept: what `bytes_at` has returned so far is below."""
        return self.size if self._sparse is None else self._sparse.pool.size
