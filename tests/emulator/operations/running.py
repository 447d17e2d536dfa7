"""Decode one instruction from its opcode text and run it on arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ptxtemplates.emulator.operations import DTYPES, TABLE, Operation, UnsupportedInstruction, decode
from ptxtemplates.ptx.operands import Immediate, Operand, Pair, Register, Vector
from ptxtemplates.ptx.statements import Instruction


def register(number: int, type_: str = "b32") -> Register:
    return Register(f"%r{number}", type_, 1, number, 1)


def instruction(text: str, *operands: Operand) -> Instruction:
    opcode, *modifiers = text.split(".")
    return Instruction(None, opcode, tuple(modifiers), text, operands, 1, None)


def decoded(
    text: str, sources: int, *, results: int = 1, table: int | None = None, vectors: bool = False
) -> Operation:
    """Decode an instruction with plain registers; `table` is lop3's constant, in its place."""
    values: list[Operand] = [register(10 + number) for number in range(sources)]
    if table is not None:
        values[3] = Immediate(table, "s64")
    target: Operand = register(0)
    if results == 2 and not vectors:
        target = Pair(register(0), register(1))
    if vectors:
        if results > 1:
            target = Vector(tuple(register(number) for number in range(results)))
        if sources > 1:
            values = [Vector(tuple(values))]
    made = instruction(text, target, *values)
    return decode(made)


def guessed(text: str) -> tuple[Operation, Instruction]:
    """Decode an instruction whose operands are not known, by trying."""
    for results in (1, 2):
        for sources in range(1, 6):
            values: list[Operand] = [register(10 + number) for number in range(sources)]
            if sources > 3:
                values[3] = Immediate(0x96, "s64")
            target: Operand = register(0) if results == 1 else Pair(register(0), register(1))
            made = instruction(text, target, *values)
            try:
                return decode(made), made
            except UnsupportedInstruction:
                continue
    raise AssertionError(f"no operands fit {text}")


def run(text: str, *sources: Any, results: int = 1, table: int | None = None, vectors: bool = False) -> Any:
    """Run an instruction on sequences of values; returns the result, or a tuple of two and more."""
    operation = decoded(text, len(sources), results=results, table=table, vectors=vectors)
    arrays = [
        source if isinstance(source, np.ndarray) else np.array(source, DTYPES[type_])
        for source, type_ in zip(sources, operation.source_types, strict=True)
    ]
    for array, type_ in zip(arrays, operation.source_types, strict=True):
        assert array.dtype == DTYPES[type_], (text, array.dtype, type_)
    before = [array.copy() for array in arrays]
    outcome = operation.compute(*arrays)
    for array, copy in zip(arrays, before, strict=True):
        assert array.tobytes() == copy.tobytes(), f"{text} wrote to its sources"
    assert len(outcome) == len(operation.result_types) == results
    for array, type_ in zip(outcome, operation.result_types, strict=True):
        assert array.dtype == DTYPES[type_], (text, array.dtype, type_)
        assert array.shape == np.broadcast_shapes(*(source.shape for source in arrays)), text
    return outcome[0] if results == 1 else outcome


def spellings(opcode: str) -> Iterator[str]:
    for form in TABLE[opcode]:
        for modifiers in form.spellings():
            yield f"{opcode}.{modifiers}"
