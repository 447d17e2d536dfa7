"""Sizes of the PTX types (ISA, "Fundamental Types" and "Alternate Floating-Point Data Formats")."""

from __future__ import annotations

TYPE_BITS: dict[str, int] = {
    **{f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 128,
    "f16": 16,
    "f32": 32,
    "f64": 64,
    "bf16": 16,
    "tf32": 32,
    "f16x2": 32,
    "bf16x2": 32,
    "f32x2": 64,
    "pred": 1,
    "e4m3x2": 16,
    "e5m2x2": 16,
    "e2m3x2": 16,
    "e3m2x2": 16,
    "e2m1x2": 8,
    "ue8m0x2": 16,
    "s2f6x2": 16,
    "e4m3x4": 32,
    "e5m2x4": 32,
    "e2m3x4": 32,
    "e3m2x4": 32,
    "e2m1x4": 16,
}
"""Bits of a value of each type, by the type's name without its dot."""

OPAQUE_TYPES = frozenset({"texref", "samplerref", "surfref"})
"""Types of texture, sampler and surface references: they have no size a program may rely on."""

FLOAT_TYPES = frozenset(
    name for name in TYPE_BITS if name[0] in "fet" or name.startswith(("bf", "ue", "s2f"))
)
"""The floating-point types, scalar and packed."""
