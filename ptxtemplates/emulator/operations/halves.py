"""Arithmetic of f16 and bf16, single and in pairs (ISA, "Half Precision Floating Point Instructions")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxtemplates.emulator.operations.arithmetic import Function, arithmetic, extremum, modified
from ptxtemplates.emulator.operations.forms import Builder, Form, Spelling
from ptxtemplates.emulator.operations.packing import on_halves
from ptxtemplates.emulator.operations.values import HALVES, Array, Operation
from ptxtemplates.ptx.statements import Instruction


def half_operation(spelling: Spelling, function: Function, sources: int) -> Operation:
    """Apply a function of f16 or bf16 arrays to the type of the instruction, or to both halves of it."""
    type_ = spelling.type
    if type_ in HALVES:
        return Operation((type_,) * sources, (type_,), on_halves(function, type_))
    return Operation((type_,) * sources, (type_,), lambda *values: (function(*values),))


def half_type(spelling: Spelling) -> str:
    """Return the type of one element."""
    return HALVES.get(spelling.type, spelling.type)


def _rounded(name: str, sources: int) -> Builder:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        type_ = half_type(spelling)
        function = modified(
            arithmetic(name, type_, "rn"),
            type_,
            ftz=spelling.has("ftz"),
            sat=spelling.has("sat"),
            relu=spelling.has("relu"),
        )
        return half_operation(spelling, function, sources)

    return build


def _sign(function: Callable[[Array], Array]) -> Builder:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        whole = modified(function, half_type(spelling), ftz=spelling.has("ftz"))
        return half_operation(spelling, whole, 1)

    return build


def _extremum(name: str) -> Builder:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        type_ = half_type(spelling)
        function = extremum(
            name,
            type_,
            propagate=spelling.has("NaN"),
            xorsign=spelling.has("xorsign"),
            absolute=spelling.has("abs"),
        )
        return half_operation(spelling, modified(function, type_, ftz=spelling.has("ftz")), 2)

    return build


_F16, _BF16 = "f16|f16x2", "bf16|bf16x2"


def _arithmetic_forms(name: str) -> tuple[Form, ...]:
    return (Form(f"rn? ftz? sat? {_F16}", _rounded(name, 2)), Form(f"rn? {_BF16}", _rounded(name, 2)))


def _sign_forms(function: Callable[[Array], Array]) -> tuple[Form, ...]:
    return (Form(f"ftz? {_F16}", _sign(function)), Form(_BF16, _sign(function)))


def _extremum_forms(name: str) -> tuple[Form, ...]:
    return (
        Form(f"ftz? NaN? {_F16}", _extremum(name)),
        Form(f"ftz? NaN? xorsign abs {_F16}", _extremum(name)),
        Form(f"NaN? {_BF16}", _extremum(name)),
        Form(f"NaN? xorsign abs {_BF16}", _extremum(name)),
    )


HALF_FORMS: dict[str, tuple[Form, ...]] = {
    "add": _arithmetic_forms("add"),
    "sub": _arithmetic_forms("sub"),
    "mul": _arithmetic_forms("mul"),
    "fma": (
        Form(f"rn ftz? sat? {_F16}", _rounded("fma", 3)),
        Form(f"rn ftz? relu {_F16}", _rounded("fma", 3)),
        Form(f"rn relu? {_BF16}", _rounded("fma", 3)),
    ),
    "abs": _sign_forms(np.abs),
    "neg": _sign_forms(np.negative),
    "min": _extremum_forms("min"),
    "max": _extremum_forms("max"),
}
