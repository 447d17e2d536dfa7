"""What changed in a kernel's text: how much, and which lines, once for each change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ptxtemplates.review.canonical import kind_of
from ptxtemplates.review.hunks import Edit, edits
from ptxtemplates.review.model import Hunk, TextChange
from ptxtemplates.review.repeats import Copy, grouped, pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxtemplates.review.model import Side

_CONTEXT: Final = 3
"""Unchanged lines shown on each side of changed ones."""


def text_change(old: Side, new: Side) -> TextChange:
    """Compare the texts of a kernel.

    Of texts that do not parse only lines are compared: any change is then one of instructions.

    Parameters
    ----------
    old, new : Side
    """
    old_lines, new_lines = _lines(old.text), _lines(new.text)
    found = edits(old_lines, new_lines)
    copies: list[Copy] = []
    contexts: dict[Edit, tuple[Sequence[int], Sequence[int]]] = {}
    for index, edit in enumerate(found):
        first = max(found[index - 1].new_end if index else 0, edit.new_start - _CONTEXT)
        following = found[index + 1].new_start if index + 1 < len(found) else len(new_lines)
        before = range(first, edit.new_start)
        after = range(edit.new_end, min(following, edit.new_end + _CONTEXT))
        # the nearest lines of both sides first: they are compared pair by pair with those of other edits
        around = [new_lines[line] for line in (*before[-1:], *after[:1], *before[-2:-1], *after[1:2])]
        whole = Copy(
            edit,
            tuple(old_lines[edit.old_start : edit.old_end]),
            tuple(new_lines[edit.new_start : edit.new_end]),
            tuple(around),
            _places(edit, old, new),
        )
        for piece in pieces(whole):
            copies.append(piece)
            contexts[piece.edit] = (before, after)
    hunks = tuple(_hunk(copy, times, *contexts[copy.edit], new, new_lines) for copy, times in grouped(copies))
    return TextChange(
        kind_of(old.text, new.text),
        hunks,
        sum(edit.new_end - edit.new_start for edit in found),
        sum(edit.old_end - edit.old_start for edit in found),
    )


def _lines(text: str) -> list[str]:
    """Split at line feeds only, as assemblers count; a carriage return before one is no part of the line."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _places(edit: Edit, old: Side, new: Side) -> tuple[tuple[str, int], ...] | None:
    places, start, end = new.places, edit.new_start, edit.new_end
    if start == end:
        places, start, end = old.places, edit.old_start, edit.old_end
    if places is None or len(places) < end:
        return None
    return tuple(places[start:end])


def _hunk(
    copy: Copy, times: int, before: Sequence[int], after: Sequence[int], new: Side, lines: Sequence[str]
) -> Hunk:
    edit = copy.edit
    places = copy.places
    if places is None and new.places is not None:
        # lines that are only gone: the template lines around them
        places = tuple(new.places[line] for line in (*before[-1:], *after[:1]) if line < len(new.places))
    return Hunk(
        tuple(enumerate(copy.old, edit.old_start + 1)),
        tuple(enumerate(copy.new, edit.new_start + 1)),
        tuple((line + 1, lines[line]) for line in before),
        tuple((line + 1, lines[line]) for line in after),
        times,
        tuple(dict.fromkeys(places or ())),
    )
