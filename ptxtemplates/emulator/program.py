"""A parsed function made ready to run: every instruction looked up before the first is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.memory import Access
from ptxtemplates.emulator.operations import DTYPES, UnsupportedInstruction, decode
from ptxtemplates.emulator.types import BITS, WARP
from ptxtemplates.ptx.operands import (
    Address,
    Immediate,
    Label,
    Negated,
    Pair,
    Register,
    Symbol,
    Vector,
)
from ptxtemplates.ptx.statements import Instruction

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Function

    Lanes = npt.NDArray[np.bool_]
    Execute = Callable[[Machine, Lanes], None]

VECTORS: Final = {"v2": 2, "v4": 4}


class Step(NamedTuple):
    """An instruction, ready to run.

    Attributes
    ----------
    line : int
        PTX line.
    guard : Operand or None
        The predicate that lets it run.
    execute : callable or None
        Does it for the active lanes; None of a branch or an exit.
    target : int or None
        Where a branch leads; None of an exit.
    """

    line: int
    guard: Operand | None
    execute: Execute | None
    target: int | None = None


class Program(NamedTuple):
    """A function: its steps, and how many registers it has."""

    steps: tuple[Step, ...]
    registers: int


def prepare(function: Function) -> Program:
    """Make a function ready to run.

    Raises
    ------
    UnsupportedInstruction
        If it has an instruction that the emulator does not know.
    """
    places: dict[Label, int] = {}
    instructions: list[Instruction] = []
    for statement in function.body or ():
        if isinstance(statement, Label):
            places[statement] = len(instructions)
        elif isinstance(statement, Instruction):
            instructions.append(statement)
    return Program(tuple(_step(instruction, places) for instruction in instructions), function.registers)


def _step(instruction: Instruction, places: dict[Label, int]) -> Step:
    guard: Operand | None = None
    if instruction.guard is not None:
        register, negated = instruction.guard
        guard = Negated("!", register) if negated else register
    if instruction.opcode == "bra":
        [label] = instruction.operands
        if not isinstance(label, Label) or label not in places:
            raise UnsupportedInstruction(
                f"line {instruction.line}: {instruction.text} needs a label of its function"
            )
        return Step(instruction.line, guard, None, places[label])
    if instruction.opcode in ("ret", "exit"):
        return Step(instruction.line, guard, None)
    make = _FAMILIES.get(instruction.opcode, _compute)
    return Step(instruction.line, guard, make(instruction))


def _unsupported(instruction: Instruction, reason: str) -> UnsupportedInstruction:
    return UnsupportedInstruction(f"line {instruction.line}: {instruction.text} is not emulated: {reason}")


def _compute(instruction: Instruction) -> Execute:
    operation = decode(instruction)
    results = _flat(instruction.operands[0])[: len(operation.result_types)]
    sources = [each for operand in instruction.operands[1:] for each in _flat(operand)]

    def execute(machine: Machine, active: Lanes) -> None:
        values = [
            machine.fetch(source, kind, active)
            for source, kind in zip(sources, operation.source_types, strict=True)
        ]
        for result, value in zip(results, operation.compute(*values), strict=True):
            machine.store(result, value, active)

    return execute


def _flat(operand: Operand) -> tuple[Operand, ...]:
    if isinstance(operand, Vector):
        return operand.elements
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand,)


def _convert_address(instruction: Instruction) -> Execute:
    """``cvta``: generic and global addresses are the same here."""
    if "global" not in instruction.modifiers:
        raise _unsupported(instruction, "only global addresses are known")
    return _compute(instruction)


def _load(instruction: Instruction) -> Execute:
    kind = instruction.modifiers[-1]
    results = _flat(instruction.operands[0])
    address = instruction.operands[1]
    if "param" in instruction.modifiers:
        if not (isinstance(address, Address) and isinstance(address.base, Symbol) and not address.offset):
            raise _unsupported(instruction, "parameters are loaded whole, by name")
        name = address.base.name

        def load_parameter(machine: Machine, active: Lanes) -> None:
            value = Immediate(machine.parameters[name], "u64")
            machine.store(results[0], machine.fetch(value, kind, active), active)

        return load_parameter
    access = _access(instruction, address, len(results))

    def execute(machine: Machine, active: Lanes) -> None:
        for result, value in zip(results, machine.memory.load(access(machine, active)), strict=True):
            machine.store(result, value.view(DTYPES[kind]), active)

    return execute


def _store(instruction: Instruction) -> Execute:
    kind = instruction.modifiers[-1]
    sources = _flat(instruction.operands[1])
    access = _access(instruction, instruction.operands[0], len(sources))

    def execute(machine: Machine, active: Lanes) -> None:
        values = [machine.fetch(source, kind, active) for source in sources]
        machine.memory.store(access(machine, active), values)

    return execute


def _access(instruction: Instruction, address: Operand, count: int) -> Callable[[Machine, Lanes], Access]:
    modifiers = instruction.modifiers
    if "global" not in modifiers:
        raise _unsupported(instruction, "only global memory and parameters are known")
    if not isinstance(address, Address) or not isinstance(address.base, Register | Symbol):
        raise _unsupported(instruction, "an address is a register or a variable, and an offset")
    expected = next((VECTORS[modifier] for modifier in modifiers if modifier in VECTORS), 1)
    if expected != count:
        raise _unsupported(instruction, f"it names {count} elements")
    size = BITS[modifiers[-1]] // 8
    base, offset = address.base, np.uint64(address.offset % (1 << 64))

    def access(machine: Machine, active: Lanes) -> Access:
        return Access(machine.fetch(base, "u64", active) + offset, active, size, count)

    return access


def _shuffle(instruction: Instruction) -> Execute:
    """``shfl.sync`` (ISA, "Data Movement and Conversion Instructions: shfl.sync")."""
    if "sync" not in instruction.modifiers:
        raise _unsupported(instruction, "only shfl.sync is")
    mode = next(name for name in instruction.modifiers if name in _SHUFFLES)
    source_of = _SHUFFLES[mode]
    target = instruction.operands[0]
    result, valid = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    value, lane, clamp, members = instruction.operands[1:]

    def execute(machine: Machine, active: Lanes) -> None:
        own = np.arange(machine.lanes) % WARP
        control = machine.fetch(clamp, "u32", active).astype(np.int64)
        segment, bound = (control >> 8) & 31, control & 31
        offset = machine.fetch(lane, "u32", active).astype(np.int64) & 31
        low = own & segment
        high = low | (bound & ~segment)
        wanted, inside = source_of(own, offset, low, high, segment)
        lanes = np.where(inside, wanted, own) + np.arange(machine.lanes) // WARP * WARP
        named = machine.fetch(members, "b32", active).astype(np.int64)
        absent = active & (~active[lanes] | ((named >> (lanes % WARP)) & 1 == 0))
        if absent.any():
            machine.report(
                "shuffle", "its source lane is inactive or not in the member mask", int(absent.argmax())
            )
        outside = active & ((named >> own) & 1 == 0)
        if outside.any():
            machine.report(
                "shuffle", "the executing lane is not in its own member mask", int(outside.argmax())
            )
        machine.store(result, machine.fetch(value, "b32", active)[lanes], active)
        if valid is not None:
            machine.store(valid, inside, active)

    return execute


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


_SHUFFLES: Final = {"up": _up, "down": _down, "bfly": _butterfly, "idx": _index}

_FAMILIES: Final[dict[str, Callable[[Instruction], Execute]]] = {
    "cvta": _convert_address,
    "ld": _load,
    "st": _store,
    "shfl": _shuffle,
}
