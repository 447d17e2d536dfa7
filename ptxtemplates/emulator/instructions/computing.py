"""Registers from registers: the instructions of `operations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxtemplates.emulator.instructions.effect import Effect, flat, unsupported
from ptxtemplates.emulator.operations import decode
from ptxtemplates.emulator.types import BITS
from ptxtemplates.ptx.operands import Negated, Register

if TYPE_CHECKING:
    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.operations import Accuracy
    from ptxtemplates.emulator.types import Lanes
    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Instruction


def compute(instruction: Instruction, accuracy: Accuracy | None) -> Effect:
    """Make ready an instruction that `operations` knows."""
    operation = decode(instruction, accuracy, quiet=False)  # a launch is quiet as a whole
    results = flat(instruction.operands[0])[: len(operation.result_types)]
    sources = [each for operand in instruction.operands[1:] for each in flat(operand)]
    kinds = list(zip(sources, operation.source_types, strict=True))
    if instruction.opcode != "cvt":
        for operand, kind in (*zip(results, operation.result_types, strict=True), *kinds):
            _check_width(instruction, operand, kind)

    def execute(machine: Machine, active: Lanes) -> None:
        values = [machine.fetch(source, kind, active) for source, kind in kinds]
        for result, value in zip(results, machine.apply(operation, values), strict=True):
            machine.store(result, value, active)

    def execute_all(machine: Machine, active: Lanes) -> None:
        """Do it with the carry flag, or look whether operands are in their range."""
        values: list[Any] = [machine.fetch(source, kind, active) for source, kind in kinds]
        if operation.outside is not None:
            outside = active & operation.outside(*values)
            message = f"{instruction.text} promises no accuracy for an operand beyond its documented range"
            machine.report_lanes("outside the documented range", message, outside)
        if operation.reads_carry:
            values.append(machine.fetch(machine.carry, "pred", active))
        targets = [*results, machine.carry] if operation.writes_carry else results
        for result, value in zip(targets, machine.apply(operation, values), strict=True):
            machine.store(result, value, active)

    special = operation.outside is not None or operation.reads_carry or operation.writes_carry
    return Effect(execute_all if special else execute)


def _check_width(instruction: Instruction, operand: Operand, kind: str) -> None:
    """Refuse a register of another width than the type, as assemblers do for all but cvt, ld and st."""
    register = operand.operand if isinstance(operand, Negated) else operand
    if isinstance(register, Register) and BITS[register.type] != BITS[kind]:
        raise unsupported(
            instruction, f"{register.name} is a {register.type}, and it takes {BITS[kind]} bits there"
        )
