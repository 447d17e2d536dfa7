"""A comparison as Markdown that fits a pull-request comment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from ptxtemplates.review.fenced import code, fence, in_summary, prose, shortened
from ptxtemplates.review.groups import grouped, parted
from ptxtemplates.review.importance import breaks, outcome
from ptxtemplates.review.wording import (
    KINDS,
    cell,
    compared,
    count,
    difference,
    facts_of,
    movements,
    origin,
    others,
    summary,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ptxtemplates.review.groups import Group
    from ptxtemplates.review.model import Change, Comparison, Hunk

T = TypeVar("T")

MARKER: Final = "<!-- ptxtemplates-diff -->"
"""First line: what tells our comment from others."""

LIMIT: Final = 65_000
"""Bytes of UTF-8. GitHub takes 65,536 characters; there are never more of them, however they are counted. The
rest is for a link that a workflow adds."""

_TABLE: Final = 20_000
_FAILURES: Final = 6_000
_NAMES: Final = 6_000
_DETAILS: Final = 12_000
_FENCES: Final = 1_000
_CUT: Final = 500
"""Bytes that parts may take at most: the table, objections, lists of added and of removed kernels, details of
a group, of those what stands around the changed lines, and the line that says what is left out."""

_NAMED: Final = 4
"""Kernels that a heading names."""


class _Room:
    """Takes parts while there is room for them, and counts those that there was none for."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.taken = 0
        self.parts: list[str] = []
        self.refused = 0

    def add(self, part: str) -> bool:
        """Take a part, with the line end behind it. After one that did not fit, nothing is taken."""
        size = len(part.encode()) + 1
        if self.refused or size > self.left:
            self.refused += 1
            return False
        self.left -= size
        self.taken += size
        self.parts.append(part)
        return True


def markdown(comparison: Comparison) -> str:
    """Write a report.

    Its first line is `MARKER`; a table follows, then folded details, by importance. What does not fit `LIMIT`
    is left out, the least important first, and the report says so. No text of a kernel, whatever it is, is
    taken for Markdown, HTML or a mention.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
        Of at most `LIMIT` bytes in UTF-8, with a line feed at the end.
    """
    groups = grouped(comparison.changes)
    head = [
        MARKER,
        f"### PTX kernels: {code(comparison.old)} to {code(comparison.new)}",
        "",
        f"{summary(comparison)}.",
    ]
    left_out: list[str] = []
    if comparison.failures:
        head += ["", f"**{count(len(comparison.failures), 'change')} not allowed:**", ""]
        room = _filled((f"- {code(failure)}" for failure in comparison.failures), _FAILURES)
        head += room.parts
        left_out += _missing(room, "objection")
    if comparison.unanswered:
        head += ["", f"**{count(len(comparison.unanswered), 'question')} of the policy not answered:**", ""]
        room = _filled((f"- {code(question)}" for question in comparison.unanswered), _FAILURES)
        head += room.parts
        left_out += _missing(room, "question")
    if groups:
        head += ["", "| | kernels | callers | text | cost |", "|---|---|---|---|---|"]
        room = _filled(map(_row, groups), _TABLE)
        head += room.parts
        left_out += _missing(room, "row", " of the table")
    head.append("")
    for status in ("removed", "added"):
        names = [change.name for change in comparison.changes if change.status == status]
        if names:
            room = _filled((f"- {code(name)}" for name in names), _NAMES)
            head += _folded(f"{status} ({len(names)})", room.parts)
            left_out += _missing(room, f"{status} kernel")
    room = _Room(LIMIT - _CUT - sum(len(part.encode()) + 1 for part in head))
    partly = 0
    for group in groups:
        details, whole = _details(group, min(_DETAILS, room.left))
        partly += room.add("\n".join(details)) and not whole
    left_out += [f"the details of {count(room.refused, 'change')}"] if room.refused else []
    left_out += [f"parts of {partly} of the details below"] if partly else []
    if left_out:
        said = ", ".join(left_out)
        head += [f"**Left out, so that this fits a comment: {said}.** The HTML report has all of it.", ""]
    return "\n".join([*head, *room.parts]).rstrip("\n") + "\n"


def _filled(parts: Iterable[str], size: int) -> _Room:
    room = _Room(size)
    for part in parts:
        room.add(part)
    return room


def _missing(room: _Room, noun: str, of: str = "") -> list[str]:
    return [f"{count(room.refused, noun)}{of}"] if room.refused else []


def _folded(title: str, body: Iterable[str]) -> list[str]:
    """Fold lines under a title, which is HTML; the blank lines make the body Markdown again."""
    return [f"<details><summary>{title}</summary>", "", *body, "", "</details>", ""]


