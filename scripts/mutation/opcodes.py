"""Opcodes of the same shape: what one could have been by mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED: Final = tuple(f"{name}u" for name in COMPARISONS)

_ROUNDINGS: Final = ("rn", "rz", "rm", "rp")
_SHUFFLES: Final = ("bfly", "down", "up", "idx")

PARTS: Final[dict[str, tuple[str, ...]]] = {
    "add": ("sub",),
    "sub": ("add",),
    "min": ("max",),
    "max": ("min",),
    "and": ("or", "xor"),
    "or": ("and", "xor"),
    "xor": ("and", "or"),
    "neg": ("mov", "abs"),
    "lo": ("hi",),
    "hi": ("lo",),
    "u32": ("s32",),
    "s32": ("u32",),
    "u64": ("s64",),
    "s64": ("u64",),
    **{name: tuple(other for other in _SHUFFLES if other != name) for name in _SHUFFLES},
    **{name: tuple(other for other in _ROUNDINGS if other != name) for name in _ROUNDINGS},
}
"""By a part of an opcode: what may stand in its place. Some results do not exist; the assembler says so."""

WHOLE: Final[dict[str, tuple[str, ...]]] = {
    "mov.f32": ("neg.f32",),
    "mul.rn.f32": ("add.rn.f32", "sub.rn.f32"),
    "add.rn.f32": ("mul.rn.f32",),
    "sub.rn.f32": ("mul.rn.f32",),
    "rcp.rn.f32": ("sqrt.rn.f32", "rcp.approx.f32"),
    "ex2.approx.f32": ("lg2.approx.f32", "ex2.approx.ftz.f32"),
    "shl.b32": ("shr.u32", "shr.s32"),
    "shr.u32": ("shl.b32",),
    "shr.s32": ("shl.b32",),
    "shr.u64": ("shl.b64",),
}
"""By a whole opcode, beside those that `PARTS` makes."""


def siblings(opcode: str) -> Iterator[str]:
    """Yield the opcodes that are tried in the place of one."""
    yield from WHOLE.get(opcode, ())
    parts = opcode.split(".")
    for number, part in enumerate(parts):
        for other in _others(parts, part):
            yield ".".join([*parts[:number], other, *parts[number + 1 :]])


def _others(parts: list[str], part: str) -> tuple[str, ...]:
    if parts[0] == "setp" and part in (*COMPARISONS, *UNORDERED):
        known = (*COMPARISONS, *UNORDERED) if parts[-1] == "f32" else COMPARISONS
        return tuple(other for other in known if other != part)
    if part == "rn" and parts[-1] == "f32" and parts[0] != "cvt":
        return (*PARTS[part], "rn.ftz")
    return PARTS.get(part, ())
