"""The syntax of declarations: variables, registers, parameters, function headers and prototypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

from ptxtemplates.errors import PtxSyntaxError
from ptxtemplates.ptx.datatypes import OPAQUE_TYPES, TYPE_BITS
from ptxtemplates.ptx.operands import Immediate, Symbol, Unresolved
from ptxtemplates.ptx.statements import InitialAddress, Initializer, Variable
from ptxtemplates.ptx.syntax import Lookup
from ptxtemplates.ptx.tokens import Tokens, immediate, is_name, to_immediate

SPACES = ("reg", "global", "const", "shared", "local", "param", "tex", "sreg")
LINKAGES = ("extern", "visible", "weak", "common")

_DOTTED_SPACES = {f".{space}" for space in SPACES}
_DOTTED_LINKAGES = {f".{linkage}" for linkage in LINKAGES}
_POINTER_SPACES = (".const", ".global", ".local", ".shared")
_WIDTHS = {".v2": 2, ".v4": 4}

InitializerSyntax: TypeAlias = (
    "Immediate | Callable[[Lookup], InitialAddress] | tuple[InitializerSyntax, ...]"
)


class DeclaratorSyntax(NamedTuple):
    """One name of a declaration. `range_size` is N of ``name<N>``; `line` counts from the statement's."""

    name: str
    range_size: int | None
    dimensions: tuple[int, ...]
    initializer: InitializerSyntax | None
    line: int


class DeclarationSyntax(NamedTuple):
    """A declaration of variables; fields as in `Variable`."""

    space: str
    type: str
    width: int
    alignment: int | None
    pointer_space: str | None
    pointer_alignment: int | None
    linkage: str | None
    attributes: tuple[str, ...]
    declarators: tuple[DeclaratorSyntax, ...]

    def variable(self, declarator: DeclaratorSyntax, name: str, line: int, look: Lookup) -> Variable:
        """Make the variable that a declarator declares."""
        initial = declarator.initializer
        return Variable(
            name,
            self.space,
            self.type,
            self.width,
            declarator.dimensions,
            self.alignment,
            self.pointer_space,
            self.pointer_alignment,
            None if initial is None else _initializer(initial, look),
            self.linkage,
            self.attributes,
            line,
        )


class HeaderSyntax(NamedTuple):
    """What stands before a function's body; fields as in `Function`."""

    kind: str
    name: str
    linkage: str | None
    returns: tuple[DeclarationSyntax, ...]
    parameters: tuple[DeclarationSyntax, ...]
    attributes: Mapping[str, tuple[int, ...]]


@lru_cache(maxsize=4096)
def declaration_syntax(statement: str) -> DeclarationSyntax:
    """Parse the text of a declaration, without its semicolon."""
    tokens = Tokens(statement)
    declaration = _declaration(tokens, parameter=False)
    if tokens.peek:
        raise tokens.error("',' or ';'")
    return declaration


@lru_cache(maxsize=1024)
def header_syntax(text: str) -> HeaderSyntax:
    """Parse what stands before a function's body or semicolon."""
    tokens = Tokens(text)
    linkage = _linkage(tokens)
    kind = tokens.expect(".entry", ".func")[1:]
    if tokens.accept(".attribute"):
        _attributes(tokens)
    returns = _parameters(tokens) if kind == "func" else ()
    name = tokens.identifier(f"the name of the .{kind}")
    parameters = _parameters(tokens)
    return HeaderSyntax(kind, name, linkage, returns, parameters, _function_attributes(tokens))


def prototype_syntax(tokens: Tokens) -> HeaderSyntax:
    """Parse a ``.callprototype``: a header without a name."""
    kind = tokens.expect(".callprototype")[1:]
    returns = _parameters(tokens)
    name = tokens.expect("_")
    parameters = _parameters(tokens)
    return HeaderSyntax(kind, name, None, returns, parameters, _function_attributes(tokens))


