"""Integer arithmetic (ISA, "Integer Arithmetic Instructions"; the bit operations are in `bits`)."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from ptxtemplates.emulator.operations.forms import Form, Spelling
from ptxtemplates.emulator.operations.packing import on_halves
from ptxtemplates.emulator.operations.values import DTYPES, Array, Operation
from ptxtemplates.ptx.statements import Instruction


def width(type_: str) -> int:
    """Return the bits of an integer type."""
    return DTYPES[type_].itemsize * 8


def _resized(type_: str, factor: int) -> str:
    return f"{type_[0]}{width(type_) * factor}"


def _elementwise(
    function: Callable[..., Array], sources: int
) -> Callable[[Instruction, Spelling], Operation]:
    """Build an operation whose sources and result have the one type of the instruction."""

    def build(_: Instruction, spelling: Spelling) -> Operation:
        type_ = spelling.type
        return Operation((type_,) * sources, (type_,), lambda *values: (function(*values),))

    return build


def _saturating(function: Callable[[Array, Array], Array]) -> Callable[[Instruction, Spelling], Operation]:
    """Build an addition or subtraction of s32 that stops at the ends of the range."""

    def compute(a: Array, b: Array) -> tuple[Array]:
        return (_clamp(function(a.astype(np.int64), b.astype(np.int64))),)

    return lambda _, spelling: Operation(("s32", "s32"), ("s32",), compute)


def _clamp(values: Array) -> Array:
    bounds = np.iinfo(np.int32)
    return np.clip(values, bounds.min, bounds.max).astype(np.int32)


def _packed(function: Callable[[Array, Array], Array]) -> Callable[[Instruction, Spelling], Operation]:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        chosen = _relu(function) if spelling.has("relu") else function
        return Operation(("b32", "b32"), ("b32",), on_halves(chosen, spelling.type))

    return build


def _relu(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: np.maximum(function(a, b), np.zeros_like(a))


def product(a: Array, b: Array, type_: str, part: str) -> Array:
    """Return the ``lo`` or ``hi`` half of a product, or all of it (``wide``) in a type of twice the width."""
    if part == "lo":
        return a * b
    if width(type_) < 64:
        double = DTYPES[_resized(type_, 2)]
        full: Array = a.astype(double)
        full *= b
        return full if part == "wide" else (full >> double.type(width(type_))).astype(a.dtype)
    high = _high_word(a.view(np.uint64), b.view(np.uint64)).view(a.dtype)
    if type_ == "s64":
        # a negative factor counted as 2**64 more than it is
        high = high - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)
    return high


def _high_word(a: Array, b: Array) -> Array:
    """Return the upper 64 bits of products of uint64, by 32-bit digits."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    middle = a_high * b_low + (a_low * b_low >> half)
    other = a_low * b_high + (middle & low)
    result: Array = a_high * b_high + (middle >> half) + (other >> half)
    return result


def _product24(a: Array, b: Array, type_: str, part: str) -> Array:
    """Multiply the low 24 bits of each source; ``hi`` is bits 47 to 16."""
    eight = a.dtype.type(8)
    wide = DTYPES[_resized(type_, 2)]
    full: Array = ((a << eight) >> eight).astype(wide) * ((b << eight) >> eight).astype(wide)
    return (full if part == "lo" else full >> wide.type(16)).astype(a.dtype)


def _part(spelling: Spelling) -> str:
    return next(part for part in ("lo", "hi", "wide") if spelling.has(part))


_Multiply = Callable[[Array, Array, str, str], Array]


def _multiplied(multiply: _Multiply) -> Callable[[Instruction, Spelling], Operation]:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        type_, part = spelling.type, _part(spelling)
        result = _resized(type_, 2) if part == "wide" else type_
        return Operation((type_, type_), (result,), lambda a, b: (multiply(a, b, type_, part),))

    return build


