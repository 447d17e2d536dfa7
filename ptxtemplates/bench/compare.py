"""A run against an earlier one on the same kind of GPU: what is slower, what is faster, beyond the spread."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

from ptxtemplates.bench.contender import OURS
from ptxtemplates.bench.report import SCHEMA_VERSION, title_of
from ptxtemplates.bench.timing import Spread
from ptxtemplates.errors import PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from ptxtemplates.bench.units import Workload

FLOOR: Final = 0.03
"""Smallest change that counts, as a share of the earlier median. Clocks and the placement of memory differ by
one or two percent from process to process, which the rounds of one process do not show."""

Key: TypeAlias = tuple[str, frozenset[tuple[str, int]], str, str]
"""Subject, sizes, contender and element."""


class BaselineError(PtxTemplatesError):
    """A report that a run cannot be compared with."""


class Baseline(NamedTuple):
    """An earlier report.

    Attributes
    ----------
    file : pathlib.Path
        Where it lies.
    device : str
        Name of the GPU that it is of.
    times : dict of Key to Spread
        Microseconds of a call.
    """

    file: Path
    device: str
    times: dict[Key, Spread]


def read(file: Path) -> Baseline:
    """Read a report that ``ptxtemplates bench --json`` wrote.

    Raises
    ------
    BaselineError
        If it cannot be read, or is no such report, or one of another version of the format.
    """
    try:
        report = json.loads(file.read_bytes(), parse_constant=_refuse_constant)
    except OSError as error:
        raise BaselineError(f"cannot read {file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{file} is not JSON: {error}") from error
    if not isinstance(report, dict) or "schema_version" not in report or "measurements" not in report:
        raise BaselineError(f"{file} is no report of ptxtemplates bench --json")
    if report["schema_version"] != SCHEMA_VERSION:
        raise BaselineError(
            f"{file} has schema version {report['schema_version']!r}, and this version of ptxtemplates "
            f"compares with {SCHEMA_VERSION}: measure the baseline again"
        )
    try:
        times = {key_of(values): _spread_of(values) for values in report["measurements"]}
        return Baseline(file, str(report["device"]["name"]), times)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise BaselineError(
            f"{file} is no report of ptxtemplates bench --json: {type(error).__name__}: {error}"
        ) from error


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def key_of(values: Mapping[str, Any]) -> Key:
    """Return what a measurement must have in common with one of another run."""
    sizes = frozenset((str(name), int(value)) for name, value in values["sizes"].items())
    return values["subject"], sizes, values["contender"], values["element"]


def _spread_of(values: Mapping[str, Any]) -> Spread:
    first, third = values["quartiles_us"]
    spread = Spread(float(values["median_us"]), float(first), float(third))
    if not all(math.isfinite(time) and time > 0 for time in spread):
        raise ValueError(f"{title_of(values)}: times must be finite and more than 0")
    return spread


def check(baseline: Baseline, device: str, workloads: Iterable[Workload]) -> None:
    """Refuse, before anything is measured, a baseline with which nothing can be compared.

    Raises
    ------
    BaselineError
        If it is of another GPU, or has none of the workloads.
    """
    if baseline.device != device:
        raise BaselineError(
            f"{baseline.file} was measured on {baseline.device}, and this is {device}: times of different "
            "GPUs are not compared"
        )
    known = {(subject, sizes) for subject, sizes, _, _ in baseline.times}
    if not any((each.unit.name, frozenset(each.sizes.items())) in known for each in workloads):
        raise BaselineError(f"{baseline.file} has none of the subjects and shapes that are to be measured")


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
        before, now = baseline.times[key_of(values)], _spread_of(values)
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
    return {
        "compared": len(both),
        "of": len(measurements),
        "missing": len(baseline.times) - len(both),
        "changes": changes,
    }


def regressed(comparison: Mapping[str, Any]) -> bool:
    """Say whether kernels of ours are slower; those of others may be what they like."""
    return any(
        values["change"] == "slower" and values["contender"] == OURS for values in comparison["changes"]
    )


def lines_of(comparison: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a comparison for a person."""
    for values in comparison["changes"]:
        who = f"{values['contender']} {values['element']}".rstrip()
        yield (
            f"{values['change']}  {title_of(values)}: {who}: "
            f"{values['before_us']:.2f} us before, {values['now_us']:.2f} us now, x {values['ratio']:.2f}"
        )
    missing = comparison["missing"]
    more = f"; {missing} of the baseline were not measured" if missing else ""
    yield f"compared {comparison['compared']} of {comparison['of']} measurements{more}"
