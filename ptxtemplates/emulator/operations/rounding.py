"""One rounding, in any of the four modes, for formats narrower than float64.

Operands of at most 24 bits of precision, and products of two, are exact in float64. What float64 cannot hold
of their sum is folded into its last bit ("round to odd"), after which a second rounding to a narrower format
equals a single one (Boldo and Melquiond, "Emulation of a FMA and Correctly Rounded Sums: Proved Algorithms
Using Rounding to Odd", IEEE Transactions on Computers 57, 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ptxtemplates.emulator.operations.values import DTYPES, Array


class Format(NamedTuple):
    """A binary format: bits of precision, and exponents of its smallest and largest normal numbers."""

    precision: int
    lowest: int
    highest: int

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal number."""
        return 2.0**self.lowest

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.highest


FORMATS = {
    "f16": Format(11, -14, 15),
    "bf16": Format(8, -126, 127),
    "tf32": Format(11, -126, 127),
    "f32": Format(24, -126, 127),
    "f64": Format(53, -1022, 1023),
}


def _ties_away(values: Array) -> Array:
    # by the fraction: adding one half to the number below one half would round up to one
    whole = np.trunc(values)
    return np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole)


TO_INTEGER: dict[str, Callable[[Array], Array]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": _ties_away,
}
"""Rounding of a float array to integral values, by rounding modifier."""

# whether what is beyond the largest number becomes it, rather than infinite
_STAYS: dict[str, Callable[[Array], Array]] = {
    "rn": lambda values: np.zeros(values.shape, np.bool_),
    "rna": lambda values: np.zeros(values.shape, np.bool_),
    "rz": lambda values: np.ones(values.shape, np.bool_),
    "rm": lambda values: values > 0,
    "rp": lambda values: values < 0,
}


def sum_error(first: Array, second: Array, total: Array) -> Array:
    """Return ``first + second - total`` exactly, for ``total = fl(first + second)`` (Knuth's TwoSum)."""
    part: Array = total - first
    error: Array = (first - (total - part)) + (second - part)
    return error


def to_odd(total: Array, error: Array) -> Array:
    """Return ``total + error`` rounded to odd, where `total` is its nearest float64."""
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(error) & (bits & 1 == 0)
    # the bit patterns of floats grow with their magnitude
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(np.float64)


def narrow(values: Array, type_: str, mode: str) -> Array:
    """Round float64 values to a format, once.

    Parameters
    ----------
    values : array of float64
    type_ : str
        A key of `FORMATS`.
    mode : str
        ``rn``, ``rz``, ``rm``, ``rp``; or ``rna`` (ties away from zero).

    Returns
    -------
    array
        Of the type's NumPy type; float64 for ``f64`` and ``tf32``.
    """
    dtype = np.dtype(np.float64) if type_ == "tf32" else DTYPES[type_]
    # NumPy rounds float64 once to these two; ml_dtypes goes through float32
    if mode == "rn" and type_ in ("f16", "f32", "f64"):
        return values.astype(dtype)
    return quantize(values, FORMATS[type_], mode).astype(dtype)


def quantize(values: Array, format_: Format, mode: str) -> Array:
    """Round float64 values to a format as `narrow` does, and leave them float64."""
    _, exponent = np.frexp(values)
    unit = np.maximum(exponent - 1, format_.lowest) - (format_.precision - 1)
    scaled = np.ldexp(values, -unit)
    whole = TO_INTEGER[mode](scaled)
    rounded: Array = np.ldexp(whole, unit)
    largest = format_.largest
    over = np.abs(rounded) > largest
    if over.any():
        over &= np.isfinite(values)
        limit = np.where(_STAYS[mode](values), largest, np.inf)
        rounded = np.where(over, np.copysign(limit, values), rounded)
    return rounded


def directed(nearest: Array, error: Array, mode: str) -> Array:
    """Move a result that was rounded to nearest to where another mode puts it.

    Parameters
    ----------
    nearest : array
        Results rounded to nearest; infinite where they overflowed.
    error : array
        Exact result minus `nearest`; only its sign counts. NaN where the result is exact by definition.
    """
    down = np.asarray(-np.inf, nearest.dtype)
    if mode == "rm":
        return np.where(error < 0, np.nextafter(nearest, down), nearest)
    if mode == "rp":
        return np.where(error > 0, np.nextafter(nearest, -down), nearest)
    beyond = np.where(np.signbit(nearest), error > 0, error < 0)
    return np.where(beyond, np.nextafter(nearest, np.zeros_like(nearest)), nearest)


def rounded_sum(first: Array, second: Array, type_: str, mode: str) -> Array:
    """Add float64 arrays that hold at most 48 significant bits each, with one rounding to a narrower type."""
    total: Array = first + second
    if mode == "rn" and type_ == "f32":
        return _rounded_to_single(first, second, total)
    result = narrow(to_odd(total, sum_error(first, second, total)), type_, mode)
    return _zero_sum(result, first, second) if mode == "rm" else result


_SMALLEST = np.float32(FORMATS["f32"].smallest_normal)


def _rounded_to_single(first: Array, second: Array, total: Array) -> Array:
    """Round a float64 sum to float32; only lanes where the two roundings can differ take the long way."""
    result = total.astype(np.float32)
    # total lies halfway between two float32 numbers, or where they have fewer bits
    doubtful = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    magnitude = np.abs(result)
    if magnitude.size and not np.minimum.reduce(magnitude) > _SMALLEST:
        doubtful |= (magnitude <= _SMALLEST) & (total != 0)
    if doubtful.any():
        first, second, total = first[doubtful], second[doubtful], total[doubtful]
        result[doubtful] = to_odd(total, sum_error(first, second, total)).astype(np.float32)
    return result


def _zero_sum(result: Array, first: Array, second: Array) -> Array:
    """Towards negative infinity, a sum that is exactly zero is -0 unless both terms are +0."""
    negative = (first + second == 0) & (np.signbit(first) | np.signbit(second))
    return np.where(negative, np.asarray(-0.0, result.dtype), result)
