"""Atomic operations (ISA, "Parallel Synchronization and Communication Instructions: atom, red").

Threads that meet at one place are served in the order of their numbers: one of the orders that a GPU may
choose.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.instructions.effect import Effect, EffectForm, flat, scope_of, unsupported
from ptxtemplates.emulator.instructions.loads import Target, by_space
from ptxtemplates.emulator.operations import DTYPES
from ptxtemplates.emulator.operations.arithmetic import arithmetic, extremum, flush, modified
from ptxtemplates.emulator.operations.packing import on_halves
from ptxtemplates.emulator.operations.values import HALVES
from ptxtemplates.ptx.operands import SINK

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.operations.forms import Spelling
    from ptxtemplates.emulator.types import Lanes
    from ptxtemplates.ptx.statements import Instruction

    Update = Callable[..., Any]

_AT: Final[dict[str, np.ufunc]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
}
"""Those that NumPy does to many places at once, one after the other where they meet."""

_INTEGER: Final[dict[str, Update]] = {
    **_AT,
    "exch": lambda old, new: new,
    "inc": lambda old, limit: np.where(old >= limit, 0, old + old.dtype.type(1)).astype(old.dtype),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1)),
    "cas": lambda old, expected, new: np.where(old == expected, new, old),
}
"""What becomes of the old value."""


_INTEGER_TYPES: Final = frozenset(f"{kind}{bits}" for kind in "bus" for bits in (16, 32, 64))


def _function(instruction: Instruction, name: str, kind: str) -> Update:
    """Return the update of one type, rounded as the ISA says."""
    if kind in _INTEGER_TYPES:
        return _INTEGER[name]
    if kind == "f64" and name == "add":
        return np.add
    if kind == "f32" and name == "add":
        return arithmetic("add", "f32", "rn")
    half = HALVES.get(kind, kind)
    if half not in ("f16", "bf16"):
        raise unsupported(instruction, f"{name} of {kind} is not an atomic operation")
    function = modified(arithmetic("add", half, "rn"), half) if name == "add" else extremum(name, half)
    if kind in HALVES:
        packed = on_halves(function, half)
        return lambda old, new: packed(old, new)[0]
    return function


def _atomic(instruction: Instruction, spelling: Spelling) -> Effect:
    """``atom`` with a result, ``red`` without."""
    operands = instruction.operands
    returns = instruction.opcode == "atom"
    results = flat(operands[0]) if returns else ()
    address, *given = operands[1:] if returns else operands
    name = next(part for part in instruction.modifiers if part in _INTEGER)
    given = given[: 2 if name == "cas" else 1]  # behind them, a cache policy
    sources = [flat(operand) for operand in given]
    count = len(sources[0])
    target = Target(instruction, address, count)
    if target.space == "local":
        raise unsupported(instruction, "atomic operations are of global and shared memory")
    kind, dtype = target.kind, DTYPES[target.kind]
    function = _function(instruction, name, kind)
    scope = scope_of(spelling)
    fences = spelling.has("release") or spelling.has("acq_rel")
    unwanted = all(result == SINK for result in results)
    at_once = _AT.get(name) if unwanted and kind in _INTEGER_TYPES else None

    def execute(machine: Machine, active: Lanes) -> None:
        addresses = machine.full(target.addresses(machine, active))
        reach = machine.reach(addresses, active, target.size, target.count, scope=scope)
        values = [
            [machine.part(machine.fetch(each, kind, active), reach, active) for each in source]
            for source in sources
        ]
        before = [np.zeros(reach.access.addresses.size, dtype) for _ in range(count)]
        if fences:
            machine.fence(reach.access.lanes, scope)

        for space, access, chosen in by_space(target, reach.access):
            if space == "local":
                machine.report_lanes("out of bounds", "an atomic operation on local memory", active)
                continue
            if machine.launch.counter is not None:
                machine.launch.counter.access(machine, space, access, stores=True)
            mine = np.arange(reach.access.addresses.size)[chosen]
            # in global memory, float32 additions take subnormal numbers for zero
            update = _flushing(function) if kind == "f32" and space == "global" else function
            change = partial(_change, _Exchange(values, before, mine, update, at_once))
            if space == "global":
                machine.check_previous(access)
                machine.memory.update(access, change, compares=name == "cas")
            else:
                machine.shared.update(access, change, compares=name == "cas")
        for result, values_before in zip(results, before, strict=False):
            machine.store(result, machine.whole(values_before, reach), active)

    return Effect(execute)


class _Exchange(NamedTuple):
    """What threads bring to an atomic operation, and where what they find goes.

    Attributes
    ----------
    values : list of list of numpy.ndarray
        For each source, its elements.
    before : list of numpy.ndarray
        For each element, what each thread finds.
    mine : numpy.ndarray of int
        Threads that are in the space.
    update : callable
        What becomes of an old value.
    at_once : ufunc or None
        Does it to many places at once, where nobody wants to know what was there.
    """

    values: list[list[npt.NDArray[Any]]]
    before: list[npt.NDArray[Any]]
    mine: npt.NDArray[np.int64]
    update: Update
    at_once: np.ufunc | None


def _change(exchange: _Exchange, elements: npt.NDArray[Any], first: npt.NDArray[np.int64], kept: Any) -> None:
    """Update elements in place; `first` is the index of each thread's first one."""
    threads = exchange.mine[kept]
    for number, before in enumerate(exchange.before):
        given = [source[number][threads] for source in exchange.values]
        typed = elements.view(before.dtype)
        place = first + number if number else first
        if exchange.at_once is not None:
            exchange.at_once.at(typed, place, given[0])
        else:
            before[threads] = _one_by_one(typed, place, given, exchange.update)


