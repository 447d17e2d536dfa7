"""Which threads run next.

Threads at one place of the program run together. Where they part, those that are furthest behind run first,
so that they meet again as early as the program allows. Threads wait at barriers of their block, and at
instructions of a warp for the lanes that those name.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from ptxtemplates.emulator.meeting import Meeting
from ptxtemplates.emulator.types import WARP

if TYPE_CHECKING:
    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.program import Step
    from ptxtemplates.emulator.types import Lanes


TURN: Final = 512
"""Steps after which threads that are ahead get their turn: those behind may wait for them, in a loop."""


class Scheduler:
    """Runs the threads of a machine to their end."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._groups: dict[int, Lanes] = {}
        """Threads that could run, by place; those that run now are not among them."""
        self._meeting = Meeting(machine)
        self._held: dict[int, Lanes] = {}
        """Threads that wait for others of their warp, by place."""
        self._favoured = -1
        """The place of those that had the last turn."""
        self._forced: set[int] = set()
        """Places where such threads no longer wait."""

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
                    self._join(place, mask)
                    ahead = sorted(other for other in groups if other > place)
                    place = next(
                        (other for other in ahead if other > self._favoured), min(ahead, default=place)
                    )
                    self._favoured = place
                    mask = groups.pop(place)
                    nearest = min((other for other in groups if other > place), default=len(steps))
            step = machine.step = steps[place]
            machine.now += 1
            conflicts.now = machine.now
            if machine.now > last:
                message = f"still running after {limit} steps"
                machine.report_lanes("step limit", message, mask)
                return False
            alone = not groups and not self._meeting and not self._held
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
                if step.members is not None and not machine.every and active.any():
                    runs = self._hold(place, step, active)
                    stays = active if runs is None else active & ~runs
                    if stays.any():
                        mask = mask & ~stays
                        mask = mask if mask.any() else None
                        nearest = min(groups, default=len(steps))
                    active = active & ~stays
                if machine.every or active.any():
                    if place in rules:
                        rules[place](machine, active)
                    step.execute(machine, active)
                place += 1
                continue
            if step.barrier is not None:
                waiting = self._meeting.arrive(place, step, active)
                if waiting is not None:
                    mask = mask & ~waiting
                    mask = mask if mask.any() else None
                    self._proceed()
                    nearest = min(groups, default=len(steps))
                place += 1
                continue
            if not step.targets:
                machine.alive = machine.alive & ~active
                machine.all_alive = False
                machine.ended_at[active] = place
                mask = mask & ~active
                mask = mask if mask.any() else None
                place += 1
                if self._meeting or self._held:
                    # some may have waited for these
                    self._proceed()
                    self._resume()
                    nearest = min(groups, default=len(steps))
                continue
            if step.selector is not None:
                self._spread(place, step, mask, active)
                place = min(groups)
                mask = groups.pop(place)
                nearest = min(groups, default=len(steps))
                continue
            left = None if step.guard is None or machine.every else mask & ~active
            if left is None or not left.any():
                place = step.targets[0]
                continue
            if not active.any():
                place += 1
                continue
            # of the two ways, the one that is behind goes first
            (place, mask), (other, lanes) = sorted(
                ((step.targets[0], active), (place + 1, left)), key=itemgetter(0)
            )
            self._join(other, lanes)
            nearest = min(nearest, other)

    def _join(self, place: int, lanes: Lanes) -> None:
        groups = self._groups
        groups[place] = groups[place] | lanes if place in groups else lanes

    def _spread(self, place: int, step: Step, mask: Lanes, active: Lanes) -> None:
        """Branch to one of several targets; an index beyond them is undefined, and goes on."""
        assert step.selector is not None
        index = self._machine.full(self._machine.fetch(step.selector, "u32", active))
        beyond = active & (index >= len(step.targets))
        self._machine.report_lanes("out of bounds", "an index beyond the branch targets", beyond)
        if self._machine.launch.counter is not None:
            self._machine.launch.counter.parted(self._machine, active, index)
        for number in np.unique(index[active]).tolist():
            if number < len(step.targets):
                self._join(step.targets[number], active & (index == number))
        left = (mask & ~active) | beyond
        if left.any():
            self._join(place + 1, left)

    def _hold(self, place: int, step: Step, active: Lanes) -> Lanes | None:
        """Let threads wait for lanes that a warp instruction names and that are elsewhere.

        Returns
        -------
        numpy.ndarray or None
            The threads that run it now; None if threads that have waited are to run with them.
        """
        machine = self._machine
        assert step.members is not None
        together = active | self._held.pop(place, active)
        elsewhere = machine.alive & ~together
        if place in self._forced or not elsewhere.any():
            self._forced.discard(place)
        else:
            here = machine.by_warp(together)
            named = np.where(here, machine.by_warp(machine.fetch(step.members, "b32", together)), 0)
            wanted = np.bitwise_or.reduce(named, axis=2, keepdims=True)
            bits = wanted >> np.arange(WARP, dtype=np.uint32) & np.uint32(1) != 0
            incomplete = np.any(bits & machine.by_warp(elsewhere), axis=2, keepdims=True)
            waiting = together & machine.from_warps(np.asarray(incomplete))
            if waiting.any():
                self._held[place] = waiting
                together = together & ~waiting
        if not (together & ~active).any():
            return together
        self._join(place, together)
        return None

    def _release(self) -> bool:
        """Let threads go on whose barrier is complete, or that wait in vain; say whether any can run."""
        self._proceed()
        if not self._groups and self._held:
            # nobody is left who could come: the instruction says what is missing
            self._forced |= self._held.keys()
            self._resume()
        if not self._groups:
            self._meeting.give_up()
        return bool(self._groups)

    def _proceed(self) -> None:
        for place, lanes in self._meeting.complete():
            self._join(place, lanes)

    def _resume(self) -> None:
        for place, lanes in self._held.items():
            self._join(place, lanes)
        self._held.clear()
