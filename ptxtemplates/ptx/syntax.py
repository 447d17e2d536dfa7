"""The syntax of one statement, with names still unresolved. Kept by text: kernels repeat their statements."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from types import FunctionType
from typing import ClassVar, NamedTuple, TypeAlias, cast

from ptxtemplates.ptx.operands import (
    SINK,
    Address,
    Arguments,
    Element,
    Immediate,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    Symbol,
    Unresolved,
    Vector,
)
from ptxtemplates.ptx.registers import SPECIAL_REGISTERS
from ptxtemplates.ptx.tokens import Tokens, immediate, is_name, to_immediate

Lookup: TypeAlias = "Callable[[str], Operand]"
Build: TypeAlias = "Callable[[Lookup], Operand]"
OperandSyntax: TypeAlias = "str | Immediate | Sink | Build"
"""A name, a constant, or a function that makes the operand once names can be looked up."""

_CLOSING = frozenset({",", "]", ")", "}", ""})


class InstructionSyntax(NamedTuple):
    """An instruction before its names are resolved; fields as in `Instruction`."""

    guard: str | None
    negated: bool
    opcode: str
    modifiers: tuple[str, ...]
    text: str
    operands: tuple[OperandSyntax, ...]
    labelled: bool


# Opcodes with an operand that may name a label defined further down.
_LABELLED = frozenset({"bra", "brx", "call"})


@cache
def _head_pattern() -> re.Pattern[str]:
    return re.compile(
        r"(?>(?:@\s*+(!?)\s*+([A-Za-z_$%][\w$]*+))?)\s*+([A-Za-z]\w*+)((?>(?:\s*+\.[\w:]++)*))(?![\w$%.])",
        re.ASCII,
    )


@cache
def _comment_pattern() -> re.Pattern[str]:
    return re.compile(r"//[^\n]*+|/\*[\s\S]*?\*/")


def without_comments(text: str) -> str:
    """Replace each comment by the line breaks it contains and a space."""
    if "/" not in text:
        return text
    return _comment_pattern().sub(lambda match: " " + "\n" * match[0].count("\n"), text)


@lru_cache(maxsize=16384)
def instruction_syntax(statement: str) -> InstructionSyntax:
    """Parse an instruction.

    Parameters
    ----------
    statement : str
        Its text, without the semicolon; comments may be inside.

    Raises
    ------
    PtxSyntaxError
        With a line counted from 0 at the start of the statement.
    """
    text = without_comments(statement)
    head = _head_pattern().match(text)
    if head is None:
        raise Tokens(text).error("an instruction such as 'add.s32 %a, %b, 1'")
    guard = head[2]
    opcode = head[3]
    modifiers = "".join(head[4].split())
    tokens = Tokens(text)
    while tokens.offset < head.end():
        tokens.take()
    operands = []
    if tokens.peek:
        reader = _Operands(tokens, grouped=opcode == "call")
        operands.append(reader.operand())
        while tokens.peek:
            tokens.expect(",")
            operands.append(reader.operand())
    return InstructionSyntax(
        guard,
        head[1] == "!",
        opcode,
        tuple(modifiers.split(".")[1:]),
        opcode + modifiers,
        tuple(operands),
        opcode in _LABELLED,
    )


def resolve(operand: OperandSyntax, look: Lookup) -> Operand:
    """Make an operand, looking names up."""
    if isinstance(operand, str):
        return look(operand)
    if isinstance(operand, FunctionType):
        return cast("Build", operand)(look)
    return cast("Operand", operand)


class _Operands:
    """Reads the operands of one instruction."""

    def __init__(self, tokens: Tokens, *, grouped: bool) -> None:
        self._tokens = tokens
        # In a call, parentheses hold a list; elsewhere they are part of a constant expression.
        self._grouped = grouped

    def operand(self) -> OperandSyntax:
        token = self._tokens.peek
        reader = self._READERS.get(token)
        if reader is not None:
            return reader(self)
        if is_name(token):
            return self._named()
        if self._tokens.after in _CLOSING:
            literal = immediate(token)
            if literal is not None:
                self._tokens.take()
                return literal
        return to_immediate(self._tokens.constant())

    def _list(self, closing: str, what: str) -> tuple[OperandSyntax, ...]:
        tokens = self._tokens
        tokens.take()
        tokens.descend(1)
        elements = []
        if not (closing == ")" and tokens.peek == closing):
            elements.append(self.operand())
            while tokens.peek != closing:
                if not tokens.accept(","):
                    raise tokens.error(f"',' or {closing!r} in {what}")
                elements.append(self.operand())
        tokens.take()
        tokens.descend(-1)
        return tuple(elements)

    def _vector(self) -> OperandSyntax:
        elements = self._list("}", "a vector")
        return lambda look: Vector(tuple(resolve(element, look) for element in elements))

    def _group(self) -> OperandSyntax:
        if not self._grouped:
            return to_immediate(self._tokens.constant())
        elements = self._list(")", "a list of arguments")
        return lambda look: Arguments(tuple(resolve(element, look) for element in elements))

    def _prefixed(self) -> OperandSyntax:
        if not is_name(self._tokens.after) or self._tokens.after == "WARP_SZ":
            return to_immediate(self._tokens.constant())
        operator = self._tokens.take()
        operand = self._named()
        return lambda look: Negated(operator, resolve(operand, look))

    def _address(self) -> OperandSyntax:
        tokens = self._tokens
        tokens.take()
        tokens.descend(1)
        base: OperandSyntax | None = None
        offset = 0
        if is_name(tokens.peek) and tokens.peek != "WARP_SZ":
            base = self._plain_name()
            if tokens.accept("+") or tokens.peek == "-":
                offset = tokens.integer("a byte offset")
        else:
            offset = tokens.integer("an address")
        coordinates = []
        while tokens.accept(","):
            coordinates.append(self.operand())
        if not tokens.accept("]"):
            raise tokens.error("']' after the address")
        tokens.descend(-1)
        unified = tokens.accept(".unified")
        if not coordinates and not unified and isinstance(base, str):
            name = base
            return lambda look: Address(look(name), offset)
        rest = tuple(coordinates)
        return lambda look: Address(
            None if base is None else resolve(base, look),
            offset,
            tuple(resolve(coordinate, look) for coordinate in rest),
            unified,
        )

    def _plain_name(self) -> OperandSyntax:
        """Read a name and, if there is one, the component after it."""
        name = self._tokens.identifier("a name")
        if name == "_":
            return SINK
        if self._tokens.peek[:1] != ".":
            return name
        component = self._tokens.take()[1:].strip()
        return lambda look: _component(look, name, component)

    def _named(self) -> OperandSyntax:
        tokens = self._tokens
        if tokens.peek == "WARP_SZ":
            return to_immediate(tokens.constant())
        name = self._plain_name()
        if tokens.accept("|"):
            second = self._plain_name()
            return lambda look: Pair(resolve(name, look), resolve(second, look))
        if not isinstance(name, str) or tokens.peek not in ("+", "-", "["):
            return name
        if tokens.accept("["):
            element = tokens.integer("an array index")
            tokens.expect("]")
            return lambda look: _displaced(look(name), 0, element)
        if tokens.peek == "+":
            tokens.take()
        offset = tokens.integer("a byte offset")
        return lambda look: _displaced(look(name), offset, None)

    _READERS: ClassVar[dict[str, Callable[[_Operands], OperandSyntax]]] = {
        "{": _vector,
        "(": _group,
        "[": _address,
        "!": _prefixed,
        "-": _prefixed,
    }


def _component(look: Lookup, name: str, component: str) -> Operand:
    operand = look(name)
    if isinstance(operand, SpecialRegister):
        letters = SPECIAL_REGISTERS[name].components
        # The colour names of vector elements are synonyms (ISA, "Vectors as Operands").
        canonical = component.translate(_COLOURS)
        if len(canonical) == 1 and canonical in letters:
            return SpecialRegister(name, operand.type, canonical)
        return look(f"{name}.{component}")
    if isinstance(operand, Register | Symbol | Unresolved):
        return Element(operand, component)
    return look(f"{name}.{component}")


_COLOURS = str.maketrans("rgba", "xyzw")


def _displaced(operand: Operand, offset: int, element: int | None) -> Operand:
    if isinstance(operand, Symbol):
        return Symbol(operand.name, operand.variable, offset, element)
    return Address(operand, offset) if element is None else Address(operand, element)
