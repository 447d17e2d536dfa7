"""Float64 arithmetic with one rounding in each mode.

NumPy adds, multiplies, divides and takes roots to nearest. The fused multiply-add goes through error-free
transformations where none of them can overflow or underflow, and through rational numbers elsewhere; so do
the directed modes, which are rare and may be slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ptxtemplates.emulator.operations.rounding import sum_error, to_odd
from ptxtemplates.emulator.operations.values import Array


def _separately(a: Array, b: Array, c: Array) -> Array:
    """Multiply and add: what is right of a fused multiply-add where an operand is infinite or NaN."""
    total: Array = a * b + c
    # a product that overflows is still finite
    return np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, total)


_NEAREST: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "fma": _separately,  # for lanes that are not finite
}

_EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}

_TOWARDS = {"rm": -math.inf, "rp": math.inf, "rz": 0.0}


def double(name: str, mode: str) -> Callable[..., Array]:
    """Return the float64 function of an operation (add, sub, mul, div, sqrt, fma) in a rounding mode."""
    if mode == "rn":
        return _fused if name == "fma" else _NEAREST[name]

    def compute(*sources: Array) -> Array:
        result: Array = np.array(_NEAREST[name](*sources))
        finite = np.logical_and.reduce([np.isfinite(source) for source in sources])
        if name == "div":
            finite &= sources[1] != 0
        if name == "sqrt":
            finite &= sources[0] >= 0
        for lane in np.flatnonzero(finite):
            values = [float(source.flat[lane]) for source in sources]
            result.flat[lane] = _rounded(name, values, float(result.flat[lane]), mode)
        return result

    return compute


def _rounded(name: str, values: list[float], native: float, mode: str) -> float:
    """Round the result of finite operands; `native` is it rounded to nearest, if perhaps twice."""
    if name == "sqrt":
        nearest, sign = native, _sign(Fraction(values[0]) - Fraction(native) ** 2)
    else:
        exact = _EXACT[name](*map(Fraction, values))
        if not exact:
            return _zero(name, values, native, mode)
        nearest = _nearest(exact)
        # beyond the largest number, the nearest one is infinite and lies outside
        sign = _sign(exact - Fraction(nearest)) if math.isfinite(nearest) else -_sign(exact)
    if mode == "rn":
        return nearest
    towards = _TOWARDS[mode]
    wrong = sign * math.copysign(1.0, nearest) < 0 if mode == "rz" else sign * towards > 0
    return math.nextafter(nearest, towards) if wrong else nearest


def _zero(name: str, values: list[float], native: float, mode: str) -> float:
    if mode != "rm" or name in ("mul", "div"):
        return native
    last = -values[-1] if name == "sub" else values[-1]
    first = values[0] * values[1] if name == "fma" else values[0]
    # where the product underflowed the sum cannot be zero, so its sign is the exact one
    positive = math.copysign(1.0, first) > 0 and math.copysign(1.0, last) > 0
    return 0.0 if positive else -0.0


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)  # a division of integers: rounded once, to nearest even
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)


def _fused(a: Array, b: Array, c: Array) -> Array:
    """Return ``a * b + c`` rounded once, to nearest even."""
    native = _separately(a, b, c)
    safe = _moderate(a) & _moderate(b) & (np.abs(c) <= 2.0**1000)
    result = np.where(safe, _fused_moderate(a, b, c), native)
    # an exact zero has the sign that the separate operations give it
    result = np.where(safe & (result == 0), native, result)
    extreme = ~safe & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    for lane in np.flatnonzero(extreme):
        values = [float(source.flat[lane]) for source in (a, b, c)]
        result.flat[lane] = _rounded("fma", values, float(native.flat[lane]), "rn")
    return result


def _moderate(values: Array) -> Array:
    magnitude = np.abs(values)
    moderate: Array = ((magnitude >= 2.0**-480) & (magnitude <= 2.0**480)) | (values == 0)
    return moderate


def _fused_moderate(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond's algorithm (see `rounding`), free of overflow and underflow."""
    product: Array = a * b
    low = _product_error(a, b, product)
    inner: Array = c + low
    inner_error = sum_error(c, low, inner)
    outer: Array = product + inner
    outer_error = sum_error(product, inner, outer)
    rest: Array = inner_error + outer_error
    total: Array = outer + to_odd(rest, sum_error(inner_error, outer_error, rest))
    return total


def _product_error(a: Array, b: Array, product: Array) -> Array:
    """Return ``a * b - product`` exactly, for the product rounded to nearest (Dekker, Veltkamp)."""
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error: Array = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return error


def _split(values: Array) -> tuple[Array, Array]:
    scaled = 134217729.0 * values  # 2**27 + 1 halves the 53 bits
    high = scaled - (scaled - values)
    return high, values - high
