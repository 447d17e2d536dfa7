"""A parsed function made ready to run: every instruction looked up before the first is executed.

Functions that it calls are put in where they are called, each with registers and memory of its own: threads
then meet again after a call as after any other branch, and recursion, which nobody needs here, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ptxtemplates.emulator.instances import Placed, laid_out
from ptxtemplates.emulator.instructions import UnsupportedInstruction, barrier_of, look_up
from ptxtemplates.emulator.instructions.loads import STRONG
from ptxtemplates.emulator.slices import Slices, loads_that_begin_a_loop
from ptxtemplates.emulator.wrapping import rule_of
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
    Vector,
)
from ptxtemplates.ptx.statements import Instruction, TargetList, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ptxtemplates.emulator.barriers import Barrier
    from ptxtemplates.emulator.instructions import Execute
    from ptxtemplates.emulator.operations import Accuracy
    from ptxtemplates.emulator.wrapping import Rule
    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Function, Module

DEEPEST: Final = 64
"""Calls within calls; more are taken for a recursion."""


class Step(NamedTuple):
    """An instruction, ready to run.

    Attributes
    ----------
    instruction : Instruction
        As written, for its line.
    guard : Operand or None
        The predicate that lets it run.
    execute : callable or None
        Does it for the active lanes; None of what changes the flow of control.
    targets : tuple of int
        Where a branch leads: one place, or those that `selector` chooses from. Empty of an exit.
    selector : Operand or None
        What chooses among several targets.
    barrier : Barrier or None
        What a barrier of the block waits for.
    members : Operand or None
        The lanes of the warp that it waits for.
    """

    instruction: Instruction
    guard: Operand | None
    execute: Execute | None
    targets: tuple[int, ...] = ()
    selector: Operand | None = None
    barrier: Barrier | None = None
    members: Operand | None = None


class Program(NamedTuple):
    """A function made ready.

    Attributes
    ----------
    steps : tuple of Step
    registers : int
        How many there are.
    shared : tuple of Placed
        Variables in shared memory; those whose size is left open are not among them.
    dynamic : str or None
        Name of the variable whose size the launch says.
    local : tuple of Placed
        Variables that each thread has, parameters of calls among them.
    slices : Slices
        What the addresses depend on.
    rules : dict of int to callable
        What keeps the watch over 32-bit arithmetic, by place.
    granules : dict of str to int
        Bytes of the smallest access in each of the spaces ``global`` and ``shared``.
    """

    steps: tuple[Step, ...]
    registers: int
    shared: tuple[Placed, ...]
    dynamic: str | None
    local: tuple[Placed, ...]
    slices: Slices
    rules: Mapping[int, Rule]
    granules: dict[str, int]


def prepare(
    module: Module, function: Function, addresses: Mapping[str, int], accuracy: Accuracy | None = None
) -> Program:
    """Make a function ready to run.

    Parameters
    ----------
    module : Module
        Where the functions that it calls are.
    function : Function
    addresses : mapping of str to int
        Of the module's variables in global and constant memory, and of the function's parameters.
    accuracy : Accuracy, optional
        How approximate instructions err.

    Raises
    ------
    UnsupportedInstruction
        If it has an instruction that the emulator does not know.
    """
    return _Preparation(module, addresses).program(function, accuracy)


class _Jump(NamedTuple):
    """A branch that calling, or returning, becomes."""

    instruction: Instruction
    guard: Operand | None
    target: tuple[int, object]


class _Plain(NamedTuple):
    """An instruction whose operands are those of the program."""

    instruction: Instruction
    context: int


@dataclass
class _Preparation:
    module: Module
    addresses: Mapping[str, int]
    items: list[_Jump | _Plain] = field(default_factory=list)
    labels: dict[tuple[int, object], int] = field(default_factory=dict)
    """Place of each label, by the call that it is in and its number."""
    symbols: dict[Variable, int] = field(default_factory=dict)
    """Offset of each variable in shared or local memory."""
    shared: list[Placed] = field(default_factory=list)
    local: list[Placed] = field(default_factory=list)
    dynamic: str | None = None
    registers: int = 0
    contexts: int = 0

    def program(self, function: Function, accuracy: Accuracy | None) -> Program:
        for variable in self.module.variables:
            if variable.space == "shared":
                self._declare(variable, {})
        self._inline(function, 0, {}, ())
        if self.dynamic is not None:
            end = laid_out(self.shared)
            for variable, offset in self.symbols.items():
                if offset < 0:
                    self.symbols[variable] = end
        instructions = [
            item._replace(instruction=self._placed(item.instruction)) if isinstance(item, _Plain) else item
            for item in self.items
        ]
        looped = loads_that_begin_a_loop([item.instruction for item in instructions])
        steps = tuple(
            self._step(_relaxed(item) if place in looped else item, accuracy)
            for place, item in enumerate(instructions)
        )
        slices = Slices([step.instruction for step in steps])
        granules = {space: _granule(instructions, space) for space in ("global", "shared")}
        return Program(
            steps,
            self.registers,
            tuple(self.shared),
            self.dynamic,
            tuple(self.local),
            slices,
            {place: rule_of(steps[place].instruction) for place in slices.arithmetic},
            granules,
        )

    # ---- flattening

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
                elif statement.opcode == "ret" and callers:
                    self.items.append(_Jump(moved, _guard(moved), (context, "end")))
                else:
                    self.items.append(_Plain(moved, context))
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
        if target is None or target.variable is not None:
            raise _unsupported(call, "only calls of a function by its name are")
        try:
            function = self.module.function(target.name)
        except KeyError:
            raise _unsupported(call, f"there is no function {target.name}") from None
        if function.body is None:
            raise _unsupported(call, f"{target.name} is not defined in the text")
        if function.name in callers or len(callers) >= DEEPEST:
            raise _unsupported(call, "a recursion")
        results = lists.pop(0).elements if function.returns else ()
        sources = lists[0].elements if lists else ()
        if (len(results), len(sources)) != (len(function.returns), len(function.parameters)):
            raise _unsupported(call, f"{function.name} has other parameters")
        offset = self.registers
        scope: dict[Variable, Variable] = {}
        before, after = [], []
        inputs, outputs = iter(function.inputs), iter(function.outputs)
        for formal, source in zip(function.parameters, sources, strict=True):
            before += self._passed(call, formal, source, scope, inputs, offset, into=True)
        for formal, result in zip(function.returns, results, strict=True):
            after += self._passed(call, formal, result, scope, outputs, offset, into=False)
        guard = _guard(call)
        end = (self.contexts, "after")
        if guard is not None:
            skipped = guard.operand if isinstance(guard, Negated) else Negated("!", guard)
            self.items.append(_Jump(call, skipped, end))
        self.items += before
        self._inline(function, offset, scope, (*callers, function.name))
        self.items += after
        self.labels[end] = len(self.items)

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
    ) -> list[_Plain]:
        """Bind a parameter: one in memory is the caller's variable itself, a register is copied."""
        if formal.space != "reg":
            if isinstance(actual, Symbol) and actual.variable is not None:
                scope[formal] = actual.variable
                return []
            raise _unsupported(call, f"only variables are passed for {formal.name}")
        register = next(registers)
        register = register._replace(number=register.number + offset)
        operands = (register, actual) if into else (actual, register)
        bits = "pred" if register.type == "pred" else f"b{TYPE_BITS[register.type]}"
        copy = call._replace(
            guard=None, opcode="mov", modifiers=(bits,), text=f"mov.{bits}", operands=operands
        )
        return [_Plain(copy, -1)]

    # ---- looking up

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

    def _step(self, item: _Jump | _Plain, accuracy: Accuracy | None) -> Step:
        instruction = item.instruction
        if isinstance(item, _Jump):
            return Step(instruction, item.guard, None, (self.labels[item.target],))
        guard = _guard(instruction)
        flow = _FLOW.get(instruction.opcode)
        if flow is not None:
            return flow(self, instruction, guard, item.context)
        barrier = barrier_of(instruction)
        if barrier is not None:
            return Step(instruction, guard, None, barrier=barrier)
        effect = look_up(instruction, accuracy)
        return Step(instruction, guard, effect.execute, members=effect.members)

    def _branch(self, instruction: Instruction, guard: Operand | None, context: int) -> Step:
        return Step(instruction, guard, None, (self._target(instruction, instruction.operands[0], context),))

    def _indexed(self, instruction: Instruction, guard: Operand | None, context: int) -> Step:
        index, targets = instruction.operands
        if not isinstance(targets, TargetList):
            raise _unsupported(instruction, "it needs a list of .branchtargets")
        places = tuple(self._target(instruction, target, context) for target in targets.targets)
        return Step(instruction, guard, None, places, index)

    def _exit(self, instruction: Instruction, guard: Operand | None, context: int) -> Step:
        return Step(instruction, guard, None)

    def _target(self, instruction: Instruction, label: Operand, context: int) -> int:
        place = self.labels.get((context, label.number)) if isinstance(label, Label) else None
        if place is None:
            raise _unsupported(instruction, "it needs a label of its function")
        return place


