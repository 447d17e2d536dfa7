"""Reports of earlier runs: read strictly, and refused where nothing can be compared with them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from ptxtemplates.bench.contender import OURS
from ptxtemplates.bench.report import SCHEMA_VERSION, title_of
from ptxtemplates.bench.timing import Spread
from ptxtemplates.errors import PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ptxtemplates.bench.running import Facts
    from ptxtemplates.bench.units import Workload

Subject: TypeAlias = tuple[str, frozenset[tuple[str, int]]]
"""Subject and sizes."""

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
    name, architecture : str
        Of the GPU.
    l2_bytes : int
        Of its cache.
    surroundings : dict of str to str or None
        What times depend on beside the GPU, as `surroundings_of` returns it.
    copy : Spread
        Microseconds that copies took for a byte.
    times : dict of Key to Spread
        Microseconds of a call.
    """

    file: Path
    name: str
    architecture: str
    l2_bytes: int
    surroundings: dict[str, str | None]
    copy: Spread
    times: dict[Key, Spread]

    def ours(self) -> set[Subject]:
        """Return the subjects and sizes of which it has a time of our kernels."""
        return {(subject, sizes) for subject, sizes, contender, _ in self.times if contender == OURS}


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
        times: dict[Key, Spread] = {}
        for values in report["measurements"]:
            key = key_of(values)
            if key in times:
                raise ValueError(f"{title_of(values)}: {key[2]} stands there twice")
            times[key] = spread_of(values)
        device = report["device"]
        name, architecture = _text(device["name"]), _text(device["architecture"])
        size = _whole(device["l2_bytes"])
        return Baseline(file, name, architecture, size, surroundings_of(report), copy_of(report), times)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise BaselineError(
            f"{file} is no report of ptxtemplates bench --json: {type(error).__name__}: {error}"
        ) from error


def check(baseline: Baseline, facts: Facts, workloads: Iterable[Workload]) -> None:
    """Refuse, before anything is measured, a baseline with which nothing can be compared.

    Raises
    ------
    BaselineError
        If it is of another GPU, or has a time of our kernels for none of the workloads.
    """
    if baseline.name != facts.name:
        raise BaselineError(
            f"{baseline.file} was measured on {baseline.name}, and this is {facts.name}: times of different "
            "GPUs are not compared"
        )
    if (baseline.architecture, baseline.l2_bytes) != (facts.architecture, facts.l2_bytes):
        raise BaselineError(
            f"{baseline.file} was measured on a {baseline.name} of {baseline.architecture} with an L2 cache "
            f"of {baseline.l2_bytes:,} bytes, and this one is of {facts.architecture} and has "
            f"{facts.l2_bytes:,}: times of different GPUs are not compared"
        )
    known = baseline.ours()
    if not any((each.unit.name, frozenset(each.sizes.items())) in known for each in workloads):
        raise BaselineError(
            f"{baseline.file} has no time of ptxtemplates for any of the subjects and shapes that are to be "
            "measured"
        )


def surroundings_of(report: Mapping[str, Any]) -> dict[str, str | None]:
    """Return, by name, the versions of all that times depend on beside the GPU."""
    versions = report["versions"].items()
    return {
        "driver for CUDA": _text(report["device"]["cuda"]),
        "ptxtemplates": _text(report["version"]),
        "assembler": _text(report["toolchain"]),
        **{_text(name): None if version is None else _text(version) for name, version in versions},
    }


def subject_of(values: Mapping[str, Any]) -> Subject:
    """Return what is computed, and the sizes."""
    sizes = frozenset((_text(name), _whole(value)) for name, value in values["sizes"].items())
    return _text(values["subject"]), sizes


def key_of(values: Mapping[str, Any]) -> Key:
    """Return what a measurement must have in common with one of another run."""
    return *subject_of(values), _text(values["contender"]), _text(values["element"])


def spread_of(values: Mapping[str, Any]) -> Spread:
    """Return the microseconds of a measurement."""
    first, third = values["quartiles_us"]
    return _spread(title_of(values), values["median_us"], first, third)


def copy_of(report: Mapping[str, Any]) -> Spread:
    """Return the microseconds that copies of a run took for a byte."""
    copy = report["copy"]
    first, third = copy["quartiles"]
    rates = _spread("copy", copy["bytes_per_s"], first, third)
    return Spread(1e6 / rates.median, 1e6 / rates.third, 1e6 / rates.first)


def _spread(title: str, *numbers: Any) -> Spread:
    for number in numbers:
        if not isinstance(number, int | float) or isinstance(number, bool):
            raise TypeError(f"{title}: {number!r} is no number")
    median, first, third = map(float, numbers)
    if not 0 < first <= median <= third < math.inf:
        raise ValueError(f"{title}: times must be finite and more than 0, the median between the quartiles")
    return Spread(median, first, third)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{value!r} is no integer of at least 1")
    return value


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")
