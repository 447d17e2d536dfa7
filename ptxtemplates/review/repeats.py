"""The same change made several times, by an unrolled loop or a macro: told from changes that look alike."""

from __future__ import annotations

import re
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ptxtemplates.ptx.names import KEYWORDS
from ptxtemplates.ptx.registers import SPECIAL_REGISTERS
from ptxtemplates.review.hunks import Edit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_LINES: Final = 1024
"""Of an edit that is searched for repetition within itself."""
_LONGEST_STEP: Final = 32
"""Lines of one repetition within an edit."""

_TOKEN: Final = re.compile(
    r"(?P<name>[A-Za-z_$%][\w$]*+)|(?P<number>(?<![\w.])\d++(?![\w.]))"
    r"|(?P<text>\.[A-Za-z_][\w:]*+|\d[\w.]*+|\s++|[^\s])",
    re.ASCII,
)
_DIGITS: Final = re.compile(r"\d+")


class Token(NamedTuple):
    """A word of a line, without knowledge of what stands around it.

    Attributes
    ----------
    kind : {"name", "number", "text"}
        Of names and numbers another can stand in another copy of the line; text is always the same.
    text : str
    base : str
        A name with 0 for its digits.
    numbers : tuple of int
        The digits of a name, or the number.
    """

    kind: Literal["name", "number", "text"]
    text: str
    base: str
    numbers: tuple[int, ...]


class Copy(NamedTuple):
    """One edit, with what decides whether another one is the same.

    Attributes
    ----------
    edit : Edit
    old, new, around : tuple of str
        Lines that are gone, lines that are there instead, and the unchanged ones next to them.
    places : tuple of (str, int), or None
        Template line of each line that is there instead, or, if there are none, of each line that is gone;
        None if that is not known.
    """

    edit: Edit
    old: tuple[str, ...]
    new: tuple[str, ...]
    around: tuple[str, ...]
    places: tuple[tuple[str, int], ...] | None


def same_change(first: Copy, other: Copy) -> bool:
    """Say whether two edits are one change made twice.

    Lines must be equal but for numbers and for names, renamed one to one over old and new lines together.
    Names may differ in their digits; those of registers otherwise as well, if both edits come from the same
    template lines. What differs between the new lines must differ so between the old lines, or the lines
    around: an edit that turns 2 into 3 here and 2 into 4 there is two. So are edits of other template lines.
    """
    placed = first.places is not None and other.places is not None
    if placed and first.places != other.places:
        return False
    if (len(first.old), len(first.new)) != (len(other.old), len(other.new)):
        return False
    renaming = _Renaming(freely=placed)
    old = [renaming.differences(*lines) for lines in zip(first.old, other.old, strict=True)]
    new = [renaming.differences(*lines) for lines in zip(first.new, other.new, strict=True)]
    if None in old or None in new:
        return False
    one_sided = not first.old or not first.new
    # a line around may be quite another one: then it is no evidence, and no objection
    around = [
        _Renaming(freely=placed).differences(*lines)
        for lines in zip(first.around, other.around, strict=False)
    ]
    evidence = [line for line in (around if one_sided else [*old, *around]) if line is not None]
    seen = {pair for line in evidence for pair in (*line.digits, *line.literals)}
    renamed = {pair for line in evidence for pair in line.names}
    # one template line may be written by a loop, each time with other numbers
    numbers_free = placed and one_sided
    for index, line in enumerate(new or old):
        if line is None or not renamed.issuperset(line.names):
            return False
        if not numbers_free and not _differing(line.digits) <= seen:
            return False
        before = old[index] if len(old) == len(new) else None
        if before is not None and _shape(first.old[index]) == _shape(first.new[index]):
            if _steps(before.literals) != _steps(line.literals):
                return False
        elif not numbers_free and not _differing(line.literals) <= seen:
            return False
    return True


class _Differences(NamedTuple):
    """What stands at the same place of two lines: digits of names, numbers by themselves, other names."""

    digits: list[tuple[int, int]]
    literals: list[tuple[int, int]]
    names: list[tuple[str, str]]


def _differing(pairs: list[tuple[int, int]]) -> set[tuple[int, int]]:
    return {pair for pair in pairs if pair[0] != pair[1]}


def _steps(pairs: list[tuple[int, int]]) -> list[int]:
    return [second - first for first, second in pairs]


def _shape(line: str) -> list[str]:
    """Return a line's words with a mark for each number that stands by itself."""
    return ["0" if token.kind == "number" else token.text for token in _tokens(line)]


class _Renaming:
    """Which name of one edit stands for which of another."""

    def __init__(self, *, freely: bool) -> None:
        self._freely = freely
        self._there: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def differences(self, first: str, other: str) -> _Differences | None:
        """Compare two lines; None if they are not the same but for names and numbers."""
        tokens, others = _tokens(first), _tokens(other)
        if len(tokens) != len(others):
            return None
        found = _Differences([], [], [])
        for token, another in zip(tokens, others, strict=True):
            if token.kind != another.kind or (token.kind == "text" and token.text != another.text):
                return None
            if token.kind == "number":
                found.literals.extend(zip(token.numbers, another.numbers, strict=True))
            elif token.kind == "name":
                if not self._renamed(token, another):
                    return None
                if token.base == another.base:
                    found.digits.extend(zip(token.numbers, another.numbers, strict=True))
                else:
                    found.names.append((token.text, another.text))
        return found

    def _renamed(self, token: Token, another: Token) -> bool:
        registers = token.text[0] == another.text[0] == "%"
        if token.base != another.base and not (self._freely and registers):
            return False
        there = self._there.setdefault(token.text, another.text)
        back = self._back.setdefault(another.text, token.text)
        return (there, back) == (another.text, token.text)