_FLOW: Final[dict[str, Callable[[_Preparation, Instruction, Operand | None, int], Step]]] = {
    "bra": _Preparation._branch,
    "brx": _Preparation._indexed,
    "ret": _Preparation._exit,
    "exit": _Preparation._exit,
}


def _unsupported(instruction: Instruction, reason: str) -> UnsupportedInstruction:
    return UnsupportedInstruction(f"line {instruction.line}: {instruction.text} is not emulated: {reason}")


def _guard(instruction: Instruction) -> Operand | None:
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


def _relaxed(item: _Jump | _Plain) -> _Jump | _Plain:
    """Take a load for a relaxed one."""
    instruction = item.instruction
    if any(modifier in STRONG for modifier in instruction.modifiers):
        return item
    return item._replace(instruction=instruction._replace(modifiers=("relaxed", *instruction.modifiers)))


def _granule(items: list[_Jump | _Plain], space: str) -> int:
    """Return the bytes of the smallest access that may meet a space; 16 without one."""
    sizes = [16]
    for item in items:
        instruction = item.instruction
        if instruction.opcode in ("ld", "st", "atom", "red") and isinstance(item, _Plain):
            spaces = {part.partition("::")[0] for part in instruction.modifiers}
            if space in spaces or not spaces & {"global", "shared", "local", "param", "const"}:
                sizes.append(TYPE_BITS[instruction.modifiers[-1]] // 8)
        elif instruction.opcode == "cp":
            sizes.append(4)
    return min(sizes)
