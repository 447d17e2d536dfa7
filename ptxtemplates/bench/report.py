"""Times as JSON values, which ptxtemplates/schemas/bench-1.json describes, and as a table for people."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.bench.contender import EMPTY
from ptxtemplates.bench.timing import spread_of
from ptxtemplates.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ptxtemplates.bench.running import Facts, Outcome
    from ptxtemplates.bench.software import Software
    from ptxtemplates.bench.units import Workload

SCHEMA_VERSION: Final = 1


def values_of(
    outcomes: Sequence[Outcome], facts: Facts, copy_bytes: int, software: Software, stopped: str | None
) -> dict[str, Any]:
    """Return the report as JSON values, without a comparison.

    Parameters
    ----------
    outcomes : sequence of Outcome
        At least one of which was measured.
    facts : Facts
        The GPU.
    copy_bytes : int
        That one copy read and wrote.
    software : Software
        What is installed beside it.
    stopped : str or None
        Why the run ended before all was measured.
    """
    copies = [rate for outcome in outcomes for rate in outcome.copies]
    spread = spread_of(copies)
    return {
        "schema_version": SCHEMA_VERSION,
        "version": VERSION,
        "device": facts._asdict(),
        **software._asdict(),
        "stopped": stopped,
        "copy": {
            "bytes": copy_bytes,
            "bytes_per_s": spread.median,
            "quartiles": [spread.first, spread.third],
            "rounds": len(copies),
        },
        "measurements": [values for outcome in outcomes for values in _measurements(outcome)],
        "skipped": [
            {**_described(outcome.workload), "reason": outcome.skipped}
            for outcome in outcomes
            if outcome.skipped
        ],
        "absent": [
            {**_described(outcome.workload), "contender": absent.name, "reason": absent.reason}
            for outcome in outcomes
            for absent in outcome.absent
        ],
        "comparison": None,
    }


def _described(workload: Workload) -> dict[str, Any]:
    return {
        "subject": workload.unit.name,
        "kernels": [kernel.variant for kernel in workload.unit.kernels],
        "sizes": dict(workload.sizes),
    }


def _measurements(outcome: Outcome) -> Iterator[dict[str, Any]]:
    if not outcome.times:
        return
    [empty] = [spread_of(times).median for each, times in outcome.times.items() if each.name == EMPTY]
    copied = spread_of(outcome.copies).median
    for contender, times in outcome.times.items():
        spread = spread_of(times)
        rate = contender.bytes * 1e6 / spread.median if contender.bytes else None
        yield {
            **_described(outcome.workload),
            "contender": contender.name,
            "element": contender.element,
            "bytes": contender.bytes,
            "median_us": spread.median,
            "quartiles_us": [spread.first, spread.third],
            "rounds": len(times),
            "calls": contender.calls,
            "bytes_per_s": rate,
            "copy_bytes_per_s": copied,
            "share_of_copy": None if rate is None else rate / copied,
            "times_empty": spread.median / empty,
        }


# ---- for a reader

_HEADER: Final = ("contender", "element", "us", "quartiles", "bytes", "GB/s", "of copy", "x empty", "rounds")
_NAMES: Final = frozenset({"contender", "element"})
_LESS: Final = ("rounds", "bytes", "quartiles", "element", "GB/s", "x empty", "of copy")
"""What is left out where a line is too short for all, in this order."""


def lines_of(report: Mapping[str, Any], width: int | None = None) -> Iterator[str]:
    """Yield the lines of a report for a person.

    Parameters
    ----------
    report : mapping
        As ptxtemplates/schemas/bench-1.json describes it.
    width : int, optional
        Characters of a line of the tables: columns that do not fit are left out, the least telling first.
    """
    device = report["device"]
    yield (
        f"{device['name']} ({device['architecture']}, L2 {device['l2_bytes'] / 2**20:.1f} MiB, driver "
        f"for CUDA {device['cuda']}), ptxtemplates {report['version']}, {report['toolchain']}"
    )
    installed = {name: version for name, version in report["versions"].items() if version is not None}
    if installed:
        yield "beside it: " + ", ".join(f"{name} {version}" for name, version in installed.items())
    copy = report["copy"]
    first, third = copy["quartiles"]
    yield (
        f"a device-to-device copy reads and writes {_rate(copy['bytes_per_s'])} GB/s "
        f"({_rate(first)} - {_rate(third)} in {copy['rounds']} rounds)"
    )
    for title, group in itertools.groupby(report["measurements"], title_of):
        yield ""
        yield title
        yield from _table([_row(values) for values in group], width)
    if report["skipped"]:
        yield ""
        yield from (f"{title_of(values)}: skipped: {values['reason']}" for values in report["skipped"])
    reasons = Counter((values["contender"], values["reason"]) for values in report["absent"])
    if reasons:
        yield ""
        for (name, reason), count in reasons.items():
            yield f"{name}: not measured{f' {count} times' if count > 1 else ''}: {reason}"


def title_of(values: Mapping[str, Any]) -> str:
    """Return a subject and its sizes, for a person."""
    return ", ".join([values["subject"], *(f"{name}={value}" for name, value in values["sizes"].items())])


def _row(values: Mapping[str, Any]) -> tuple[str, ...]:
    first, third = values["quartiles_us"]
    moved = values["bytes_per_s"] is not None
    return (
        values["contender"],
        values["element"],
        f"{values['median_us']:.2f}",
        f"{first:.2f} - {third:.2f}",
        f"{values['bytes']:,}" if moved else "",
        _rate(values["bytes_per_s"]) if moved else "",
        f"{values['share_of_copy']:.1%}" if moved else "",
        f"{values['times_empty']:.2f}",
        f"{values['rounds']} x {values['calls']}",
    )


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:,.1f}"


def _table(rows: Iterable[tuple[str, ...]], width: int | None) -> Iterator[str]:
    columns = dict(zip(_HEADER, zip(_HEADER, *rows, strict=True), strict=True))
    widths = {name: max(map(len, column)) for name, column in columns.items()}
    for name in _LESS:
        if width is None or sum(widths[name] + 2 for name in columns) <= width:
            break
        del columns[name]
    for row in zip(*columns.values(), strict=True):
        # names stand at the left, figures at the right
        padded = [
            cell.ljust(widths[name]) if name in _NAMES else cell.rjust(widths[name])
            for cell, name in zip(row, columns, strict=True)
        ]
        yield "  " + "  ".join(padded).rstrip()
