"""Rounded arithmetic of every float type, with its modifiers; `floats` and `halves` say how it is spelled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxtemplates.emulator.operations.doubles import double
from ptxtemplates.emulator.operations.rounding import FORMATS, directed, narrow, rounded_sum
from ptxtemplates.emulator.operations.values import DTYPES, Array, bits_of, canonical, has_nan

Function = Callable[..., Array]


def flush(values: Array, type_: str) -> Array:
    """Replace subnormal numbers by zero of their sign (``.ftz``)."""
    magnitude = np.abs(values)
    smallest = DTYPES[type_].type(FORMATS[type_].smallest_normal)
    if values.size and np.minimum.reduce(magnitude, axis=None) >= smallest:
        return values
    bits = bits_of(values)
    sign = bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    # all bits but the sign's, where they go
    gone = (magnitude < smallest).astype(bits.dtype) * (sign - bits.dtype.type(1))
    flushed: Array = (bits & ~gone).view(values.dtype)
    return flushed


def saturate(values: Array, type_: str) -> Array:
    """Clamp to [+0, 1], and NaN to +0 (``.sat``)."""
    one = DTYPES[type_].type(1)
    positive = np.where(values > 0, values, np.zeros_like(values))
    return np.where(positive > one, one, positive)


def rectify(values: Array) -> Array:
    """Replace negative numbers, -0 too, by +0 (``.relu``); NaN stays."""
    return np.where(np.signbit(values) & ~np.isnan(values), np.zeros_like(values), values)


def modified(
    function: Function, type_: str, *, ftz: bool = False, sat: bool = False, relu: bool = False
) -> Function:
    """Wrap a function of arrays of one type: flush its inputs and result, clamp it, make NaN canonical.

    Whether a result is subnormal is decided after it was rounded.
    """

    def compute(*sources: Array) -> Array:
        if ftz:
            sources = tuple(flush(source, type_) for source in sources)
        result = function(*sources)
        if ftz:
            result = flush(result, type_)
        if relu:
            result = rectify(result)
        return saturate(result, type_) if sat else canonical(result, type_)

    return compute


def arithmetic(name: str, type_: str, mode: str) -> Function:
    """Return add, sub, mul, fma, div, rcp or sqrt of a type, rounded once. NaN payloads are any."""
    if type_ == "f64":
        return _reciprocal(double("div", mode)) if name == "rcp" else double(name, mode)
    if mode == "rn" and type_ == "f32" and name in _NATIVE:
        return _NATIVE[name]
    make = _NARROW[name]
    return make(type_, mode)


def _native_reciprocal(a: Array) -> Array:
    quotient: Array = np.divide(a.dtype.type(1), a)
    return quotient


def _reciprocal(divide: Function) -> Function:
    return lambda a: divide(np.ones_like(a), a)


# float32 operations that NumPy rounds once by itself
_NATIVE: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": _native_reciprocal,
    "sqrt": np.sqrt,
}


def _wide(values: Array) -> Array:
    return values.astype(np.float64)


def _add(type_: str, mode: str) -> Function:
    return lambda a, b: rounded_sum(_wide(a), _wide(b), type_, mode)


def _subtract(type_: str, mode: str) -> Function:
    return lambda a, b: rounded_sum(_wide(a), -_wide(b), type_, mode)


def _multiply(type_: str, mode: str) -> Function:
    return lambda a, b: narrow(_wide(a) * _wide(b), type_, mode)


def _fused(type_: str, mode: str) -> Function:
    def compute(a: Array, b: Array, c: Array) -> Array:
        # at most 24 bits by 24 bits: the product is exact
        product, other = _wide(a), _wide(b)
        product *= other
        other[...] = c
        return rounded_sum(product, other, type_, mode)

    return compute


def _divide(type_: str, mode: str) -> Function:
    """Float32 division: the remainder of the nearest quotient, exact in float64, says how it was rounded."""

    def compute(a: Array, b: Array) -> Array:
        nearest: Array = a / b
        remainder = _wide(a) - _wide(nearest) * _wide(b)
        return directed(nearest, np.where(np.signbit(b), -remainder, remainder), mode)

    return compute


def _root(type_: str, mode: str) -> Function:
    def compute(a: Array) -> Array:
        nearest: Array = np.sqrt(a)
        return directed(nearest, _wide(a) - _wide(nearest) ** 2, mode)

    return compute


_NARROW: dict[str, Callable[[str, str], Function]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "fma": _fused,
    "div": _divide,
    "rcp": lambda type_, mode: _reciprocal(_divide(type_, mode)),
    "sqrt": _root,
}


# what finds it, and what the sign of two zeros is made of: -0 is less than +0
_EXTREMA: dict[str, tuple[Function, Function]] = {
    "min": (np.minimum, np.bitwise_or),
    "max": (np.maximum, np.bitwise_and),
}


def extremum(
    name: str, type_: str, *, propagate: bool = False, xorsign: bool = False, absolute: bool = False
) -> Function:
    """Return ``min`` or ``max`` of two or three arrays.

    Parameters
    ----------
    name, type_ : str
    propagate : bool
        ``.NaN``: one NaN makes the result NaN; without it, a NaN is passed over.
    xorsign : bool
        The result's sign is the exclusive or of the sources' signs.
    absolute : bool
        Of the magnitudes.
    """

    pick, combine = _EXTREMA[name]

    def two(a: Array, b: Array) -> Array:
        # bfloat16 and float16 are compared as float32, exactly
        x, y = (a, b) if type_ in ("f32", "f64") else (a.astype(np.float32), b.astype(np.float32))
        chosen: Array = pick(x, y).astype(a.dtype, copy=False)
        if not propagate and has_nan(chosen):
            # not NumPy's `fmin` and `fmax`: some C libraries make NaN of a signalling one there
            either = np.isnan(chosen)
            chosen[either] = np.where(np.isnan(x[either]), b[either], a[either])
        if not chosen.all():
            # which of two zeros NumPy takes is open
            zeros = (x == 0) & (y == 0)
            bits_of(chosen)[zeros] = combine(bits_of(a)[zeros], bits_of(b)[zeros])
        return canonical(chosen, type_)

    def compute(*sources: Array) -> Array:
        magnitudes = [np.abs(source) for source in sources] if absolute else list(sources)
        result = two(magnitudes[0], magnitudes[1])
        for magnitude in magnitudes[2:]:
            result = two(result, magnitude)
        if xorsign:
            negative = np.signbit(sources[0]) ^ np.signbit(sources[1])
            signed = np.where(negative, -result, result)
            result = canonical(np.where(np.isnan(result), result, signed), type_)
        return result

    return compute
