"""A comparison as lines for people at a terminal."""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING, Final, TypeVar

from ptxtemplates.review.groups import grouped, parted
from ptxtemplates.review.importance import breaks, ordered, outcome
from ptxtemplates.review.wording import (
    KINDS,
    cell,
    compared,
    count,
    difference,
    facts_of,
    is_worse,
    origin,
    others,
    summary,
    visible,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ptxtemplates.review.groups import Group
    from ptxtemplates.review.model import Change, Comparison, ContractChange, Cost, Hunk, TextChange

    Paint = Callable[[str, str], str]

T = TypeVar("T")

_CODES: Final = {
    "bold": "1",
    "bad": "1;31",
    "doubtful": "1;33",
    "good": "32",
    "gone": "31",
    "new": "32",
    "place": "36",
    "quiet": "2",
}
"""What stands for a style between ``ESC [`` and ``m``."""

_STYLES: Final = {
    "results differ": "bad",
    "removed": "bad",
    "cannot tell": "doubtful",
    "same over the reals": "doubtful",
    "same bits": "good",
    "identical machine code": "good",
    "added": "bold",
}

_INDENT: Final = "    "


def lines(comparison: Comparison, *, colour: bool = False, width: int = 100) -> Iterator[str]:
    """Yield the report: kernels that are not the same by importance, what a policy objects to, a summary.

    Kernels that changed alike, but for a few numbers, are shown as one.

    Parameters
    ----------
    comparison : Comparison
    colour : bool, optional
        Whether to colour with ANSI escapes. There are no others: those of kernels are written out.
    width : int, optional
        Columns. Sentences are wrapped there; lines of PTX stay whole.

    Yields
    ------
    str
        Without the end of the line.
    """
    paint = _painted if colour else _plain
    groups = {group.first.name: group for group in grouped(comparison.changes)}
    for status, changes in itertools.groupby(ordered(comparison.changes), lambda change: change.status):
        if status == "changed":
            for change in changes:
                if change.name in groups:
                    yield from _group(groups[change.name], paint, width)
                    yield ""
        elif status != "unchanged":
            for change in changes:
                yield f"{paint(status, _STYLES[status])}  {paint(visible(change.name), 'bold')}"
            yield ""
    for failure in comparison.failures:
        yield from _sentence("", "not allowed: ", visible(failure), paint, width, "bad")
    for question in comparison.unanswered:
        yield from _sentence("", "not answered: ", visible(question), paint, width, "bad")
    objections = f"; {len(comparison.failures)} not allowed" if comparison.failures else ""
    objections += f"; {len(comparison.unanswered)} not answered" if comparison.unanswered else ""
    titles = f"{visible(comparison.old)} -> {visible(comparison.new)}"
    yield paint(f"{titles}: {summary(comparison)}{objections}", "bold")


def _plain(text: str, style: str) -> str:
    return text


def _painted(text: str, style: str) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if text and style else text


def _group(group: Group, paint: Paint, width: int) -> Iterator[str]:
    first = group.first
    told = outcome(first)
    broken = f"  {paint('can break callers', 'bad')}" if breaks(first) else ""
    yield f"{paint(told, _STYLES[told])}  {paint(visible(first.name), 'bold')}{broken}"
    if len(group.changes) > 1:
        yield f"  the same change in {count(len(group.changes) - 1, 'more kernel')}:"
        for change, numbers in zip(group.changes[1:], group.numbers[1:], strict=True):
            yield f"{_INDENT}{visible(change.name)}{f' ({others(numbers)})' if numbers else ''}"
    yield from _by_kernel(group, "meaning", facts_of, _facts, paint, width)
    if first.contract:
        yield "  contract"
        for item in first.contract:
            yield from _contract(item, paint, width)
    yield from _by_kernel(group, "cost", lambda change: change.cost, _cost, paint, width)
    if first.text is not None:
        yield from _text(first.text, paint)


def _by_kernel(
    group: Group,
    title: str,
    of: Callable[[Change], T | None],
    told: Callable[[T, Paint, int], Iterator[str]],
    paint: Paint,
    width: int,
) -> Iterator[str]:
    """Yield what is said of all kernels at once, or else which ones each is said of."""
    parts = parted(group.changes, of)
    for value, members in parts:
        if not value:
            continue
        if len(parts) == 1:
            yield f"  {title}"
        else:
            names = ", ".join(visible(change.name) for change in members)
            yield from _sentence("  ", f"{title} of ", names, paint, width)
        yield from told(value, paint, width)


def _facts(said: tuple[tuple[str, str], ...], paint: Paint, width: int) -> Iterator[str]:
    for title, text in said:
        yield from _sentence(_INDENT, f"{title}: ", text, paint, width)


def _contract(item: ContractChange, paint: Paint, width: int) -> Iterator[str]:
    mark, style = ("breaking  ", "bad") if item.breaking else ("harmless  ", "")
    change = f"{visible(item.what)}: {visible(item.before) or 'none'} -> {visible(item.after) or 'none'}"
    yield from _sentence(_INDENT, mark, f"{change} ({visible(item.why)})", paint, width, style)


def _cost(cost: Cost, paint: Paint, width: int) -> Iterator[str]:
    rows = [
        (visible(item.what), visible(item.where), cell(item, item.before), cell(item, item.after), item)
        for item in cost.shown
    ]
    columns = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    for what, where, before, after, item in rows:
        whats, wheres, befores, afters = columns
        worse = is_worse(item)
        style = "quiet" if worse is None else "bad" if worse else "good"
        moved = paint(difference(item), style)
        yield (
            f"{_INDENT}{what:{whats}}  {where:{wheres}}  {before:>{befores}} -> {after:>{afters}}  {moved}"
        ).rstrip()
    yield from _sentence(_INDENT, "", compared(cost), paint, width)


def _text(text: TextChange, paint: Paint) -> Iterator[str]:
    yield f"  text: {KINDS[text.kind]}; lines +{text.added} -{text.removed}"
    for hunk in text.hunks:
        yield from _hunk(hunk, paint)


def _hunk(hunk: Hunk, paint: Paint) -> Iterator[str]:
    shown = [*hunk.before, *hunk.old_lines, *hunk.new_lines, *hunk.after]
    column = max((len(str(number)) for number, _ in shown), default=1)
    head = [part for part in (origin(hunk), f"x{hunk.times}" if hunk.times > 1 else "") if part]
    yield f"{_INDENT}{paint('  '.join(['@@', *head]), 'place')}"
    for numbered, sign, style in (
        (hunk.before, " ", ""),
        (hunk.old_lines, "-", "gone"),
        (hunk.new_lines, "+", "new"),
        (hunk.after, " ", ""),
    ):
        for number, line in numbered:
            # a tab moves the cursor nowhere it should not go
            code = f"{sign} " + "\t".join(visible(part) for part in line.split("\t"))
            yield f"{_INDENT}{number:>{column}} {paint(code, style)}"


def _sentence(indent: str, label: str, text: str, paint: Paint, width: int, style: str = "") -> Iterator[str]:
    """Wrap a sentence behind a label; its further lines are indented a little more than the first."""
    first, further = " " * len(indent + label), f"{indent}    "
    wrapped = textwrap.wrap(
        text,
        max(width, len(first) + 20),
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    start = f"{indent}{paint(label, style)}"
    yield start + (wrapped[0][len(first) :] if wrapped else "")
    yield from wrapped[1:]
