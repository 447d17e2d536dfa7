from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxtemplates.ptx.literals import (
    float32_bits,
    float32_hex,
    float32_literal,
    float32_value,
    float64_bits,
    float64_hex,
    float64_value,
    parse_hex,
    shortest_decimal,
)

INFINITY = 0x7F800000


def packed(value: float) -> int:
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        return INFINITY | (0x80000000 if value < 0 else 0)


@given(st.floats(allow_nan=False))
def test_float32_bits_of_doubles(value: float) -> None:
    assert float32_bits(value) == packed(value)


@given(st.floats(width=32, allow_nan=False))
def test_float32_bits_of_every_exact_type(value: float) -> None:
    bits = packed(value)
    assert float32_bits(Decimal(value)) == bits
    assert float32_value(bits) == value
    if math.isfinite(value):
        assert float32_bits(Fraction(value)) == bits & (0x7FFFFFFF if value == 0 else 0xFFFFFFFF)


@given(st.floats(allow_nan=False))
def test_float64_bits(value: float) -> None:
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    assert float64_bits(value) == bits
    assert float64_value(bits) == value
    assert parse_hex(float64_hex(bits)) == bits


@given(st.integers(0, INFINITY - 1))
def test_ties_go_to_even(bits: int) -> None:
    low = Fraction(float32_value(bits))
    # The next float after the largest would be 2**128.
    high = Fraction(float32_value(bits + 1)) if bits + 1 < INFINITY else Fraction(2**128)
    middle = (low + high) / 2
    tiny = Fraction(1, 2**2000)
    assert float32_bits(middle) == bits + bits % 2
    assert float32_bits(middle - tiny) == bits
    assert float32_bits(middle + tiny) == bits + 1
    assert float32_bits(-middle - tiny) == (bits + 1) | 0x80000000


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (0, 0),
        (1, 0x3F800000),
        (-2, 0xC0000000),
        (-0.0, 0x80000000),
        (Decimal("-0"), 0x80000000),
        (10**60, INFINITY),
        (Fraction(1, 10**60), 0),
        (Fraction(-1, 3), 0xBEAAAAAB),
        (Decimal("0.1"), 0x3DCCCCCD),
        # Rounded to a double first, this would round twice and end one lower.
        (Fraction(1) + Fraction(1, 2**24) + Fraction(1, 2**80), 0x3F800001),
        (float("inf"), INFINITY),
        (Decimal("-Infinity"), INFINITY | 0x80000000),
        (float("nan"), 0x7FC00000),
    ],
)
def test_float32_bits(value: int | float | Fraction | Decimal, bits: int) -> None:
    assert float32_bits(value) == bits


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x3F800000, "1"),
        (0xBF000000, "-0.5"),
        (0x00000000, "0"),
        (0x80000000, "-0"),
        (0x00000001, "1e-45"),
        (0x7F7FFFFF, "3.4028235e+38"),
        (0x3DCCCCCD, "0.1"),
        (0x2F800000, "2.3283064e-10"),
        (0xC2967AEA, "-75.24007"),
        (0x4CBEBC20, "1e+08"),
        (0x4B800000, "16777216"),
        (INFINITY, "inf"),
        (0xFF800000, "-inf"),
        (0x7FC00000, "nan"),
    ],
)
def test_shortest_decimal(bits: int, text: str) -> None:
    assert shortest_decimal(bits) == text


@given(st.integers(0, INFINITY - 1))
def test_shortest_decimal_rounds_back_and_nothing_shorter_does(bits: int) -> None:
    text = shortest_decimal(bits)
    assert float32_bits(Decimal(text)) == bits
    digits = len(Decimal(text).normalize().as_tuple().digits)
    assert digits <= 9
    if bits and digits > 1:
        exact = Decimal(float32_value(bits))
        step = Decimal(1).scaleb(exact.adjusted() - digits + 2)
        below = exact // step * step
        assert bits not in (float32_bits(below), float32_bits(below + step))


@given(st.integers(0, 2**32 - 1))
def test_hex_literals(bits: int) -> None:
    assert parse_hex(float32_hex(bits)) == parse_hex(float32_hex(bits).lower()) == bits


@pytest.mark.parametrize("literal", ["", "0f", "0f3F80000", "0x3F800000", "0d3F800000", "0f3F8000_0", "1.0"])
def test_other_text_is_no_hex_literal(literal: str) -> None:
    with pytest.raises(ValueError, match="no PTX float literal"):
        parse_hex(literal)


def test_literal_with_its_value() -> None:
    assert float32_literal(0x3F800000) == "0f3F800000 /* 1 */"
