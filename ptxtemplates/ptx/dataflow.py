"""Definite assignment: which registers may be read before they are set.

A forward analysis over the control flow graph. Its state says which registers are set on every path, and,
for each predicate and each of its values, which more are set if the predicate has that value: so a register
set under ``@%p`` may be read under ``@%p``, and code behind a branch on ``%p`` knows how it was decided.
Sets of registers are the bits of an int.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from ptxtemplates.ptx.controlflow import END, Block, Edge, Graph
from ptxtemplates.ptx.opcodes import register_effects, registers_in
from ptxtemplates.ptx.operands import Register
from ptxtemplates.ptx.predicates import NO_LITERAL, Predicates
from ptxtemplates.ptx.statements import Function, Instruction

State: TypeAlias = "tuple[int, dict[int, int]]"
"""Registers set; and by literal (see `Predicates`) those set besides if the literal holds."""


class UnsetRead(NamedTuple):
    """A read of a register that some path does not set: the instruction's and the register's index."""

    instruction: int
    register: int


class Dataflow:
    """Reads and writes of registers in one function.

    Parameters
    ----------
    function : Function
        A function with a body.
    graph : Graph
        Its control flow.

    Attributes
    ----------
    reads, writes : list of int
        Registers that each instruction of `graph` reads and writes, as bitsets over `Register.number`.
    """

    def __init__(self, function: Function, graph: Graph) -> None:
        self.reads: list[int] = []
        self.writes: list[int] = []
        self._guards: list[int] = []
        self._choices: dict[int, tuple[tuple[int, int], ...]] = {}
        self._graph = graph
        self._everything = (1 << function.registers) - 1
        self._inputs = 0
        for register in function.inputs:
            self._inputs |= 1 << register.number
        outputs = 0
        for register in function.outputs:
            outputs |= 1 << register.number
        for instruction in graph.instructions:
            reads, writes = register_effects(instruction)
            if instruction.opcode == "ret":
                reads |= outputs
            self.reads.append(reads)
            self.writes.append(writes)
        self._predicates = Predicates(graph.instructions, self.writes)
        for index, instruction in enumerate(graph.instructions):
            self._guards.append(self._guard(index, instruction))

    def _guard(self, index: int, instruction: Instruction) -> int:
        """Return an instruction's guard as a literal; note what predicates say about its reads."""
        if instruction.opcode == "selp" and len(instruction.operands) == 4:
            # The value that selp does not choose may be anything.
            _, chosen, other, predicate = instruction.operands
            condition = self._predicates.of_operand(predicate)
            if condition != NO_LITERAL:
                self._choices[index] = (
                    (registers_in(chosen), condition),
                    (registers_in(other), condition ^ 1),
                )
        guard = instruction.guard
        if guard is None or not isinstance(guard.register, Register):
            return NO_LITERAL
        self.reads[index] |= 1 << guard.register.number
        return self._predicates.literal(guard.register.number, not guard.negated)

    def unset_reads(self) -> list[UnsetRead]:
        """Return the first read, in program order, of each register that may not be set by then."""
        before = self._solve()
        found: dict[int, int] = {}
        for block, state in before.items():
            set_, facts = state[0], dict(state[1])
            for index in range(self._graph.blocks[block].start, self._graph.blocks[block].stop):
                missing = self._missing(index, set_, facts)
                while missing:
                    register = missing.bit_length() - 1
                    missing ^= 1 << register
                    found[register] = min(index, found.get(register, index))
                set_ = self._step(index, set_, facts)
        return sorted(UnsetRead(index, register) for register, index in found.items())

    def _missing(self, index: int, set_: int, facts: dict[int, int]) -> int:
        """Return the registers that an instruction reads although they may not be set."""
        missing = self.reads[index] & ~set_
        if not missing:
            return 0
        literal = self._guards[index]
        if literal != NO_LITERAL:
            missing &= ~self._given(literal, facts)
        for registers, condition in self._choices.get(index, ()):
            missing &= ~(registers & self._given(condition, facts))
        return missing

    def _given(self, literal: int, facts: dict[int, int]) -> int:
        """Return what is set besides if a literal holds."""
        registers = 0
        for implied in self._predicates.implied(literal):
            registers |= facts.get(implied, 0)
        return registers

    def _step(self, index: int, set_: int, facts: dict[int, int]) -> int:
        """Apply one instruction: change `facts`, return the new set of registers."""
        written = self.writes[index]
        literal = self._guards[index]
        if literal == NO_LITERAL:
            set_ |= written
        elif written & ~set_:
            facts[literal] = facts.get(literal, 0) | written
            set_ |= facts[literal] & facts.get(literal ^ 1, 0) & written
        changed = written & self._predicates.bits
        while changed:
            predicate = changed.bit_length() - 1
            changed ^= 1 << predicate
            facts.pop(2 * predicate, None)
            facts.pop(2 * predicate + 1, None)
        return set_

    def _solve(self) -> dict[int, State]:
        """Return the state before each reachable block."""
        before: dict[int, State] = {0: (self._inputs, {})}
        todo = {0}
        while todo:
            # Program order is close to reverse postorder, in which each block waits for those before it.
            number = min(todo)
            todo.remove(number)
            block = self._graph.blocks[number]
            set_, facts = before[number][0], dict(before[number][1])
            for index in range(block.start, block.stop):
                set_ = self._step(index, set_, facts)
            for edge in block.edges:
                if edge.target == END:
                    continue
                state = self._along(block, edge, set_, facts)
                old = before.get(edge.target)
                new = state if old is None else _meet(old, state)
                if new != old:
                    before[edge.target] = new
                    todo.add(edge.target)
        return before

    def _along(self, block: Block, edge: Edge, set_: int, facts: dict[int, int]) -> State:
        """Add what is known on an edge: how the branch was decided, and so what cannot be the case."""
        literal = self._guards[block.stop - 1] if block.stop > block.start else NO_LITERAL
        if edge.taken is None or literal == NO_LITERAL:
            return set_, facts
        holds = literal if edge.taken else literal ^ 1
        known = dict(facts)
        for implied in self._predicates.implied(holds):
            set_ |= facts.get(implied, 0)
            known[implied ^ 1] = self._everything
        return set_, known


