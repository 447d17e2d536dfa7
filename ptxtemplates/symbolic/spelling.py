"""What instructions are called in terms: one name for spellings that always compute the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.emulator.operations.values import HALVES

if TYPE_CHECKING:
    from ptxtemplates.ptx.statements import Instruction

FLOATS: Final = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f32x2", "f64"})
ROUNDINGS: Final = frozenset({"rn", "rz", "rm", "rp", "rna"})

COMMUTING: Final = frozenset(
    {"add", "addc", "mul", "mul24", "fma", "mad", "mad24", "min", "max", "and", "or", "xor"}
)
"""Their first two sources may change places. The payload of a NaN may differ then; it is unspecified."""

_CONTRACTED: Final = frozenset({"add", "sub", "mul"})
"""Without a rounding modifier "may be optimized aggressively by the code optimizer" (ISA, add, sub, mul)."""

_SIGNLESS: Final = frozenset({"add", "sub", "mul", "mad", "shl", "and", "or", "xor", "not", "neg", "popc"})
"""With integers their low bits depend on the width alone, but for the modifiers in `_SIGNED`."""
_SIGNLESS_TYPES: Final = {f"{sign}{bits}": f"b{bits}" for sign in "us" for bits in (8, 16, 32, 64)}
_SIGNED: Final = frozenset({"sat", "hi", "wide", "cc"})


_GATHERING: Final = {
    name: rank
    for rank, name in enumerate(
        f"{opcode}.{kind}"
        for opcode in ("min", "max")
        for kind in ("u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f16x2", "bf16x2", "f32", "f64")
    )
}


def rank_of(instruction: Instruction) -> int | None:
    """Return which minimum or maximum it is, of those that give the same bits in any order."""
    return _GATHERING.get(".".join((instruction.opcode, *instruction.modifiers)))


class Comparison(NamedTuple):
    """A comparison as another: by its name, with sources exchanged, with the opposite result."""

    name: str
    exchanged: bool = False
    negated: bool = False


_INTEGER: Final = {
    "eq": Comparison("eq"),
    "ne": Comparison("eq", negated=True),
    **dict.fromkeys(("lt", "lo"), Comparison("lt")),
    **dict.fromkeys(("gt", "hi"), Comparison("lt", exchanged=True)),
    **dict.fromkeys(("le", "ls"), Comparison("lt", exchanged=True, negated=True)),
    **dict.fromkeys(("ge", "hs"), Comparison("lt", negated=True)),
}
_FLOAT: Final = {
    "eq": Comparison("eq"),
    "neu": Comparison("eq", negated=True),
    "ne": Comparison("ne"),
    "equ": Comparison("ne", negated=True),
    "lt": Comparison("lt"),
    "geu": Comparison("lt", negated=True),
    "gt": Comparison("lt", exchanged=True),
    "leu": Comparison("lt", exchanged=True, negated=True),
    "le": Comparison("le"),
    "gtu": Comparison("le", negated=True),
    "ge": Comparison("le", exchanged=True),
    "ltu": Comparison("le", exchanged=True, negated=True),
    "num": Comparison("num"),
    "nan": Comparison("num", negated=True),
}
_SYMMETRIC: Final = frozenset({"eq", "ne", "num"})


def comparison_of(instruction: Instruction) -> Comparison | None:
    """Return what a ``setp`` compares, if it does nothing else."""
    modifiers = [part for part in instruction.modifiers if part != "ftz"]
    if instruction.opcode != "setp" or len(modifiers) != 2 or modifiers[1] in HALVES:
        return None  # of two halves the second result is that of the upper one
    return (_FLOAT if modifiers[1] in FLOATS else _INTEGER)[modifiers[0]]


def is_symmetric(comparison: Comparison) -> bool:
    """Say whether the sources of a comparison may change places."""
    return comparison.name in _SYMMETRIC


def name_of(instruction: Instruction, program: str) -> str:
    """Return the name of an instruction's operation.

    What the assembler may contract into another instruction is an operation of its own in each program.
    """
    opcode, modifiers = instruction.opcode, instruction.modifiers
    floating = not FLOATS.isdisjoint(modifiers)
    comparison = comparison_of(instruction)
    if comparison is not None:
        if comparison.name == "eq":
            modifiers = tuple(_SIGNLESS_TYPES.get(part, part) for part in modifiers)
        return ".".join((opcode, comparison.name, *modifiers[1:]))
    if opcode in _CONTRACTED and floating and ROUNDINGS.isdisjoint(modifiers):
        return ".".join((program, opcode, *modifiers))
    if opcode in _SIGNLESS and not floating and _SIGNED.isdisjoint(modifiers):
        modifiers = tuple(_SIGNLESS_TYPES.get(part, part) for part in modifiers)
    return ".".join((opcode, *modifiers))
