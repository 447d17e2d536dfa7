"""``cp.async``: copies from global to shared memory that go on beside their thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ptxtemplates.emulator.instructions.effect import Effect, EffectForm, unsupported
from ptxtemplates.ptx.operands import Address, Immediate, Register

if TYPE_CHECKING:
    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.operations.forms import Spelling
    from ptxtemplates.emulator.types import Lanes
    from ptxtemplates.ptx.statements import Instruction

SIZES: Final = (4, 8, 16)


def _copy(instruction: Instruction, spelling: Spelling) -> Effect:
    """Copy `size` bytes, of which those behind a shorter source are zero."""
    target, source, size, *rest = instruction.operands
    if not isinstance(size, Immediate) or size.value not in SIZES:
        raise unsupported(instruction, "it copies 4, 8 or 16 bytes")
    if not (isinstance(target, Address) and isinstance(source, Address)):
        raise unsupported(instruction, "it copies from an address to an address")
    if not all(isinstance(each.base, Register | Immediate) for each in (target, source)):
        raise unsupported(instruction, "an address is a register or a variable, and an offset")
    bytes_ = int(size.value)
    given = rest[:-1] if spelling.has("L2::cache_hint") else rest
    limit = given[0] if given else None
    ignores = isinstance(limit, Register) and limit.type == "pred"

    def execute(machine: Machine, active: Lanes) -> None:
        assert target.base is not None
        assert source.base is not None
        machine.wraps.check(source.base, active)
        addresses = machine.fetch(target.base, "u64", active) + np.uint64(target.offset % (1 << 64))
        origin = machine.fetch(source.base, "u64", active) + np.uint64(source.offset % (1 << 64))
        reach = machine.reach(machine.full(addresses), active, 4, bytes_ // 4)
        access, places = machine.shared.place(reach.access)
        kept = reach.access.threads_of(access)
        start = machine.part(origin, reach, active)[kept]
        count = np.full(start.size, bytes_, np.int64)
        if limit is not None:
            said = machine.fetch(limit, "pred" if ignores else "u32", active)
            part = machine.part(said, reach, active)[kept]
            count = np.where(part, 0, bytes_) if ignores else np.minimum(part.astype(np.int64), bytes_)
        values = [np.zeros(start.size, np.uint32) for _ in range(bytes_ // 4)]
        # what is not copied is not read either: the source may end there
        for length in np.unique(count[count > 0]).tolist():
            whole = np.flatnonzero(count == length)
            machine.check_previous(access.at(whole)._replace(addresses=start[whole]))
            pieces = access.at(whole)._replace(addresses=start[whole], size=1, elements=bytes_)
            if length == bytes_:
                loaded = machine.memory.load(pieces._replace(size=4, elements=bytes_ // 4))
                for value, read in zip(values, loaded, strict=True):
                    value[whole] = read
                continue
            for byte in range(length):
                single = pieces._replace(addresses=pieces.addresses + np.uint64(byte), elements=1)
                [read] = machine.memory.load(single)
                values[byte // 4][whole] |= read.astype(np.uint32) << np.uint32(8 * (byte % 4))
        machine.copies.start(access, places, values)
        if machine.launch.counter is not None:
            origins = access._replace(addresses=start)
            machine.launch.counter.access(machine, "global", origins, stores=False)
            machine.launch.counter.copied(machine, access)

    return Effect(execute)


def _commit(instruction: Instruction, spelling: Spelling) -> Effect:
    return Effect(lambda machine, active: machine.copies.commit(active))


def _wait(instruction: Instruction, spelling: Spelling) -> Effect:
    [count] = instruction.operands
    if not isinstance(count, Immediate):
        raise unsupported(instruction, "it waits for a constant number of groups")
    allowed = int(count.value)
    return Effect(lambda machine, active: machine.copies.wait(active, allowed))


def _wait_all(instruction: Instruction, spelling: Spelling) -> Effect:
    return Effect(lambda machine, active: machine.copies.wait(active, None))


COPY_FORMS: Final[dict[str, tuple[EffectForm, ...]]] = {
    "cp": (
        EffectForm(
            "async ca|cg shared|shared::cta global L2::cache_hint? L2::64B|L2::128B|L2::256B?",
            (3, 4, 5),
            _copy,
        ),
        EffectForm("async commit_group", (0,), _commit),
        EffectForm("async wait_group", (1,), _wait),
        EffectForm("async wait_all", (0,), _wait_all),
    ),
}
