"""Approximate instructions: the float64 result of NumPy, rounded once to the type.

The ISA bounds their error and leaves the bits open; the result here is the correctly rounded one as far as
float64 reaches. NumPy's functions err by up to a few units in the last of 53 bits, so a result closer than
that to the middle of two float32 numbers may become the other of the two, on one machine and not on the next:
for results spread evenly, about one in 2**26. `rcp`, `sqrt` and `div` do not go this way and are always
rounded correctly. `rsqrt.approx.f64`, rounded twice in float64 itself, is within 2 units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxtemplates.emulator.operations.arithmetic import Function, arithmetic, flush, modified
from ptxtemplates.emulator.operations.forms import Builder, Form, Spelling
from ptxtemplates.emulator.operations.halves import half_operation, half_type
from ptxtemplates.emulator.operations.rounding import Format, narrow, quantize
from ptxtemplates.emulator.operations.values import Array, Operation, canonical
from ptxtemplates.ptx.statements import Instruction

_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
}


def _through_double(name: str, type_: str) -> Function:
    function = _FUNCTIONS[name]
    return lambda a: narrow(function(a.astype(np.float64)), type_, "rn")


def _single(name: str) -> Builder:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        function = modified(_through_double(name, "f32"), "f32", ftz=spelling.has("ftz"))
        return Operation(("f32",), ("f32",), lambda a: (function(a),))

    return build


def _half(name: str) -> Builder:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        type_ = half_type(spelling)
        function = modified(_through_double(name, type_), type_, ftz=spelling.has("ftz"))
        return half_operation(spelling, function, 1)

    return build


def _rounded(name: str, sources: int) -> Builder:
    """``rcp``, ``sqrt`` and ``div.full``, as if they were rounded to nearest."""

    def build(_: Instruction, spelling: Spelling) -> Operation:
        function = modified(arithmetic(name, "f32", "rn"), "f32", ftz=spelling.has("ftz"))
        return Operation(("f32",) * sources, ("f32",), lambda *values: (function(*values),))

    return build


def _divide(a: Array, b: Array) -> Array:
    """``div.approx``: for divisors above 2**126, zero, or NaN where `a` is infinite."""
    quotient: Array = a / b
    beyond = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b) & ~np.isnan(a)
    zero = np.copysign(np.float32(0), quotient)
    return np.where(beyond, np.where(np.isinf(a), np.float32(np.nan), zero), quotient)


def _divide_approximately(_: Instruction, spelling: Spelling) -> Operation:
    function = modified(_divide, "f32", ftz=spelling.has("ftz"))
    return Operation(("f32", "f32"), ("f32",), lambda a, b: (function(a, b),))


_UPPER_WORD = Format(21, -1022, 1023)
_UPPER_NAN = 0x7FFFFFFF00000000


def _gross(function: Callable[[Array], Array]) -> Builder:
    """``rcp`` and ``rsqrt.approx.ftz.f64``: from the upper word of the source to that of the result."""

    def compute(a: Array) -> tuple[Array]:
        upper = (a.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
        # a NaN whose payload is in the lower word alone stays one
        result = function(np.where(np.isnan(a), a, flush(upper, "f64")))
        result = flush(quantize(result, _UPPER_WORD, "rn"), "f64")
        result.view(np.uint64)[np.isnan(result)] = _UPPER_NAN
        return (result,)

    return lambda _, spelling: Operation(("f64",), ("f64",), compute)


def _rsqrt_double(_: Instruction, spelling: Spelling) -> Operation:
    return Operation(("f64",), ("f64",), lambda a: (canonical(np.asarray(1.0 / np.sqrt(a)), "f64"),))


_FTZ = "approx ftz? f32"

APPROXIMATE_FORMS: dict[str, tuple[Form, ...]] = {
    "sin": (Form(_FTZ, _single("sin")),),
    "cos": (Form(_FTZ, _single("cos")),),
    "lg2": (Form(_FTZ, _single("lg2")),),
    "ex2": (
        Form(_FTZ, _single("ex2")),
        Form("approx f16|f16x2", _half("ex2")),
        Form("approx ftz bf16|bf16x2", _half("ex2")),
    ),
    "tanh": (
        Form("approx f32", _single("tanh")),
        Form("approx f16|f16x2|bf16|bf16x2", _half("tanh")),
    ),
    "rsqrt": (
        Form(_FTZ, _single("rsqrt")),
        Form("approx f64", _rsqrt_double),
        Form("approx ftz f64", _gross(_FUNCTIONS["rsqrt"])),
    ),
    "rcp": (Form(_FTZ, _rounded("rcp", 1)), Form("approx ftz f64", _gross(lambda a: 1.0 / a))),
    "sqrt": (Form(_FTZ, _rounded("sqrt", 1)),),
    "div": (Form(_FTZ, _divide_approximately), Form("full ftz? f32", _rounded("div", 2))),
}
