"""Which template line each rendered line comes from.

Template data is marked where a line of the template begins; the marks travel through macros, loops and
filters into the output, where they are read and removed. A mark is a place between two control characters,
which cannot stand in a template.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from jinja2.ext import Extension
from jinja2.lexer import Token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jinja2.lexer import TokenStream

OPEN: Final = "\x02"
CLOSE: Final = "\x03"

_MARK: Final = re.compile(f"{OPEN}([^{CLOSE}]*){CLOSE}")
_LAST_NEWLINE: Final = re.compile(f"\n(?:[ \t]*{OPEN}[^{CLOSE}]*{CLOSE})*\\Z")


class Place(NamedTuple):
    """A line of a template, from 1."""

    template: str
    line: int

    def __str__(self) -> str:
        """Write it as compilers do."""
        return f"{self.template}:{self.line}"


class MarkLines(Extension):
    """Jinja extension that marks each line of template data with its place.

    Marks stand only where a line of the template begins, so that data inside a line (a register name built
    by ``{% set %}``, say) stays what it is.
    """

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Put marks into the data tokens of a template."""
        template = stream.name or "<template>"
        line_of_previous = 0
        for token in stream:
            if token.type != "data":
                line_of_previous = token.lineno
                yield token
                continue
            lines = str(token.value).split("\n")
            marked = [
                f"{OPEN}{template}:{token.lineno + index}{CLOSE}{line}" for index, line in enumerate(lines)
            ]
            if token.lineno == line_of_previous:  # goes on after a tag on the same line
                marked[0] = lines[0]
            line_of_previous = token.lineno + len(lines) - 1
            yield Token(token.lineno, "data", "\n".join(marked))


def without_last_newline(value: object) -> object:
    """Drop the newline that ends a macro's text: the line that calls the macro brings its own."""
    if isinstance(value, str) and "\n" in value:
        return _LAST_NEWLINE.sub("", value)
    return value


@cache
def _place(mark: str) -> Place:
    template, _, line = mark.rpartition(":")
    return Place(template, int(line))


def split_marks(marked: str) -> tuple[list[str], list[Place]]:
    """Separate rendered text into lines without marks and the place of each.

    A line maps to the innermost template line that its first character comes from; a line without any mark
    (the second line of a value) to that of the line before. White space at the end of lines goes.
    """
    text, *rest = _MARK.split(marked)  # text, mark, text, mark ... text
    lines, places = [], []
    place = Place("", 0)
    for mark, following in zip(rest[::2], rest[1::2], strict=True):
        if not text or text.isspace():
            place = _place(mark)
        text += following
        if "\n" in text:
            *finished, text = text.split("\n")
            for line in finished:
                lines.append(line.rstrip())
                places.append(place)
    return [*lines, text.rstrip()], [*places, place]
