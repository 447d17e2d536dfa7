"""IEEE 754 arithmetic on Python floats through rational numbers: an oracle that shares nothing with NumPy."""

from __future__ import annotations

import math
import struct
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

NAN, INF = math.nan, math.inf


class Layout(NamedTuple):
    """Bits of precision, exponent of the smallest normal number, exponent of the largest."""

    precision: int
    lowest: int
    highest: int

    @property
    def largest(self) -> float:
        return float(Fraction(2**self.precision - 1) * Fraction(2) ** (self.highest - self.precision + 1))


LAYOUTS = {
    "f16": Layout(11, -14, 15),
    "bf16": Layout(8, -126, 127),
    "f32": Layout(24, -126, 127),
    "f64": Layout(53, -1022, 1023),
    "tf32": Layout(11, -126, 127),
    "upper": Layout(21, -1022, 1023),
}


def from_bits(bits: int, type_: str) -> float:
    if type_ == "f16":
        return float(struct.unpack("<e", bits.to_bytes(2, "little"))[0])
    if type_ == "bf16":
        bits, type_ = bits << 16, "f32"
    size, code = (4, "<f") if type_ == "f32" else (8, "<d")
    return float(struct.unpack(code, bits.to_bytes(size, "little"))[0])


def to_bits(value: float, type_: str) -> int:
    """Return the bits of a value that the type holds exactly; NaN is canonical."""
    if math.isnan(value):
        return {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}[type_]
    if type_ == "bf16":
        return int.from_bytes(struct.pack("<f", value), "little") >> 16
    return int.from_bytes(struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[type_], value), "little")


def negative(value: float) -> bool:
    return math.copysign(1.0, value) < 0


def rounded(exact: Fraction, type_: str, mode: str) -> float:
    """Round a number that is not zero to a format; zeros and infinities come out with its sign."""
    layout = LAYOUTS[type_]
    sign = -1 if exact < 0 else 1
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, layout.lowest) - layout.precision + 1)
    count, rest = divmod(size, unit)
    half = unit / 2
    up = {
        "rn": rest > half or (rest == half and count % 2 == 1),
        "rna": rest >= half,
        "rz": False,
        "rm": sign < 0 and rest > 0,
        "rp": sign > 0 and rest > 0,
    }[mode]
    value = (count + up) * unit
    if value > Fraction(layout.largest):
        stays = mode == "rz" or (mode == "rm" and sign > 0) or (mode == "rp" and sign < 0)
        return sign * (layout.largest if stays else INF)
    return math.copysign(float(value), sign)


def zero_sum(first_negative: bool, second_negative: bool, mode: str) -> float:
    if first_negative == second_negative:
        return -0.0 if first_negative else 0.0
    return -0.0 if mode == "rm" else 0.0


def fma(a: float, b: float, c: float, type_: str, mode: str) -> float:
    if math.isnan(a) or math.isnan(b) or math.isnan(c):
        return NAN
    minus = negative(a) != negative(b)
    if math.isinf(a) or math.isinf(b):
        if a == 0 or b == 0 or (math.isinf(c) and negative(c) != minus):
            return NAN
        return -INF if minus else INF
    if math.isinf(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return rounded(exact, type_, mode) if exact else zero_sum(minus, negative(c), mode)


def add(a: float, b: float, type_: str, mode: str) -> float:
    return fma(a, 1.0, b, type_, mode)


def sub(a: float, b: float, type_: str, mode: str) -> float:
    return fma(a, 1.0, -b, type_, mode)


def mul(a: float, b: float, type_: str, mode: str) -> float:
    product = fma(a, b, 0.0, type_, mode)
    zero = a == 0 or b == 0
    return math.copysign(0.0, math.copysign(1, a) * math.copysign(1, b)) if zero and product == 0 else product


def div(a: float, b: float, type_: str, mode: str) -> float:
    sign = -1.0 if negative(a) != negative(b) else 1.0
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return NAN
    if math.isinf(a) or b == 0:
        return sign * INF
    if a == 0 or math.isinf(b):
        return sign * 0.0
    return rounded(Fraction(a) / Fraction(b), type_, mode)


def rcp(a: float, type_: str, mode: str) -> float:
    return div(1.0, a, type_, mode)


def sqrt(a: float, type_: str, mode: str) -> float:
    if a == 0 or math.isnan(a) or a == INF:
        return a
    if a < 0:
        return NAN
    exact = Fraction(a)
    # enough digits; what is cut off is made visible in one more
    scale = 200 + exact.denominator.bit_length()
    whole = exact.numerator << (2 * scale)
    root = math.isqrt(whole // exact.denominator)
    inexact = root * root * exact.denominator != whole
    return rounded(Fraction(2 * root + inexact, 2 << scale), type_, mode)


def transcendental(name: str, a: float, type_: str) -> float:
    """Return a function's value rounded to nearest, from 60 decimal digits."""
    special = _special(name, a)
    if special is not None:
        return special
    with localcontext() as context:
        context.prec = 60
        exact = _decimal(name, Decimal(a))
        numerator, denominator = exact.as_integer_ratio()
    return rounded(Fraction(numerator, denominator), type_, "rn")


def _special(name: str, a: float) -> float | None:
    if math.isnan(a):
        return NAN
    if name in ("sin", "cos"):
        return NAN if math.isinf(a) else (a if name == "sin" else 1.0) if a == 0 else None
    if name == "tanh":
        return math.copysign(1.0, a) if abs(a) > 50 else a if a == 0 else None
    if name == "ex2":
        return 1.0 if a == 0 else (INF if a > 0 else 0.0) if abs(a) > 2000 else None
    if a < 0:
        return NAN
    table = {"lg2": (-INF, INF), "rsqrt": (math.copysign(INF, a), 0.0)}[name]
    if a == 0:
        return table[0]
    return table[1] if a == INF else 0.0 if name == "lg2" and a == 1 else None


def _decimal(name: str, a: Decimal) -> Decimal:
    if name == "rsqrt":
        return 1 / a.sqrt()
    if name == "lg2":
        return a.ln() / Decimal(2).ln()
    if name == "ex2":
        return (a * Decimal(2).ln()).exp()
    if name == "tanh":
        if abs(a) < Decimal("1e-25"):
            return a * (1 - a * a / 3)
        double = (2 * a).exp()
        return (double - 1) / (double + 1)
    return _circular(name, a)


PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
)


def _circular(name: str, a: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 110
        reduced = a - 2 * PI * (a / (2 * PI)).to_integral_value()
        context.prec = 70
        term: Decimal = reduced if name == "sin" else Decimal(1)
        total, index = term, 1 if name == "sin" else 0  # the power of the last term
        while abs(term) > Decimal("1e-66") * (abs(reduced) or Decimal(1)) and index < 200:
            index += 2
            term = -term * reduced * reduced / (index * (index - 1))
            total += term
        return total
