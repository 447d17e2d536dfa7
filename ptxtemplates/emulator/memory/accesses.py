"""One memory instruction, as the threads that run it do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Addresses = npt.NDArray[np.uint64]

WEAK, BLOCK, ANYWHERE = range(3)
"""How far a strong access reaches."""


class Access(NamedTuple):
    """One memory instruction of some threads.

    Attributes
    ----------
    addresses : numpy.ndarray of uint64, shape (n,)
        Of each thread.
    lanes : numpy.ndarray of int, shape (n,)
        Number of each thread in the wave.
    blocks : numpy.ndarray of int32, shape (n,)
        Number of its block, from 1, in the order in which blocks are run.
    size, elements : int
        Bytes of an element, and elements of each thread.
    scope : int
        `WEAK`, or of a strong access (atomic, volatile, relaxed, acquiring or releasing) where it may meet
        others: in its `BLOCK` or `ANYWHERE`.
    """

    addresses: Addresses
    lanes: npt.NDArray[np.int64]
    blocks: npt.NDArray[np.int32]
    size: int
    elements: int
    scope: int = WEAK

    @property
    def bytes(self) -> int:
        """Bytes of each thread."""
        return self.size * self.elements

    @property
    def strong(self) -> bool:
        """Whether threads of a block may meet there."""
        return self.scope > WEAK

    def threads_of(self, part: Access) -> slice | npt.NDArray[np.bool_]:
        """Return what chooses the threads of a part of this access among values for all of them."""
        return slice(None) if part is self else np.isin(self.lanes, part.lanes)

    def at(self, chosen: npt.NDArray[Any]) -> Access:
        """Return the access of some of the threads, by mask or by number."""
        return self._replace(
            addresses=self.addresses[chosen], lanes=self.lanes[chosen], blocks=self.blocks[chosen]
        )
