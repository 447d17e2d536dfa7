"""Order between threads and kernels, and what has no effect here: hints to caches, delays, traps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.emulator.instructions.effect import Effect, EffectForm, scope_of

if TYPE_CHECKING:
    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.operations.forms import Spelling
    from ptxtemplates.emulator.types import Lanes
    from ptxtemplates.ptx.statements import Instruction


def _fence(instruction: Instruction, spelling: Spelling) -> Effect:
    """``fence``, ``membar``: of a block, or of the whole GPU and wider."""
    scope = scope_of(spelling)
    return Effect(lambda machine, active: machine.fence(np.flatnonzero(active), scope))


def _warp_barrier(instruction: Instruction, spelling: Spelling) -> Effect:
    members = instruction.operands[0]

    def execute(machine: Machine, active: Lanes) -> None:
        named = machine.check_members(members, active)
        machine.shared.races.warp_barrier(active, machine.full(named), machine.now)

    return Effect(execute, members)


def _nothing(instruction: Instruction, spelling: Spelling) -> Effect:
    return Effect(lambda machine, active: None)


def _trap(instruction: Instruction, spelling: Spelling) -> Effect:
    def execute(machine: Machine, active: Lanes) -> None:
        machine.report_lanes("trap", "the kernel ends itself", active)

    return Effect(execute)


def _policy(instruction: Instruction, spelling: Spelling) -> Effect:
    """``createpolicy``: a cache policy, whose bits nobody looks at."""
    result = instruction.operands[0]
    return Effect(lambda machine, active: machine.store(result, np.zeros((1, 1), np.uint64), active))


def _dependents(instruction: Instruction, spelling: Spelling) -> Effect:
    """``griddepcontrol``: behind the wait, what the kernel before wrote is there."""
    waits = spelling.has("wait")

    def execute(machine: Machine, active: Lanes) -> None:
        if waits:
            machine.waited = machine.waited | active

    return Effect(execute)


def _form(syntax: str, counts: tuple[int, ...], make: Any) -> tuple[EffectForm, ...]:
    return (EffectForm(syntax, counts, make),)


ORDER_FORMS: Final[dict[str, tuple[EffectForm, ...]]] = {
    "fence": _form("sc|acq_rel|acquire|release? cta|cluster|gpu|sys", (0,), _fence),
    "membar": (
        EffectForm("cta|gl|sys", (0,), _fence),
        EffectForm("sc|acq_rel? cta|cluster|gpu|sys", (0,), _fence),
    ),
    "bar": _form("warp sync", (1,), _warp_barrier),
    "griddepcontrol": _form("launch_dependents|wait", (0,), _dependents),
    "nanosleep": _form("u32", (1,), _nothing),
    "pmevent": _form("mask?", (1,), _nothing),
    "brkpt": _form("", (0,), _nothing),
    "trap": _form("", (0,), _trap),
    "prefetch": _form(
        "global|local|const|param? L1|L2|L2::evict_last|L2::evict_normal|tensormap", (1,), _nothing
    ),
    "prefetchu": _form("L1", (1,), _nothing),
    "applypriority": _form("global? L2::evict_normal", (2,), _nothing),
    "createpolicy": (
        EffectForm(
            "fractional L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"
            " L2::evict_first|L2::evict_unchanged? b64",
            (1, 2),
            _policy,
        ),
        EffectForm(
            "range global? L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"
            " L2::evict_first|L2::evict_unchanged? b64",
            (4,),
            _policy,
        ),
    ),
}
