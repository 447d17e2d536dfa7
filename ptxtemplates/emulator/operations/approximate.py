"""Approximate instructions: the float64 result of NumPy, rounded once to the type.

The ISA bounds their error and leaves the bits open; the result here is the correctly rounded one as far as
float64 reaches. NumPy's functions err by up to a few units in the last of 53 bits, so a result closer than
that to the middle of two float32 numbers may become the other of the two, on one machine and not on the next:
for results spread evenly, about one in 2**26. `rcp`, `sqrt` and `div` do not go this way and are always
rounded correctly. `rsqrt.approx.f64`, rounded twice in float64 itself, is within 2 units in the last place.

What is bounded (`BOUNDS`) can be had at the edges of the bound instead: `Operation.worst`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxtemplates.emulator.operations.arithmetic import Function, arithmetic, flush, modified
from ptxtemplates.emulator.operations.bounds import BOUNDS, Bound, beyond, edges, ulp_edges
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
    "sqrt": np.sqrt,
}
# of a source and its float64 result: is that exact?
_CERTAIN: dict[str, Callable[[Array, Array], Array]] = {
    "sqrt": lambda _, root: root.astype(np.float32) == root,
    "lg2": lambda _, logarithm: np.rint(logarithm) == logarithm,
    "ex2": lambda a, _: np.rint(a) == a,
}
_OUTSIDE = {"sin": beyond, "cos": beyond}


def _through_double(name: str, type_: str) -> Function:
    function = _FUNCTIONS[name]
    return lambda a: narrow(function(a.astype(np.float64)), type_, "rn")


def _never(_: Array, exact: Array) -> Array:
    return np.zeros(exact.shape, np.bool_)


def _at_edges(name: str, type_: str, bound: Bound, function: Function, choose: Function) -> Function:
    """Return a correctly rounded function with every result moved to an edge of its bound."""

    def compute(*sources: Array) -> Array:
        rounded = function(*sources)
        if bound.error is None:
            low, high = ulp_edges(bound.ulp, rounded)
        else:
            source = sources[0].astype(np.float64)
            exact = _FUNCTIONS[name](source)
            certain = _CERTAIN.get(name, _never)(source, exact)
            low, high = edges(bound.error(exact, source), type_, rounded, exact, certain)
        moved = np.ones(rounded.shape, np.bool_) if bound.domain is None else bound.domain(*sources)
        for source in sources:
            # the tables of special values list these
            moved = moved & (source != 0) & np.isfinite(source)
        return np.where(moved, np.where(choose(*sources), high, low), rounded)

    return compute


def _bounded(name: str, make: Callable[[str], Function], qualifiers: str = "approx") -> Builder:
    """Build what has a bound, out of a correctly rounded function of a type."""
    count = 2 if name == "div" else 1

    def build(_: Instruction, spelling: Spelling) -> Operation:
        type_ = half_type(spelling)
        bound, function = BOUNDS[name, type_, qualifiers], make(type_)

        def operation(function: Function) -> Operation:
            return half_operation(spelling, modified(function, type_, ftz=spelling.has("ftz")), count)

        return operation(function)._replace(
            outside=_OUTSIDE.get(name),
            worst=lambda choose: operation(_at_edges(name, type_, bound, function, choose)).compute,
        )

    return build


def _transcendental(name: str) -> Builder:
    return _bounded(name, lambda type_: _through_double(name, type_))


def _rounded(name: str, qualifiers: str = "approx") -> Builder:
    """``rcp``, ``sqrt`` and ``div.full``, as if they were rounded to nearest."""
    return _bounded(name, lambda type_: arithmetic(name, type_, "rn"), qualifiers)


def _divide(a: Array, b: Array) -> Array:
    """``div.approx``: for divisors above 2**126, zero, or NaN where `a` is infinite."""
    quotient: Array = a / b
    beyond = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b) & ~np.isnan(a)
    zero = np.copysign(np.float32(0), quotient)
    return np.where(beyond, np.where(np.isinf(a), np.float32(np.nan), zero), quotient)


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
    "sin": (Form(_FTZ, _transcendental("sin")),),
    "cos": (Form(_FTZ, _transcendental("cos")),),
    "lg2": (Form(_FTZ, _transcendental("lg2")),),
    "ex2": (
        Form(_FTZ, _transcendental("ex2")),
        Form("approx f16|f16x2", _transcendental("ex2")),
        Form("approx ftz bf16|bf16x2", _transcendental("ex2")),
    ),
    "tanh": (
        Form("approx f32", _transcendental("tanh")),
        Form("approx f16|f16x2|bf16|bf16x2", _transcendental("tanh")),
    ),
    "rsqrt": (
        Form(_FTZ, _transcendental("rsqrt")),
        Form("approx f64", _rsqrt_double),
        Form("approx ftz f64", _gross(_FUNCTIONS["rsqrt"])),
    ),
    "rcp": (Form(_FTZ, _rounded("rcp")), Form("approx ftz f64", _gross(lambda a: 1.0 / a))),
    "sqrt": (Form(_FTZ, _rounded("sqrt")),),
    "div": (
        Form(_FTZ, _bounded("div", lambda _: _divide)),
        Form("full ftz? f32", _rounded("div", "full")),
    ),
}
