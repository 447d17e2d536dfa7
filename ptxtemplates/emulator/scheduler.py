"""Which threads run next.

Threads at one place of the program run together. Where they part, those that are furthest behind run first,
so that they meet again as early as the program allows. Threads wait at barriers of their block, and at
instructions of a warp for the lanes that those name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.program import Step
    from ptxtemplates.emulator.types import Lanes


TURN: Final = 512
"""Steps after which threads that are ahead get their turn: those behind may wait for them, in a loop."""


class _Wait(NamedTuple):
    """Threads that wait at a barrier of their block: where, who, at which barrier, for how many."""

    place: int
    lanes: Lanes
    names: Lanes
    counts: Lanes | None
    expected: Lanes
    """Threads of each block that had not ended when the first of these arrived."""


class Scheduler:
    """Runs the threads of a machine to their end."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._groups: dict[int, Lanes] = {}
        """Threads that could run, by place; those that run now are not among them."""
        self._waits: list[_Wait] = []
        self._arrived: dict[int, Lanes] = {}
        """Threads that announced themselves at a barrier without waiting, by its number."""
        self._held: dict[int, Lanes] = {}
        """Threads that wait for others of their warp, by place."""

    def run(self, limit: int) -> bool:
        """Run all threads; return whether they ended within `limit` steps."""
        machine = self._machine
        launch = machine.launch
        steps = launch.program.steps
        rules = launch.program.rules
        conflicts = machine.memory.conflicts
        counter = launch.counter
        groups = self._groups
        last = machine.now + limit
        place = 0
        mask: Lanes | None = machine.alive
        nearest = len(steps)  # the lowest place of another group that goes before this one
        turn = 0
        while True:
            if place >= nearest or mask is None:
                if mask is not None:
                    self._join(place, mask)
                if not groups and not self._release():
                    return True
                place = min(groups)
                mask = groups.pop(place)
                nearest = min(groups, default=len(steps))
                turn = 0 if not groups else turn
            elif groups:
                turn += 1
                if turn > TURN:
                    turn = 0
                    ahead = [other for other in groups if other > place]
                    self._join(place, mask)
                    place = min(ahead, default=min(groups))
                    mask = groups.pop(place)
                    nearest = min((other for other in groups if other > place), default=len(steps))
            step = machine.step = steps[place]
            machine.now += 1
            conflicts.now = machine.now
            if machine.now > last:
                message = f"still running after {limit} steps"
                machine.report_lanes("step limit", message, mask)
                return False
            alone = not groups and not self._waits and not self._held
            if step.guard is None:
                active = mask
                machine.every = alone
            else:
                active = mask & machine.fetch(step.guard, "pred", mask)
                machine.every = alone and bool((active == mask).all())
            if counter is not None:
                machine.running = mask
                counter.count(step, place, active, machine)
            if step.execute is not None:
                if step.members is not None and not machine.every and self._hold(place, step, active):
                    mask = mask & ~active
                    mask = mask if mask.any() else None
                    nearest = min(groups, default=len(steps))
                elif machine.every or active.any():
                    if place in rules:
                        rules[place](machine, active)
                    step.execute(machine, active)
                place += 1
                continue
            if step.barrier is not None:
                waiting = self._arrive(place, step, active)
                if waiting is not None:
                    mask = mask & ~waiting
                    mask = mask if mask.any() else None
                place += 1
                continue
            if not step.targets:
                machine.alive = machine.alive & ~active
                machine.all_alive = False
                mask = mask & ~active
                mask = mask if mask.any() else None
                place += 1
                continue
            if step.selector is None:
                if machine.every:
                    place = step.targets[0]
                    continue
                left = mask & ~active
                if active.any():
                    self._join(step.targets[0], active)
                if left.any():
                    self._join(place + 1, left)
            else:
                self._spread(place, step, mask, active)
            place = min(groups)
            mask = groups.pop(place)
            nearest = min(groups, default=len(steps))

    def _join(self, place: int, lanes: Lanes) -> None:
        groups = self._groups
        groups[place] = groups[place] | lanes if place in groups else lanes

    def _spread(self, place: int, step: Step, mask: Lanes, active: Lanes) -> None:
        """Branch to one of several targets; an index beyond them is undefined, and goes on."""
        assert step.selector is not None
        index = self._machine.full(self._machine.fetch(step.selector, "u32", active))
        beyond = active & (index >= len(step.targets))
        self._machine.report_lanes("out of bounds", "an index beyond the branch targets", beyond)
        for number in np.unique(index[active]).tolist():
            if number < len(step.targets):
                self._join(step.targets[number], active & (index == number))
        left = (mask & ~active) | beyond
        if left.any():
            self._join(place + 1, left)

    def _hold(self, place: int, step: Step, active: Lanes) -> bool:
        """Let threads wait for lanes that a warp instruction names and that are elsewhere."""
        machine = self._machine
        if not active.any():
            return False
        assert step.members is not None
        # threads that have waited here run together with those that arrive now
        together = active | self._held.pop(place, active)
        elsewhere = machine.alive & ~together
        if not (self._groups or self._waits) or not elsewhere.any():
            if together is not active and (together & ~active).any():
                self._join(place, together)
                return True
            return False
        named = machine.by_warp(machine.fetch(step.members, "b32", active))
        wanted = np.zeros(named.shape[:2], np.uint32)
        here = machine.by_warp(active)
        for lane in range(named.shape[2]):
            wanted |= np.where(here[:, :, lane], named[:, :, lane], np.uint32(0))
        bits = (wanted[:, :, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1) != 0
        missing = (bits & machine.by_warp(elsewhere)).any()
        if missing:
            self._held[place] = together
            return True
        if (together & ~active).any():
            self._join(place, together)
            return True
        return False

    def _arrive(self, place: int, step: Step, active: Lanes) -> Lanes | None:
        """Let threads arrive at a barrier; return those that wait."""
        machine, barrier = self._machine, step.barrier
        assert barrier is not None
        names = machine.full(machine.fetch(barrier.name, "u32", active))
        counts = None
        if barrier.needed is not None:
            counts = machine.full(machine.fetch(barrier.needed, "u32", active))
        if barrier.arrives:
            for name in np.unique(names[active]).tolist():
                at = active & (names == name)
                self._arrived[name] = self._arrived[name] | at if name in self._arrived else at
            return None
        if machine.every and not self._arrived and (counts is None or (counts == machine.threads).all()):
            barrier.reduce(machine, active)
            machine.shared.races.barrier(np.ones(machine.blocks, np.bool_), machine.now)
            return None
        if not active.any():
            return None
        expected = machine.alive.sum(axis=1)
        self._waits.append(_Wait(place, active, names, counts, expected))
        return active

    def _release(self) -> bool:
        """Let threads go on whose barrier is complete; or report that they wait for ever.

        Returns
        -------
        bool
            Whether any thread can run.
        """
        if self._held:
            for place, lanes in self._held.items():
                self._join(place, lanes)
            self._held.clear()
            return True
        if not self._waits:
            return False
        for name in sorted({int(name) for wait in self._waits for name in np.unique(wait.names[wait.lanes])}):
            self._complete(name)
        if self._groups:
            return True
        machine = self._machine
        for wait in self._waits:
            machine.step = machine.launch.program.steps[wait.place]
            machine.report_lanes(
                "barrier", "threads wait for others of their block that never come", wait.lanes
            )
            machine.alive = machine.alive & ~wait.lanes
        return False

    def _complete(self, name: int) -> None:
        """Complete a barrier in the blocks in which all that it needs have arrived."""
        machine = self._machine
        here = [wait for wait in self._waits if (wait.names[wait.lanes] == name).any()]
        lanes = np.logical_or.reduce([wait.lanes & (wait.names == name) for wait in here])
        arrived = self._arrived.get(name, np.zeros(machine.shape, np.bool_))
        counts = next((wait.counts for wait in here if wait.counts is not None), None)
        if counts is None:
            done = (lanes.sum(axis=1) == machine.alive.sum(axis=1)) & lanes.any(axis=1)
        else:
            warps = machine.by_warp(lanes).any(axis=2).sum(axis=1) + machine.by_warp(arrived).any(axis=2).sum(
                axis=1
            )
            needed = np.where(lanes, counts, 0).max(axis=1)
            done = lanes.any(axis=1) & (warps * 32 >= needed)
        if not done.any():
            return
        released = lanes & done[:, None]
        self._check_together(here, released, counts is None)
        met = released | (arrived & done[:, None])
        if counts is None:
            machine.shared.races.barrier(done, machine.now)
        else:
            for block in np.flatnonzero(done):
                only = np.zeros_like(met)
                only[block] = met[block]
                machine.shared.races.partial_barrier(only, machine.now)
        if name in self._arrived:
            self._arrived[name] = arrived & ~done[:, None]
        for wait in here:
            going = wait.lanes & released & (wait.names == name)
            machine.step = machine.launch.program.steps[wait.place]
            assert machine.step.barrier is not None
            machine.every = False
            machine.step.barrier.reduce(machine, going)
            self._join(wait.place + 1, going)
        self._waits = [
            wait._replace(lanes=wait.lanes & ~(released & (wait.names == name))) for wait in self._waits
        ]
        self._waits = [wait for wait in self._waits if wait.lanes.any()]

    def _check_together(self, here: list[_Wait], released: Lanes, everyone: bool) -> None:
        """Report blocks that met at several places, or without threads that had not ended."""
        machine = self._machine
        taking_part = released.sum(axis=1)
        by_place: dict[int, Lanes] = {}
        for wait in here:
            by_place[wait.place] = by_place.get(wait.place, wait.lanes) | wait.lanes
        places = np.sum([(lanes & released).any(axis=1) for lanes in by_place.values()], axis=0)
        for wait in here:
            barrier = machine.launch.program.steps[wait.place].barrier
            assert barrier is not None
            if not barrier.aligned or not everyone:
                continue
            machine.step = machine.launch.program.steps[wait.place]
            mine = wait.lanes & released
            missing = mine & (taking_part < wait.expected)[:, None]
            message = "threads of the block that had not ended go past it"
            machine.report_lanes("barrier", message, missing)
            apart = mine & (places > 1)[:, None]
            machine.report_lanes("barrier", "threads of the block meet at different barriers", apart)
