"""What each instruction does with values of a domain."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ptxtemplates.emulator.instructions.effect import flat, type_of
from ptxtemplates.emulator.instructions.loads import SPACES, WINDOW, WINDOWS, Target
from ptxtemplates.emulator.instructions.ordering import ORDER_FORMS
from ptxtemplates.emulator.instructions.shuffles import MODES
from ptxtemplates.emulator.memory.buffers import FIRST_ADDRESS
from ptxtemplates.emulator.operations import decode
from ptxtemplates.emulator.types import BITS, WARP
from ptxtemplates.ptx.operands import Pair, Vector
from ptxtemplates.symbolic.values import Value, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from ptxtemplates.ptx.statements import Instruction
    from ptxtemplates.symbolic.machine import Machine
    from ptxtemplates.symbolic.memory import Region

    Addresses = npt.NDArray[np.uint64]
    Offsets = npt.NDArray[np.int64]
    Chosen = npt.NDArray[np.intp] | slice

Handler: TypeAlias = "Callable[[Machine, Value | None], None]"
"""Runs an instruction in the running lanes. The second argument is a guard that is not known in all."""


def handler_of(instruction: Instruction) -> Handler:
    """Return what runs an instruction."""
    return _HANDLERS.get(instruction.opcode, _computing)(instruction)


@lru_cache(maxsize=4096)
def _computing(instruction: Instruction) -> Handler:
    """Compute registers from registers."""
    operation = decode(instruction)
    results = flat(instruction.operands[0])[: len(operation.result_types)]
    sources = [each for operand in instruction.operands[1:] for each in flat(operand)]

    def run(machine: Machine, guard: Value | None) -> None:
        values = [
            machine.fetch(source, kind) for source, kind in zip(sources, operation.source_types, strict=True)
        ]
        if operation.reads_carry:
            values.append(machine.fetch(machine.carry, "pred"))
        types = (*operation.result_types, "pred") if operation.writes_carry else operation.result_types
        made = machine.domain.compute(instruction, operation, values)
        targets = [*results, machine.carry] if operation.writes_carry else results
        for result, value, kind in zip(targets, made, types, strict=True):
            machine.store(result, value, kind, guard)

    return run


def _moving(instruction: Instruction) -> Handler:
    """``mov``: a copy, or a value put together or taken apart."""
    target, source = instruction.operands
    kind = type_of(instruction) if instruction.modifiers[-1] != "pred" else "pred"
    if isinstance(target, Vector):

        def unpack(machine: Machine, guard: Value | None) -> None:
            parts = machine.domain.unpack(machine.fetch(source, kind), len(target.elements))
            for element, part in zip(target.elements, parts, strict=True):
                machine.store(element, part, f"b{part.size * 8}", guard)

        return unpack
    if isinstance(source, Vector):
        part_kind = f"b{BITS[kind] // len(source.elements)}"

        def pack(machine: Machine, guard: Value | None) -> None:
            parts = [machine.fetch(element, part_kind) for element in source.elements]
            machine.store(target, machine.domain.pack(parts), kind, guard)

        return pack

    def copy(machine: Machine, guard: Value | None) -> None:
        machine.store(target, machine.fetch(source, kind), kind, guard)

    return copy


def _selecting(instruction: Instruction) -> Handler:
    """``selp``."""
    target, yes, no, predicate = instruction.operands
    kind = type_of(instruction)

    def run(machine: Machine, guard: Value | None) -> None:
        chooser = machine.fetch(predicate, "pred")
        first, second = machine.fetch(yes, kind), machine.fetch(no, kind)
        if machine.known(chooser):
            chosen = machine.domain.where(chooser.bits, first, second)
        else:
            chosen = machine.domain.select(chooser, first, second)
        machine.store(target, chosen, kind, guard)

    return run


def _negating(instruction: Instruction) -> Handler:
    """``not.pred``; of other types it is computed."""
    if instruction.modifiers != ("pred",):
        return _computing(instruction)
    target, source = instruction.operands

    def run(machine: Machine, guard: Value | None) -> None:
        machine.store(target, machine.domain.negated(machine.fetch(source, "pred")), "pred", guard)

    return run


def _converting(instruction: Instruction) -> Handler:
    """``cvt`` between integers without saturation: bits cut or extended; others are computed."""
    types = instruction.modifiers[-2:]
    if len(instruction.modifiers) != 2 or any(part[0] not in "us" or part not in BITS for part in types):
        return _computing(instruction)
    to, of = types
    target, source = instruction.operands

    def run(machine: Machine, guard: Value | None) -> None:
        value = machine.fetch(source, of)
        machine.store(target, machine.domain.resize(value, BITS[to] // 8, signed=of[0] == "s"), to, guard)

    return run


def _addressing(instruction: Instruction) -> Handler:
    """``cvta``."""
    result, source = instruction.operands
    space = next(SPACES[part] for part in instruction.modifiers if part in SPACES)
    start = WINDOWS.get(space, 0)
    shift = np.uint64(-start % (1 << 64) if "to" in instruction.modifiers else start)
    kind = type_of(instruction)

    def run(machine: Machine, guard: Value | None) -> None:
        value = machine.fetch(source, "u64")
        if shift:
            if not machine.known(value):
                raise machine.undecided("computes an address from data")
            value = Value(value.bits + shift)
        machine.store(result, machine.domain.resize(value, BITS[kind] // 8, signed=False), kind, guard)

    return run


def _places(
    machine: Machine, target: Target, lanes: npt.NDArray[np.intp], number: int
) -> Iterator[tuple[Region, Chosen, Offsets]]:
    """Yield the buffers that lanes access with their element of a number, which do, and where."""
    base = machine.fetch(target.base, "u64")
    if not machine.known(base):
        raise machine.undecided("accesses memory at an address that depends on data")
    addresses = base.bits[lanes] + (target.offset + np.uint64(number * target.size))
    if target.space in machine.instances:
        yield _own(machine, target.space, addresses, lanes, slice(None), target.size)
        return
    if target.space == "generic":
        for space, start in WINDOWS.items():
            chosen = np.flatnonzero(addresses - np.uint64(start) < np.uint64(WINDOW))
            if chosen.size:
                inside = addresses[chosen] - np.uint64(start)
                yield _own(machine, space, inside, lanes[chosen], chosen, target.size)
        chosen = np.flatnonzero(addresses >= np.uint64(FIRST_ADDRESS))
        if chosen.size < addresses.size:
            for region, some, offsets in (
                machine.memory.parts(addresses[chosen], target.size, machine.line) if chosen.size else ()
            ):
                yield region, chosen[some], offsets
            return
    yield from machine.memory.parts(addresses, target.size, machine.line)


def _own(
    machine: Machine,
    space: str,
    addresses: Addresses,
    lanes: npt.NDArray[np.intp],
    chosen: Chosen,
    size: int,
) -> tuple[Region, Chosen, Offsets]:
    region, starts, extent = machine.instances[space]
    if int(addresses.max()) + size > extent:
        raise machine.undecided(f"accesses {space} memory that does not exist")
    return region, chosen, starts[lanes] + addresses.astype(np.int64)


def _loading(instruction: Instruction) -> Handler:
    """``ld``."""
    results = flat(instruction.operands[0])
    target = Target(instruction, instruction.operands[1], len(results))

    def run(machine: Machine, guard: Value | None) -> None:
        lanes = np.flatnonzero(machine.running)
        loaded = []
        for number in range(len(results)):
            whole = None
            for region, chosen, offsets in _places(machine, target, lanes, number):
                _check_loads(machine, region, offsets, target.size, lanes[chosen])
                part = machine.domain.load(region, offsets, target.size)
                whole = _placed(machine, whole, part, lanes[chosen])
            assert whole is not None
            loaded.append(whole)
        # a result may be the register that the address comes from
        for result, whole in zip(results, loaded, strict=True):
            machine.store(result, whole, target.kind, guard)

    return run


def _check_loads(
    machine: Machine, region: Region, offsets: Offsets, size: int, lanes: npt.NDArray[np.intp]
) -> None:
    """Refuse a load of what another lane stores at about the same time; watch what stores may follow."""
    if region in machine.storable:
        places = (offsets[:, None] + np.arange(size)).reshape(-1)
        if not machine.order.loaded(region, places, lanes.repeat(size)):
            raise machine.undecided(f"races: another thread stores what it loads from {region.name}")


def _placed(machine: Machine, whole: Value | None, part: Value, lanes: npt.NDArray[np.intp]) -> Value:
    """Put the values of some lanes in their places; what stands in those of others is not looked at."""
    sources = np.zeros(machine.lanes, np.intp)
    sources[lanes] = np.arange(lanes.size)
    placed = machine.domain.permuted(part, sources)
    if whole is None:
        return placed
    mask = np.zeros(machine.lanes, np.bool_)
    mask[lanes] = True
    return machine.domain.where(mask, placed, whole)


def _storing(instruction: Instruction) -> Handler:
    """``st``."""
    sources = flat(instruction.operands[1])
    target = Target(instruction, instruction.operands[0], len(sources))

    def run(machine: Machine, guard: Value | None) -> None:
        lanes = np.flatnonzero(machine.running)
        for number, source in enumerate(sources):
            value = machine.fetch(source, target.kind)
            for region, chosen, offsets in _places(machine, target, lanes, number):
                mine = machine.domain.permuted(value, lanes[chosen])
                if guard is not None:
                    before = machine.domain.load(region, offsets, target.size)
                    mine = machine.domain.select(machine.domain.permuted(guard, lanes[chosen]), mine, before)
                _check_stores(machine, region, offsets, mine, lanes[chosen])
                machine.domain.store(region, offsets, mine)

    return run


def _check_stores(
    machine: Machine, region: Region, offsets: Offsets, value: Value, lanes: npt.NDArray[np.intp]
) -> None:
    """Refuse stores of which it is chance what stays: several lanes, one place, not one value."""
    places = (offsets[:, None] + np.arange(value.size)).reshape(-1)
    _, first, back = np.unique(places, return_index=True, return_inverse=True)
    if first.size < places.size:
        bits, tags = machine.domain.bytes_of(value)
        winners = first[back.reshape(-1)]
        if not (np.array_equal(bits[winners], bits) and np.array_equal(tags[winners], tags)):
            raise machine.undecided(
                f"stores different values of several threads to one place of {region.name}"
            )
    if not machine.order.stored(region, places[first], lanes.repeat(value.size)[first]):
        raise machine.undecided(f"races: nothing orders its store to {region.name} and what others do there")


def _shuffling(instruction: Instruction) -> Handler:
    """``shfl.sync``: each lane takes the value of another, or keeps its own."""
    mode = MODES[next(name for name in instruction.modifiers if name in MODES)]
    target = instruction.operands[0]
    result, valid = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    value, lane, clamp, _ = instruction.operands[1:]

    def run(machine: Machine, guard: Value | None) -> None:
        offset, control = machine.fetch(lane, "u32"), machine.fetch(clamp, "u32")
        if guard is not None or not (machine.known(offset) and machine.known(control)):
            raise machine.undecided("lets data decide which lanes it exchanges")
        own = machine.numbers % WARP
        segment, bound = (control.bits.astype(np.int64) >> 8) & 31, control.bits.astype(np.int64) & 31
        low = own & segment
        high = low | (bound & ~segment)
        wanted, inside = mode(own, offset.bits.astype(np.int64) & 31, low, high, segment)
        sources = machine.numbers - own + np.where(inside, wanted, own)
        machine.store(result, machine.domain.permuted(machine.fetch(value, "b32"), sources), "b32", None)
        if valid is not None:
            machine.store(valid, Value(inside), "pred", None)

    return run


def _syncing(instruction: Instruction) -> Handler:
    """``bar.warp.sync``; the lanes that it names are there."""

    def run(machine: Machine, guard: Value | None) -> None:
        if guard is not None:
            raise machine.undecided("lets data decide who waits")
        machine.order.meet(machine.running, of_warps=True)

    return run if "warp" in instruction.modifiers else _nothing(instruction)


def _gathering(instruction: Instruction) -> Handler:
    """``vote``, ``redux``: one result from the values of a warp."""
    result, source, members = instruction.operands
    kind = type_of(instruction) if instruction.opcode == "redux" else "pred"
    result_kind = "b32" if kind != "pred" or "ballot" in instruction.modifiers else "pred"
    mode = next((part for part in instruction.modifiers if part in _VOTES), "")

    def run(machine: Machine, guard: Value | None) -> None:
        value, named = machine.fetch(source, kind), machine.fetch(members, "b32")
        if guard is not None or not machine.known(named):
            raise machine.undecided("lets data decide which lanes it gathers from")
        first = machine.numbers - machine.numbers % WARP
        lanes = first[:, None] + np.arange(WARP)
        heard = (
            named.bits[:, None] >> np.arange(WARP, dtype=np.uint32) & np.uint32(1) != 0
        ) & machine.running[lanes]
        if mode in _VOTES and machine.known(value):
            yes = heard & value.bits[lanes]
            machine.store(result, plain(_VOTES[mode](yes, heard)), result_kind, None)
            return
        size = 0 if result_kind == "pred" else 4
        made = machine.domain.gathered(instruction, value, np.where(heard, lanes, -1), size)
        machine.store(result, made, result_kind, None)

    return run


def _nothing(instruction: Instruction) -> Handler:
    """Skip what only orders or hints."""
    return lambda machine, guard: None


def _refusing(instruction: Instruction) -> Handler:
    """Refuse what cannot be followed."""

    def run(machine: Machine, guard: Value | None) -> None:
        raise machine.undecided(f"is {instruction.text}, which is not followed with symbolic data")

    return run


_VOTES: Final[dict[str, Callable[[npt.NDArray[np.bool_], npt.NDArray[np.bool_]], npt.NDArray[Any]]]] = {
    "all": lambda yes, heard: np.asarray((yes == heard).all(axis=1)),
    "any": lambda yes, heard: np.asarray(yes.any(axis=1)),
    "uni": lambda yes, heard: np.asarray((yes == heard).all(axis=1) | ~yes.any(axis=1)),
    "ballot": lambda yes, heard: np.packbits(yes, axis=1, bitorder="little").view(np.uint32).reshape(-1),
}
"""From what each lane of a warp says, and which lanes are heard."""

_REFUSED: Final = (
    "atom", "red", "cp", "ldmatrix", "match", "elect", "activemask", "isspacep", "trap", "createpolicy",
    "griddepcontrol",
)  # fmt: skip

_HANDLERS: Final[dict[str, Callable[[Instruction], Handler]]] = {
    "mov": _moving,
    "selp": _selecting,
    "not": _negating,
    "cvt": _converting,
    "cvta": _addressing,
    "ld": _loading,
    "ldu": _loading,
    "st": _storing,
    "shfl": _shuffling,
    "vote": _gathering,
    "redux": _gathering,
    **dict.fromkeys(ORDER_FORMS, _nothing),
    "bar": _syncing,
    **dict.fromkeys(_REFUSED, _refusing),
}
