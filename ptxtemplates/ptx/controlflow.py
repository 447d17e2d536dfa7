"""Basic blocks of a function and the edges between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ptxtemplates.ptx.opcodes import TERMINATORS
from ptxtemplates.ptx.operands import Label, Symbol
from ptxtemplates.ptx.statements import Function, Instruction, TargetList

END = -1
"""Target of an edge that runs into the closing brace."""


class Edge(NamedTuple):
    """A way from one block to another.

    Attributes
    ----------
    target : int
        Index of a block, or `END`.
    taken : bool or None
        Whether a conditional branch is taken on it; None for an edge without a condition.
    """

    target: int
    taken: bool | None


class Block(NamedTuple):
    """Instructions that run one after the other: `start` to `stop` of `Graph.instructions`."""

    start: int
    stop: int
    edges: tuple[Edge, ...]


class Graph(NamedTuple):
    """The control flow of one function; block 0 is its start."""

    instructions: tuple[Instruction, ...]
    blocks: tuple[Block, ...]

    def reachable(self) -> frozenset[int]:
        """Return the blocks that paths from the start reach, and `END` if one runs into the closing brace."""
        seen = {0}
        todo = [0]
        while todo:
            block = todo.pop()
            if block == END:
                continue
            for edge in self.blocks[block].edges:
                if edge.target not in seen:
                    seen.add(edge.target)
                    todo.append(edge.target)
        return frozenset(seen)


def control_flow(function: Function, noreturn: frozenset[str] = frozenset()) -> Graph:
    """Build the control flow graph of a function that has a body.

    Parameters
    ----------
    function : Function
        The function.
    noreturn : frozenset of str
        Functions that never return to their caller.
    """
    instructions: list[Instruction] = []
    places: dict[Label, int] = {}
    starts = [0]
    for statement in function.body or ():
        if isinstance(statement, Instruction):
            instructions.append(statement)
            if statement.opcode in TERMINATORS or (noreturn and _calls(statement, noreturn)):
                starts.append(len(instructions))
        elif isinstance(statement, Label):
            places[statement] = len(instructions)
            starts.append(len(instructions))
    count = len(instructions)
    starts = sorted({start for start in starts if start < count}) or [0]
    numbers = {start: number for number, start in enumerate(starts)}
    numbers[count] = END if count else 0
    blocks = []
    for start, stop in zip(starts, [*starts[1:], count], strict=True):
        edges = (
            tuple(_edges(instructions[stop - 1], stop, places, numbers, noreturn))
            if count
            else (Edge(END, None),)
        )
        blocks.append(Block(start, stop, edges))
    return Graph(tuple(instructions), tuple(blocks))


def _edges(
    last: Instruction, stop: int, places: dict[Label, int], numbers: dict[int, int], noreturn: frozenset[str]
) -> Iterator[Edge]:
    ends = last.opcode in TERMINATORS or (noreturn and _calls(last, noreturn))
    conditional = last.guard is not None
    if not ends:
        yield Edge(numbers[stop], None)
        return
    for label in _targets(last):
        if label in places:
            yield Edge(numbers[places[label]], True if conditional else None)
    if conditional:
        yield Edge(numbers[stop], False)


def _targets(instruction: Instruction) -> Iterator[Label]:
    if instruction.opcode not in ("bra", "brx"):
        return
    for operand in instruction.operands:
        if isinstance(operand, Label):
            yield operand
        elif isinstance(operand, TargetList):
            yield from (target for target in operand.targets if isinstance(target, Label))


def _calls(instruction: Instruction, names: frozenset[str]) -> bool:
    return instruction.opcode == "call" and any(
        isinstance(operand, Symbol) and operand.name in names for operand in instruction.operands
    )
