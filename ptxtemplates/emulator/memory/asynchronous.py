"""Copies from global to shared memory that a thread starts and later waits for (ISA, "cp.async").

Nothing orders such a copy but a wait, so it is done as late as the program allows: when its thread waits for
it. Until then, any access to where it writes is a finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.memory.accesses import Access
    from ptxtemplates.emulator.types import Lanes


class Copy(NamedTuple):
    """A copy that was started.

    Attributes
    ----------
    access : Access
        Of the destination.
    places : numpy.ndarray of int
        Where that is kept.
    values : list of numpy.ndarray
        What was read.
    groups : numpy.ndarray of int
        In which group of its thread.
    """

    access: Access
    places: npt.NDArray[np.int64]
    values: list[npt.NDArray[Any]]
    groups: npt.NDArray[np.int64]

    def of(self, threads: npt.NDArray[np.bool_]) -> Copy:
        """Return the copy as some of its threads do it."""
        values = [value[threads] for value in self.values]
        return Copy(self.access.at(threads), self.places[threads], values, self.groups[threads])


class Copies:
    """The copies of a machine that nobody has waited for."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._started: list[Copy] = []
        self._group = np.zeros(machine.blocks * machine.threads, np.int64)
        """How many groups each thread has closed."""
        self._pending: npt.NDArray[np.bool_] | None = None

    def start(self, access: Access, places: npt.NDArray[np.int64], values: list[npt.NDArray[Any]]) -> None:
        """Start copying values, already read, to places in shared memory."""
        groups = self._group[access.lanes].copy()
        self._started.append(Copy(access, places, values, groups))
        self._mark(places, access.bytes, pending=True)

    def commit(self, active: Lanes) -> None:
        """Close the group of each active thread."""
        self._group[active.reshape(-1)] += 1

    def wait(self, active: Lanes, allowed: int | None) -> None:
        """Finish the copies of the active threads but for their latest `allowed` closed groups; None: all."""
        flat = active.reshape(-1)
        left = []
        for copy in self._started:
            done = flat[copy.access.lanes]
            if allowed is not None:
                done = done & (copy.groups < self._group[copy.access.lanes] - allowed)
            if done.any():
                finished = copy.of(done)
                self._mark(finished.places, finished.access.bytes, pending=False)
                self._machine.shared.store_at(finished.access, finished.places, finished.values)
            if not done.all():
                left.append(copy.of(~done))
        self._started = left

    def pending(self, places: npt.NDArray[np.int64], count: int) -> int | None:
        """Return the number of the first of the places where a copy is still to write, if there is one."""
        if self._pending is not None:
            for index in self._granules(places, count):
                if self._pending[index].any():
                    return int(self._pending[index].argmax())
        return None

    def _mark(self, places: npt.NDArray[np.int64], count: int, *, pending: bool) -> None:
        if self._pending is None:
            self._pending = np.zeros(self._machine.shared.granules, np.bool_)
        for index in self._granules(places, count):
            self._pending[index] = pending

    def _granules(self, places: npt.NDArray[np.int64], count: int) -> list[npt.NDArray[np.int64]]:
        granule = self._machine.shared.granule
        return [places // granule + number for number in range(-(-count // granule))]
