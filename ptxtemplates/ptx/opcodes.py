"""Which operands of an instruction are results, and what ends a path (ISA, "Instruction Set")."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ptxtemplates.ptx.operands import (
    Address,
    Arguments,
    Element,
    Negated,
    Operand,
    Pair,
    Register,
    Vector,
)
from ptxtemplates.ptx.statements import Instruction

# Opcodes whose first operand, even when it is a register, is a source. Where the first operand is an address
# (st, red, prefetch, cp.async ...) there is no result either; `register_effects` sees that by itself.
_RESULTS: dict[str, int | Callable[[list[str]], int]] = {
    **dict.fromkeys(
        (
            "applypriority",
            "bra",
            "brkpt",
            "brx",
            "discard",
            "exit",
            "fence",
            "griddepcontrol",
            "membar",
            "nanosleep",
            "pmevent",
            "prefetch",
            "prefetchu",
            "red",
            "ret",
            "setmaxnreg",
            "st",
            "stackrestore",
            "stmatrix",
            "sured",
            "sust",
            "tensormap",
            "trap",
        ),
        0,
    ),
    **dict.fromkeys(("bar", "barrier"), lambda parts: int("red" in parts)),
    "cp": 0,
    "multimem": lambda parts: int("ld_reduce" in parts),
    "tcgen05": lambda parts: (2 if "red" in parts else 1) if "ld" in parts else 0,
    "wgmma": lambda parts: int("mma_async" in parts),
    "wmma": lambda parts: int("store" not in parts),
}

TERMINATORS = frozenset({"bra", "brx", "ret", "exit", "trap"})
"""Opcodes after which control does not go on to the next instruction, unless they are guarded."""

# Instructions done for what they do, not only for their result.
_EFFECTFUL = frozenset(
    {"alloca", "atom", "bar", "barrier", "call", "elect", "mbarrier", "multimem", "shfl", "vote"}
)
_EFFECTFUL_MODIFIERS = frozenset({"volatile", "relaxed", "acquire", "mmio", "sync", "cc"})

# The result is added to what the register held.
_ACCUMULATES = frozenset({"wgmma"})


@lru_cache(maxsize=4096)
def result_count(text: str) -> int:
    """Count the leading operands that hold results, for a whole opcode such as ``setp.lt.s32``."""
    parts = text.split(".")
    results = _RESULTS.get(parts[0], 1)
    return results if isinstance(results, int) else results(parts)


@lru_cache(maxsize=4096)
def has_effect(text: str) -> bool:
    """Say whether an opcode does more than compute its result."""
    parts = text.split(".")
    return parts[0] in _EFFECTFUL or not _EFFECTFUL_MODIFIERS.isdisjoint(parts)


def register_effects(instruction: Instruction) -> tuple[int, int]:
    """Say which registers an instruction reads and writes, its guard aside.

    Returns
    -------
    tuple of int
        Two bitsets over `Register.number`: registers read, registers written.
    """
    call = instruction.opcode == "call"
    results = result_count(instruction.text)
    reads = writes = 0
    for operand in instruction.operands:
        mask = 1 << operand.number if isinstance(operand, Register) else _registers_inside(operand)
        if results and not isinstance(operand, Address) and (not call or isinstance(operand, Arguments)):
            writes |= mask
        else:
            reads |= mask
        results -= results > 0
    if instruction.opcode in _ACCUMULATES:
        reads |= writes
    return reads, writes


def registers_in(operand: Operand) -> int:
    """Return the registers that an operand names, as a bitset over `Register.number`."""
    return 1 << operand.number if isinstance(operand, Register) else _registers_inside(operand)


def _registers_inside(operand: Operand) -> int:
    collect = _COLLECT.get(operand.__class__)
    return collect(operand) if collect is not None else 0


def _all(operands: tuple[Operand, ...]) -> int:
    mask = 0
    for operand in operands:
        mask |= registers_in(operand)
    return mask


_COLLECT: dict[type, Callable[..., int]] = {
    Vector: lambda operand: _all(operand.elements),
    Arguments: lambda operand: _all(operand.elements),
    Pair: _all,
    Negated: lambda operand: registers_in(operand.operand),
    Element: lambda operand: registers_in(operand.register),
    Address: lambda operand: (
        (0 if operand.base is None else registers_in(operand.base)) | _all(operand.coordinates)
    ),
}
