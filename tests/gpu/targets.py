"""The lowest target that has an instruction, of those that the emulator knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.emulator.operations.lanes import TYPES

_TWO_OF_BFLOAT: Final = frozenset({"add", "sub", "mul", "set", "setp", "ex2", "tanh"})
_MIXED: Final = frozenset({"add", "sub", "fma"})


class Spelled(NamedTuple):
    """An opcode taken apart."""

    opcode: str
    modifiers: frozenset[str]
    types: tuple[str, ...]

    def has(self, *modifiers: str) -> bool:
        """Say whether any of these modifiers is written."""
        return not self.modifiers.isdisjoint(modifiers)

    @property
    def extremum(self) -> bool:
        return self.opcode in ("min", "max")

    @property
    def bfloat(self) -> bool:
        return self.has("bf16", "bf16x2")


RULES: Final[tuple[tuple[str, Callable[[Spelled], bool]], ...]] = (
    ("sm_100", lambda it: it.has("f32x2")),
    ("sm_100", lambda it: it.opcode in _MIXED and len(it.types) == 2),
    ("sm_100", lambda it: it.extremum and it.has("abs") and not it.has("xorsign")),
    ("sm_100", lambda it: it.has("tf32") and it.has("satfinite") and not it.has("rna")),
    ("sm_90", lambda it: it.has("u16x2", "s16x2")),
    ("sm_90", lambda it: it.extremum and it.has("relu")),
    ("sm_90", lambda it: it.bfloat and it.opcode in _TWO_OF_BFLOAT),
    ("sm_90", lambda it: it.bfloat and it.opcode == "cvt" and "f32" not in it.types),
    ("sm_90", lambda it: it.types == ("f32", "bf16") and it.opcode == "cvt" and it.has("ftz")),
    ("sm_90", lambda it: it.has("tf32") and not it.has("rna")),
    ("sm_86", lambda it: it.has("xorsign")),
    ("sm_80", lambda it: it.bfloat or it.has("tf32", "relu")),
    ("sm_80", lambda it: it.opcode == "cvt" and it.has("f16x2")),
    ("sm_80", lambda it: it.extremum and it.has("NaN", "f16", "f16x2")),
)


def lowest_target(text: str) -> str:
    """Return the lowest target of `TARGETS` that an opcode with its modifiers assembles for."""
    opcode, *modifiers = text.split(".")
    spelled = Spelled(opcode, frozenset(modifiers), tuple(part for part in modifiers if part in TYPES))
    return next((target for target, holds in RULES if holds(spelled)), "sm_75")