def _row(group: Group) -> str:
    first = group.first
    harmless = sum(not item.breaking for item in first.contract)
    callers = ["**can break**"] if breaks(first) else []
    callers += [f"{count(harmless, 'harmless change')}"] if harmless else []
    text = "" if first.text is None else f"+{first.text.added} -{first.text.removed}"
    if first.text is not None and first.text.kind != "instructions":
        text += f" {KINDS[first.text.kind]}"
    columns = [
        f"**{outcome(first)}**",
        f"{code(first.name)}{_more(group)}",
        ", ".join(callers) or "no change",
        text,
        prose(movements(group.changes)),
    ]
    return f"| {' | '.join(columns)} |"


def _details(group: Group, size: int) -> tuple[list[str], bool]:
    """Return the folded details of a group, and whether they are whole; changed lines are cut first."""
    first = group.first
    frame = _folded(f"{outcome(first)}: {in_summary(first.name)}{_more(group)}", [])
    hunks = () if first.text is None else first.text.hunks
    size -= sum(len(line.encode()) + 1 for line in frame) + _FENCES
    # of many kernels there may be much to say, and changed lines are what all of them have
    said = _filled((*_meaning(group), *_contract(first), *_cost(group)), size // 2 if hunks else size)
    shown = _filled(map(_hunk, hunks), size - said.taken)
    alike = _filled(_alike(group), size - said.taken - shown.taken)
    body = [
        *said.parts,
        *([f"({count(said.refused, 'line')} more)", ""] if said.refused else []),
        *([fence("diff", shown.parts), ""] if shown.parts else []),
        *([f"({count(shown.refused, 'more place')} with changed lines)", ""] if shown.refused else []),
        *(["The same change in", "", *alike.parts] if len(group.changes) > 1 else []),
        *([f"- {count(alike.refused, 'more kernel')}"] if alike.refused else []),
    ]
    while body and not body[-1]:
        body.pop()
    return frame[:2] + body + frame[2:], not (said.refused or shown.refused or alike.refused)


def _more(group: Group) -> str:
    return f" and {len(group.changes) - 1} alike" if len(group.changes) > 1 else ""


def _alike(group: Group) -> Iterator[str]:
    for change, numbers in zip(group.changes[1:], group.numbers[1:], strict=True):
        yield f"- {code(change.name)}{f' ({others(numbers)})' if numbers else ''}"


def _by_kernel(group: Group, title: str, of: Callable[[Change], T]) -> Iterator[tuple[str, T]]:
    """Yield what is said of all kernels at once, or of which ones each is said, under its heading."""
    parts = parted(group.changes, of)
    for value, members in parts:
        named = [code(change.name) for change in members[:_NAMED]]
        more = f" and {len(members) - _NAMED} more" if len(members) > _NAMED else ""
        yield f"**{title}**" + ("" if len(parts) == 1 else f" of {', '.join(named)}{more}"), value


def _meaning(group: Group) -> Iterator[str]:
    for heading, said in _by_kernel(group, "meaning", facts_of):
        if said:
            yield from (heading, "")
            yield from (f"- {title}: {prose(text)}" for title, text in said)
            yield ""


def _contract(change: Change) -> Iterator[str]:
    if not change.contract:
        return
    yield from ("| contract | before | after | | |", "|---|---|---|---|---|")
    for item in change.contract:
        mark = "**breaking**" if item.breaking else "harmless"
        columns = [code(item.what), code(item.before), code(item.after), mark, prose(item.why)]
        yield f"| {' | '.join(columns)} |"
    yield ""


def _cost(group: Group) -> Iterator[str]:
    for heading, cost in _by_kernel(group, "cost", lambda change: change.cost):
        if cost is None:
            continue
        yield f"{heading}: {prose(compared(cost))}"
        yield ""
        if cost.shown:
            yield from ("| | | before | after | |", "|---|---|--:|--:|--:|")
        for item in cost.shown:
            figures = [cell(item, item.before), cell(item, item.after), difference(item)]
            yield f"| {' | '.join([prose(item.what), prose(item.where), *figures])} |"
        yield ""


def _hunk(hunk: Hunk) -> str:
    place = [part for part in (origin(hunk), f"x{hunk.times}" if hunk.times > 1 else "") if part]
    line = (hunk.new_lines or hunk.after or hunk.old_lines or ((0, ""),))[0][0]
    shown = [f"@@ line {line} @@ {' '.join(place)}".rstrip()]
    for sign, numbered in (
        (" ", hunk.before),
        ("-", hunk.old_lines),
        ("+", hunk.new_lines),
        (" ", hunk.after),
    ):
        shown += [f"{sign}{shortened(text)}" for _, text in numbered]
    return "\n".join(shown)
