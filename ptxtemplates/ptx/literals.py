"""Floating-point numbers as bits and as PTX hex literals, by integer arithmetic alone.

Nothing here depends on the platform's math library, so the same number gives the same text everywhere.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import NamedTuple, Protocol


class Rational(Protocol):
    """A number that is an exact ratio: int, float, `fractions.Fraction`, `decimal.Decimal`."""

    def as_integer_ratio(self) -> tuple[int, int]:
        """Return numerator and denominator."""

    def __float__(self) -> float:
        """Return the nearest double."""


class _Format(NamedTuple):
    """An IEEE 754 format: bits of its significand (without the hidden one) and of its exponent."""

    significand: int
    exponent: int

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.significand

    @property
    def smallest_exponent(self) -> int:
        """Binary exponent of the smallest normal number."""
        return 2 - (1 << (self.exponent - 1))

    @property
    def sign(self) -> int:
        return 1 << (self.significand + self.exponent)


_FLOAT32 = _Format(23, 8)
_FLOAT64 = _Format(52, 11)

# Quiet NaN with an empty payload, what arithmetic on GPUs and in NumPy gives.
_FLOAT32_NAN = 0x7FC00000
_FLOAT64_NAN = 0x7FF8 << 48

_MAX_DIGITS = 9


def float32_bits(value: Rational) -> int:
    """Round a number to float32: to nearest, ties to even, overflow to infinity.

    Parameters
    ----------
    value : int, float, Fraction or Decimal
        The exact number is rounded once, whatever its type.

    Returns
    -------
    int
        The 32 bits of the result.
    """
    return _bits(value, _FLOAT32, _FLOAT32_NAN)


def float64_bits(value: Rational) -> int:
    """Round a number to float64, as `float32_bits` does to float32; returns 64 bits."""
    return _bits(value, _FLOAT64, _FLOAT64_NAN)


def float32_value(bits: int) -> float:
    """Return the number that 32 bits stand for."""
    return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])


def float64_value(bits: int) -> float:
    """Return the number that 64 bits stand for."""
    return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])


def float32_hex(bits: int) -> str:
    """Write float32 bits as a PTX literal, e.g. ``0f3F800000``."""
    return f"0f{bits:08X}"


def float64_hex(bits: int) -> str:
    """Write float64 bits as a PTX literal, e.g. ``0d3FF0000000000000``."""
    return f"0d{bits:016X}"


def parse_hex(literal: str) -> int:
    """Return the bits of a PTX literal ``0f...`` (8 digits) or ``0d...`` (16 digits).

    Raises
    ------
    ValueError
        If it is neither.
    """
    digits = literal[2:]
    if len(digits) != {"0f": 8, "0d": 16}.get(literal[:2].lower()) or not set(digits) <= _HEX_DIGITS:
        raise ValueError(f"{literal!r} is no PTX float literal: write 0f and 8 hex digits, or 0d and 16")
    return int(digits, 16)


def shortest_decimal(bits: int) -> str:
    """Write a float32 with the fewest significant digits (at most 9) that round back to it.

    Of several such decimals the nearest to the number is taken.

    Parameters
    ----------
    bits : int
        The 32 bits.

    Returns
    -------
    str
        Such as ``1``, ``-75.24007``, ``2.3283064e-10``, ``inf`` or ``nan``.
    """
    value = float32_value(bits)
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    numerator, denominator = abs(value).as_integer_ratio()
    # One more than the decimal exponent of the number: `g` formatting rounds, so it may be one too high.
    magnitude = int(f"{abs(value):.17e}".partition("e")[2]) + 1
    for digits in range(1, _MAX_DIGITS):
        candidate = _round_trip(bits & ~_FLOAT32.sign, numerator, denominator, magnitude - digits)
        if candidate is not None:
            sign = "-" if value < 0 else ""
            return sign + f"{float(f'{candidate}e{magnitude - digits}'):.{digits}g}"
    return f"{value:.{_MAX_DIGITS}g}"


@lru_cache(maxsize=4096)  # a kernel has few constants and writes them often
def float32_literal(bits: int) -> str:
    """Write a float32 as reviewers read it: the exact literal and its decimal value.

    Returns
    -------
    str
        E.g. ``0f3F800000 /* 1 */``.
    """
    return f"{float32_hex(bits)} /* {shortest_decimal(bits)} */"


_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


def _bits(value: Rational, form: _Format, nan: int) -> int:
    try:
        numerator, denominator = value.as_integer_ratio()
    except OverflowError:
        return form.infinity | (form.sign if float(value) < 0 else 0)
    except ValueError:
        return nan
    negative = numerator < 0 if numerator else math.copysign(1.0, float(value)) < 0
    return _magnitude(abs(numerator), denominator, form) | (form.sign if negative else 0)


def _magnitude(numerator: int, denominator: int, form: _Format) -> int:
    """Round a ratio that is not negative."""
    if numerator == 0:
        return 0
    exponent = numerator.bit_length() - denominator.bit_length()
    if _shifted(numerator, -exponent) < _shifted(denominator, exponent):
        exponent -= 1
    # Below the smallest normal number the spacing stays the same: subnormals.
    exponent = max(exponent, form.smallest_exponent)
    spacing = exponent - form.significand
    scaled_numerator, scaled_denominator = _shifted(numerator, -spacing), _shifted(denominator, spacing)
    significand, rest = divmod(scaled_numerator, scaled_denominator)
    if 2 * rest + (significand & 1) > scaled_denominator:
        significand += 1
    # The hidden bit, or a carry out of the significand, adds one to the exponent field: just what is wanted.
    bits = ((exponent - form.smallest_exponent) << form.significand) + significand
    return min(bits, form.infinity)


def _shifted(number: int, count: int) -> int:
    return number << count if count > 0 else number


def _round_trip(bits: int, numerator: int, denominator: int, exponent: int) -> int | None:
    """Return the integer nearest to the ratio / 10**exponent whose product with that rounds to `bits`."""
    scale = 10 ** abs(exponent)
    scaled, divisor = (numerator, denominator * scale) if exponent >= 0 else (numerator * scale, denominator)
    below, rest = divmod(scaled, divisor)
    nearest_first = (below, below + 1) if 2 * rest <= divisor else (below + 1, below)
    for candidate in nearest_first:
        top, bottom = (candidate * scale, 1) if exponent >= 0 else (candidate, scale)
        if _magnitude(top, bottom, _FLOAT32) == bits:
            return candidate
    return None
