"""Loads and stores of every space, and addresses of one space as those of another.

Addresses of global and constant memory, and of the kernel's parameters, are what they are. Shared and local
memory, and the parameters of functions, have addresses of their own that begin at 0; in the generic space
they lie in two windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.emulator.instructions.effect import Effect, EffectForm, flat, scope_of, type_of, unsupported
from ptxtemplates.emulator.memory.accesses import WEAK
from ptxtemplates.emulator.memory.buffers import FIRST_ADDRESS, PARAMETERS
from ptxtemplates.emulator.operations import DTYPES
from ptxtemplates.emulator.types import BITS
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.ptx.operands import Address, Immediate, Register, Symbol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.memory.accesses import Access
    from ptxtemplates.emulator.operations.forms import Spelling
    from ptxtemplates.emulator.types import Lanes, Values
    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Instruction


WINDOWS: Final = {"shared": 1 << 32, "local": 3 << 31}
"""Where the addresses of two spaces lie in the generic one; each window has 2 GiB."""
WINDOW: Final = 1 << 31

SPACES: Final = {
    "global": "global",
    "const": "global",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared",  # a cluster is one block here
    "local": "local",
}
"""The memory that each space lies in; parameters are those of the kernel or those of a function."""

VECTORS: Final = {"v2": 2, "v4": 4, "v8": 8}

_TYPES: Final = "|".join(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)) + "|f32|f64"
_SPACE: Final = "|".join(SPACES)
_SCOPE: Final = "cta|cluster|gpu|sys"
_HINTS: Final = (
    "ca|cg|cs|lu|cv|wb|wt?"
    " L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate?"
    " L2::evict_normal|L2::evict_first|L2::evict_last? L2::cache_hint? L2::64B|L2::128B|L2::256B? unified?"
)
_VECTOR: Final = "v2|v4|v8?"
STRONG: Final = ("volatile", "relaxed", "acquire", "release", "mmio")


class Target:
    """Where a memory instruction goes: its space, its address, and the bytes of each thread."""

    def __init__(self, instruction: Instruction, operand: Operand, count: int) -> None:
        modifiers = instruction.modifiers
        if not isinstance(operand, Address) or operand.coordinates or operand.unified:
            raise unsupported(instruction, "an address is a register or a variable, and an offset")
        base = operand.base
        if base is None:
            base = Immediate(0, "u64")
        if isinstance(base, Symbol):
            raise unsupported(instruction, f"{base.name} is no variable that it can access")
        if not isinstance(base, Register | Immediate):
            raise unsupported(instruction, "an address is a register or a variable, and an offset")
        expected = next((VECTORS[modifier] for modifier in modifiers if modifier in VECTORS), 1)
        if expected != count:
            raise unsupported(instruction, f"it names {count} elements, not {expected}")
        space = next((SPACES[modifier] for modifier in modifiers if modifier in SPACES), "generic")
        if space == "param":
            of_kernel = isinstance(base, Immediate) and base.value >= FIRST_ADDRESS
            space = "global" if of_kernel or isinstance(base, Register) else "local"
        self.space = space
        self.named = next((name for name in ("param", "const") if name in modifiers), None)
        """What is counted for it, where that is not the memory that it lies in."""
        self.base: Register | Immediate = base
        self.kind = type_of(instruction)
        self.size = BITS[self.kind] // 8
        self.count = count
        self._narrow = (
            space in ("shared", "local") and isinstance(base, Register) and TYPE_BITS[base.type] == 32
        )
        self.offset = np.uint64(operand.offset % (1 << 64))

    def addresses(self, machine: Machine, active: Lanes) -> Values:
        """Return the address of every thread."""
        if machine.wraps and self.space in ("global", "generic"):
            machine.wraps.check(self.base, active)
        if self._narrow:
            # an address of 32 bits: what goes below 0 comes back with its offset
            narrow = machine.fetch(self.base, "u32", active) + self.offset.astype(np.uint32)
            return np.asarray(narrow.astype(np.uint64))
        addresses = machine.fetch(self.base, "u64", active)
        return addresses + self.offset if self.offset else addresses

    def is_divided(self, addresses: Values) -> bool:
        """Say whether one address means another place in each block, or in each thread."""
        if self.space == "generic":
            return bool((addresses < np.uint64(FIRST_ADDRESS)).any())
        return self.space in ("shared", "local")


def by_space(target: Target, access: Access) -> Iterator[tuple[str, Access, slice | npt.NDArray[np.intp]]]:
    """Yield the spaces that an access meets, with addresses of each, and which of its threads are there."""
    everyone = slice(None)
    if target.space != "generic":
        yield target.space, access, everyone
        return
    if int(access.addresses.min(initial=FIRST_ADDRESS)) >= FIRST_ADDRESS:
        yield "global", access, everyone
        return
    elsewhere = np.ones(access.addresses.size, np.bool_)
    for space, start in WINDOWS.items():
        offset = access.addresses - np.uint64(start)
        mine = offset < np.uint64(WINDOW)
        if mine.any():
            elsewhere &= ~mine
            chosen = np.flatnonzero(mine)
            yield space, access.at(chosen)._replace(addresses=offset[chosen]), chosen
    if elsewhere.any():
        chosen = np.flatnonzero(elsewhere)
        yield "global", access.at(chosen), chosen


def _load(instruction: Instruction, spelling: Spelling) -> Effect:
    results = flat(instruction.operands[0])
    target = Target(instruction, instruction.operands[1], len(results))
    dtype = DTYPES[target.kind]
    untouched = spelling.has("nc")
    scope = scope_of(spelling) if any(spelling.has(word) for word in STRONG) else WEAK

    def execute(machine: Machine, active: Lanes) -> None:
        addresses = target.addresses(machine, active)
        if scope or target.is_divided(addresses):
            addresses = machine.full(addresses)
        reach = machine.reach(addresses, active, target.size, target.count, scope=scope)
        parts: list[npt.NDArray[Any]] = []
        unknown: list[npt.NDArray[np.bool_]] = []
        for space, access, chosen in by_space(target, reach.access):
            if machine.launch.counter is not None:
                machine.launch.counter.access(machine, target.named or space, access, stores=False)
            values, written = load_from(machine, space, access, untouched=untouched)
            if isinstance(chosen, slice):
                parts, unknown = values, [~flags for flags in written]
                break
            count = reach.access.addresses.size
            parts = parts or [np.zeros(count, value.dtype) for value in values]
            unknown = unknown or [np.zeros(count, np.bool_) for _ in values]
            for part, value in zip(parts, values, strict=True):
                part[chosen] = value
            for mask, flags in zip(unknown, written, strict=False):
                mask[chosen] = ~flags
        for result, part in zip(results, parts, strict=True):
            machine.store(result, machine.whole(part.view(dtype), reach), active)
        for result, mask in zip(results, unknown, strict=False):
            if mask.any():
                machine.forget(result, reach.access.lanes[mask])

    return Effect(execute)


def load_from(
    machine: Machine, space: str, access: Access, *, untouched: bool = False
) -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[np.bool_]]]:
    """Return the elements that each thread loads from a space; 0 where its access is wrong.

    Returns
    -------
    list of numpy.ndarray
        The elements.
    list of numpy.ndarray of bool
        Of local memory, whether they were ever written; empty otherwise.
    """
    written: list[npt.NDArray[np.bool_]] = []
    if space == "global":
        machine.check_previous(access)
        return machine.memory.load(access, untouched=untouched), written
    if space == "shared":
        good, values = machine.shared.load(access)
    else:
        good, values, written = machine.local.load(access)
    if good is access:
        return values, written
    return [_filled(access, good, value) for value in values], [
        _filled(access, good, flags) for flags in written
    ]


def _filled(access: Access, part: Access, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Put the values of a part of an access where they belong among zeros."""
    whole = np.zeros(access.lanes.size, values.dtype)
    whole[access.threads_of(part)] = values
    return whole


