"""What the value of one predicate says about others."""

from __future__ import annotations

from collections.abc import Iterator

from ptxtemplates.ptx.operands import Negated, Operand, Pair, Register
from ptxtemplates.ptx.statements import Instruction

# A literal is 2 * register index + value: flipping the lowest bit negates it.
NO_LITERAL = -1

# Types whose setp compares two values and writes one result for each.
_TWO_COMPARISONS = ("f16x2", "bf16x2")


class Predicates:
    """Which literals follow from which.

    Only predicates with a single definition are related. In a loop a relation can outlive the values it was
    true for; the lint then misses an unset register rather than inventing one.

    Parameters
    ----------
    instructions : tuple of Instruction
        Of one function.
    writes : list of int
        Registers that each of them writes, as bitsets over `Register.number`.

    Attributes
    ----------
    bits : int
        The predicates, as a bitset over `Register.number`.
    """

    def __init__(self, instructions: tuple[Instruction, ...], writes: list[int]) -> None:
        self.bits = 0
        self._complement: dict[int, int] = {}
        self._implied: dict[int, tuple[int, ...]] = {}
        once = repeated = 0
        relating = []
        for instruction, written in zip(instructions, writes, strict=True):
            repeated |= once & written
            once |= written
            if instruction.opcode == "setp" or instruction.modifiers[-1:] == ("pred",):
                self.bits |= written
                if instruction.guard is None and len(instruction.operands) > 1:
                    relating.append(instruction)
            if instruction.guard is not None and isinstance(instruction.guard.register, Register):
                self.bits |= 1 << instruction.guard.register.number
        self._single = once & ~repeated
        for instruction in relating:
            if instruction.opcode in ("not", "setp"):
                self._relate_complement(instruction)
        for instruction in relating:
            if instruction.opcode in ("and", "or", "setp"):
                self._relate_implied(instruction)

    def literal(self, register: int, value: bool) -> int:
        """Return the literal that stands for a predicate having a value."""
        for _ in range(8):
            if register not in self._complement:
                break
            register, value = self._complement[register], not value
        return 2 * register + value

    def implied(self, literal: int) -> tuple[int, ...]:
        """Return all literals that hold if one does, itself first."""
        if literal not in self._implied:
            return (literal,)
        found = [literal]
        for each in found:
            found += [other for other in self._implied.get(each, ()) if other not in found]
        return tuple(found)

    def of_operand(self, operand: Operand, value: bool = True) -> int:
        """Return the literal that a predicate operand being true stands for."""
        if isinstance(operand, Negated):
            operand, value = operand.operand, not value
        return self.literal(operand.number, value) if isinstance(operand, Register) else NO_LITERAL

    def _relate_complement(self, instruction: Instruction) -> None:
        operands = instruction.operands
        first, second = operands[0], operands[-1]
        if instruction.opcode == "setp":
            if (
                not isinstance(first, Pair)
                or _boolean(instruction)
                or instruction.modifiers[-1] in _TWO_COMPARISONS
            ):
                return
            first, second = first
        if isinstance(first, Register) and isinstance(second, Register) and first is not second:
            # `first` stays itself where the instruction writes both.
            source, derived = (first, second) if instruction.opcode == "setp" else (second, first)
            if self._single >> derived.number & 1 and self._single >> source.number & 1:
                self._complement[derived.number] = source.number

    def _relate_implied(self, instruction: Instruction) -> None:
        operator = _boolean(instruction) if instruction.opcode == "setp" else instruction.opcode
        if operator not in ("and", "or"):
            return
        value = operator == "and"
        sources = instruction.operands[-1:] if instruction.opcode == "setp" else instruction.operands[1:]
        literals = tuple(
            literal
            for literal in (self.of_operand(source, value) for source in sources)
            if literal != NO_LITERAL
        )
        for result in _results(instruction.operands[0]):
            if self._single >> result.number & 1:
                self._implied[self.literal(result.number, value)] = literals


def _boolean(instruction: Instruction) -> str | None:
    return next((part for part in instruction.modifiers if part in ("and", "or", "xor")), None)


def _results(operand: Operand) -> Iterator[Register]:
    for part in operand if isinstance(operand, Pair) else (operand,):
        if isinstance(part, Register):
            yield part
