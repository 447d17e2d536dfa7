"""Tokens of one PTX statement, and the constant expressions made of them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TypeAlias

from ptxtemplates.errors import PtxSyntaxError
from ptxtemplates.ptx.operands import Immediate

WARP_SIZE = 32
"""Value of the predefined constant ``WARP_SZ``."""

# Nesting of parentheses and braces that no real PTX reaches; it keeps recursion bounded on any input.
_MAX_DEPTH = 32

Value: TypeAlias = "tuple[int | float, bool]"
"""A constant expression's value, and whether its type is unsigned."""


@cache
def _token_pattern() -> re.Pattern[str]:
    return re.compile(
        r"""\s*+(?>(?://[^\n]*+\s*+|/\*[\s\S]*?\*/\s*+)*)
        (0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]++U?\b|0[bB][01]++U?\b
        |(?:\d++\.\d*+|\.\d++)(?:[eE][+-]?\d++)?|\d++[eE][+-]?\d++\b|\d++U?\b
        |[A-Za-z_$%][\w$]*+
        |\.\s*+[A-Za-z_][\w:]*+
        |"[^"\n]*+"
        |<<|>>|<=|>=|==|!=|&&|\|\||[^\s]|\Z)""",
        re.VERBOSE | re.ASCII,
    )


class Tokens:
    """The tokens of one statement, read from left to right.

    Parameters
    ----------
    text : str
        The statement; comments count as white space.
    """

    __slots__ = ("_depth", "_next", "_offsets", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._offsets: list[int] = []
        # the last match, at the end and behind comments there, is the empty token that ends every statement
        for match in _token_pattern().finditer(text):
            self._tokens.append(match[1])
            self._offsets.append(match.start(1))
        self._next = 0
        self._depth = 0

    @property
    def peek(self) -> str:
        """The token to be read next; empty at the end."""
        return self._tokens[self._next]

    @property
    def after(self) -> str:
        """The token after the next one."""
        return self._tokens[min(self._next + 1, len(self._tokens) - 1)]

    @property
    def offset(self) -> int:
        """Where the next token starts in the text."""
        return self._offsets[self._next]

    @property
    def line(self) -> int:
        """Line of the next token, counted from 0 at the start of the statement."""
        return self._text.count("\n", 0, self._offsets[self._next])

    def take(self) -> str:
        """Read one token."""
        token = self._tokens[self._next]
        if token:
            self._next += 1
        return token

    def accept(self, token: str) -> bool:
        """Read the next token if it is the one given."""
        if self._tokens[self._next] != token:
            return False
        self._next += 1
        return True

    def expect(self, *tokens: str) -> str:
        """Read one of the tokens given."""
        if self.peek not in tokens:
            raise self.error(" or ".join(repr(token) for token in tokens))
        return self.take()

    def identifier(self, what: str) -> str:
        """Read a name."""
        if not is_name(self.peek):
            raise self.error(what)
        return self.take()

    def integer(self, what: str) -> int:
        """Read a constant integer expression."""
        line = self.line
        value, _ = self.constant()
        if isinstance(value, float):
            raise PtxSyntaxError(f"expected {what}, found the float {value}", line=line)
        return value

    def error(self, expected: str) -> PtxSyntaxError:
        """Make the error for a next token that is not what is expected."""
        found = repr(self.peek) if self.peek else "the end of the statement"
        return PtxSyntaxError(f"expected {expected}, found {found}", line=self.line)

    def descend(self, step: int) -> None:
        """Count nesting in (1) and out (-1)."""
        self._depth += step
        if self._depth > _MAX_DEPTH:
            raise PtxSyntaxError(f"nested more than {_MAX_DEPTH} deep: write it flatter", line=self.line)

    def constant(self, minimum: int = 0) -> Value:
        """Read a constant expression (ISA, "Constant Expressions").

        Parameters
        ----------
        minimum : int
            Precedence of the loosest operator to read.
        """
        self.descend(1)
        value = self._unary()
        while (precedence := _PRECEDENCE.get(self.peek, -1)) >= minimum:
            line = self.line
            operator = self.take()
            value = _combine(operator, value, self.constant(precedence + 1), line)
        if minimum == 0 and self.accept("?"):
            chosen = self.constant()
            self.expect(":")
            other = self.constant()
            value = chosen if value[0] else other
        self.descend(-1)
        return value

    def _unary(self) -> Value:
        token = self.peek
        if token in _UNARY:
            line = self.line
            self.take()
            return _combine("u" + token, (0, False), self._nested_unary(), line)
        if token == "(":
            self.take()
            if self.peek in (".s64", ".u64"):
                cast = self.take()
                self.expect(")")
                number, _ = self._nested_unary()
                return _wrap(number, cast == ".u64")
            value = self.constant()
            self.expect(")")
            return value
        if token == "WARP_SZ":
            self.take()
            return WARP_SIZE, False
        if token[:1].isdigit() or (token[:1] == "." and token[1:2].isdigit()):
            line = self.line
            self.take()
            literal = immediate(token)
            if literal is None:
                raise PtxSyntaxError(f"{token} is no number: an integer has at most 64 bits", line=line)
            if literal.type == "f32":
                raise PtxSyntaxError(f"{token} cannot be part of an expression: write its value", line=line)
            return literal.number, literal.type == "u64"
        raise self.error("an operand")

    def _nested_unary(self) -> Value:
        self.descend(1)
        value = self._unary()
        self.descend(-1)
        return value


def is_name(token: str) -> bool:
    """Say whether a token is a name (or ``_``)."""
    first = token[:1]
    return first == "_" or (first.isascii() and first.isalpha()) or (first in ("$", "%") and len(token) > 1)


@lru_cache(maxsize=8192)
def immediate(token: str) -> Immediate | None:
    """Read a literal without a sign; None if the token is none."""
    prefix = token[:2].lower()
    if prefix == "0f" and len(token) == 10:
        return Immediate(int(token[2:], 16), "f32")
    if prefix == "0d" and len(token) == 18:
        return Immediate(int(token[2:], 16), "f64")
    digits = token.removesuffix("U")
    # A longer literal cannot fit 64 bits, whatever its base; int() would refuse a very long one by itself.
    if digits.isdigit() and digits.isascii() and len(digits) <= 24:
        if digits[0] == "0" and digits.strip("01234567"):
            return None
        return _integer(int(digits, 8 if digits[0] == "0" else 10), digits != token)
    if prefix in ("0x", "0b") and len(token) <= 80:
        try:
            return _integer(int(digits, 0), digits != token)
        except ValueError:
            return None
    if re.fullmatch(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", token, re.ASCII):
        return float_immediate(float(token))
    return None


def _integer(value: int, unsigned: bool) -> Immediate | None:
    if value >= 1 << 64:
        return None
    return Immediate(value, "u64" if unsigned or value >= 1 << 63 else "s64")


def float_immediate(value: float) -> Immediate:
    """Make the constant for a decimal float, which PTX holds as a double."""
    return Immediate(int.from_bytes(struct.pack("<d", value), "little"), "f64")


def to_immediate(value: Value) -> Immediate:
    """Make the constant for the value of an expression."""
    number, unsigned = value
    return (
        float_immediate(number)
        if isinstance(number, float)
        else Immediate(number, "u64" if unsigned else "s64")
    )


def _wrap(number: int | float, unsigned: bool) -> Value:
    if isinstance(number, float):
        return number, False
    number &= (1 << 64) - 1
    return (number if unsigned or number < 1 << 63 else number - (1 << 64)), unsigned


def _combine(operator: str, left: Value, right: Value, line: int) -> Value:
    a, b = left[0], right[0]
    floats = isinstance(a, float), isinstance(b, float)
    if operator in _FLOAT_TOO and (floats == (True, True) or (operator[0] == "u" and floats[1])):
        unsigned = False
    elif any(floats):
        raise PtxSyntaxError(
            f"operator {operator.removeprefix('u')!r} cannot mix or take floats: use integers", line=line
        )
    else:
        unsigned = left[1] or right[1]
        if unsigned:
            a, b = _wrap(a, True)[0], _wrap(b, True)[0]
    if operator in ("/", "%") and b == 0:
        raise PtxSyntaxError("constant expression divides by zero", line=line)
    return _wrap(_OPERATORS[operator](a, b), _UNSIGNED_RESULT.get(operator, unsigned))


def _divide(a: int, b: int) -> int | float:
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_MASK = (1 << 64) - 1
_OPERATORS: dict[str, Callable[..., int | float]] = {
    "u+": lambda _, b: b,
    "u-": lambda _, b: -b,
    "u!": lambda _, b: int(not b),
    "u~": lambda _, b: ~b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: (a & _MASK) % (b & _MASK),
    "<<": lambda a, b: a << min(b & _MASK, 64),
    ">>": lambda a, b: a >> min(b & _MASK, 64),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "&": lambda a, b: a & b,
    "^": lambda a, b: a ^ b,
    "|": lambda a, b: a | b,
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
}
_UNARY = ("+", "-", "!", "~")
_FLOAT_TOO = frozenset({"u+", "u-", "+", "-", "*", "/", "<", ">", "<=", ">=", "==", "!="})
# Loosest first, as in C.
_PRECEDENCE = {
    operator: level
    for level, operators in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"),
    )
    for operator in operators.split()
}
_UNSIGNED_RESULT = {
    "u!": False,
    "u~": True,
    "<": False,
    ">": False,
    "<=": False,
    ">=": False,
    "==": False,
    "!=": False,
    "&&": False,
    "||": False,
}