def _store(instruction: Instruction, spelling: Spelling) -> Effect:
    sources = flat(instruction.operands[1])
    target = Target(instruction, instruction.operands[0], len(sources))
    scope = scope_of(spelling) if any(spelling.has(word) for word in STRONG) else WEAK
    releases = spelling.has("release")

    def execute(machine: Machine, active: Lanes) -> None:
        addresses = target.addresses(machine, active)
        shape = (machine.blocks, addresses.shape[1])
        divided = target.is_divided(addresses)
        copies = divided and target.space != "shared"
        values = [machine.fetch(source, target.kind, active, copies=copies) for source in sources]
        if divided or any(value.shape[1] > 1 for value in values):
            shape = machine.shape
        reach = machine.reach(addresses, active, target.size, target.count, scope=scope, spread=shape)
        if releases:
            machine.fence(reach.access.lanes, scope)
        parts = [machine.part(value, reach, active) for value in values]
        for space, access, chosen in by_space(target, reach.access):
            if machine.launch.counter is not None:
                machine.launch.counter.access(machine, space, access, stores=True)
            mine = parts if isinstance(chosen, slice) else [part[chosen] for part in parts]
            if copies and space != "local":
                for source in sources:
                    machine.check_set(source, access.lanes)
            if space == "global":
                machine.check_previous(access)
                machine.memory.store(access, mine)
            elif space == "shared":
                machine.shared.store(access, mine)
            else:
                known = [machine.known(source, access.lanes) for source in sources]
                machine.local.store(access, mine, known)

    return Effect(execute)


