"""A parsed function made ready to run: every instruction looked up before the first is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ptxtemplates.emulator.grid import KNOWN_REGISTERS, spelled
from ptxtemplates.emulator.inlining import Inlining, Jump, Plain, guard_of
from ptxtemplates.emulator.instructions import barrier_of, look_up
from ptxtemplates.emulator.instructions.effect import each_of, type_of, unsupported
from ptxtemplates.emulator.instructions.loads import STRONG
from ptxtemplates.emulator.operations import UnsupportedInstruction
from ptxtemplates.emulator.slices import Slices, loads_that_begin_a_loop
from ptxtemplates.emulator.wrapping import rule_of
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.ptx.operands import Label, SpecialRegister, Unresolved
from ptxtemplates.ptx.statements import TargetList

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ptxtemplates.emulator.barriers import Barrier
    from ptxtemplates.emulator.instructions import Execute
    from ptxtemplates.emulator.memory.instances import Placed
    from ptxtemplates.emulator.operations import Accuracy
    from ptxtemplates.emulator.wrapping import Rule
    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Function, Instruction, Module

Labels: TypeAlias = "Mapping[tuple[int, object], int]"


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
    end : int or None
        Of a branch that leads to nothing but an exit, and is taken for one, the place of that.
    """

    instruction: Instruction
    guard: Operand | None
    execute: Execute | None
    targets: tuple[int, ...] = ()
    selector: Operand | None = None
    barrier: Barrier | None = None
    members: Operand | None = None
    end: int | None = None


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
    inlining = Inlining(module, addresses)
    items = inlining.whole(function)
    looped = loads_that_begin_a_loop([item.instruction for item in items])
    steps = tuple(
        _looked_up(_relaxed(item) if place in looped else item, inlining.labels, accuracy)
        for place, item in enumerate(items)
    )
    slices = Slices([step.instruction for step in steps])
    return Program(
        tuple(_ended(step, steps) for step in steps),
        inlining.registers,
        tuple(inlining.shared),
        inlining.dynamic,
        tuple(inlining.local),
        slices,
        {place: rule_of(steps[place].instruction) for place in slices.arithmetic},
        {space: _granule(items, space) for space in ("global", "shared")},
    )


def _looked_up(item: Jump | Plain, labels: Labels, accuracy: Accuracy | None) -> Step:
    """Make a step; one that is refused is told by its instruction."""
    try:
        return _step(item, labels, accuracy)
    except UnsupportedInstruction as error:
        error.instruction = item.instruction
        raise


def _step(item: Jump | Plain, labels: Labels, accuracy: Accuracy | None) -> Step:
    instruction = item.instruction
    if isinstance(item, Jump):
        return Step(instruction, item.guard, None, (labels[item.target],))
    for operand in each_of(instruction.operands):
        if isinstance(operand, Unresolved):
            raise unsupported(instruction, f"nothing declares {operand.name}")
        if isinstance(operand, SpecialRegister) and spelled(operand) not in KNOWN_REGISTERS:
            raise unsupported(instruction, f"the special register {spelled(operand)} is not known")
    guard = guard_of(instruction)
    flow = _FLOW.get(instruction.opcode)
    if flow is not None:
        return flow(instruction, guard, labels, item.context)
    barrier = barrier_of(instruction)
    if barrier is not None:
        return Step(instruction, guard, None, barrier=barrier)
    effect = look_up(instruction, accuracy)
    return Step(instruction, guard, effect.execute, members=effect.members)


def _branch(instruction: Instruction, guard: Operand | None, labels: Labels, context: int) -> Step:
    return Step(instruction, guard, None, (_target(instruction, instruction.operands[0], labels, context),))


def _indexed(instruction: Instruction, guard: Operand | None, labels: Labels, context: int) -> Step:
    index, targets = instruction.operands
    if not isinstance(targets, TargetList):
        raise unsupported(instruction, "it needs a list of .branchtargets")
    places = tuple(_target(instruction, target, labels, context) for target in targets.targets)
    return Step(instruction, guard, None, places, index)


def _exit(instruction: Instruction, guard: Operand | None, labels: Labels, context: int) -> Step:
    return Step(instruction, guard, None)


def _target(instruction: Instruction, label: Operand, labels: Labels, context: int) -> int:
    place = labels.get((context, label.number)) if isinstance(label, Label) else None
    if place is None:
        raise unsupported(instruction, "it needs a label of its function")
    return place


_FLOW: Final[dict[str, Callable[[Instruction, Operand | None, Labels, int], Step]]] = {
    "bra": _branch,
    "brx": _indexed,
    "ret": _exit,
    "exit": _exit,
}


def _ended(step: Step, steps: Sequence[Step]) -> Step:
    """Let a branch to nothing but an exit be one, so that its threads end before others run."""
    if len(step.targets) != 1:
        return step
    seen = set()
    place = step.targets[0]
    while place not in seen and place < len(steps):
        seen.add(place)
        there = steps[place]
        if there.guard is not None or there.execute is not None or there.barrier is not None:
            return step
        if not there.targets:
            return step._replace(targets=(), end=place)
        if len(there.targets) > 1:
            return step
        place = there.targets[0]
    return step


def _relaxed(item: Jump | Plain) -> Jump | Plain:
    """Take a load for a relaxed one."""
    instruction = item.instruction
    if any(modifier in STRONG for modifier in instruction.modifiers):
        return item
    modifiers = (modifier for modifier in instruction.modifiers if modifier != "weak")
    return item._replace(instruction=instruction._replace(modifiers=("relaxed", *modifiers)))


def _granule(items: list[Jump | Plain], space: str) -> int:
    """Return the bytes of the smallest access that may meet a space; 16 without one."""
    sizes = [16]
    for item in items:
        instruction = item.instruction
        if instruction.opcode in ("ld", "st", "atom", "red") and isinstance(item, Plain):
            spaces = {part.partition("::")[0] for part in instruction.modifiers}
            if space in spaces or not spaces & {"global", "shared", "local", "param", "const"}:
                sizes.append(TYPE_BITS[type_of(instruction)] // 8)
        elif instruction.opcode == "cp":
            sizes.append(4)
    return min(sizes)
