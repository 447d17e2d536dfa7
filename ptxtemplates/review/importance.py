"""What a reviewer should look at first, in every report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxtemplates.review.model import Change

OUTCOMES: Final = (
    "results differ",
    "cannot tell",
    "removed",
    "same over the reals",
    "same bits",
    "identical machine code",
    "added",
    "unchanged",
)
"""What became of a kernel, in one word or a few: what needs a reviewer most stands first."""


def outcome(change: Change) -> str:
    """Return the verdict of a changed kernel, the status of any other."""
    if change.status != "changed":
        return change.status
    # where nobody looked, nobody can tell
    return "cannot tell" if change.meaning is None else change.meaning.verdict


def breaks(change: Change) -> bool:
    """Tell whether a caller that was right before can be wrong now."""
    return change.status == "removed" or any(item.breaking for item in change.contract)


def ordered(changes: Iterable[Change]) -> list[Change]:
    """Sort changes by importance.

    Results that differ come first, then what breaks callers, then `OUTCOMES` in their order; of equals those
    that spill more, then those whose cost moved, then by name.
    """
    return sorted(changes, key=_rank)


def _rank(change: Change) -> tuple[bool, bool, int, bool, bool, str]:
    told = outcome(change)
    moved = () if change.cost is None else change.cost.changes
    spills = any(
        item.what.startswith("spill")
        and not isinstance(item.before, str)
        and not isinstance(item.after, str)
        and item.after > item.before
        for item in moved
    )
    return (
        told != OUTCOMES[0],
        not breaks(change),
        OUTCOMES.index(told),
        not spills,
        not moved,
        change.name,
    )


def counts(changes: Iterable[Change]) -> dict[str, int]:
    """Count the kernels of each outcome; all of `OUTCOMES`, in their order."""
    found = Counter(outcome(change) for change in changes)
    return {told: found[told] for told in OUTCOMES}