def _multiplied_added(multiply: _Multiply) -> Callable[[Instruction, Spelling], Operation]:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        type_, part = spelling.type, _part(spelling)
        result = _resized(type_, 2) if part == "wide" else type_

        def compute(a: Array, b: Array, c: Array) -> tuple[Array]:
            total = multiply(a, b, type_, part)
            total += c
            return (total,)

        def saturate(a: Array, b: Array, c: Array) -> tuple[Array]:
            return (_clamp(multiply(a, b, type_, part).astype(np.int64) + c),)

        return Operation((type_, type_, result), (result,), saturate if spelling.has("sat") else compute)

    return build


def _quotient(a: Array, b: Array) -> Array:
    return _divided(a, b)[0]


def _remainder(a: Array, b: Array) -> Array:
    return _divided(a, b)[1]


def _divided(a: Array, b: Array) -> tuple[Array, Array]:
    """Divide towards zero; the remainder has the sign of `a`.

    By zero, which the ISA leaves open, both are all ones. The most negative number divided by -1 wraps.
    """
    zero = b == 0
    one = np.ones_like(b)
    if a.dtype.kind == "u":
        divisor = np.where(zero, one, b)
        quotient = a // divisor
    else:
        # by magnitude: the quotient that does not fit wraps in the last step
        magnitude_a, magnitude_b = _magnitude(a), _magnitude(np.where(zero, one, b))
        quotient = (magnitude_a // magnitude_b).view(a.dtype)
        quotient = np.where((a < 0) != (b < 0), np.negative(quotient), quotient)
    remainder: Array = a - quotient * b
    ones = np.invert(np.zeros_like(a))
    return np.where(zero, ones, quotient), np.where(zero, ones, remainder)


def _magnitude(values: Array) -> Array:
    return np.where(values < 0, np.negative(values), values).view(f"u{values.dtype.itemsize}")


def _absolute_difference(a: Array, b: Array, c: Array) -> Array:
    return np.where(a < b, b - a, a - b) + c


_SIGNED = "s16|s32|s64"

INTEGER_FORMS: dict[str, tuple[Form, ...]] = {
    "add": (
        Form("integer", _elementwise(operator.add, 2)),
        Form("sat s32", _saturating(operator.add)),
        Form("u16x2|s16x2", _packed(operator.add)),
    ),
    "sub": (
        Form("integer", _elementwise(operator.sub, 2)),
        Form("sat s32", _saturating(operator.sub)),
    ),
    "mul": (
        Form("lo|hi integer", _multiplied(product)),
        Form("wide u16|u32|s16|s32", _multiplied(product)),
    ),
    "mad": (
        Form("lo|hi integer", _multiplied_added(product)),
        Form("wide u16|u32|s16|s32", _multiplied_added(product)),
        Form("hi sat s32", _multiplied_added(product)),
    ),
    "mul24": (Form("lo|hi u32|s32", _multiplied(_product24)),),
    "mad24": (
        Form("lo|hi u32|s32", _multiplied_added(_product24)),
        Form("hi sat s32", _multiplied_added(_product24)),
    ),
    "sad": (Form("integer", _elementwise(_absolute_difference, 3)),),
    "div": (Form("integer", _elementwise(_quotient, 2)),),
    "rem": (Form("integer", _elementwise(_remainder, 2)),),
    "abs": (Form(_SIGNED, _elementwise(np.abs, 1)),),
    "neg": (Form(_SIGNED, _elementwise(np.negative, 1)),),
    "min": (
        Form("integer", _elementwise(np.minimum, 2)),
        Form("relu s32", _elementwise(_relu(np.minimum), 2)),
        Form("u16x2", _packed(np.minimum)),
        Form("relu? s16x2", _packed(np.minimum)),
    ),
    "max": (
        Form("integer", _elementwise(np.maximum, 2)),
        Form("relu s32", _elementwise(_relu(np.maximum), 2)),
        Form("u16x2", _packed(np.maximum)),
        Form("relu? s16x2", _packed(np.maximum)),
    ),
}
