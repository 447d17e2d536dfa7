"""Votes, matches and reductions of a warp (ISA, the sections of vote, match, redux, activemask, elect)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.emulator.instructions.effect import Effect, EffectForm, type_of
from ptxtemplates.emulator.operations import DTYPES
from ptxtemplates.emulator.operations.arithmetic import extremum
from ptxtemplates.emulator.types import WARP
from ptxtemplates.ptx.operands import Pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.operations.forms import Spelling
    from ptxtemplates.emulator.types import Lanes, Values
    from ptxtemplates.ptx.statements import Instruction


def _heard(machine: Machine, named: Values, active: Lanes) -> Values:
    """Return for each thread the lanes that it hears: those it names and that run with it."""
    return named & machine.mask_of(active)


def _vote(instruction: Instruction, spelling: Spelling) -> Effect:
    result, predicate, members = instruction.operands
    mode = next(name for name in instruction.modifiers if name in _VOTES)

    def execute(machine: Machine, active: Lanes) -> None:
        heard = _heard(machine, machine.check_members(members, active), active)
        yes = machine.mask_of(active & machine.fetch(predicate, "pred", active)) & heard
        machine.store(result, _VOTES[mode](yes, heard), active)

    return Effect(execute, members)


_VOTES: Final[dict[str, Callable[[Values, Values], Values]]] = {
    "all": lambda yes, heard: yes == heard,
    "any": lambda yes, heard: yes != 0,
    "uni": lambda yes, heard: (yes == heard) | (yes == 0),
    "ballot": lambda yes, heard: yes,
}


def _match(instruction: Instruction, spelling: Spelling) -> Effect:
    target, source, members = instruction.operands
    result, all_equal = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    kind = type_of(instruction)
    everyone = spelling.has("all")

    def execute(machine: Machine, active: Lanes) -> None:
        heard = _heard(machine, machine.check_members(members, active), active)
        values = machine.by_warp(machine.fetch(source, kind, active))
        equal = np.zeros(values.shape, np.uint32)
        for lane in range(WARP):
            equal |= (values == values[:, :, lane : lane + 1]).astype(np.uint32) << np.uint32(lane)
        same = machine.from_warps(equal) & heard
        if everyone:
            agree = same == heard
            machine.store(result, np.where(agree, heard, np.uint32(0)), active)
            if all_equal is not None:
                machine.store(all_equal, agree, active)
        else:
            machine.store(result, same, active)

    return Effect(execute, members)


def _reduce(instruction: Instruction, spelling: Spelling) -> Effect:
    result, source, members = instruction.operands
    kind = type_of(instruction)
    name = next(part for part in instruction.modifiers if part in _REDUCTIONS)
    combine: Any = _REDUCTIONS[name]
    if kind == "f32":
        combine = extremum(name, "f32", propagate=spelling.has("NaN"), absolute=spelling.has("abs"))

    def execute(machine: Machine, active: Lanes) -> None:
        heard = machine.by_warp(_heard(machine, machine.check_members(members, active), active))
        values = machine.by_warp(machine.fetch(source, kind, active))
        total = np.zeros(values.shape, DTYPES[kind])
        begun = np.zeros(values.shape, np.bool_)
        for lane in range(WARP):
            mine = heard >> np.uint32(lane) & np.uint32(1) != 0
            value = np.broadcast_to(values[:, :, lane : lane + 1], values.shape)
            total = np.where(mine, np.where(begun, combine(total, value), value), total)
            begun |= mine
        if kind == "f32":
            # a single operand has met no other: the operation with itself makes its NaN canonical
            total = combine(total, total)
        machine.store(result, machine.from_warps(total), active)

    return Effect(execute, members)


_REDUCTIONS: Final = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _active(instruction: Instruction, spelling: Spelling) -> Effect:
    [result] = instruction.operands
    return Effect(lambda machine, active: machine.store(result, machine.mask_of(active), active))


def _elect(instruction: Instruction, spelling: Spelling) -> Effect:
    """``elect.sync``: the lowest lane that is named leads."""
    target, members = instruction.operands
    lane, leads = (target.first, target.second) if isinstance(target, Pair) else (target, None)

    def execute(machine: Machine, active: Lanes) -> None:
        heard = _heard(machine, machine.check_members(members, active), active)
        lowest = heard & -heard.view(np.int32).astype(np.int64).astype(np.uint32)
        number = np.log2(np.maximum(lowest, 1)).astype(np.uint32)
        machine.store(lane, number, active)
        if leads is not None:
            machine.store(leads, number == machine.special["%laneid"], active)

    return Effect(execute, members)


def _form(syntax: str, count: int, make: Any) -> tuple[EffectForm, ...]:
    return (EffectForm(syntax, (count,), make),)


VOTE_FORMS: Final[dict[str, tuple[EffectForm, ...]]] = {
    "vote": (
        EffectForm("sync all|any|uni pred", (3,), _vote),
        EffectForm("sync ballot b32", (3,), _vote),
    ),
    "match": _form("any|all sync b32|b64", 3, _match),
    "redux": (
        EffectForm("sync add|min|max u32|s32", (3,), _reduce),
        EffectForm("sync and|or|xor b32", (3,), _reduce),
        EffectForm("sync min|max abs? NaN? f32", (3,), _reduce),
    ),
    "activemask": _form("b32", 1, _active),
    "elect": _form("sync", 2, _elect),
}
