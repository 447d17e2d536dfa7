"""The operands of statements. Names are resolved: two registers of one name in two scopes are two objects."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from ptxtemplates.ptx.statements import CallPrototype, TargetList, Variable


class Register(NamedTuple):
    """A register.

    Attributes
    ----------
    name : str
        As written, e.g. ``%row``.
    type : str
        Without the dot, e.g. ``u32`` or ``pred``.
    width : int
        Elements of a vector register (2 or 4), else 1.
    number : int
        From 0, unique in the function: a bit position for bitsets, a slot for an emulator.
    line : int
        Where it is declared.
    """

    name: str
    type: str
    width: int
    number: int
    line: int


class Label(NamedTuple):
    """A label, as a statement where it stands and as the operand of branches.

    Attributes
    ----------
    name : str
        As written; labels of different blocks may share it.
    number : int
        From 0, unique in the function.
    line : int
        Where it stands.
    """

    name: str
    number: int
    line: int


class SpecialRegister(NamedTuple):
    """A special register such as ``%tid.x``: name ``%tid``, type ``u32``, component ``x`` (or None)."""

    name: str
    type: str
    component: str | None


class Immediate(NamedTuple):
    """A constant.

    Attributes
    ----------
    value : int
        An integer's value (negative ones too), or the bits of a float.
    type : str
        ``s64`` or ``u64`` for integers; ``f32`` for ``0f...``, ``f64`` for ``0d...`` and decimal floats.
    """

    value: int
    type: str

    @property
    def number(self) -> int | float:
        """The value as a Python number."""
        if self.type == "f32":
            return float(struct.unpack("<f", self.value.to_bytes(4, "little"))[0])
        if self.type == "f64":
            return float(struct.unpack("<d", self.value.to_bytes(8, "little"))[0])
        return self.value


class Sink(NamedTuple):
    """The bit bucket ``_``: a result nobody wants, or the empty place of a name."""


class Symbol(NamedTuple):
    """A variable, parameter or function named as an operand: its address.

    Attributes
    ----------
    name : str
        As written.
    variable : Variable or None
        What is named; None for a function (find it with `Module.function`).
    offset : int
        Bytes added: ``table+8``.
    element : int or None
        Index of the array-style form ``table[2]``, else None.
    """

    name: str
    variable: Variable | None
    offset: int = 0
    element: int | None = None


class Unresolved(NamedTuple):
    """A name that nothing visible declares; the lint reports it as ``undeclared-name``."""

    name: str


class Element(NamedTuple):
    """A part of a register: a vector's ``.x``, or the byte or half selector of a video instruction."""

    register: Register | Symbol | Unresolved
    component: str


class Negated(NamedTuple):
    """An operand with an operator before it: ``!p``, or the ``-a`` of ``vmad``."""

    operator: str
    operand: Operand


class Pair(NamedTuple):
    """Two results written ``d|p``."""

    first: Operand
    second: Operand


class Vector(NamedTuple):
    """A brace-enclosed list ``{a, b}``, of one element or more."""

    elements: tuple[Operand, ...]


class Arguments(NamedTuple):
    """A parenthesised list of a call: its results or its arguments."""

    elements: tuple[Operand, ...]


class Address(NamedTuple):
    """A bracketed address ``[base+offset]``.

    Attributes
    ----------
    base : Register, Symbol, Unresolved or None
        None for an absolute address.
    offset : int
        Bytes added to it.
    coordinates : tuple
        What follows the base in the brackets of texture, surface and tensor instructions, as in
        ``[tensor, {x, y}]``.
    unified : bool
        Whether ``.unified`` follows the brackets.
    """

    base: Operand | None
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()
    unified: bool = False


Operand: TypeAlias = (
    "Register | SpecialRegister | Immediate | Sink | Symbol | Unresolved | Element | Negated | Pair | Vector"
    " | Arguments | Address | Label | TargetList | CallPrototype"
)

SINK = Sink()
