"""Changed lines, and whole texts side by side, as HTML.

The rows are made here and not in the page's template: there are tens of thousands, and few kinds of them. A
row is a ``div`` with four cells, number and line of either text, and a fifth for the template line.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

from ptxtemplates.review.page.colours import coloured, html_of
from ptxtemplates.review.page.rows import lines_of, marks, pairs, rows_of, runs_of
from ptxtemplates.review.wording import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ptxtemplates.review.model import Hunk, Side
    from ptxtemplates.review.page.colours import Piece
    from ptxtemplates.review.page.rows import Ranges, Row

    Numbered = Sequence[tuple[int, str]]
    Place = tuple[str, int]

NOWHERE = "<b></b><span></span>"
"""Number and line where a text has none."""


class Run(NamedTuple):
    """Rows that are shown, or folded away, together; `length` is how many."""

    folded: bool
    length: int
    rows: Markup


def side_by_side(old: Side, new: Side) -> list[Run]:
    """Return all lines of two texts."""
    old_lines, new_lines = lines_of(old.text), lines_of(new.text)
    old_pieces, new_pieces = coloured(old.text), coloured(new.text)
    names = short_names(file for file, _ in new.places or ())

    def place(row: Row) -> str:
        if row.new is None or new.places is None or row.new > len(new.places):
            return ""
        file, line = new.places[row.new - 1]
        return f"{names[file]}:{line}"

    def rendered(row: Row) -> str:
        changed_old: Ranges = ()
        changed_new: Ranges = ()
        if row.old and row.new and not row.same:
            changed_old, changed_new = marks(old_lines[row.old - 1], new_lines[row.new - 1])
        before = html_of(old_pieces[row.old - 1], changed_old) if row.old else None
        after = html_of(new_pieces[row.new - 1], changed_new) if row.new else None
        return _row(row, before, after, place(row))

    return [
        Run(run.folded, len(run.rows), Markup("\n".join(map(rendered, run.rows))))
        for run in runs_of(rows_of(old_lines, new_lines))
    ]


def _row(row: Row, before: str | None, after: str | None, place: str) -> str:
    kind = "s" if row.same else "x" if row.old and row.new else "g" if row.old else "a"
    old_tag, new_tag = ("code", "code") if row.same else ("del", "ins")
    left = f"<b>{row.old}</b><{old_tag}>{before}</{old_tag}>" if row.old else NOWHERE
    right = f"<b>{row.new}</b><{new_tag}>{after}</{new_tag}>" if row.new else NOWHERE
    origin = f"<i>{escape(visible(place))}</i>" if place else ""
    return f"<div class={kind}>{left}{right}{origin}</div>"


def hunk_rows(hunk: Hunk) -> Markup:
    """Return the rows of lines that changed together, those that are gone above those that came."""
    old, new = [line for _, line in hunk.old_lines], [line for _, line in hunk.new_lines]
    changed_old: dict[int, Ranges] = {}
    changed_new: dict[int, Ranges] = {}
    for i, j in pairs(old, new):
        changed_old[i], changed_new[j] = marks(old[i], new[j])
    return Markup(
        "\n".join(
            [
                *_unified("s", "code", hunk.before, {}),
                *_unified("g", "del", hunk.old_lines, changed_old),
                *_unified("a", "ins", hunk.new_lines, changed_new),
                *_unified("s", "code", hunk.after, {}),
            ]
        )
    )


def _unified(kind: str, tag: str, lines: Numbered, changed: Mapping[int, Ranges]) -> Iterable[str]:
    for index, (number, line) in enumerate(lines):
        shown = html_of(_pieces(line), changed.get(index, ()))
        yield f"<div class={kind}><b>{number}</b><{tag}>{shown}</{tag}></div>"


def _pieces(line: str) -> list[Piece]:
    return [piece for part in coloured(line) for piece in part]


def short_names(files: Iterable[str]) -> dict[str, str]:
    """Return what each template is called in a narrow column: its name alone, if no other one has it."""
    every = sorted(set(files))
    stems = {file: PurePosixPath(file).name.split(".")[0] for file in every}
    taken = [*stems.values()]
    return {file: stem if stem and taken.count(stem) == 1 else file for file, stem in stems.items()}
