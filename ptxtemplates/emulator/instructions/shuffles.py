"""``shfl.sync`` (ISA, "Data Movement and Conversion Instructions: shfl.sync")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.emulator.instructions.effect import Effect, EffectForm
from ptxtemplates.ptx.operands import Immediate, Pair

if TYPE_CHECKING:
    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.operations.forms import Spelling
    from ptxtemplates.emulator.types import Lanes, Values
    from ptxtemplates.ptx.statements import Instruction


def _up(own: Any, offset: Any, low: Any, high: Any, segment: Any) -> tuple[Any, Any]:
    wanted = own - offset
    return wanted, wanted >= high


def _down(own: Any, offset: Any, low: Any, high: Any, segment: Any) -> tuple[Any, Any]:
    wanted = own + offset
    return wanted, wanted <= high


def _butterfly(own: Any, offset: Any, low: Any, high: Any, segment: Any) -> tuple[Any, Any]:
    wanted = own ^ offset
    return wanted, wanted <= high


def _index(own: Any, offset: Any, low: Any, high: Any, segment: Any) -> tuple[Any, Any]:
    wanted = low | (offset & ~segment)
    return wanted, wanted <= high


MODES: Final = {"up": _up, "down": _down, "bfly": _butterfly, "idx": _index}


def _shuffle(instruction: Instruction, spelling: Spelling) -> Effect:
    mode = MODES[next(name for name in instruction.modifiers if name in MODES)]
    target = instruction.operands[0]
    result, valid = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    value, lane, clamp, members = instruction.operands[1:]
    constant = isinstance(lane, Immediate) and isinstance(clamp, Immediate)
    kept: dict[int, tuple[Values, Values, bool]] = {}

    def lanes_of(machine: Machine, active: Lanes) -> tuple[Values, Values]:
        """Return the number of the source lane in its warp, and whether it is in range."""
        own = machine.special["%laneid"].astype(np.int64)
        control = machine.fetch(clamp, "u32", active).astype(np.int64)
        segment, bound = (control >> 8) & 31, control & 31
        offset = machine.fetch(lane, "u32", active).astype(np.int64) & 31
        low = own & segment
        high = low | (bound & ~segment)
        wanted, inside = mode(own, offset, low, high, segment)
        return np.where(inside, wanted, own), inside

    def execute(machine: Machine, active: Lanes) -> None:
        own = machine.special["%laneid"].astype(np.int64)
        base = machine.special["thread"] - own  # number in the block of the first thread of the warp
        if constant and machine.threads in kept:
            source, inside, exist = kept[machine.threads]
        else:
            source, inside = lanes_of(machine, active)
            source = base + source
            exist = bool((source < machine.threads).all())
            if constant:
                kept[machine.threads] = source, inside, exist
        named = machine.check_members(members, active)
        whole = machine.every and machine.all_alive and exist
        if not whole or not isinstance(members, Immediate) or members.value % (1 << 32) != (1 << 32) - 1:
            absent = active & ((named >> (source - base).astype(np.uint32)) & np.uint32(1) == 0)
            if not whole:
                there = np.minimum(source, machine.threads - 1)
                here = np.take_along_axis(active, machine.full(there), axis=1) & (source < machine.threads)
                absent = absent | (active & ~here)
            machine.report_lanes("shuffle", "its source lane is inactive or not in the member mask", absent)
        values = machine.fetch(value, "b32", active)
        if values.shape[1] > 1:
            clipped = np.minimum(source, machine.threads - 1)
            if clipped.shape[0] == 1:
                values = values.take(clipped[0], axis=1)
            else:
                values = np.take_along_axis(machine.full(values), machine.full(clipped), axis=1)
        machine.store(result, values, active)
        if valid is not None:
            machine.store(valid, inside, active)

    return Effect(execute, members)


SHUFFLE_FORMS: Final[dict[str, tuple[EffectForm, ...]]] = {
    "shfl": (EffectForm("sync up|down|bfly|idx b32", (5,), _shuffle),)
}
