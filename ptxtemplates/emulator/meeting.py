"""Threads that wait at barriers of their block, until all have come that a barrier needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.types import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.program import Step
    from ptxtemplates.emulator.types import Lanes, Values

BARRIERS: Final = 16
"""Barriers of a block."""


class _Wait(NamedTuple):
    """Threads that wait: where, who, at which barrier, for how many."""

    place: int
    lanes: Lanes
    names: Values
    counts: Values | None
    alive: Lanes
    """Threads that had not ended when these arrived."""


class Meeting:
    """What waits at the barriers of a machine's blocks."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._waits: list[_Wait] = []
        self._arrived: dict[int, Values] = {}
        """For each barrier, the step at which a thread announced itself without waiting; or -1."""

    def __bool__(self) -> bool:
        return bool(self._waits)

    def arrive(self, place: int, step: Step, active: Lanes) -> Lanes | None:
        """Let threads arrive at a barrier; return those that wait there."""
        machine, barrier = self._machine, step.barrier
        assert barrier is not None
        if not active.any():
            return None
        names = machine.full(machine.fetch(barrier.name, "u32", active))
        counts = None
        if barrier.needed is not None:
            counts = machine.full(machine.fetch(barrier.needed, "u32", active))
        self._check(active, names, counts, arrives=barrier.arrives)
        if barrier.arrives:
            for name in np.unique(names[active]).tolist():
                before = self._arrived.get(name, np.full(machine.shape, -1, np.int64))
                self._arrived[name] = np.where(active & (names == name), machine.now, before)
            return None
        together = (names == names[:, :1]).all() and (counts is None or (counts == machine.threads).all())
        if machine.every and not self._arrived and together:
            barrier.give(machine, active, barrier.values(machine, active), active)
            machine.shared.races.barrier(np.ones(machine.blocks, np.bool_), machine.now)
            return None
        self._waits.append(_Wait(place, active, names, counts, machine.alive))
        return active

    def _check(self, active: Lanes, names: Values, counts: Values | None, *, arrives: bool) -> None:
        machine = self._machine
        machine.report_lanes("barrier", f"a block has {BARRIERS} barriers", active & (names >= BARRIERS))
        if counts is not None:
            wrong = (counts % WARP != 0) | ((counts == 0) & arrives)
            message = f"the number of threads must be a multiple of {WARP}"
            machine.report_lanes("barrier", message, active & wrong)

    def complete(self) -> Iterator[tuple[int, Lanes]]:
        """Yield the threads that go on, and where: those whose barrier has all that it needs."""
        names = {int(name) for wait in self._waits for name in np.unique(wait.names[wait.lanes])}
        for name in sorted(names):
            yield from self._complete(name)

    def give_up(self) -> None:
        """Report the threads that wait for ever, and end them."""
        machine = self._machine
        for wait in self._waits:
            machine.step = machine.launch.program.steps[wait.place]
            message = "threads wait for others of their block that never come"
            machine.report_lanes("barrier", message, wait.lanes)
            machine.alive = machine.alive & ~wait.lanes
        self._waits.clear()

    def _complete(self, name: int) -> Iterator[tuple[int, Lanes]]:
        machine = self._machine
        here = [(wait, wait.lanes & (wait.names == name)) for wait in self._waits]
        here = [(wait, lanes) for wait, lanes in here if lanes.any()]
        waiting = np.logical_or.reduce([lanes for _, lanes in here])
        since = self._arrived.get(name, np.full(machine.shape, -1, np.int64))
        arrived = since >= 0
        counts = next((wait.counts for wait, _ in here if wait.counts is not None), None)
        if counts is None:
            done = (waiting.sum(axis=1) == machine.alive.sum(axis=1)) & waiting.any(axis=1)
        else:
            present = [machine.by_warp(lanes).any(axis=2).sum(axis=1) for lanes in (waiting, arrived)]
            needed = np.where(waiting, counts, 0).max(axis=1)
            done = waiting.any(axis=1) & (sum(present) * WARP >= needed)
        if not done.any():
            return
        released = waiting & done[:, None]
        here = [(wait, lanes & released) for wait, lanes in here]
        if counts is None:
            self._check_together(here, released)
            machine.shared.races.barrier(done, machine.now)
        else:
            since = np.where(released, machine.now, np.where(arrived & done[:, None], since, -1))
            for block in np.flatnonzero(done):
                mine = np.arange(machine.blocks)[:, None] == block
                machine.shared.races.partial_barrier(released & mine, np.where(mine, since, -1), machine.now)
        if name in self._arrived:
            self._arrived[name] = np.where(done[:, None], -1, self._arrived[name])
        self._reduce(here, released)
        self._waits = [
            wait._replace(lanes=wait.lanes & ~(released & (wait.names == name))) for wait in self._waits
        ]
        self._waits = [wait for wait in self._waits if wait.lanes.any()]
        for wait, lanes in here:
            if lanes.any():
                yield wait.place + 1, lanes

    def _reduce(self, here: list[tuple[_Wait, Lanes]], released: Lanes) -> None:
        """Give every thread the result over all that met, wherever they wait."""
        machine = self._machine
        machine.every = False
        values = np.zeros(machine.shape, np.bool_)
        barriers = []
        for wait, lanes in here:
            machine.step = machine.launch.program.steps[wait.place]
            barrier = machine.step.barrier
            assert barrier is not None
            values = np.where(lanes, barrier.values(machine, lanes), values)
            barriers.append(barrier)
        for barrier, (_, lanes) in zip(barriers, here, strict=True):
            barrier.give(machine, released, values, lanes)

    def _check_together(self, here: list[tuple[_Wait, Lanes]], released: Lanes) -> None:
        """Report blocks that met at several places, or without threads that had not ended."""
        machine = self._machine
        by_place: dict[int, Lanes] = {}
        for wait, lanes in here:
            by_place[wait.place] = by_place.get(wait.place, lanes) | lanes
        places = np.sum([lanes.any(axis=1) for lanes in by_place.values()], axis=0)
        for wait, lanes in here:
            machine.step = machine.launch.program.steps[wait.place]
            assert machine.step.barrier is not None
            if not machine.step.barrier.aligned:
                continue
            # a thread that ended further up has not gone past it, whenever that was
            past = wait.alive & ~released & (machine.ended_at > wait.place)
            message = "threads of the block that had not ended go past it"
            machine.report_lanes("barrier", message, lanes & past.any(axis=1, keepdims=True))
            message = "threads of the block meet at different barriers"
            machine.report_lanes("barrier", message, lanes & (places > 1)[:, None])