def _flushing(function: Update) -> Update:
    return lambda old, new: flush(function(flush(old, "f32"), flush(new, "f32")), "f32")


def _one_by_one(
    elements: npt.NDArray[Any],
    places: npt.NDArray[np.int64],
    values: list[npt.NDArray[Any]],
    function: Update,
) -> npt.NDArray[Any]:
    """Update places, threads that share one in their order; return what each found."""
    before = np.empty(places.size, elements.dtype)
    order = np.argsort(places, kind="stable")
    sorted_places = places[order]
    starts = np.flatnonzero(np.r_[True, sorted_places[1:] != sorted_places[:-1]])
    rank = np.arange(places.size) - np.repeat(starts, np.diff(np.r_[starts, places.size]))
    by_rank = order[np.argsort(rank, kind="stable")]
    turns = np.bincount(rank)
    begin = 0
    for turn in turns.tolist():
        threads = by_rank[begin : begin + turn]
        begin += turn
        where = places[threads]
        old = elements[where]
        before[threads] = old
        elements[where] = function(old, *(value[threads] for value in values))
    return before


_PREFIX: Final = (
    "relaxed|acquire|release|acq_rel? cta|cluster|gpu|sys? global|shared|shared::cta|shared::cluster?"
)
_HINT: Final = "L2::cache_hint?"


def _forms(counts: tuple[int, ...], compare: tuple[int, ...]) -> tuple[EffectForm, ...]:
    lines = (
        "and|or|xor b32|b64",
        "add u32|s32|u64|f32|f64",
        "inc|dec u32",
        "min|max u32|s32|u64|s64",
        "add noftz f16|bf16|f16x2|bf16x2",
        "add v2|v4 f32",
        "add|min|max noftz v2|v4|v8 f16|bf16",
        "add|min|max noftz v2|v4 f16x2|bf16x2",
    )
    forms = [EffectForm(f"{_PREFIX} {_HINT} {line}", counts, _atomic) for line in lines]
    if compare:
        forms.append(EffectForm(f"{_PREFIX} {_HINT} exch b32|b64", counts, _atomic))
        forms.append(EffectForm(f"{_PREFIX} cas b16|b32|b64", compare, _atomic))
    return tuple(forms)


ATOMIC_FORMS: Final[dict[str, tuple[EffectForm, ...]]] = {
    "atom": _forms((3, 4), (4,)),
    "red": _forms((2, 3), ()),
}