def pragma_text(tokens: Tokens) -> str:
    """Parse a ``.pragma`` and return its string."""
    tokens.expect(".pragma")
    if not tokens.peek.startswith('"'):
        raise tokens.error("a string such as '\"nounroll\"'")
    text = tokens.take()[1:-1]
    if tokens.peek:
        raise tokens.error("';'")
    return text


def range_size(tokens: Tokens, name: str) -> int | None:
    """Parse the ``<N>`` that may follow a name; None where there is none."""
    if not tokens.accept("<"):
        return None
    # A whole expression would take the closing '>' for a comparison.
    literal = immediate(tokens.peek)
    if literal is None or literal.type not in ("s64", "u64"):
        raise tokens.error(f"a number of names, as in '{name}<10>'")
    tokens.take()
    tokens.expect(">")
    return literal.value


def _linkage(tokens: Tokens) -> str | None:
    linkage = None
    while tokens.peek in _DOTTED_LINKAGES:
        linkage = tokens.take()[1:]
    return linkage


def _parameters(tokens: Tokens) -> tuple[DeclarationSyntax, ...]:
    if not tokens.accept("("):
        return ()
    parameters: list[DeclarationSyntax] = []
    while not tokens.accept(")"):
        if parameters:
            tokens.expect(",", ")")
        parameters.append(_declaration(tokens, parameter=True))
        if tokens.peek not in (",", ")"):
            raise tokens.error("',' or ')' after a parameter")
    return tuple(parameters)


def _function_attributes(tokens: Tokens) -> dict[str, tuple[int, ...]]:
    attributes: dict[str, tuple[int, ...]] = {}
    while tokens.peek:
        if not tokens.peek.startswith("."):
            raise tokens.error("a directive such as '.maxntid', '{' or ';'")
        name = tokens.take()[1:]
        values = []
        if tokens.peek and tokens.peek[0] != ".":
            values.append(tokens.integer(f"a value of .{name}"))
            while tokens.accept(","):
                values.append(tokens.integer(f"a value of .{name}"))
        attributes[name] = tuple(values)
    return attributes


def _attributes(tokens: Tokens) -> tuple[str, ...]:
    """Read what follows ``.attribute``: a list in parentheses, which may contain lists itself."""
    tokens.expect("(")
    attributes = [""]
    depth = 1
    while depth:
        token = tokens.take()
        if not token:
            raise tokens.error("')' after the attributes")
        depth += (token == "(") - (token == ")")
        if depth == 1 and token == ",":
            attributes.append("")
        elif depth:
            attributes[-1] += token
    return tuple(attribute.removeprefix(".") for attribute in attributes)


def _declaration(tokens: Tokens, *, parameter: bool) -> DeclarationSyntax:
    linkage = _linkage(tokens)
    if tokens.peek not in _DOTTED_SPACES:
        raise tokens.error("a state space such as '.reg', '.param' or '.shared'")
    space = tokens.take()[1:]
    alignment = pointer_alignment = None
    pointer_space: str | None = None
    width = 1
    type_ = ""
    attributes: tuple[str, ...] = ()
    while tokens.peek.startswith("."):
        line = tokens.line
        token = tokens.take()
        if token == ".align":
            if pointer_space is None:
                alignment = tokens.integer("an alignment in bytes")
            else:
                pointer_alignment = tokens.integer("an alignment in bytes")
        elif token in _WIDTHS:
            width = _WIDTHS[token]
        elif token == ".ptr":
            pointer_space = tokens.take()[1:] if tokens.peek in _POINTER_SPACES else "generic"
        elif token == ".attribute":
            attributes = _attributes(tokens)
        elif token[1:] in TYPE_BITS or token[1:] in OPAQUE_TYPES:
            type_ = token[1:]
        else:
            raise PtxSyntaxError(f"unknown type or directive {token!r} in a .{space} declaration", line=line)
    if not type_:
        raise tokens.error(f"the type of the .{space} declaration, such as '.b32'")
    declarators = [_declarator(tokens, parameter=parameter)]
    while not parameter and tokens.accept(","):
        declarators.append(_declarator(tokens, parameter=False))
    return DeclarationSyntax(
        space,
        type_,
        width,
        alignment,
        pointer_space,
        pointer_alignment,
        linkage,
        attributes,
        tuple(declarators),
    )


