"""PTX lines as HTML: syntax colours, and what changed within a line."""

from __future__ import annotations

from functools import cache
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pygments.lexer import inherit, words
from pygments.lexers.ptx import PtxLexer
from pygments.token import Comment, Keyword, Name, Number, String

from ptxtemplates.review.wording import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ptxtemplates.review.page.rows import Ranges

    Piece = tuple[str, str]
    """Class, which may be empty, and text."""


class _Lexer(PtxLexer):  # type: ignore[misc]  # Pygments has no types
    """Pygments' lexer with what it lacks: ``/* */``, hex floats, names that begin like opcodes."""

    tokens = {  # noqa: RUF012 - the name and the type are Pygments'
        "root": [
            (r"//[^\n]*", Comment),
            (r"/\*(?:[^*]|\*(?!/))*(?:\*/)?", Comment),
            (r"0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b", Number),
            (r"%[\w$]+(?:\.[xyzw]\b)?", Name.Variable),
            (r"[a-z][a-z0-9]*(?=[.:]{1,2}[a-z0-9])", Keyword),
            (words(("bra", "brkpt", "call", "exit", "ret", "trap"), suffix=r"(?![\w$])"), Keyword),
            (r"[A-Za-z_$][\w$]*(?=[ \t]*:(?!:))", Name.Label),
            (r"[A-Za-z_$][\w$]*", Name),
            (
                words(
                    (
                        *(".address_size", ".align", ".const", ".entry", ".extern", ".file", ".func"),
                        *(".loc", ".maxnreg", ".maxntid", ".minnctapersm", ".pragma", ".reg", ".reqntid"),
                        *(".section", ".target", ".version", ".visible", ".weak"),
                    ),
                    suffix=r"(?![\w$])",
                ),
                Keyword.Reserved,
            ),
            (r"(?:\.|::)[a-z0-9_]+", Keyword.Type),
            inherit,
        ]
    }


CLASSES: Final = (
    (Comment, "c"),
    (Keyword.Type, "t"),
    (Keyword.Pseudo, "d"),
    (Keyword.Reserved, "d"),
    (Keyword, "k"),
    (Name.Label, "l"),
    (Number, "m"),
    (String, "m"),
)
"""Classes of the page's style sheet; registers and other names have the colour of text."""


def coloured(text: str) -> list[list[Piece]]:
    """Return the pieces of each line of a text; joined, they are the line."""
    lines: list[list[Piece]] = [[]]
    # not get_tokens: it takes a carriage return for the end of a line
    for _, token, piece in _Lexer().get_tokens_unprocessed(text.removesuffix("\n")):
        name = _class_of(token)
        for index, part in enumerate(piece.split("\n")):
            if index:
                lines.append([])
            if not part:
                continue
            if lines[-1] and (lines[-1][-1][0] == name or not part.strip()):
                before, start = lines[-1].pop()
                lines[-1].append((before, start + part))
            else:
                lines[-1].append((name, part))
    return lines


@cache
def _class_of(token: Any) -> str:
    return next((name for kind, name in CLASSES if token in kind), "")


def html_of(pieces: Iterable[Piece], changed: Ranges = ()) -> str:
    """Return a line as HTML, with ``mark`` around the columns that changed."""
    found: list[str] = []
    open_mark = False
    for name, text, marked in _cut(pieces, changed):
        if marked != open_mark:
            found.append("<mark>" if marked else "</mark>")
            open_mark = marked
        shown = escape("\t".join(map(visible, text.split("\t"))))
        found.append(f"<span class={name}>{shown}</span>" if name else shown)
    if open_mark:
        found.append("</mark>")
    return "".join(found)


def _cut(pieces: Iterable[Piece], changed: Ranges) -> Iterator[tuple[str, str, bool]]:
    """Cut pieces where a change begins or ends."""
    bounds = sorted({column for pair in changed for column in pair})
    at = 0
    for name, text in pieces:
        end = at + len(text)
        cuts = [at, *(column for column in bounds if at < column < end), end]
        for start, stop in pairwise(cuts):
            marked = any(first <= start and stop <= last for first, last in changed)
            yield name, text[start - at : stop - at], marked
        at = end
