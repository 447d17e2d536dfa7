"""Which template line each rendered line comes from.

Before a template is compiled, an empty piece of output is put before each run of its lines: a `Mark`, a
string of length 0 that knows its place. Joining output notes where the marks stand, so that text made of
template data is a `Traced` string: to every test, filter and comparison the plain text that it is, and beside
that a list of places.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

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
    """An empty string that marks where a run of lines of a template begins."""

    __slots__ = ("lines", "place")

    place: Place
    lines: int

    def __str__(self) -> str:
        """Stay what it is: compiled templates call ``str`` on all they put out."""
        return self


class Traced(str):
    """Text made of template data: a string, and the offsets at which marks stand in it."""

    __slots__ = ("marks",)

    marks: list[tuple[int, Mark]]

    def __str__(self) -> str:
        """Stay what it is: compiled templates call ``str`` on all they put out."""
        return self


def traced(text: str, marks: list[tuple[int, Mark]]) -> Traced:
    """Make text that knows its places."""
    result = Traced(text)
    result.marks = marks
    return result


def concatenate(pieces: Iterable[str]) -> Traced:
    """Join pieces of output as Jinja does, and note where marks stand."""
    texts: list[str] = []
    marks: list[tuple[int, Mark]] = []
    length = 0
    for piece in pieces:
        if piece.__class__ is not str:
            if isinstance(piece, Mark):
                marks.append((length, piece))
                continue
            if isinstance(piece, Traced):
                marks += [(length + offset, mark) for offset, mark in piece.marks]
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
    if not isinstance(value, Traced) or value.count("\n") != text.count(
        "\n"
    ):  # U+2028 ends a line for the filter
        return text
    # in each line what was added stands at its start: a mark keeps its distance to the end of its line
    ends, moved = [], []
    end = moved_end = -1
    for old, new in zip(value.split("\n"), text.split("\n"), strict=True):
        end, moved_end = end + len(old) + 1, moved_end + len(new) + 1
        ends.append(end)
        moved.append(moved_end)
    marks, line = [], 0
    for offset, mark in value.marks:
        while offset > ends[line]:
            line += 1
        marks.append((moved[line] - (ends[line] - offset), mark))
    return traced(text, marks)


class MarkLines(Extension):
    """Tells data that begins a line of the template from data that goes on after a tag: the parser cannot."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Put `BEGINS_LINE` before data that does."""
        line_of_previous, after_tag = 0, False  # the newline behind a tag belongs to the tag
        for token in stream:
            line = token.lineno
            begins = line > line_of_previous or after_tag
            if token.type == "variable_begin" and begins:
                yield Token(line, "data", BEGINS_LINE)
            if token.type == "data":
                if begins:
                    token = Token(line, "data", BEGINS_LINE + str(token.value))
                line += str(token.value).count("\n")
            line_of_previous, after_tag = line, token.type == "block_end"
            yield token


class PutMarks(NodeTransformer):
    """Puts marks into the data of a parsed template.

    Attributes
    ----------
    runs : dict of str to tuple of int
        For each mark, the attribute of the environment that must hold it: line and number of lines.
    """

    def __init__(self, template: str) -> None:
        self.template = template
        self.runs: dict[str, tuple[int, int]] = {}

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        """Put a mark where the first line of each piece of data begins: the others follow it."""
        parts: list[nodes.Expr] = []
        for child in node.nodes:
            if not isinstance(child, nodes.TemplateData):
                parts.append(self.visit(child))
                continue
            data = child.data.removeprefix(BEGINS_LINE)
            start = 0 if child.data != data else data.find("\n") + 1
            if start or child.data != data:
                parts.append(nodes.TemplateData(data[:start], lineno=child.lineno))
                line = child.lineno + data.count("\n", 0, start)
                parts.append(self._mark(line, data.count("\n", start) + 1))
            parts.append(nodes.TemplateData(data[start:], lineno=child.lineno))
        node.nodes = parts
        return node

    def _mark(self, line: int, lines: int) -> nodes.Expr:
        name = f"run_of_{lines}_at_{line}_in_{self.template.encode(errors='surrogatepass').hex()}"
        self.runs[name] = (line, lines)
        return nodes.EnvironmentAttribute(name, lineno=line)


def marks_of(template: str, runs: dict[str, tuple[int, int]]) -> dict[str, Mark]:
    """Return the marks of a template, by the attributes that its environment needs."""
    marks = {}
    for name, (line, lines) in runs.items():
        mark = marks[name] = Mark()
        mark.place, mark.lines = Place(template, line), lines
    return marks


@cache
def _place(template: str, line: int) -> Place:
    return Place(template, line)


def places_of(text: Traced) -> list[Place]:
    """Return the place of each line of a text.

    The last mark before the line's first visible character decides: the innermost, a macro's line rather
    than the line that calls it. A line without a mark follows the one before in the same run; behind the end
    of the run (the second line of a value) it has the same place.
    """
    places = []
    template, number, left = "", 0, 0
    marks = iter([*text.marks, (len(text) + 1, Mark())])
    offset, mark = next(marks)
    start = 0
    for line in text.split("\n"):
        visible = start + len(line) - len(line.lstrip())
        if offset > visible:
            if left:
                number, left = number + 1, left - 1
        else:
            while offset <= visible:
                (template, number), left = mark.place, mark.lines - 1
                offset, mark = next(marks)
        places.append(_place(template, number))
        start += len(line) + 1
        while offset < start:  # begins within the line: the lines that follow are its
            (template, number), left = mark.place, mark.lines - 1
            offset, mark = next(marks)
    return places
