"""Local memory of the threads of a wave, where the parameters of functions lie too.

Compilers copy structures there byte by byte, padding and all, so reading what nobody wrote is not yet a
mistake: the register that takes it counts as unset, and using it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxtemplates.emulator.memory.instances import Instances

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.memory.accesses import Access
    from ptxtemplates.emulator.memory.instances import Placed

    Flags = npt.NDArray[np.bool_]


class LocalMemory:
    """Local memory of some threads.

    Parameters
    ----------
    threads : int
    variables : sequence of Placed
    report : callable
        As `Memory` takes it.
    """

    def __init__(self, threads: int, variables: Sequence[Placed], report: Callable[..., None]) -> None:
        self._memory = Instances("local", threads if variables else 0, variables, report)

    def load(self, access: Access) -> tuple[Access, list[npt.NDArray[Any]], list[Flags]]:
        """Return the part of an access that is right, its elements, and whether each was written."""
        good, places = self._memory.place(access, access.lanes)
        values = self._memory.load(good, places)
        written = self._memory.written(good.size)
        known = [np.all(written[places // good.size + number], axis=1) for number in range(good.elements)]
        return good, values, known

    def store(self, access: Access, values: list[npt.NDArray[Any]], known: list[Flags | None]) -> None:
        """Write elements; what is not known of them stays unwritten."""
        good, places = self._memory.place(access, access.lanes)
        kept = access.threads_of(good)
        self._memory.store(good, places, [value[kept] for value in values])
        written = self._memory.written(good.size)
        for number, flags in enumerate(known):
            if flags is not None:
                written[places[~flags[kept]] // good.size + number] = False
