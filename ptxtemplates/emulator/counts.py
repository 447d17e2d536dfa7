"""What a launch executes: instructions by class, and how well memory is accessed.

Global memory is moved in sectors of 32 bytes: a request is one instruction of one warp, and its ideal is the
sectors that the distinct bytes it needs would fill. Shared memory has 32 banks of 4 bytes: a request takes as
many passes as its busiest bank has distinct words; 8-byte accesses are served half a warp at a time, 16-byte
ones a quarter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.types import WARP

if TYPE_CHECKING:
    import numpy.typing as npt

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.memory.accesses import Access
    from ptxtemplates.emulator.program import Program, Step
    from ptxtemplates.emulator.types import Lanes, Values
    from ptxtemplates.ptx.statements import Instruction

SECTOR: Final = 32
BANKS: Final = 32
BANK_BYTES: Final = 4

_CLASSES: Final = {
    **dict.fromkeys(("bra", "brx", "ret", "exit", "call"), "control"),
    **dict.fromkeys(("ld", "ldu"), "load"),
    "st": "store",
    **dict.fromkeys(("atom", "red"), "atomic"),
    **dict.fromkeys(("shfl", "vote", "match", "redux", "activemask", "elect"), "warp"),
    **dict.fromkeys(("bar", "barrier", "fence", "membar", "griddepcontrol"), "synchronisation"),
    "cp": "asynchronous copy",
    **dict.fromkeys(("mov", "cvta", "selp", "prmt"), "move"),
    "cvt": "conversion",
    "setp": "comparison",
}
_SPECIAL: Final = frozenset({"approx", "full"})


class LineCounts(NamedTuple):
    """What one instruction did.

    Attributes
    ----------
    line : int
        PTX line.
    text : str
        Opcode with its modifiers.
    warps, threads : int
        How often warps and threads executed it.
    divergent : int
        Of a branch, how often threads of one warp parted.
    space : str or None
        Memory that it accesses: ``global``, ``shared``, ``local``, ``const`` or ``param``.
    stores : bool
        Whether it writes there.
    requests, bytes : int
        Accesses of warps, and the distinct bytes that they need.
    sectors, ideal_sectors : int
        Of 32 bytes, in global memory: moved, and at least needed.
    passes, ideal_passes : int
        Of shared memory: made, and needed without bank conflicts.
    """

    line: int
    text: str
    warps: int
    threads: int
    divergent: int
    space: str | None
    stores: bool
    requests: int
    bytes: int
    sectors: int
    ideal_sectors: int
    passes: int
    ideal_passes: int


class Counts(NamedTuple):
    """What a launch executed.

    Attributes
    ----------
    lines : tuple of LineCounts
        For each instruction, in the order of the program.
    classes : dict of str to int
        Thread-instructions of each class.
    warps, threads : int
        Warp-instructions and thread-instructions.
    """

    lines: tuple[LineCounts, ...]
    classes: dict[str, int]
    warps: int
    threads: int

    def total(self, field: str, *, space: str | None = None, stores: bool | None = None) -> int:
        """Sum a field of the lines that access a space, and that load or store."""
        return sum(
            getattr(line, field)
            for line in self.lines
            if (space is None or line.space == space) and (stores is None or line.stores == stores)
        )

    @property
    def divergent_branches(self) -> int:
        """How often threads of a warp parted."""
        return self.total("divergent")

    @property
    def active_lanes(self) -> float:
        """Threads that execute an instruction of a warp, on average."""
        return self.threads / max(self.warps, 1)


def class_of(instruction: Instruction) -> str:
    """Return the class that an instruction is counted in."""
    if instruction.opcode in _CLASSES:
        return _CLASSES[instruction.opcode]
    if not _SPECIAL.isdisjoint(instruction.modifiers):
        return "special function"
    kind = instruction.modifiers[-1] if instruction.modifiers else ""
    if kind.startswith(("f", "bf")):
        return "floating point"
    return "logic" if kind == "pred" or kind.startswith("b") else "integer"


class Counter:
    """Counts what a launch executes.

    Parameters
    ----------
    program : Program
    block : tuple of int
        Its extents.
    """

    def __init__(self, program: Program, block: tuple[int, int, int]) -> None:
        self._program = program
        self._place = 0
        self._rows = [dict.fromkeys(LineCounts._fields[2:], 0) for _ in program.steps]
        self._spaces: dict[int, tuple[str, bool]] = {}

    def count(self, step: Step, place: int, active: Lanes, machine: Machine) -> None:
        """Note that active threads execute the instruction at a place."""
        self._place = place
        threads = int(np.count_nonzero(active))
        warps = np.asarray(machine.by_warp(active).any(axis=2))
        for each in (place,) if step.end is None else (place, step.end):
            self._rows[each]["threads"] += threads
            self._rows[each]["warps"] += int(np.count_nonzero(warps))
        if step.guard is not None and (step.targets or step.end is not None):
            # threads that are elsewhere have parted before
            stays = machine.by_warp(machine.running & ~active).any(axis=2)
            self._rows[place]["divergent"] += int(np.count_nonzero(warps & stays))

    def parted(self, machine: Machine, active: Lanes, targets: Values) -> None:
        """Note that active threads branch to several places."""
        here = machine.by_warp(active)
        chosen = machine.by_warp(targets.astype(np.int64))
        lowest = np.where(here, chosen, np.iinfo(np.int64).max).min(axis=2)
        highest = np.where(here, chosen, -1).max(axis=2)
        self._rows[self._place]["divergent"] += int(np.count_nonzero(lowest < highest))

    def copied(self, machine: Machine, access: Access) -> None:
        """Note where an asynchronous copy writes; what it reads is noted as an access."""
        row = self._rows[self._place]
        if access.addresses.size:
            row["passes"] += _passes(machine, access)
            row["ideal_passes"] += _ideal_passes(machine, access)

    def access(self, machine: Machine, space: str, access: Access, *, stores: bool) -> None:
        """Note an access of the instruction that was counted last."""
        row = self._rows[self._place]
        self._spaces.setdefault(self._place, (space, stores))
        if not access.addresses.size:
            return
        addresses = access.addresses.astype(np.int64)
        needed = _distinct(machine, access, addresses)
        row["requests"] += int(np.count_nonzero(needed))
        row["bytes"] += int(needed.sum()) * access.bytes
        if space == "global":
            row["sectors"] += int(_distinct(machine, access, addresses // SECTOR).sum())
            row["ideal_sectors"] += int((-(-needed * access.bytes // SECTOR)).sum())
        elif space == "shared":
            row["passes"] += _passes(machine, access)
            row["ideal_passes"] += _ideal_passes(machine, access)

    def counts(self) -> Counts:
        """Return what was counted."""
        lines = []
        classes: dict[str, int] = {}
        for place, (step, row) in enumerate(zip(self._program.steps, self._rows, strict=True)):
            space, stores = self._spaces.get(place, (None, False))
            values: dict[str, Any] = {**row, "space": space, "stores": stores}
            lines.append(LineCounts(step.instruction.line, step.instruction.text, **values))
            name = class_of(step.instruction)
            classes[name] = classes.get(name, 0) + row["threads"]
        executed = {name: number for name, number in sorted(classes.items()) if number}
        return Counts(
            tuple(lines), executed, sum(line.warps for line in lines), sum(line.threads for line in lines)
        )


def _distinct(machine: Machine, access: Access, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many different values, none of them negative, the threads of each warp have."""
    table = np.full((machine.blocks * -(-machine.threads // WARP), WARP), -1, np.int64)
    table[_warps(machine, access), access.lanes % machine.threads % WARP] = values
    table.sort(axis=1)
    first = np.concatenate([np.full((len(table), 1), -1), table[:, :-1]], axis=1)
    return np.asarray((first != table).sum(axis=1))


def _warps(machine: Machine, access: Access) -> npt.NDArray[np.int64]:
    threads = machine.threads
    warps: npt.NDArray[np.int64] = (
        access.lanes // threads * -(-threads // WARP) + access.lanes % threads // WARP
    )
    return warps


def _groups(machine: Machine, access: Access) -> npt.NDArray[np.int64]:
    """Return numbers of the threads that are served together: a warp, or a half or a quarter of it."""
    parts = max(1, access.bytes // BANK_BYTES)
    lane = access.lanes % machine.threads % WARP
    groups: npt.NDArray[np.int64] = _warps(machine, access) * parts + lane * parts // WARP
    return groups


def _passes(machine: Machine, access: Access) -> int:
    groups = _groups(machine, access)
    words = access.addresses.astype(np.int64) // BANK_BYTES
    count = max(1, access.bytes // BANK_BYTES)
    every = np.concatenate([np.stack([groups, words + number]) for number in range(count)], axis=1)
    distinct = np.unique(every, axis=1)
    banks, load = np.unique(np.stack([distinct[0], distinct[1] % BANKS]), axis=1, return_counts=True)
    busiest = np.zeros(int(banks[0].max()) + 1, np.int64)
    np.maximum.at(busiest, banks[0], load)
    return int(busiest.sum())


def _ideal_passes(machine: Machine, access: Access) -> int:
    return int(np.unique(_groups(machine, access)).size)
