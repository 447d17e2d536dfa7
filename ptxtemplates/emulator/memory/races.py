"""Threads of one block that meet in shared memory without a barrier between them.

For each granule the last write and the last read are kept: by which thread, and at which step. A later access
of another thread, one of the two writing, is a race unless the threads met in between: at a barrier of the
block, at a barrier that both took part in, or, in one warp, at bar.warp.sync; or unless the first ran a fence
after it and the second, later, one or a strong access. Strong accesses (atomic,
volatile, relaxed, acquiring, releasing) do not race with each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.types import WARP

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Indices = npt.NDArray[np.integer[Any]]
    Times = npt.NDArray[np.integer[Any]]

SHADOW: Final = 18
"""Bytes that are kept for each granule."""

NOBODY: Final = -1
SEVERAL: Final = -2
"""Threads of more than one warp; threads of one warp w are ``-3 - w``."""


class _Partial(NamedTuple):
    """A barrier of some threads: who waited there, since when each took part, and when it was complete."""

    waited: npt.NDArray[np.bool_]
    since: Times
    now: int


class Races:
    """Who touched what in the shared memory of the blocks of a wave.

    Parameters
    ----------
    blocks, threads : int
        Of the wave: blocks, and threads of each.
    granules : int
        Of all blocks together.
    """

    def __init__(self, blocks: int, threads: int, granules: int) -> None:
        self._threads = threads
        self._writer = np.full(granules, NOBODY, np.int32)
        self._written_at = np.zeros(granules, np.int32)
        self._strong_write = np.zeros(granules, np.bool_)
        self._reader = np.full(granules, NOBODY, np.int32)
        self._read_at = np.zeros(granules, np.int32)
        self._strong_read = np.zeros(granules, np.bool_)
        self._met = np.full(blocks, -1, np.int64)
        """Step of the last barrier of all threads of each block."""
        self._warp_met = np.full(blocks * threads, -1, np.int64)
        self._warp_members = np.zeros(blocks * threads, np.uint32)
        """Step of the last bar.warp.sync of each thread, and whom it met there."""
        self._fenced = np.full(blocks * threads, -1, np.int32)
        self._synchronised = np.full(blocks * threads, -1, np.int32)
        """Steps of each thread's last fence, and of its last fence or strong access."""
        self._partial: list[_Partial] = []

    def barrier(self, blocks: npt.NDArray[np.bool_], now: int) -> None:
        """Note that all threads of blocks met."""
        self._met[blocks] = now

    def partial_barrier(self, waited: npt.NDArray[np.bool_], since: Times, now: int) -> None:
        """Note that some threads of a block met.

        Parameters
        ----------
        waited : numpy.ndarray of bool
            Threads that waited for the others.
        since : numpy.ndarray of int
            Step at which each thread that took part came there; -1 of others.
        now : int
            Step at which the barrier was complete.
        """
        self._partial.append(_Partial(waited.reshape(-1).copy(), since.reshape(-1).copy(), now))

    def warp_barrier(self, threads: npt.NDArray[np.bool_], members: npt.NDArray[np.uint32], now: int) -> None:
        """Note that threads met those lanes of their warp that `members` names, for each of them."""
        met = threads.reshape(-1)
        self._warp_met[met] = now
        self._warp_members[met] = members.reshape(-1)[met]

    def fence(self, lanes: Indices, now: int) -> None:
        """Note that threads ran a fence."""
        self._fenced[lanes] = self._synchronised[lanes] = now

    def synchronise(self, lanes: Indices, now: int) -> None:
        """Note that threads looked at a flag: a strong load, or an atomic operation."""
        self._synchronised[lanes] = now

    def read(
        self,
        granules: Indices,
        lanes: Indices,
        now: int,
        report: Callable[[int, str], None],
        *,
        strong: bool = False,
    ) -> None:
        """Note reads of threads `lanes`; `report` is called with a position among them and what it meets."""
        ignored = self._strong_write[granules] if strong else None
        self._look("reads", "written", self._writer, self._written_at, granules, lanes, report, ignored)
        before, at = self._reader[granules], self._read_at[granules]
        past = (before == NOBODY) | self._ordered(before, at, lanes)
        alone = past | (before == lanes)
        warps = self._warp_of(lanes)
        after = np.where(alone, lanes, np.where(self._warp_of(before) == warps, -3 - warps, SEVERAL))
        self._reader[granules] = after
        self._read_at[granules] = now
        self._strong_read[granules] = strong & (past | self._strong_read[granules])
        left = self._reader[granules]
        others = left != after
        if others.any():
            # threads that read one granule at once: the last has overwritten the others
            together = others & (self._warp_of(left) == warps) & (after != SEVERAL)
            self._reader[granules[together]] = -3 - warps[together]
            self._reader[granules[others & ~together]] = SEVERAL

    def write(
        self,
        granules: Indices,
        lanes: Indices,
        now: int,
        report: Callable[[int, str], None],
        *,
        strong: bool = False,
        compares: bool = False,
    ) -> None:
        """Note writes, or atomic operations: one that compares may follow a plain read of what it expects."""
        ignored = self._strong_read[granules] if strong else None
        if not compares:
            self._look("writes", "read", self._reader, self._read_at, granules, lanes, report, ignored)
        ignored = self._strong_write[granules] if strong else None
        self._look("writes", "written", self._writer, self._written_at, granules, lanes, report, ignored)
        before, at = self._writer[granules], self._written_at[granules]
        past = (before == NOBODY) | self._ordered(before, at, lanes)
        self._strong_write[granules] = strong & (past | self._strong_write[granules])
        self._writer[granules] = lanes
        self._written_at[granules] = now

    def _look(
        self,
        deed: str,
        done: str,
        owners: Indices,
        times: Times,
        granules: Indices,
        lanes: Indices,
        report: Callable[[int, str], None],
        ignored: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        before = owners[granules]
        met = (before != NOBODY) & (before != lanes)
        if ignored is not None:
            met &= ~ignored
        if not met.any():
            return
        met &= ~self._ordered(before, times[granules], lanes)
        for thread in np.flatnonzero(met)[:1]:
            other = int(before[thread])
            who = f"thread {other % self._threads}" if other >= 0 else "other threads"
            report(
                int(thread), f"it {deed} what {who} of the block {'has' if other >= 0 else 'have'} {done}, "
            )

    def _ordered(self, first: Indices, times: Times, second: Indices) -> npt.NDArray[np.bool_]:
        """Say which accesses at `times` of threads `first` came before a barrier with threads `second`."""
        ordered = times < self._met[second // self._threads]
        lane = np.maximum(first, 0) % self._threads % WARP
        named = (self._warp_members[second] >> lane.astype(np.uint32)) & np.uint32(1) != 0
        ordered |= (
            (self._warp_of(first) == self._warp_of(second))
            & (times < self._warp_met[second])
            & (named | (first < 0))
        )
        fenced = np.where(first >= 0, self._fenced[np.maximum(first, 0)], -1)
        ordered |= (times < fenced) & (fenced <= self._synchronised[second])
        for barrier in self._partial:
            # of several readers nothing but the last is known: they are taken to have been there
            before = np.where(first >= 0, barrier.since[np.maximum(first, 0)], barrier.now)
            ordered |= barrier.waited[second] & (times < before)
        return ordered

    def _warp_of(self, threads: Indices) -> Indices:
        """Return numbers of warps in the wave: threads of several warps have none, and nobody another."""
        warps = -(-self._threads // WARP)
        number = threads // self._threads * warps + threads % self._threads // WARP
        return np.where(threads >= 0, number, -3 - threads)