def _declarator(tokens: Tokens, *, parameter: bool) -> DeclaratorSyntax:
    line = tokens.line
    name = tokens.identifier("a name")
    if name == "_" and not parameter:
        raise PtxSyntaxError("'_' names nothing: give the variable a name", line=line)
    count = range_size(tokens, name)
    dimensions = []
    while tokens.accept("["):
        extent = 0 if tokens.peek == "]" else tokens.integer("an array size")
        if extent < 0:
            raise PtxSyntaxError(f"array size of {name} is {extent}: it must not be negative", line=line)
        dimensions.append(extent)
        tokens.expect("]")
    initial = _initial(tokens) if tokens.accept("=") else None
    if isinstance(initial, tuple) and not isinstance(initial, Immediate) and dimensions[:1] == [0]:
        dimensions[0] = len(initial)
    return DeclaratorSyntax(name, count, tuple(dimensions), initial, line)


def _initial(tokens: Tokens) -> InitializerSyntax:
    if tokens.peek != "{":
        return _initial_value(tokens)
    tokens.take()
    tokens.descend(1)
    values: list[InitializerSyntax] = []
    while tokens.peek != "}":
        if values:
            tokens.expect(",")
        values.append(_initial(tokens))
        if tokens.peek not in (",", "}"):
            raise tokens.error("',' or '}' in an initializer")
    tokens.take()
    tokens.descend(-1)
    return tuple(values)


def _initial_value(tokens: Tokens) -> InitializerSyntax:
    if tokens.after == "(" and (mask := immediate(tokens.peek)) is not None:
        tokens.take()
        tokens.take()
        if not is_name(tokens.peek):
            return Immediate(_masked(tokens.integer("a constant"), mask.value, tokens), "u64")
        address = _initial_address(tokens, mask.value)
        tokens.expect(")")
        return address
    if is_name(tokens.peek) and tokens.peek != "WARP_SZ":
        return _initial_address(tokens, None)
    literal = immediate(tokens.peek) if tokens.after in (",", "}", "") else None
    if literal is None:
        return to_immediate(tokens.constant())
    tokens.take()
    return literal


def _masked(value: int, mask: int, tokens: Tokens) -> int:
    tokens.expect(")")
    shift = (mask & -mask).bit_length() - 1 if mask else 0
    return (value & mask) >> shift


def _initial_address(tokens: Tokens, mask: int | None) -> Callable[[Lookup], InitialAddress]:
    generic = tokens.peek == "generic" and tokens.after == "("
    if generic:
        tokens.take()
        tokens.take()
    name = tokens.identifier("a variable or function")
    inner = _offset(tokens) if generic else 0
    if generic:
        tokens.expect(")")
    offset = _offset(tokens)

    def build(look: Lookup) -> InitialAddress:
        symbol = look(name)
        if not isinstance(symbol, Symbol | Unresolved):
            symbol = Unresolved(name)
        if inner and isinstance(symbol, Symbol):
            symbol = Symbol(symbol.name, symbol.variable, inner)
        return InitialAddress(symbol, offset, generic, mask)

    return build


def _offset(tokens: Tokens) -> int:
    if tokens.peek == "-":
        return tokens.integer("a byte offset")
    return tokens.integer("a byte offset") if tokens.accept("+") else 0


def _initializer(initial: InitializerSyntax, look: Lookup) -> Initializer:
    if isinstance(initial, Immediate):
        return initial
    if isinstance(initial, tuple):
        return tuple(_initializer(value, look) for value in cast("tuple[InitializerSyntax, ...]", initial))
    return initial(look)
