"""Barriers of a block (ISA, "Parallel Synchronization and Communication Instructions: bar, barrier")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.types import Lanes, Values
    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Instruction


class Barrier(NamedTuple):
    """A barrier instruction.

    Attributes
    ----------
    name, needed : Operand, Operand or None
        Which barrier; for how many threads, None for all of the block.
    arrives : bool
        Whether threads go on without waiting.
    aligned : bool
        Whether all threads of the block must execute this very instruction.
    result, predicate : Operand or None
        Of a reduction: where it goes, and of what.
    combine : callable or None
        Reduces the predicates of a block, along axis 1.
    """

    name: Operand
    needed: Operand | None
    arrives: bool
    aligned: bool
    result: Operand | None = None
    predicate: Operand | None = None
    combine: Callable[[Any, Any], Values] | None = None

    def values(self, machine: Machine, lanes: Lanes) -> Values:
        """Return what the threads give to the reduction."""
        if self.predicate is None:
            return np.zeros((1, 1), np.bool_)
        return machine.full(machine.fetch(self.predicate, "pred", lanes))

    def give(self, machine: Machine, met: Lanes, values: Values, lanes: Lanes) -> None:
        """Set the result of a reduction over all that met, in those of them that wait here."""
        if self.combine is not None and self.result is not None:
            machine.store(self.result, self.combine(values, met), lanes)


_REDUCTIONS: Final[dict[str, Callable[[Any, Any], Values]]] = {
    "popc": lambda values, lanes: (values & lanes).sum(axis=1, keepdims=True).astype(np.uint32),
    "and": lambda values, lanes: (values | ~lanes).all(axis=1, keepdims=True),
    "or": lambda values, lanes: (values & lanes).any(axis=1, keepdims=True),
}


def barrier_of(instruction: Instruction) -> Barrier | None:
    """Return what an instruction waits for, if it is a barrier of the block."""
    parts = instruction.modifiers
    if instruction.opcode not in ("bar", "barrier") or "warp" in parts or "cluster" in parts:
        return None
    aligned = instruction.opcode == "bar" or "aligned" in parts
    operands = list(instruction.operands)
    if "red" not in parts:
        return Barrier(operands[0], operands[1] if len(operands) > 1 else None, "arrive" in parts, aligned)
    result, name, *count, predicate = operands
    combine = next(_REDUCTIONS[part] for part in parts if part in _REDUCTIONS)
    return Barrier(name, count[0] if count else None, False, aligned, result, predicate, combine)
