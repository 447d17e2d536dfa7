"""The words that reports have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ptxtemplates.review.importance import breaks, counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ptxtemplates.review.model import Cell, Change, Comparison, Cost, CostChange, Hunk, Meaning

KINDS: Final = {
    "same": "the text is the same",
    "comments": "only comments and blank lines",
    "names": "only comments and names of registers or labels",
    "layout": "only white space, comments, names, or the order of declarations",
    "instructions": "instructions, directives or tables",
}
"""What each kind of text change means."""


def visible(text: str) -> str:
    r"""Return a text with what moves a cursor or turns a line around written out, such as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def cell(item: CostChange, value: Cell) -> str:
    """Write a figure."""
    if isinstance(value, str):
        return value
    if item.what == "occupancy":
        return f"{value * 100:.3g}%"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def difference(item: CostChange) -> str:
    """Write by how much a figure moved; nothing where one side is no number."""
    if isinstance(item.before, str) or isinstance(item.after, str):
        return ""
    moved = item.after - item.before
    if item.what == "occupancy":
        return f"{moved * 100:+.3g} points"
    absolute = f"{moved:+,}" if isinstance(moved, int) else f"{moved:+.3g}"
    return f"{absolute} ({moved / item.before:+.1%})" if item.before else absolute


def is_worse(item: CostChange) -> bool | None:
    """Tell whether a figure got worse; None where that cannot be said."""
    if isinstance(item.before, str) or isinstance(item.after, str) or item.before == item.after:
        return None
    return item.after < item.before if item.what == "occupancy" else item.after > item.before


def compared(cost: Cost) -> str:
    """Say how many figures were compared, and why not all; and if so, that none of them moved."""
    moved = [] if cost.changes or not cost.compared else ["nothing moved"]
    said = f"compared {cost.compared} of {cost.asked} figures"
    return "; ".join([*moved, said, *map(visible, cost.notes)])


def facts(meaning: Meaning) -> tuple[tuple[str, str], ...]:
    """Return what is said of a verdict, under short titles; of what was tried, names without sizes."""
    found = [("why", visible(meaning.reason))]
    if meaning.tried:
        names = dict.fromkeys(setting.partition(": ")[0] for setting in meaning.tried)
        found.append(("tried", "; ".join(map(visible, names))))
    if meaning.largest_ulp is not None:
        found.append(("largest difference", f"{meaning.largest_ulp:,} ulp"))
    if meaning.example is not None:
        example = meaning.example
        found.append(
            (
                "example",
                visible(
                    f"{example.setting}, seed {example.seed}: {example.element} was {example.before}, "
                    f"is {example.after}"
                ),
            )
        )
    return tuple((title, text) for title, text in found if text)


def facts_of(change: Change) -> tuple[tuple[str, str], ...]:
    """Return `facts` of a kernel's verdict; nothing where there is none."""
    return () if change.meaning is None else facts(change.meaning)


def origin(hunk: Hunk, most: int = 6) -> str:
    """Name the template lines of a hunk; nothing where they are not known."""
    named = [f"{visible(file)}:{line}" for file, line in hunk.places[:most]]
    more = len(hunk.places) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def others(numbers: Mapping[str, str]) -> str:
    """Say which numbers a kernel has for those that are shown; nothing if it has the same."""
    return ", ".join(f"{after} for {before}" for before, after in numbers.items())


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def summary(comparison: Comparison) -> str:
    """Return how many kernels there are of each outcome, on one line."""
    changes = comparison.changes
    parts = [f"{told} {number:,}" for told, number in counts(changes).items() if number]
    breaking = sum(map(breaks, changes))
    broken = f"; {count(breaking, 'kernel')} can break callers" if breaking else ""
    return f"{count(len(changes), 'kernel')}{': ' if parts else ''}{', '.join(parts)}{broken}"


def movements(changes: Iterable[Change], most: int = 3) -> str:
    """Say in short which figures moved in some kernels, from the smallest step to the largest."""
    costs = [change.cost for change in changes if change.cost is not None]
    items = [item for cost in costs for item in cost.shown]
    if not items:
        return "nothing moved" if any(cost.compared for cost in costs) else "nothing compared"
    steps: dict[str, list[float]] = {}
    unknown: dict[str, None] = {}
    for item in items:
        if isinstance(item.before, str) or isinstance(item.after, str):
            where = "in the emulator" if item.where == "emulator" else f"on {item.where}"
            unknown[f"{item.what} {where}"] = None
        else:
            steps.setdefault(item.what, []).append(item.after - item.before)
    said = [f"{what} {_span(what, moved)}" for what, moved in steps.items()]
    if len(said) > most:
        said = [*said[:most], f"{len(said) - most} more"]
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        said.append(f"not compared: {next(iter(unknown))}{more}")
    return visible(", ".join(said))


def _span(what: str, moved: Sequence[float]) -> str:
    scale, unit = (100, " points") if what == "occupancy" else (1, "")
    ends = (min(moved) * scale, max(moved) * scale)
    texts = [f"{end:+,}" if isinstance(end, int) else f"{end:+,.4g}" for end in ends]
    return " to ".join(dict.fromkeys(texts)) + unit
