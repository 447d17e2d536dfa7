"""Kernels that changed alike: variants of one template, whose difference one reader needs to read once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ptxtemplates.review.importance import ordered, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ptxtemplates.review.model import Change

T = TypeVar("T")

_MOST_NUMBERS: Final = 6
"""Numbers in which a change may differ from the one that is shown in its place. Of more, a reader would not
see the change any more."""

_NUMBER: Final = re.compile(r"(?<![\w$%.])(?:0[fFdDxX][0-9A-Fa-f]+|\d+(?:\.\d+)?)(?![\w.])")


class Group(NamedTuple):
    """Kernels with the same outcome, contract changes and changed lines, but for some numbers.

    Attributes
    ----------
    changes : tuple of Change
        By importance; one at least.
    numbers : tuple of mapping of str to str
        For each of them, which number it has for one of the first's, where that differs. ``x4`` is how
        often a change is made. With it, all changed lines follow from those of the first.
    """

    changes: tuple[Change, ...]
    numbers: tuple[Mapping[str, str], ...]

    @property
    def first(self) -> Change:
        """The one whose lines are shown."""
        return self.changes[0]


def grouped(changes: Iterable[Change]) -> list[Group]:
    """Put changed kernels that changed alike together; unchanged, added and removed ones are left out.

    Returns
    -------
    list of Group
        By importance.
    """
    groups: dict[object, list[tuple[list[str], list[tuple[Change, Mapping[str, str]]]]]] = {}
    every = []
    for change in ordered(changes):
        if change.status != "changed":
            continue
        pattern, numbers = _pattern(change)
        alike = groups.setdefault(pattern, [])
        for first, members in alike:
            other = _other_numbers(first, numbers)
            if other is not None:
                members.append((change, other))
                break
        else:
            members = [(change, {})]
            alike.append((numbers, members))
            every.append(members)
    return [Group(*zip(*members, strict=True)) for members in every]


def parted(changes: Sequence[Change], key: Callable[[Change], T]) -> list[tuple[T, list[Change]]]:
    """Part changes by what `key` says of them, in the order in which that is first met."""
    parts: list[tuple[T, list[Change]]] = []
    for change in changes:
        said = key(change)
        for value, members in parts:
            if value == said:
                members.append(change)
                break
        else:
            parts.append((said, [change]))
    return parts


def _pattern(change: Change) -> tuple[object, list[str]]:
    """Return what must be equal, and the numbers that need not be, in one order."""
    numbers: list[str] = []

    def without(text: str) -> str:
        numbers.extend(_NUMBER.findall(text))
        return _NUMBER.sub("\0", text)

    hunks = [] if change.text is None else list(change.text.hunks)
    lines = [
        (
            tuple(without(line) for _, line in hunk.old_lines),
            tuple(without(line) for _, line in hunk.new_lines),
            hunk.places,
        )
        for hunk in hunks
    ]
    contract = [
        (*map(without, (item.what, item.before, item.after, item.why)), item.breaking)
        for item in change.contract
    ]
    numbers += [f"x{hunk.times}" for hunk in hunks]
    kind = None if change.text is None else change.text.kind
    return (outcome(change), kind, tuple(lines), tuple(contract)), numbers


def _other_numbers(first: Sequence[str], other: Sequence[str]) -> dict[str, str] | None:
    """Return what stands for numbers of the first, if each has one that does, and few are others."""
    found: dict[str, str] = {}
    differing: dict[str, str] = {}
    for before, after in zip(first, other, strict=True):
        if found.setdefault(before, after) != after:
            return None
        if before != after:
            differing[before] = after
            if len(differing) > _MOST_NUMBERS:
                return None
    return differing
