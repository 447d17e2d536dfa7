"""The tables and constants of a text against those that follow from the kernel's definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.ptx.literals import float32_literal
from ptxtemplates.ptx.operands import Immediate
from ptxtemplates.ptx.parser import parse
from ptxtemplates.references import baked
from ptxtemplates.references.constants import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.ptx import Function, Variable
    from ptxtemplates.verification.programs import Program

TABLE_TYPES: Final = ("u64", "s64", "b64")


class Comparison(NamedTuple):
    """What is wrong with tables and constants, and which of the definition's a text does not have."""

    wrong: tuple[str, ...]
    absent: tuple[str, ...]


def compare(kernel: Kernel, program: Program) -> Comparison:
    """Compare the tables and constants of a text with the definition, exactly.

    A table of the definition's name must have its elements. What does not occur is absent; whether that is a
    fault depends on where the text comes from (`strict`).
    """
    module = parse(program.text)
    definition = baked(kernel)
    wrong: list[str] = []
    absent: list[str] = []
    tables = {variable.name: variable for variable in module.variables if variable.type in TABLE_TYPES}
    for name, expected in definition.tables.items():
        if name in tables:
            wrong += _differences(tables[name], expected, program)
        else:
            absent.append(f"table {name}")
    found = set(_immediates(module.function(program.entry)))
    absent += [name for name, bits in definition.floats.items() if (bits, True) not in found]
    absent += [name for name, value in definition.integers.items() if (value, False) not in found]
    return Comparison(tuple(wrong), tuple(absent))


def strict(kernel: Kernel, program: Program) -> tuple[str, ...]:
    """Return what is wrong with a text of ours: also what is absent, and constants without an origin."""
    wrong, absent = compare(kernel, program)
    definition = baked(kernel)
    known = PLAIN | set(definition.floats.values())
    function = parse(program.text).function(program.entry)
    strangers = {bits for bits, is_float in _immediates(function) if is_float and bits not in known}
    return (
        *wrong,
        *(f"{what} is not in the text" for what in absent),
        *(f"{float32_literal(bits)} is in no definition" for bits in sorted(strangers)),
    )


def _differences(table: Variable, expected: tuple[int, ...], program: Program) -> Iterator[str]:
    """Say how a table differs, if it does."""
    values = table.initializer if isinstance(table.initializer, tuple) else (table.initializer,)
    where = f"PTX line {table.line}"
    if program.places is not None:
        where = "{}:{}, ".format(*program.places[table.line - 1]) + where
    got = [value.value % 2**64 if isinstance(value, Immediate) else None for value in values]
    if len(got) != len(expected):
        yield f"{where}: {table.name} has {len(got)} elements, not {len(expected)}"
        return
    pairs = zip(got, expected, strict=True)
    different = [number for number, (value, right) in enumerate(pairs) if value != right]
    if different:
        first = different[0]
        value = "no number" if got[first] is None else f"{got[first]:#018x}"
        yield (
            f"{where}: {table.name}[{first}] is {value}, "
            f"not {expected[first]:#018x}; {len(different)} of {len(got)} elements differ"
        )


def _immediates(function: Function) -> Iterator[tuple[int, bool]]:
    """Yield the constants of all instructions: bits, and whether they are a float32."""
    for instruction in function.instructions:
        for operand in instruction.operands:
            if isinstance(operand, Immediate):
                yield operand.value, operand.type == "f32"
