"""Floating-point arithmetic of f32 and f64 (ISA, "Floating-Point Instructions"), and mixed precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxtemplates.emulator.operations.arithmetic import Function, arithmetic, extremum, modified
from ptxtemplates.emulator.operations.forms import Builder, Form, Spelling
from ptxtemplates.emulator.operations.packing import on_halves
from ptxtemplates.emulator.operations.values import Array, Operation, bits_of, from_bits
from ptxtemplates.ptx.statements import Instruction

_SOURCES = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "rcp": 1, "sqrt": 1}


def _rounded(name: str) -> Builder:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        type_ = spelling.type
        function = modified(
            arithmetic(name, type_, spelling.rounding),
            type_,
            ftz=spelling.has("ftz"),
            sat=spelling.has("sat"),
        )
        return Operation((type_,) * _SOURCES[name], (type_,), lambda *sources: (function(*sources),))

    return build


def _rounded_pair(name: str) -> Builder:
    """Two f32 in 64 bits."""

    def build(_: Instruction, spelling: Spelling) -> Operation:
        function = modified(arithmetic(name, "f32", spelling.rounding), "f32", ftz=spelling.has("ftz"))
        return Operation(("b64",) * _SOURCES[name], ("b64",), on_halves(function, "f32", 32))

    return build


def _mixed(name: str) -> Builder:
    """Half-precision factors or first term, f32 for the rest (ISA, "Mixed Precision Floating Point")."""

    def build(_: Instruction, spelling: Spelling) -> Operation:
        function = modified(arithmetic(name, "f32", spelling.rounding), "f32", sat=spelling.has("sat"))

        def compute(*sources: Array) -> tuple[Array]:
            return (function(*(source.astype(np.float32) for source in sources)),)

        narrow = (spelling.types[1],) * (_SOURCES[name] - 1)
        return Operation((*narrow, "f32"), ("f32",), compute)

    return build


def _sign(function: Callable[[Array], Array]) -> Builder:
    """``abs`` and ``neg``."""

    def build(_: Instruction, spelling: Spelling) -> Operation:
        whole = modified(function, spelling.type, ftz=spelling.has("ftz"))
        return Operation((spelling.type,), (spelling.type,), lambda a: (whole(a),))

    return build


def _extremum(name: str) -> Builder:
    def build(instruction: Instruction, spelling: Spelling) -> Operation:
        type_ = spelling.type
        # three sources: `.abs` alone allows nothing else, `.xorsign` and f64 do not allow it
        three = type_ == "f32" and not spelling.has("xorsign")
        sources = 3 if three and (spelling.has("abs") or len(instruction.operands) == 4) else 2
        function: Function = extremum(
            name,
            type_,
            propagate=spelling.has("NaN"),
            xorsign=spelling.has("xorsign"),
            absolute=spelling.has("abs"),
        )
        whole = modified(function, type_, ftz=spelling.has("ftz"))
        return Operation((type_,) * sources, (type_,), lambda *values: (whole(*values),))

    return build


def _copysign(_: Instruction, spelling: Spelling) -> Operation:
    """Give `b` the sign of `a`; a NaN's too."""
    type_ = spelling.type

    def compute(a: Array, b: Array) -> tuple[Array]:
        a_bits, b_bits = bits_of(a), bits_of(b)
        sign = a_bits.dtype.type(1 << (8 * a.dtype.itemsize - 1))
        return (from_bits((a_bits & sign) | (b_bits & ~sign), type_),)

    return Operation((type_, type_), (type_,), compute)


def _subnormal(a: Array) -> Array:
    subnormal: Array = (a != 0) & (np.abs(a) < np.finfo(a.dtype).smallest_normal)
    return subnormal


_TESTS: dict[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    # zeros count as normal
    "normal": lambda a: np.isfinite(a) & ~_subnormal(a),
    "subnormal": _subnormal,
}


def _testp(_: Instruction, spelling: Spelling) -> Operation:
    test = _TESTS[spelling.modifiers["property"]]
    return Operation((spelling.type,), ("pred",), lambda a: (test(a),))


def _arithmetic_forms(name: str) -> tuple[Form, ...]:
    rounding = "rnd" if name == "fma" else "rnd?"
    return (
        Form(f"{rounding} ftz? sat? f32", _rounded(name)),
        Form(f"{rounding} f64", _rounded(name)),
        Form(f"{rounding} ftz? f32x2", _rounded_pair(name)),
    )


def _mixed_forms(name: str) -> tuple[Form, ...]:
    return (Form(f"{'rnd' if name == 'fma' else 'rnd?'} sat? f32 half", _mixed(name)),)


def _division_forms(name: str) -> tuple[Form, ...]:
    return (Form("rnd ftz? f32", _rounded(name)), Form("rnd f64", _rounded(name)))


def _sign_forms(function: Callable[[Array], Array]) -> tuple[Form, ...]:
    return (Form("ftz? f32", _sign(function)), Form("f64", _sign(function)))


def _extremum_forms(name: str) -> tuple[Form, ...]:
    return (
        Form("ftz? NaN? abs? f32", _extremum(name)),
        Form("ftz? NaN? xorsign abs f32", _extremum(name)),
        Form("f64", _extremum(name)),
    )


FLOAT_FORMS: dict[str, tuple[Form, ...]] = {
    "add": (*_arithmetic_forms("add"), *_mixed_forms("add")),
    "sub": (*_arithmetic_forms("sub"), *_mixed_forms("sub")),
    "mul": _arithmetic_forms("mul"),
    "fma": (*_arithmetic_forms("fma"), *_mixed_forms("fma")),
    # since sm_20, mad is fma; without a rounding it is the sm_1x instruction, which is refused
    "mad": (Form("rnd ftz? sat? f32", _rounded("fma")), Form("rnd f64", _rounded("fma"))),
    "div": _division_forms("div"),
    "rcp": _division_forms("rcp"),
    "sqrt": _division_forms("sqrt"),
    "abs": _sign_forms(np.abs),
    "neg": _sign_forms(np.negative),
    "min": _extremum_forms("min"),
    "max": _extremum_forms("max"),
    "copysign": (Form("f32|f64", _copysign),),
    "testp": (Form("property f32|f64", _testp),),
}
