"""A run against an earlier one on the same kind of GPU: what is slower, what is faster, beyond the spread."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.bench.baselines import copy_of, key_of, spread_of, subject_of, surroundings_of
from ptxtemplates.bench.contender import EMPTY, OURS
from ptxtemplates.bench.report import title_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ptxtemplates.bench.baselines import Baseline
    from ptxtemplates.bench.timing import Spread

FLOOR: Final = 0.03
"""Smallest change that counts, as a share of the earlier median. Clocks and the placement of memory differ by
one or two percent from process to process, which the rounds of one process do not show."""


def change_of(before: Spread, now: Spread) -> str | None:
    """Return ``slower``, ``faster``, or None if two runs do not tell.

    A change counts if the quartiles of the two runs do not overlap, and the medians differ by more than
    `FLOOR` of the earlier one.
    """
    if now.first > before.third and now.median > before.median * (1 + FLOOR):
        return "slower"
    if now.third < before.first and now.median < before.median * (1 - FLOOR):
        return "faster"
    return None


def compared(report: Mapping[str, Any], baseline: Baseline) -> dict[str, Any]:
    """Return the ``comparison`` of a report, as JSON values."""
    measurements = report["measurements"]
    both = [values for values in measurements if key_of(values) in baseline.times]
    changes = []
    for values in both:
        before, now = baseline.times[key_of(values)], spread_of(values)
        if change := change_of(before, now):
            changes.append(
                {name: values[name] for name in ("subject", "sizes", "contender", "element")}
                | {
                    "change": change,
                    "before_us": before.median,
                    "now_us": now.median,
                    "ratio": now.median / before.median,
                }
            )
    before_it, around = baseline.surroundings, surroundings_of(report)
    return {
        "compared": len(both),
        "of": len(measurements),
        "missing": len(baseline.times) - len(both),
        "lost": [*_lost(report, baseline)],
        "gpu": _gpu(report, baseline),
        "differences": [
            {"name": name, "before": before_it.get(name), "now": around.get(name)}
            for name in {**before_it, **around}
            if before_it.get(name) != around.get(name)
        ],
        "changes": changes,
    }


def _lost(report: Mapping[str, Any], baseline: Baseline) -> Iterator[dict[str, Any]]:
    """Yield what was to be measured and has a time of ours in the baseline, but none that compares here."""
    others = [
        values | {"reason": f"its elements were not {values['element']}"}
        for values in report["measurements"]
        if values["contender"] == OURS and key_of(values) not in baseline.times
    ]
    known = baseline.ours()
    for values in (*report["skipped"], *others):
        if subject_of(values) in known:
            yield {name: values[name] for name in ("subject", "sizes", "reason")}


def _gpu(report: Mapping[str, Any], baseline: Baseline) -> dict[str, Any]:
    """Return how the GPU itself has changed, which copies and empty kernels show."""
    copy = copy_of(report)
    empty = [
        (baseline.times[key], spread_of(values))
        for values in report["measurements"]
        if values["contender"] == EMPTY and (key := key_of(values)) in baseline.times
    ]
    changes = [change_of(before, now) for before, now in empty]
    # of many, a few may have met something else
    told = next((change for change in ("slower", "faster") if 2 * changes.count(change) > len(changes)), None)
    ratios = [now.median / before.median for before, now in empty]
    return {
        "copy": {"change": change_of(baseline.copy, copy), "ratio": copy.median / baseline.copy.median},
        "empty": {"change": told, "ratio": statistics.median(ratios) if ratios else None},
    }


def regressed(comparison: Mapping[str, Any]) -> bool:
    """Say whether kernels of ours are slower; those of others may be what they like."""
    return any(
        values["change"] == "slower" and values["contender"] == OURS for values in comparison["changes"]
    )


def undecided(comparison: Mapping[str, Any]) -> str | None:
    """Say why it cannot be told whether kernels of ours are slower; None if it can."""
    probes = {"copies": comparison["gpu"]["copy"], "empty kernels": comparison["gpu"]["empty"]}
    moved = [f"{name} take x {values['ratio']:.2f}" for name, values in probes.items() if values["change"]]
    if moved:
        return (
            f"the GPU itself is not as fast as it was: {' and '.join(moved)} of their time; let its clocks "
            "be as they were, or measure the baseline again"
        )
    lost = comparison["lost"]
    if lost and not regressed(comparison):
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        return f"{title_of(lost[0])}{more}: in the baseline, and not comparable now: {lost[0]['reason']}"
    return None


def lines_of(comparison: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a comparison for a person."""
    for values in comparison["differences"]:
        before, now = (values[when] or "not installed" for when in ("before", "now"))
        yield f"differs {values['name']}: {before} before, {now} now"
    for values in comparison["lost"]:
        yield f"lost    {title_of(values)}: {values['reason']}"
    for values in comparison["changes"]:
        who = f"{values['contender']} {values['element']}".rstrip()
        yield (
            f"{values['change']}  {title_of(values)}: {who}: "
            f"{values['before_us']:.2f} us before, {values['now_us']:.2f} us now, x {values['ratio']:.2f}"
        )
    missing = comparison["missing"]
    more = f"; {missing} of the baseline were not measured" if missing else ""
    yield f"compared {comparison['compared']} of {comparison['of']} measurements{more}"
