"""Which template line each rendered line comes from.

Before a template is compiled, an empty piece of output is put where each of its lines begins: a `Mark`, a
string of length 0 that knows its place. Joining output notes where the marks stand, so that text made of
template data is a `Traced` string: to every test, filter and comparison the plain text it is, and beside that
a list of places.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.filters import do_indent
from jinja2.lexer import Token
from jinja2.visitor import NodeTransformer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jinja2.lexer import TokenStream

BEGINS_LINE: Final = "\x02"
"""Stands before template data that begins a line, from the lexer to the parser. No template may hold it."""


class Place(NamedTuple):
    """A line of a template, from 1."""

    template: str
    line: int

    def __str__(self) -> str:
        """Write it as compilers do."""
        return f"{self.template}:{self.line}"


class Mark(str):
    """An empty string that marks a place."""

    __slots__ = ("place",)

    place: Place

    def __str__(self) -> str:
        """Stay what it is: compiled templates call ``str`` on all they put out."""
        return self


class Traced(str):
    """Text made of template data: a string, and the offsets at which lines of templates begin in it."""

    __slots__ = ("marks",)

    marks: list[tuple[int, Place]]

    def __str__(self) -> str:
        """Stay what it is: compiled templates call ``str`` on all they put out."""
        return self


def traced(text: str, marks: list[tuple[int, Place]]) -> Traced:
    """Make text that knows its places."""
    result = Traced(text)
    result.marks = marks
    return result


def concatenate(pieces: Iterable[str]) -> Traced:
    """Join pieces of output as Jinja does, and note where marks stand."""
    texts: list[str] = []
    marks: list[tuple[int, Place]] = []
    length = 0
    for piece in pieces:
        if isinstance(piece, Mark):
            marks.append((length, piece.place))
            continue
        if isinstance(piece, Traced):
            marks += [(length + offset, place) for offset, place in piece.marks]
        texts.append(piece)
        length += len(piece)
    return traced("".join(texts), marks)


def without_last_newline(value: object) -> object:
    """Drop the newline that ends a macro's text: the line that calls the macro brings its own."""
    if isinstance(value, Traced) and value.endswith("\n"):
        end = len(value) - 1
        return traced(value[:end], [mark for mark in value.marks if mark[0] <= end])
    return value


def indent(value: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Do what Jinja's filter of this name does, and keep the places."""
    text = do_indent(str.__str__(value), width, first, blank)
    if not isinstance(value, Traced):
        return text
    # in each line what was added stands at its start: a mark keeps its distance to the end of its line
    starts, moved = [0], [0]
    for old, new in zip(value.split("\n"), text.split("\n"), strict=True):
        starts.append(starts[-1] + len(old) + 1)
        moved.append(moved[-1] + len(new) + 1)
    marks, line = [], 0
    for offset, place in value.marks:
        while offset >= starts[line + 1]:
            line += 1
        marks.append((moved[line + 1] - (starts[line + 1] - offset), place))
    return traced(text, marks)


class MarkLines(Extension):
    """Tells data that begins a line of the template from data that goes on after a tag: the parser cannot."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Put `BEGINS_LINE` before data that does."""
        line_of_previous = 0
        for token in stream:
            line = token.lineno
            if token.type == "data":
                if line > line_of_previous:
                    token = Token(line, "data", BEGINS_LINE + str(token.value))
                line += str(token.value).count("\n")
            line_of_previous = line
            yield token


class PutMarks(NodeTransformer):
    """Puts a mark before each line of the data of a parsed template."""

    def __init__(self, template: str) -> None:
        self.template = template

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        """Split the data in one piece of output into lines."""
        parts: list[nodes.Expr] = []
        for child in node.nodes:
            if not isinstance(child, nodes.TemplateData):
                parts.append(self.visit(child))
                continue
            lines = child.data.removeprefix(BEGINS_LINE).splitlines(keepends=True) or [""]
            lines += [""] if lines[-1].endswith("\n") else []
            for index, line in enumerate(lines):
                number = child.lineno + index
                if index or child.data.startswith(BEGINS_LINE):
                    parts.append(nodes.EnvironmentAttribute(mark_name(self.template, number), lineno=number))
                if line:
                    parts.append(nodes.TemplateData(line, lineno=number))
        node.nodes = parts
        return node


def mark_name(template: str, line: int) -> str:
    """Return the attribute of the environment that holds the mark of a line, an identifier."""
    return f"line_{line}_of_{template.encode(errors='surrogatepass').hex()}"


@cache
def _mark(template: str, line: int) -> Mark:
    mark = Mark()
    mark.place = Place(template, line)
    return mark


def marks_of(template: str, lines: int) -> dict[str, Any]:
    """Return the attributes that an environment needs for a template of so many lines."""
    return {mark_name(template, line): _mark(template, line) for line in range(1, lines + 2)}


def places_of(text: Traced) -> list[Place]:
    """Return the place of each line of a text.

    That is the last mark before the line's first visible character, which is the innermost: a macro's line
    rather than the line that calls it. A line without a mark of its own (the second line of a value) has that
    of the line before.
    """
    places = []
    place = Place("", 0)
    marks = iter([*text.marks, (len(text) + 1, place)])
    offset, following = next(marks)
    start = 0
    for line in text.split("\n"):
        visible = start + len(line) - len(line.lstrip())
        while offset <= visible:
            place = following
            offset, following = next(marks)
        places.append(place)
        start += len(line) + 1
        while offset < start:  # marks within the line do not count
            offset, following = next(marks)
    return places
