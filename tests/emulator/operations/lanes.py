"""Values and bit patterns of PTX types, for the references.

A reference takes bit patterns, as unsigned integers (predicates as 0 and 1), and returns a tuple of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tests.emulator.operations import ieee

Reference = Callable[..., tuple[int, ...]]
FLOATS = ("f16", "bf16", "f32", "f64")
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16", "f32x2": "f32"}
TYPES = {*FLOATS, *PACKED, "tf32", "pred", *(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64))}


def width(type_: str) -> int:
    return int("".join(filter(str.isdigit, type_.removesuffix("x2"))))


def value(bits: int, type_: str) -> Any:
    if type_ in FLOATS:
        return ieee.from_bits(bits, type_)
    size = width(type_)
    return bits - (1 << size) if type_[0] == "s" and bits >> (size - 1) else bits


def bits(number: Any, type_: str) -> int:
    return ieee.to_bits(number, type_) if type_ in FLOATS else int(number) & ((1 << width(type_)) - 1)


def clamp(number: int, type_: str) -> int:
    size = width(type_)
    low, high = (-(1 << (size - 1)), (1 << (size - 1)) - 1) if type_[0] == "s" else (0, (1 << size) - 1)
    return min(max(number, low), high)


def typed(function: Callable[..., Any], sources: tuple[str, ...], results: tuple[str, ...]) -> Reference:
    """Let a function of values be one of bit patterns."""

    def reference(*patterns: int) -> tuple[int, ...]:
        outcome = function(
            *(value(p, t) if t != "pred" else bool(p) for p, t in zip(patterns, sources, strict=True))
        )
        outcome = outcome if isinstance(outcome, tuple) else (outcome,)
        return tuple(bits(o, t) if t != "pred" else int(o) for o, t in zip(outcome, results, strict=True))

    return reference


def same(function: Callable[..., Any], type_: str, sources: int) -> Reference:
    """A function of one type, or of both halves of a packed one."""
    if type_ not in PACKED:
        return typed(function, (type_,) * sources, (type_,))
    half = PACKED[type_]
    size = width(half)
    single = typed(function, (half,) * sources, (half,))

    def reference(*patterns: int) -> tuple[int, ...]:
        low = single(*(p & ((1 << size) - 1) for p in patterns))[0]
        return (low | single(*(p >> size for p in patterns))[0] << size,)

    return reference


def split(modifiers: list[str]) -> tuple[list[str], set[str]]:
    types = [m for m in modifiers if m in TYPES]
    return types, set(modifiers) - set(types)


BOOLEANS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
