"""Which instructions take a rounding modifier, and which lack theirs (ISA, "Floating-Point Instructions")."""

from __future__ import annotations

from functools import lru_cache

from ptxtemplates.ptx.datatypes import FLOAT_TYPES, TYPE_BITS

_FLOAT_ROUNDING = frozenset({"rn", "rz", "rm", "rp", "rna", "rs"})
_INTEGER_ROUNDING = frozenset({"rni", "rzi", "rmi", "rpi"})

# What satisfies the rule, by opcode.
_ROUNDED = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "mad"), _FLOAT_ROUNDING),
    **dict.fromkeys(("rcp", "sqrt"), _FLOAT_ROUNDING | {"approx"}),
    "div": _FLOAT_ROUNDING | {"approx", "full"},
}
ROUNDED_OPCODES = frozenset({*_ROUNDED, "cvt"})
"""Opcodes for which `missing_rounding` may have something to say."""


@lru_cache(maxsize=4096)
def missing_rounding(text: str) -> str | None:
    """Say what an opcode such as ``mul.f32`` lacks: the modifiers one of which would be right, or None."""
    opcode, *modifiers = text.split(".")
    if opcode == "cvt":
        return _missing_in_cvt(modifiers)
    accepted = _ROUNDED.get(opcode)
    if accepted is None or FLOAT_TYPES.isdisjoint(modifiers) or not accepted.isdisjoint(modifiers):
        return None
    return "a rounding modifier such as .rn" + "".join(
        f" or .{name}" for name in ("approx", "full") if name in accepted
    )


def cvt_types(modifiers: tuple[str, ...] | list[str]) -> tuple[str, str] | None:
    """Return destination and source type of a ``cvt``; None for ``cvt.pack`` and where a type is unknown."""
    if len(modifiers) < 2 or modifiers[0] == "pack":
        return None
    destination, source = modifiers[-2:]
    return (destination, source) if destination in TYPE_BITS and source in TYPE_BITS else None


def _missing_in_cvt(modifiers: list[str]) -> str | None:
    types = cvt_types(modifiers)
    if types is None:
        return None
    destination, source = types
    to_float, from_float = destination in FLOAT_TYPES, source in FLOAT_TYPES
    if from_float and not to_float:
        return (
            None
            if not _INTEGER_ROUNDING.isdisjoint(modifiers)
            else "an integer rounding modifier such as .rni"
        )
    narrows = to_float and from_float and TYPE_BITS[destination] < TYPE_BITS[source]
    alternate = not {destination, source} <= _PLAIN_TYPES
    if not (narrows or alternate or (to_float and not from_float)):
        return None
    return None if not _FLOAT_ROUNDING.isdisjoint(modifiers) else "a rounding modifier such as .rn"


# Any conversion from or to another float type must say how it rounds (ISA, "cvt").
_PLAIN_TYPES = frozenset(
    {"f16", "bf16", "f32", "f64", *(f"{kind}{bits}" for kind in "bsu" for bits in (8, 16, 32, 64))}
)
