"""The spellings of an opcode, written as the ISA's syntax sections write them, and matched against a text.

A form is a line such as ``rnd? ftz? sat? f32``: words in `SLOTS` stand for one of several modifiers, other
words for themselves, ``a|b`` for either, and ``?`` makes one optional. Types count by position
(``cvt.f32.f16`` is not ``cvt.f16.f32``); other modifiers may stand in any order, which ptxas allows too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple, TypeAlias

from ptxtemplates.emulator.operations.values import HALVES, Operation
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.ptx.statements import Instruction

INTEGERS = ("u16", "u32", "u64", "s16", "s32", "s64")
ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")

SLOTS: dict[str, tuple[str, ...]] = {
    "rnd": ("rn", "rz", "rm", "rp"),
    "narrow_rnd": ("rn", "rz"),
    "irnd": ("rni", "rzi", "rmi", "rpi"),
    "integer": INTEGERS,
    "small_integer": ("u2", "s2", "u4", "s4"),
    "bits": ("b16", "b32", "b64"),
    "plain": ("b16", "b32", "b64", *INTEGERS, "f32", "f64"),
    "half": ("f16", "bf16"),
    "packed": ("f16x2", "bf16x2"),
    "predicate_logical": ("or", "and"),
    "logical": ("and", "or", "xor"),
    "bit_compare": ("eq", "ne"),
    "signed_compare": ORDERED,
    "integer_compare": (*ORDERED, "lo", "ls", "hi", "hs"),
    "float_compare": (*ORDERED, *(name + "u" for name in ORDERED), "num", "nan"),
    "property": ("finite", "infinite", "number", "notanumber", "normal", "subnormal"),
    "byte": ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"),
    "mode": ("clamp", "wrap"),
}

_TYPES = frozenset(TYPE_BITS) | frozenset(HALVES)


class Spelling(NamedTuple):
    """An opcode taken apart: its types in order, and its other modifiers by the slot they fill."""

    types: tuple[str, ...]
    modifiers: dict[str, str]

    @property
    def type(self) -> str:
        """The only type, or the first."""
        return self.types[0]

    def has(self, modifier: str) -> bool:
        """Say whether a modifier is written."""
        return modifier in self.modifiers.values()

    @property
    def rounding(self) -> str:
        """The rounding modifier; without one, to nearest even."""
        return self.modifiers.get("rnd", "rn")


Builder: TypeAlias = Callable[[Instruction, Spelling], Operation]


class _Slot(NamedTuple):
    name: str
    options: tuple[str, ...]
    optional: bool
    types: bool


class Form(NamedTuple):
    """A line of an instruction's syntax, and what builds its operation."""

    syntax: str
    build: Builder

    def match(self, modifiers: tuple[str, ...]) -> Spelling | None:
        """Take the modifiers of an opcode apart, or return None if this form does not allow them."""
        slots = _slots(self.syntax)
        types = tuple(part for part in modifiers if part in _TYPES)
        type_slots = [slot for slot in slots if slot.types]
        if len(types) != len(type_slots) or any(
            part not in slot.options for part, slot in zip(types, type_slots, strict=True)
        ):
            return None
        filled: dict[str, str] = {}
        for part in modifiers:
            if part in _TYPES:
                continue
            slot = next((slot for slot in slots if not slot.types and part in slot.options), None)
            if slot is None or slot.name in filled:
                return None
            filled[slot.name] = part
        if any(slot.name not in filled for slot in slots if not (slot.optional or slot.types)):
            return None
        return Spelling(types, filled)

    def spellings(self) -> Iterator[str]:
        """Yield every sequence of modifiers that this form allows, e.g. ``rn.ftz.f32``."""
        slots = _slots(self.syntax)
        choices = [(*slot.options, *(("",) if slot.optional else ())) for slot in slots]
        for choice in product(*choices):
            yield ".".join(part for part in choice if part)


_PARSED: dict[str, tuple[_Slot, ...]] = {}


def _slots(syntax: str) -> tuple[_Slot, ...]:
    if syntax not in _PARSED:
        _PARSED[syntax] = tuple(_slot(word) for word in syntax.split())
    return _PARSED[syntax]


def _slot(word: str) -> _Slot:
    name = word.rstrip("?")
    options = SLOTS.get(name) or tuple(name.split("|"))
    return _Slot(name, options, word.endswith("?"), options[0] in _TYPES)