def _convert(instruction: Instruction, spelling: Spelling) -> Effect:
    """``cvta``: between a space's own addresses and generic ones."""
    result, source = instruction.operands
    space = next(SPACES[part] for part in instruction.modifiers if part in SPACES)
    start = np.uint64(WINDOWS.get(space, 0))
    kind = type_of(instruction)
    if spelling.has("to"):
        start = np.uint64(-int(start) % (1 << 64))

    def execute(machine: Machine, active: Lanes) -> None:
        addresses = machine.fetch(source, "u64", active)
        addresses = addresses + start if start else addresses
        machine.store(result, addresses.astype(DTYPES[kind], copy=False), active)

    return Effect(execute)


def _lies_in(instruction: Instruction, spelling: Spelling) -> Effect:
    """``isspacep``: whether a generic address lies in a space."""
    result, source = instruction.operands
    space = instruction.modifiers[0]

    def execute(machine: Machine, active: Lanes) -> None:
        addresses = machine.fetch(source, "u64", active)
        if SPACES[space] in WINDOWS:
            inside = addresses - np.uint64(WINDOWS[SPACES[space]]) < np.uint64(WINDOW)
        else:
            constant = np.zeros(addresses.shape, np.bool_)
            for address in np.unique(addresses).tolist():
                region = machine.memory.region_at(address)
                if region is not None and region.constant and region.name != PARAMETERS:
                    constant |= addresses == np.uint64(address)
            flat_ = addresses >= np.uint64(FIRST_ADDRESS)
            inside = flat_ & ~constant if space == "global" else constant
        machine.store(result, inside, active)

    return Effect(execute)


LOAD_FORMS: Final[dict[str, tuple[EffectForm, ...]]] = {
    "ld": (
        EffectForm(
            f"weak|volatile|relaxed|acquire|mmio? {_SCOPE}? {_SPACE}? nc? {_HINTS} {_VECTOR} {_TYPES}",
            (2, 3),
            _load,
        ),
    ),
    "ldu": (EffectForm(f"global? {_VECTOR} {_TYPES}", (2,), _load),),
    "st": (
        EffectForm(
            f"weak|volatile|relaxed|release|mmio? {_SCOPE}? {_SPACE}? {_HINTS} {_VECTOR} {_TYPES}",
            (2, 3),
            _store,
        ),
    ),
    "cvta": (EffectForm(f"to? {_SPACE} u32|u64", (2,), _convert),),
    "isspacep": (EffectForm(_SPACE, (2,), _lies_in),),
}