@lru_cache(maxsize=16384)
def _tokens(line: str) -> tuple[Token, ...]:
    return tuple(_token(found) for found in _TOKEN.finditer(line))


def _token(found: re.Match[str]) -> Token:
    text = found[0]
    digits = _DIGITS.findall(text)
    fixed = (
        text in KEYWORDS or text in SPECIAL_REGISTERS or any(len(number) > _MOST_DIGITS for number in digits)
    )
    if found["text"] or fixed:
        return Token("text", text, text, ())
    kind: Literal["name", "number"] = "name" if found["name"] else "number"
    return Token(kind, text, _DIGITS.sub("0", text), tuple(map(int, digits)))


_MOST_DIGITS: Final = 20


def pieces(whole: Copy) -> Iterator[Copy]:
    """Divide an edit where it repeats itself: copies of an unrolled loop can touch each other."""
    old, new = len(whole.old), len(whole.new)
    if max(old, new) > _MOST_LINES:
        yield whole
    elif old == new or not old or not new:
        yield from _runs(whole, max(old, new))
    else:
        counts = (count for count in range(gcd(old, new), 1, -1) if gcd(old, new) % count == 0)
        divided = ([_part(whole, index, index + 1, count) for index in range(count)] for count in counts)
        yield from next((parts for parts in divided if _all_same(parts)), [whole])


def _all_same(parts: Sequence[Copy]) -> bool:
    return all(same_change(parts[0], part) for part in parts[1:])


def _runs(whole: Copy, lines: int) -> Iterator[Copy]:
    """Divide an edit of as many old as new lines (or only one kind) into repetitions and what is between."""
    shapes = [
        tuple(_frame(line) for line in (*whole.old[n : n + 1], *whole.new[n : n + 1])) for n in range(lines)
    ]
    start = plain = 0
    while start < lines:
        steps = range(1, min(_LONGEST_STEP, (lines - start) // 2) + 1)
        alike = (
            step for step in steps if shapes[start : start + step] == shapes[start + step : start + 2 * step]
        )
        runs = ((step, _times(whole, lines, start, step)) for step in alike)
        step, times = max(
            ((step, times) for step, times in runs if times > 1),
            key=lambda run: (run[0] * run[1], run[1]),
            default=(1, 1),
        )
        if times == 1:
            start += 1
            continue
        if plain < start:
            yield _part(whole, plain, start, lines)
        for index in range(times):
            yield _part(whole, start + index * step, start + (index + 1) * step, lines)
        start = plain = start + step * times
    if plain < lines:
        yield _part(whole, plain, lines, lines)


@lru_cache(maxsize=16384)
def _frame(line: str) -> tuple[int, str]:
    """Return what copies of a line have in common and is cheap to compare."""
    tokens = _tokens(line)
    return len(tokens), "".join(token.text for token in tokens if token.kind == "text")


def _times(whole: Copy, lines: int, start: int, step: int) -> int:
    """Count how often the lines from `start` are there, every `step` lines."""
    first = _part(whole, start, start + step, lines)
    times = 1
    while (end := start + (times + 1) * step) <= lines:
        if not same_change(first, _part(whole, end - step, end, lines)):
            break
        times += 1
    return times


def _part(whole: Copy, start: int, end: int, count: int) -> Copy:
    """Return parts `start` to `end` of an edit divided into `count` equal ones."""
    old, new = (
        slice(start * length // count, end * length // count) for length in (len(whole.old), len(whole.new))
    )
    edit = Edit(
        whole.edit.old_start + old.start,
        whole.edit.old_start + old.stop,
        whole.edit.new_start + new.start,
        whole.edit.new_start + new.stop,
    )
    places = None if whole.places is None else whole.places[new if whole.new else old]
    return Copy(edit, whole.old[old], whole.new[new], whole.around, places)


def grouped(copies: Sequence[Copy]) -> list[tuple[Copy, int]]:
    """Put edits that are the same change together: the first of each, in order, and how many there are."""
    groups: list[tuple[Copy, int]] = []
    alike: dict[object, list[int]] = {}
    for copy in copies:
        shape = tuple(_frame(line) for line in (*copy.old, *copy.new))
        indices = alike.setdefault((copy.places, len(copy.old), shape), [])
        # of a great many edits that look alike and are different, it is enough to look at some
        for index in indices[:_MOST_ALIKE]:
            if same_change(groups[index][0], copy):
                groups[index] = (groups[index][0], groups[index][1] + 1)
                break
        else:
            indices.append(len(groups))
            groups.append((copy, 1))
    return groups


_MOST_ALIKE: Final = 64
