"""Which name means what, block by block (ISA, "Control Flow Instructions: {}" and "Identifiers").

Variables and registers must be declared above their use; labels may follow it. Inner blocks may declare a
name again: the inner meaning ends with the block.
"""

from __future__ import annotations

from typing import NamedTuple

from ptxtemplates.ptx.operands import Operand, Register, SpecialRegister, Unresolved
from ptxtemplates.ptx.registers import SPECIAL_REGISTERS
from ptxtemplates.ptx.statements import Redeclaration, RegisterDeclaration, Undeclared

_DIGITS = "0123456789"


class Names:
    """What one function (or the module) counts and complains about while its scopes come and go."""

    __slots__ = ("missing", "redeclared", "registers", "undeclared")

    def __init__(self) -> None:
        self.registers = 0
        self.missing: list[str] = []
        self.undeclared: list[Undeclared] = []
        self.redeclared: list[Redeclaration] = []

    def report_missing(self, line: int) -> None:
        """Turn the names that were looked up in vain into findings at a line."""
        self.undeclared += [Undeclared(name, line) for name in self.missing]
        self.missing.clear()


class Range(NamedTuple):
    """A range of registers, and those of it that are used: added here, read-only elsewhere."""

    declaration: RegisterDeclaration
    registers: dict[str, Register]


class Scope(dict[str, Operand]):
    """All names visible at one point. Looking one up (``scope[name]``) never fails: see `Unresolved`.

    A block starts with a copy of what is visible around it: a lookup, by far the most frequent step, is then
    one dictionary access however deep the nesting.
    """

    __slots__ = ("_around", "_labels", "_lines", "_names", "_ranges")

    def __init__(self, names: Names, around: Scope | None = None) -> None:
        super().__init__(around or {})
        self._names = names
        self._around = around
        self._labels: dict[str, Operand] = {}
        self._lines: dict[str, int] = {}
        self._ranges: dict[str, Range] = {}

    def __missing__(self, name: str) -> Operand:
        operand = self.find(name)
        if operand is None:
            self._names.missing.append(name)
            return Unresolved(name)
        return operand

    def find(self, name: str) -> Operand | None:
        """Return what a name means here, or None."""
        operand = self.get(name)
        if operand is None:
            operand = self._of_range(name) or _special(name)
            if operand is not None:
                self[name] = operand
        return operand

    def find_or_unresolved(self, name: str) -> Operand:
        """Return what a name means here; one that means nothing yet may be a label."""
        return self.find(name) or Unresolved(name)

    def label(self, name: str) -> Operand | None:
        """Return the label, or the labelled directive, that a name means in this block."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._labels:
                return scope._labels[name]
            scope = scope._around
        return None

    def declare(self, name: str, operand: Operand, line: int) -> None:
        """Give a name a meaning from here to the end of the block."""
        self._claim(name, line)
        self[name] = operand

    def declare_label(self, name: str, label: Operand, line: int) -> None:
        """Give a label its place; it is visible in the whole block."""
        self._claim(name, line)
        self._labels[name] = label

    def name_label(self, name: str, directive: Operand) -> None:
        """Let a label name the directive behind it."""
        self._labels[name] = directive

    def _claim(self, name: str, line: int) -> None:
        first = self._lines.get(name)
        if first is None and self._ranges:
            first = next(
                (found.line for found, _ in self._ranges.values() if _in_range(name, found)),
                None,
            )
        if first is None:
            self._lines[name] = line
        else:
            self._names.redeclared.append(Redeclaration(name, line, first))

    def new_register(self, name: str, type_: str, width: int, line: int) -> Register:
        """Make a register with an index of its own."""
        register = Register(name, type_, width, self._names.registers, line)
        self._names.registers += 1
        return register

    def declare_register(self, name: str, type_: str, width: int, line: int) -> RegisterDeclaration:
        """Declare one register."""
        register = self.new_register(name, type_, width, line)
        self.declare(name, register, line)
        return RegisterDeclaration(name, type_, width, None, line, {name: register})

    def declare_range(
        self, prefix: str, type_: str, width: int, count: int, line: int
    ) -> RegisterDeclaration:
        """Declare ``prefix<count>``; its registers are made when they are used."""
        registers: dict[str, Register] = {}
        declaration = RegisterDeclaration(prefix, type_, width, count, line, registers)
        for name, first in self._lines.items():
            if _in_range(name, declaration):
                self._names.redeclared.append(Redeclaration(name, line, first))
        before = self._ranges.get(prefix)
        if before is not None:
            self._names.redeclared.append(Redeclaration(f"{prefix}0", line, before.declaration.line))
        # Names of an outer block that the range covers change their meaning.
        for name in [name for name in self if name.startswith(prefix) and _in_range(name, declaration)]:
            del self[name]
        self._ranges[prefix] = Range(declaration, registers)
        return declaration

    def _of_range(self, name: str) -> Register | None:
        scope: Scope | None = self
        while scope is not None:
            for prefix in _prefixes(name) if scope._ranges else ():
                found = scope._ranges.get(prefix)
                if found is not None and _in_range(name, found.declaration):
                    return self._register(name, found)
            scope = scope._around
        return None

    def _register(self, name: str, found: Range) -> Register:
        declaration, registers = found
        register = registers.get(name)
        if register is None:
            register = self.new_register(name, declaration.type, declaration.width, declaration.line)
            registers[name] = register
        return register


def _prefixes(name: str) -> list[str]:
    """List what may be the prefix of a range; it may end in digits itself: %r1<10> declares %r10 to %r19."""
    shortest = len(name.rstrip(_DIGITS))
    return [name[:length] for length in range(shortest, len(name))]


def _in_range(name: str, declaration: RegisterDeclaration) -> bool:
    number = name[len(declaration.name) :]
    if not name.startswith(declaration.name) or not number.isdecimal() or len(number) > 18:
        return False
    return (number[0] != "0" or number == "0") and int(number) < (declaration.range_size or 0)


def _special(name: str) -> SpecialRegister | None:
    special = SPECIAL_REGISTERS.get(name)
    return None if special is None else SpecialRegister(name, special.type, None)
