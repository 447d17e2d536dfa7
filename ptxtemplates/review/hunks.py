"""Lines that differ between two texts: a difference that people read, in time that suits repetitive texts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_PAIRS: Final = 1 << 20
"""Pairs of lines that `SequenceMatcher`, quadratic or worse, is given at once."""


class Edit(NamedTuple):
    """Lines ``old_start`` to ``old_end`` (from 0, without the end) became ``new_start`` to ``new_end``."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def edits(old: Sequence[str], new: Sequence[str]) -> list[Edit]:
    """Return what differs, in order; between two edits there is a line at least.

    Lines that occur once in both texts are put side by side first (longest increasing run), then the same
    is done between them: an unrolled loop is full of equal lines, and few of them belong together.

    Parameters
    ----------
    old, new : sequence of str
        Lines.
    """
    found: list[Edit] = []
    windows = [Edit(0, len(old), 0, len(new))]
    while windows:
        window = _trimmed(windows.pop(), old, new)
        if window.old_start == window.old_end or window.new_start == window.new_end:
            if window.old_end - window.old_start + window.new_end - window.new_start:
                found.append(window)
            continue
        anchors = _anchors(window, old, new)
        if anchors:
            windows += reversed(list(_between(window, anchors)))
        else:
            found += _matched(window, old, new)
    return _slid(_joined(found), old, new)


def _trimmed(window: Edit, old: Sequence[str], new: Sequence[str]) -> Edit:
    """Cut equal lines off both ends."""
    old_start, old_end, new_start, new_end = window
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start, new_start = old_start + 1, new_start + 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    return Edit(old_start, old_end, new_start, new_end)


def _anchors(window: Edit, old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Pair the lines that both windows have exactly once, as many as keep their order."""
    before = range(window.old_start, window.old_end)
    after = range(window.new_start, window.new_end)
    once = Counter(old[line] for line in before)
    once_after = Counter(new[line] for line in after)
    place = {new[line]: line for line in after if once_after[new[line]] == 1}
    pairs = [(line, place[old[line]]) for line in before if once[old[line]] == 1 and old[line] in place]
    # longest increasing subsequence of the second members: the last of each length, and who came before
    ends: list[int] = []
    chain: list[int] = []
    previous: list[int | None] = []
    for index, (_, line) in enumerate(pairs):
        length = bisect_left(ends, line)
        previous.append(chain[length - 1] if length else None)
        ends[length : length + 1] = [line]
        chain[length : length + 1] = [index]
    kept = []
    index_or_none = chain[-1] if chain else None
    while index_or_none is not None:
        kept.append(pairs[index_or_none])
        index_or_none = previous[index_or_none]
    return kept[::-1]


def _between(window: Edit, anchors: list[tuple[int, int]]) -> Iterator[Edit]:
    old_start, _, new_start, _ = window
    for old_line, new_line in (*anchors, (window.old_end, window.new_end)):
        yield Edit(old_start, old_line, new_start, new_line)
        old_start, new_start = old_line + 1, new_line + 1


def _matched(window: Edit, old: Sequence[str], new: Sequence[str]) -> Iterator[Edit]:
    before, after = old[window.old_start : window.old_end], new[window.new_start : window.new_end]
    if len(before) * len(after) > _MOST_PAIRS or set(before).isdisjoint(after):
        yield window
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, *bounds in matcher.get_opcodes():
        if tag != "equal":
            old_start, old_end, new_start, new_end = bounds
            yield Edit(
                window.old_start + old_start,
                window.old_start + old_end,
                window.new_start + new_start,
                window.new_start + new_end,
            )


def _joined(found: list[Edit]) -> list[Edit]:
    """Join edits with nothing between them."""
    joined: list[Edit] = []
    for edit in sorted(found):
        last = joined[-1] if joined else None
        if last and (last.old_end, last.new_end) == (edit.old_start, edit.new_start):
            joined[-1] = Edit(last.old_start, edit.old_end, last.new_start, edit.new_end)
        else:
            joined.append(edit)
    return joined


def _slid(found: list[Edit], old: Sequence[str], new: Sequence[str]) -> list[Edit]:
    """Move lines that are only added, or only gone, among equal lines to where a block or section begins."""
    slid: list[Edit] = []
    for index, edit in enumerate(found):
        old_start, old_end, new_start, new_end = edit
        if old_start < old_end and new_start < new_end:
            slid.append(edit)
            continue
        lines, start, end = (new, new_start, new_end) if new_start < new_end else (old, old_start, old_end)
        # a line at least stays between two edits
        up = new_start - (slid[-1].new_end + 1 if slid else 0)
        down = (found[index + 1].new_start - 1 if index + 1 < len(found) else len(new)) - new_end
        first = last = 0
        while first > -up and lines[start + first - 1] == lines[end + first - 1]:
            first -= 1
        while last < down and lines[start + last] == lines[end + last]:
            last += 1
        moves = sorted(range(first, last + 1), key=abs)
        moved = min(moves, key=lambda move: _depth(lines[start + move : end + move]))
        slid.append(Edit(*(bound + moved for bound in edit)))
    return slid


def _depth(lines: Sequence[str]) -> tuple[bool, int]:
    """Say how deep the first line that is not empty is indented; a closing brace begins nothing."""
    line = next((line for line in lines if line.strip()), "")
    bare = line.lstrip()
    return bare.startswith("}"), len(line) - len(bare)
