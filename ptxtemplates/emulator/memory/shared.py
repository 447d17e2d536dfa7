"""Shared memory of the blocks of a wave, and what is wrong with how threads use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.emulator.memory.instances import Instances
from ptxtemplates.emulator.memory.races import Races

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.memory.accesses import Access
    from ptxtemplates.emulator.memory.instances import Placed

    Indices = npt.NDArray[np.int64]

RACE: Final = "shared-memory race"


class SharedMemory:
    """Shared memory of the blocks of a machine.

    Parameters
    ----------
    machine : Machine
    variables : sequence of Placed
    granule : int
        Bytes of the smallest access.

    Attributes
    ----------
    granules : int
        How many there are in all blocks.
    races : Races
        Who touched which.
    """

    def __init__(self, machine: Machine, variables: Sequence[Placed], granule: int) -> None:
        self._machine = machine
        self._memory = Instances("shared", machine.blocks if variables else 0, variables, machine.report)
        self.granule = granule
        self.granules = self._memory.bytes // granule
        self.races = Races(machine.blocks, machine.threads, self.granules)

    def load(self, access: Access) -> tuple[Access, list[npt.NDArray[Any]]]:
        """Return the part of an access that is right, and the elements that its threads load."""
        access, places = self.place(access)
        if access.strong:
            self.races.synchronise(access.lanes, self._machine.now)
        for index, report in self._granules(access, places):
            self.races.read(index, access.lanes, self._machine.now, report, strong=access.strong)
        if self._machine.copies.pending(places, access.bytes) is None:
            self._memory.check_written(access, places)
        return access, self._memory.load(access, places)

    def store(self, access: Access, values: list[npt.NDArray[Any]]) -> None:
        """Write the elements of each thread."""
        good, places = self.place(access)
        kept = access.threads_of(good)
        self.store_at(good, places, [value[kept] for value in values])

    def store_at(self, access: Access, places: Indices, values: list[npt.NDArray[Any]]) -> None:
        """Write elements where they are kept; threads that write one place at once must agree."""
        for index, report in self._granules(access, places):
            self.races.write(index, access.lanes, self._machine.now, report, strong=access.strong)
        self._memory.store(access, places, values)
        elements = self._memory.elements(access.size)
        for number, value in enumerate(values):
            lost = elements[places // access.size + number] != value.view(elements.dtype)
            if lost.any():
                what = "another thread writes another value there at once, "
                self._memory.report(RACE, access, int(lost.argmax()), number * access.size, what)

    def update(
        self, access: Access, change: Callable[[npt.NDArray[Any], Indices, Any], None], *, compares: bool
    ) -> None:
        """Let a function change elements in place, atomically (as `Memory.update`)."""
        good, places = self.place(access)
        self.races.synchronise(good.lanes, self._machine.now)
        for index, report in self._granules(good, places):
            self.races.write(index, good.lanes, self._machine.now, report, strong=True, compares=compares)
        self._memory.check_written(good, places)
        change(self._memory.elements(access.size), places // access.size, access.threads_of(good))

    def place(self, access: Access) -> tuple[Access, Indices]:
        """Return the part of an access that is right, and where its bytes are kept."""
        good, places = self._memory.place(access, access.lanes // self._machine.threads)
        waiting = self._machine.copies.pending(places, good.bytes)
        if waiting is not None:
            self._memory.report("cp.async", good, waiting, 0, "a copy was not waited for, ")
        return good, places

    def _granules(
        self, access: Access, places: Indices
    ) -> Iterator[tuple[Indices, Callable[[int, str], None]]]:
        """Yield the granules of an access, and what reports a race there."""
        for number in range(-(-access.bytes // self.granule)):
            byte = number * self.granule

            def report(thread: int, what: str, byte: int = byte) -> None:
                self._memory.report(RACE, access, thread, byte, what)

            yield places // self.granule + number, report
