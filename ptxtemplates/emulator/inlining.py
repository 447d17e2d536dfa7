"""A function and those that it calls as one list of instructions.

A function is put in where it is called, each time with registers and memory of its own: threads then meet
again after a call as after any other branch, and recursion, which nobody needs here, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ptxtemplates.emulator.instructions.effect import unsupported
from ptxtemplates.emulator.memory.instances import Placed, laid_out
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.ptx.operands import (
    Address,
    Arguments,
    Immediate,
    Label,
    Negated,
    Pair,
    Register,
    Symbol,
    Unresolved,
    Vector,
)
from ptxtemplates.ptx.statements import Instruction, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Function, Module

DEEPEST: Final = 64
"""Calls within calls; more are taken for a recursion."""


class Jump(NamedTuple):
    """A branch that calling, or returning, becomes."""

    instruction: Instruction
    guard: Operand | None
    target: tuple[int, object]


class Plain(NamedTuple):
    """An instruction whose operands are those of the program."""

    instruction: Instruction
    context: int


@dataclass
class Inlining:
    """What putting functions in has gathered.

    Attributes
    ----------
    module : Module
        Where the functions are.
    addresses : mapping of str to int
        Of variables in global and constant memory, and of the kernel's parameters.
    items : list of Jump or Plain
        The instructions.
    labels : dict
        Place of each label, by the call that it is in and its number.
    symbols : dict of Variable to int
        Offset of each variable in shared or local memory.
    shared, local : list of Placed
        What lies there.
    dynamic : str or None
        Name of the variable in shared memory whose size the launch says.
    registers, contexts : int
        Registers and calls so far.
    """

    module: Module
    addresses: Mapping[str, int]
    items: list[Jump | Plain] = field(default_factory=list)
    labels: dict[tuple[int, object], int] = field(default_factory=dict)
    symbols: dict[Variable, int] = field(default_factory=dict)
    shared: list[Placed] = field(default_factory=list)
    local: list[Placed] = field(default_factory=list)
    dynamic: str | None = None
    registers: int = 0
    contexts: int = 0

    def whole(self, function: Function) -> list[Jump | Plain]:
        """Return the instructions of a kernel, with addresses in place of the names of variables."""
        for variable in self.module.variables:
            if variable.space == "shared":
                self._declare(variable, {})
        self._inline(function, 0, {}, ())
        # a body that runs into its closing brace ends there
        closing = Instruction(None, "exit", (), "exit", (), function.end_line, None)
        self.items.append(Plain(closing, 0))
        if self.dynamic is not None:
            end = laid_out(self.shared)
            for variable, offset in self.symbols.items():
                if offset < 0:
                    self.symbols[variable] = end
        return [
            item._replace(instruction=self._placed(item.instruction)) if isinstance(item, Plain) else item
            for item in self.items
        ]

    def _inline(
        self,
        function: Function,
        offset: int,
        scope: dict[Variable, Variable],
        callers: tuple[str, ...],
    ) -> None:
        """Append a function's instructions; its registers are numbered from `offset` on."""
        context = self.contexts
        self.contexts += 1
        self.registers = max(self.registers, offset + function.registers)
        for statement in function.body or ():
            if isinstance(statement, Label):
                self.labels[context, statement.number] = len(self.items)
            elif isinstance(statement, Variable):
                self._declare(statement, scope)
            elif isinstance(statement, Instruction):
                moved = _renamed(statement, offset, scope)
                if statement.opcode == "call":
                    self._call(moved, callers)
                elif statement.opcode == "trap":
                    self._trap(moved, context)
                elif statement.opcode == "ret" and callers:
                    self.items.append(Jump(moved, guard_of(moved), (context, "end")))
                else:
                    self.items.append(Plain(moved, context))
        self.labels[context, "end"] = len(self.items)

    def _declare(self, variable: Variable, scope: dict[Variable, Variable]) -> None:
        """Give a variable of a body its place; in another call of the function it has another."""
        mine = variable
        if variable.space in ("local", "param"):
            mine = scope[variable] = Variable(*variable)
        placed = {"shared": self.shared, "local": self.local, "param": self.local}.get(variable.space)
        if placed is None:
            return
        if mine in self.symbols:
            return
        if variable.space == "shared" and variable.linkage == "extern" and not variable.size:
            self.dynamic = self.dynamic or variable.name
            self.symbols[mine] = -1
            return
        start = laid_out(placed)
        start += -start % variable.natural_alignment
        placed.append(Placed(variable.name, start, variable.size))
        self.symbols[mine] = start

    def _call(self, call: Instruction, callers: tuple[str, ...]) -> None:
        lists = [operand for operand in call.operands if isinstance(operand, Arguments)]
        target = next((operand for operand in call.operands if isinstance(operand, Symbol)), None)
        unknown = next((operand for operand in call.operands if isinstance(operand, Unresolved)), None)
        if unknown is not None:
            raise unsupported(call, f"there is no function {unknown.name}")
        if target is None or target.variable is not None:
            raise unsupported(call, "only calls of a function by its name are")
        try:
            function = self.module.function(target.name)
        except KeyError:
            raise unsupported(call, f"there is no function {target.name}") from None
        if function.body is None:
            if target.name in EXTERNAL:
                EXTERNAL[target.name](self, call, -1)
                return
            raise unsupported(call, f"{target.name} is not defined in the text")
        if function.name in callers or len(callers) >= DEEPEST:
            raise unsupported(call, "a recursion")
        results = lists.pop(0).elements if function.returns else ()
        sources = lists[0].elements if lists else ()
        if (len(results), len(sources)) != (len(function.returns), len(function.parameters)):
            raise unsupported(call, f"{function.name} has other parameters")
        offset = self.registers
        scope: dict[Variable, Variable] = {}
        before, after = [], []
        inputs, outputs = iter(function.inputs), iter(function.outputs)
        for formal, source in zip(function.parameters, sources, strict=True):
            before += self._passed(call, formal, source, scope, inputs, offset, into=True)
        for formal, result in zip(function.returns, results, strict=True):
            after += self._passed(call, formal, result, scope, outputs, offset, into=False)
        guard = guard_of(call)
        end = (self.contexts, "after")
        if guard is not None:
            skipped = guard.operand if isinstance(guard, Negated) else Negated("!", guard)
            self.items.append(Jump(call, skipped, end))
        self.items += before
        self._inline(function, offset, scope, (*callers, function.name))
        self.items += after
        self.labels[end] = len(self.items)

    def _trap(self, instruction: Instruction, context: int) -> None:
        """Append what reports that a kernel ends itself, and what ends it."""
        for opcode in ("trap", "exit"):
            ends = instruction._replace(opcode=opcode, modifiers=(), text=opcode, operands=())
            self.items.append(Plain(ends, context))

    def _ignored(self, call: Instruction, context: int) -> None:
        """Leave a call out."""

    def _passed(
        self,
        call: Instruction,
        formal: Variable,
        actual: Operand,
        scope: dict[Variable, Variable],
        registers: Iterator[Register],
        offset: int,
        *,
        into: bool,
    ) -> list[Plain]:
        """Bind a parameter: one in memory is the caller's variable itself, a register is copied."""
        if formal.space != "reg":
            if isinstance(actual, Symbol) and actual.variable is not None:
                scope[formal] = actual.variable
                return []
            raise unsupported(call, f"only variables are passed for {formal.name}")
        register = next(registers)
        register = register._replace(number=register.number + offset)
        operands = (register, actual) if into else (actual, register)
        bits = "pred" if register.type == "pred" else f"b{TYPE_BITS[register.type]}"
        copy = call._replace(
            guard=None, opcode="mov", modifiers=(bits,), text=f"mov.{bits}", operands=operands
        )
        return [Plain(copy, -1)]

    def _placed(self, instruction: Instruction) -> Instruction:
        """Replace the names of variables by addresses."""
        return instruction._replace(
            operands=tuple(_mapped(operand, self._address) for operand in instruction.operands)
        )

    def _address(self, operand: Operand) -> Operand:
        if not isinstance(operand, Symbol):
            return operand
        variable = operand.variable
        if variable in self.symbols:
            base = self.symbols[variable]
        elif operand.name in self.addresses:
            base = self.addresses[operand.name]
        else:
            return operand
        element = TYPE_BITS.get(variable.type, 8) // 8 if variable is not None else 1
        return Immediate(base + operand.offset + (operand.element or 0) * element, "u64")


