"""Two texts side by side: which line stands beside which, and which words of it changed."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.review.hunks import edits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxtemplates.review.hunks import Edit

    Ranges = tuple[tuple[int, int], ...]
    """Where words changed: columns from 0, each end left out."""

CONTEXT: Final = 4
"""Unchanged lines that stay before and behind changed ones."""

SHORTEST_FOLD: Final = 4
"""Fewer unchanged lines than that are shown: a fold takes as much room."""

_WORD: Final = re.compile(r"[.%]?\w+|\s+|.")
_MOST_WORDS: Final = 400
"""Of a line; a longer one, such as a table, is not searched for changed words."""

_MOST_PAIRS: Final = 4096
"""Pairs of lines that are looked at to find which belong together."""

_ALIKE: Final = 0.4
"""Share of equal words from which on a line counts as another one changed."""


class Row(NamedTuple):
    """What stands beside what.

    Attributes
    ----------
    old, new : int or None
        Line numbers from 1; None where a text has nothing there.
    same : bool
        Whether both lines are equal.
    """

    old: int | None
    new: int | None
    same: bool


class Run(NamedTuple):
    """Rows that are shown, or folded away, together."""

    folded: bool
    rows: tuple[Row, ...]


def lines_of(text: str) -> list[str]:
    """Split a text; the newline that ends it begins no line."""
    return text.removesuffix("\n").split("\n")


def rows_of(old: Sequence[str], new: Sequence[str]) -> list[Row]:
    """Put the lines of two texts side by side."""
    rows: list[Row] = []
    at_old = at_new = 0
    for edit in edits(old, new):
        rows += _equal(at_old, at_new, edit.old_start - at_old)
        rows += _paired(edit, old, new)
        at_old, at_new = edit.old_end, edit.new_end
    return rows + list(_equal(at_old, at_new, len(old) - at_old))


def _equal(old: int, new: int, count: int) -> Iterator[Row]:
    for index in range(1, count + 1):
        yield Row(old + index, new + index, True)


def _paired(edit: Edit, old: Sequence[str], new: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of lines that changed together: like beside like, in order."""
    at_old, at_new = edit.old_start, edit.new_start
    for before, after in (
        *pairs(old[edit.old_start : edit.old_end], new[edit.new_start : edit.new_end]),
        (edit.old_end - edit.old_start, edit.new_end - edit.new_start),
    ):
        before, after = before + edit.old_start, after + edit.new_start
        for line in range(at_old, before):
            yield Row(line + 1, None, False)
        for line in range(at_new, after):
            yield Row(None, line + 1, False)
        if before < edit.old_end and after < edit.new_end:
            yield Row(before + 1, after + 1, False)
        at_old, at_new = before + 1, after + 1


def pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Say which of some lines became which: as much of them alike as can be had without crossing.

    Returns
    -------
    list of (int, int)
        Indices into `old` and `new`, both ascending. Lines that are like no other are in no pair.
    """
    if len(old) * len(new) > _MOST_PAIRS:
        return [(index, index) for index in range(min(len(old), len(new)))]
    words_old, words_new = ([_words(line) for line in lines] for lines in (old, new))
    alike = [[_likeness(before, after) for after in words_new] for before in words_old]
    # best[i][j]: the most that lines from i and j on can have in common
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            together = alike[i][j] + best[i + 1][j + 1] if alike[i][j] >= _ALIKE else 0.0
            best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
    found = []
    i = j = 0
    while i < len(old) and j < len(new):
        if alike[i][j] >= _ALIKE and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return found


def _words(line: str) -> Counter[str]:
    return Counter(word for word in _WORD.findall(line) if word.strip())


def _likeness(old: Counter[str], new: Counter[str]) -> float:
    """Return the share of words that two lines have in common."""
    if not old or not new:
        return float(old == new)
    return 2 * (old & new).total() / (old.total() + new.total())


def marks(old: str, new: str) -> tuple[Ranges, Ranges]:
    """Return which columns of two lines changed; nothing if the lines have too little in common.

    Where words changed, the white space that lines them up in columns does not count.
    """
    before, after = _WORD.findall(old), _WORD.findall(new)
    if max(len(before), len(after)) > _MOST_WORDS or _likeness(_words(old), _words(new)) < _ALIKE:
        return (), ()
    columns_before, columns_after = _columns(before), _columns(after)
    found_before, found_after = [], []
    for tag, i, i_end, j, j_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            found_before.append((columns_before[i], columns_before[i_end]))
            found_after.append((columns_after[j], columns_after[j_end]))
    in_words = old.split() != new.split()
    return _worth_a_mark(old, found_before, in_words), _worth_a_mark(new, found_after, in_words)


def _columns(words: Sequence[str]) -> list[int]:
    columns = [0]
    for word in words:
        columns.append(columns[-1] + len(word))
    return columns


def _worth_a_mark(line: str, ranges: Sequence[tuple[int, int]], in_words: bool) -> Ranges:
    return tuple(
        (start, end) for start, end in ranges if start < end and (line[start:end].strip() or not in_words)
    )


def runs_of(rows: Sequence[Row]) -> list[Run]:
    """Fold what is unchanged and far from changes."""
    near = bytearray(len(rows))
    for index, row in enumerate(rows):
        if not row.same:
            first, last = max(index - CONTEXT, 0), min(index + CONTEXT + 1, len(rows))
            near[first:last] = b"\1" * (last - first)
    runs: list[Run] = []
    start = 0
    while start < len(rows):
        end = near.find(not near[start], start)
        end = len(rows) if end < 0 else end
        part = tuple(rows[start:end])
        folded = not near[start] and len(part) >= SHORTEST_FOLD
        if runs and not folded and not runs[-1].folded:
            runs[-1] = Run(False, runs[-1].rows + part)
        else:
            runs.append(Run(folded, part))
        start = end
    return runs
