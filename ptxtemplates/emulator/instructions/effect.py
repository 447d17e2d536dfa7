"""What all families share: the spelling of an instruction, its operands, and what executes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ptxtemplates.emulator.memory.accesses import ANYWHERE, BLOCK
from ptxtemplates.emulator.operations import UnsupportedInstruction
from ptxtemplates.emulator.operations.forms import Form
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.ptx.operands import Address, Arguments, Negated, Pair, Vector

if TYPE_CHECKING:
    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.operations import Operation
    from ptxtemplates.emulator.operations.forms import Spelling
    from ptxtemplates.emulator.types import Lanes
    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Instruction

Execute: TypeAlias = "Callable[[Machine, Lanes], None]"


class Effect(NamedTuple):
    """An instruction made ready.

    Attributes
    ----------
    execute : callable
        Does it for the active threads of a machine.
    members : Operand or None
        The mask of lanes of the warp that it waits for.
    """

    execute: Execute
    members: Operand | None = None


class EffectForm(NamedTuple):
    """A line of an instruction's syntax (as in `forms`), the numbers of operands, what makes it ready."""

    syntax: str
    operands: tuple[int, ...]
    make: Callable[[Instruction, Spelling], Effect]

    def match(self, instruction: Instruction) -> Spelling | None:
        """Take the modifiers of an instruction apart, or return None if this form does not allow them."""
        if len(instruction.operands) not in self.operands:
            return None
        return Form(self.syntax, _unused).match(instruction.modifiers)


def _unused(instruction: Instruction, spelling: Spelling) -> Operation:
    raise AssertionError("the form is only matched")


def type_of(instruction: Instruction) -> str:
    """Return the last type among an instruction's modifiers: other modifiers may follow it."""
    return next(part for part in reversed(instruction.modifiers) if part in TYPE_BITS)


def scope_of(spelling: Spelling) -> int:
    """Return how far a strong access or a fence reaches."""
    return BLOCK if spelling.has("cta") else ANYWHERE


def flat(operand: Operand) -> tuple[Operand, ...]:
    """Return the elements of a vector or a pair; another operand alone."""
    if isinstance(operand, Vector):
        return operand.elements
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand,)


def each_of(operands: Iterable[Operand]) -> Iterator[Operand]:
    """Yield operands, and those inside vectors, pairs, addresses and negations in their place."""
    for operand in operands:
        if isinstance(operand, Vector | Arguments):
            yield from each_of(operand.elements)
        elif isinstance(operand, Pair):
            yield from each_of(operand)
        elif isinstance(operand, Negated):
            yield from each_of((operand.operand,))
        elif isinstance(operand, Address):
            yield from each_of(() if operand.base is None else (operand.base,))
        else:
            yield operand


def unsupported(instruction: Instruction, reason: str) -> UnsupportedInstruction:
    """Make the error for an instruction that is not known."""
    error = UnsupportedInstruction(f"line {instruction.line}: {instruction.text} is not emulated: {reason}")
    error.instruction = instruction
    return error
