"""How much differs between two texts, whatever their lines: comments, names, layout, or more."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ptxtemplates.errors import PtxSyntaxError
from ptxtemplates.ptx.operands import Immediate, Label, Register
from ptxtemplates.ptx.parser import parse
from ptxtemplates.ptx.scanner import Body, Top, body_pattern, module_pattern
from ptxtemplates.ptx.statements import Function, Instruction, Module, RegisterDeclaration, Variable
from ptxtemplates.ptx.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ptxtemplates.review.model import TextKind

_STRING: Final = r'"[^"\n]*+"'
_COMMENT: Final = re.compile(rf"({_STRING})|[ \t]*+(//[^\n]*+|/\*[\s\S]*?\*/)")
_NAME: Final = re.compile(rf"({_STRING})|(?<![\w$%.])[A-Za-z_$%][\w$]*+", re.ASCII)


def kind_of(old: str, new: str) -> TextKind:
    """Say what is the most that differs between two texts.

    Anything weaker than ``instructions`` is said only if both texts parse and have the same instructions,
    directives and tables in the same order, with registers and labels renamed one to one, block by block.

    Parameters
    ----------
    old, new : str
        PTX.
    """
    if old == new:
        return "same"
    try:
        before, after = parse(old), parse(new)
    except PtxSyntaxError:
        return "instructions"
    pairing = _Pairing()
    if not pairing.equal(before, after) or _skeleton(old) != _skeleton(new):
        return "instructions"
    lines, new_lines = _code(old), _code(new)
    if lines == new_lines:
        return "comments"
    return "names" if _only_renamed(lines, new_lines, pairing) else "layout"


class _Pairing:
    """Compares two parsed modules and learns which register, label or variable of one is which of the other.

    Attributes
    ----------
    names : set of (str, str)
        Names of the registers and labels that were found to be each other.
    """

    def __init__(self) -> None:
        self.names: set[tuple[str, str]] = set()
        self._there: dict[object, object] = {}
        self._back: dict[object, object] = {}
        self._function = 0
        self._of_singles = False

    def equal(self, old: Any, new: Any) -> bool:
        """Say whether two parts of the modules are the same, as far as what was learnt before allows it."""
        if old.__class__ is not new.__class__:
            return False
        rule = self._RULES.get(old.__class__)
        if rule is not None:
            return rule(self, old, new)
        if isinstance(old, tuple):
            return self._fields(old, new)
        return bool(old == new)

    def _fields(self, old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
        places = _compared(old.__class__)
        if places is not None:
            return all(self.equal(old[place], new[place]) for place in places)
        return len(old) == len(new) and all(map(self.equal, old, new))

    def _bind(self, old: object, new: object) -> bool:
        return self._there.setdefault(old, new) == new and self._back.setdefault(new, old) == old

    def _module(self, old: Module, new: Module) -> bool:
        # what such names mean is not known, so nothing can be said of them
        faults = (old.undeclared, old.redeclared, new.undeclared, new.redeclared)
        return not any(faults) and self._fields(old, new)

    def _a_function(self, old: Function, new: Function) -> bool:
        self._function += 1
        if any((old.undeclared, old.redeclared, new.undeclared, new.redeclared)):
            return False
        bodies = [
            None if function.body is None else tuple(_without_registers(function)) for function in (old, new)
        ]
        return self._fields(old._replace(body=None), new._replace(body=None)) and self.equal(*bodies)

    def _instruction(self, old: Instruction, new: Instruction) -> bool:
        self._of_singles = old.modifiers[-1:] == ("f32",)
        return self._fields(old, new)

    def _register(self, old: Register, new: Register) -> bool:
        if (old.type, old.width) != (new.type, new.width):
            return False
        self.names.add((old.name, new.name))
        return self._bind((self._function, "register", old.number), (self._function, "register", new.number))

    def _label(self, old: Label, new: Label) -> bool:
        self.names.add((old.name, new.name))
        return self._bind((self._function, "label", old.number), (self._function, "label", new.number))

    def _variable(self, old: Variable, new: Variable) -> bool:
        known = self._there.get(id(old))
        if known is not None:
            return known == id(new)
        return self._bind(id(old), id(new)) and self._fields(old, new)

    def _immediate(self, old: Immediate, new: Immediate) -> bool:
        return self._constant(old) == self._constant(new)

    def _constant(self, immediate: Immediate) -> tuple[int, str]:
        """Return value and type; decimal, hexadecimal and octal spellings of one value are one."""
        value, type_ = immediate
        if type_ in ("s64", "u64"):
            return value, "integer"
        if type_ == "f64" and self._of_singles:
            # only bits of a double that are those of a float with zeros behind: nothing is rounded
            sign, exponent, significand = value >> 63, value >> 52 & 0x7FF, value & ((1 << 52) - 1)
            if not value << 1 & ((1 << 64) - 1):
                return sign << 31, "f32"
            if 1023 - 126 <= exponent <= 1023 + 127 and not significand & ((1 << 29) - 1):
                return sign << 31 | (exponent - 1023 + 127) << 23 | significand >> 29, "f32"
        return value, type_

    _RULES: ClassVar[dict[type, Callable[[_Pairing, Any, Any], bool]]] = {
        Module: _module,
        Function: _a_function,
        Instruction: _instruction,
        Register: _register,
        Label: _label,
        Variable: _variable,
        Immediate: _immediate,
    }


_NOT_COMPARED: Final = frozenset(
    {"line", "end_line", "loc", "registers", "undeclared", "redeclared"}
)  # where something stands, and what follows from the rest


@cache
def _compared(kind: type) -> tuple[int, ...] | None:
    """Return the places of the fields of a named tuple that say what it is; None for a plain tuple."""
    fields: tuple[str, ...] | None = getattr(kind, "_fields", None)
    if fields is None:
        return None
    return tuple(place for place, field in enumerate(fields) if field not in _NOT_COMPARED)


def _without_registers(function: Function) -> Iterator[object]:
    return (statement for statement in function.body or () if not isinstance(statement, RegisterDeclaration))


def _skeleton(text: str) -> list[object]:
    """List what parsing loses: debugging directives, headers, and where each statement stands among them.

    Of a statement the punctuation is kept; declarations of registers and the braces of blocks are left out.
    """
    items: list[object] = []
    position = depth = 0
    while found := (body_pattern() if depth else module_pattern()).match(text, position):
        position, group = found.end(), found.lastindex or 0
        if not depth:
            if group == Top.BRACE:
                items.append(_tokens(found[Top.FUNCTION]))
                depth = int(found[Top.BRACE] == "{")
            elif group in (Top.FILE, Top.LOC, Top.SECTION):
                items.append(_tokens(found[group]))
            elif group == Top.STATEMENT:
                items.append(_punctuation(found[group]))
        elif group == Body.OPEN:
            depth += 1
        elif group == Body.CLOSE:
            depth -= 1
        elif group in (Body.LOC, Body.SECTION):
            items.append(_tokens(found[group]))
        elif group == Body.LABEL:
            items.append(":")
        elif group == Body.STATEMENT and not found[group].startswith(".reg"):
            items.append(_punctuation(found[group]))
    return items


def _tokens(text: str) -> tuple[str, ...]:
    tokens = Tokens(text)
    return tuple(iter(tokens.take, ""))


def _punctuation(statement: str) -> str:
    return "".join(token for token in _tokens(statement) if token in _MARKS)


_MARKS: Final = frozenset("[]{}()|!@,=")


def _code(text: str) -> list[str]:
    """Return the lines without comments; those that hold nothing else are left out."""
    bare = _COMMENT.sub(lambda found: found[1] or "", text)
    return [line for line in bare.split("\n") if line.strip()]


def _only_renamed(old: list[str], new: list[str], pairing: _Pairing) -> bool:
    """Say whether lines are the same but for names that were paired, and declared names that nothing uses."""
    used = {name for pair in pairing.names for name in pair}
    for before, after in zip(old, new, strict=False):
        if before == after:
            continue
        if _NAME.sub(_masked, before) != _NAME.sub(_masked, after):
            return False
        for one, other in zip(_NAME.finditer(before), _NAME.finditer(after), strict=True):
            pair = (one[0], other[0])
            if pair[0] != pair[1] and pair not in pairing.names and not used.isdisjoint(pair):
                return False
    return len(old) == len(new)


def _masked(found: re.Match[str]) -> str:
    return found[1] or "%"