EXTERNAL: Final[dict[str, Callable[[Inlining, Instruction, int], None]]] = {
    "__assertfail": Inlining._trap,
    "vprintf": Inlining._ignored,
}
"""What is done at a call of a function that only the driver has."""


def guard_of(instruction: Instruction) -> Operand | None:
    """Return the predicate that lets an instruction run, negated where it is."""
    if instruction.guard is None:
        return None
    register, negated = instruction.guard
    return Negated("!", register) if negated else register


def _mapped(operand: Operand, change: Callable[[Operand], Operand]) -> Operand:
    """Change an operand and those inside it."""
    if isinstance(operand, Vector | Arguments):
        return operand._replace(elements=tuple(_mapped(each, change) for each in operand.elements))
    if isinstance(operand, Pair):
        return Pair(_mapped(operand.first, change), _mapped(operand.second, change))
    if isinstance(operand, Negated):
        return operand._replace(operand=_mapped(operand.operand, change))
    if isinstance(operand, Address) and operand.base is not None:
        return operand._replace(base=_mapped(operand.base, change))
    return change(operand)


def _renamed(instruction: Instruction, offset: int, scope: dict[Variable, Variable]) -> Instruction:
    """Give an instruction the registers and the variables of one call."""

    def change(operand: Operand) -> Operand:
        if isinstance(operand, Register):
            return operand._replace(number=operand.number + offset)
        if isinstance(operand, Symbol) and operand.variable in scope:
            return operand._replace(variable=scope[operand.variable])
        return operand

    guard: Any = instruction.guard
    if guard is not None:
        guard = guard._replace(register=change(guard.register))
    return instruction._replace(
        guard=guard, operands=tuple(_mapped(operand, change) for operand in instruction.operands)
    )