def _meet(first: State, second: State) -> State:
    set_ = first[0] & second[0]
    facts = {}
    for literal in first[1].keys() | second[1].keys():
        given = (first[0] | first[1].get(literal, 0)) & (second[0] | second[1].get(literal, 0)) & ~set_
        if given:
            facts[literal] = given
    return set_, facts


def deciding_branch(graph: Graph, flow: Dataflow, read: UnsetRead) -> tuple[Instruction, bool] | None:
    """Find the conditional branch that decides whether a register is set before a read.

    Returns
    -------
    tuple of Instruction and bool, or None
        The last branch on a shortest path that does not set the register, of those whose other side can still
        set it; and whether that path takes the branch.
    """
    writers = {
        number
        for number, block in enumerate(graph.blocks)
        if any(flow.writes[index] >> read.register & 1 for index in range(block.start, block.stop))
    }
    for number, edge in _path(graph, writers, read.instruction):
        other = next((side.target for side in graph.blocks[number].edges if side is not edge), END)
        if edge.taken is not None and _reaches(graph, other, writers, avoiding=number):
            return graph.instructions[graph.blocks[number].stop - 1], edge.taken
    return None


def _path(graph: Graph, avoided: set[int], instruction: int) -> Iterator[tuple[int, Edge]]:
    """Yield the edges of a shortest path from the start to an instruction's block, last first."""
    goal = next(
        number for number, block in enumerate(graph.blocks) if block.start <= instruction < block.stop
    )
    came: dict[int, tuple[int, Edge]] = {}
    todo = [0]
    for number in todo:
        if number in avoided and number != goal:
            continue
        for edge in graph.blocks[number].edges:
            if edge.target not in (END, 0) and edge.target not in came:
                came[edge.target] = number, edge
                todo.append(edge.target)
    number = goal
    while number in came:
        yield came[number]
        number = came[number][0]


def _reaches(graph: Graph, start: int, goals: set[int], *, avoiding: int) -> bool:
    seen = {avoiding, END}
    todo = [start]
    while todo:
        number = todo.pop()
        if number in seen:
            continue
        if number in goals:
            return True
        seen.add(number)
        todo += [edge.target for edge in graph.blocks[number].edges]
    return False
