"""``pytest --gpu-report=FILE``: what ran on which GPU, and what became of it, as JSON.

The file is written anew after every test, so that a run that is killed, or hangs, leaves what it has found.
``benchmarks/gpu-1.json`` describes it: there it is ``#/$defs/report``.
"""

from __future__ import annotations

import datetime
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from ptxtemplates.gpu import unavailable
from ptxtemplates.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

SCHEMA_VERSION: Final = 1
OPTION: Final = "--gpu-report"
DETAILS: Final = pytest.StashKey[list[dict[str, Any]]]()


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="FILE", help="write what became of the tests, and on which GPU, as JSON")


def configure(config: pytest.Config) -> None:
    if path := config.getoption(OPTION):
        config.pluginmanager.register(GpuReport(Path(path).absolute()))


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return what adds a detail to the report of this test: numbers, texts and booleans by name."""
    node = request.node
    details = node.stash.setdefault(DETAILS, [])
    return lambda **values: details.append({name: as_json(value) for name, value in values.items()})


def as_json(value: Any) -> Any:
    """Return a number that JSON lacks as a string, and anything else as it is."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def device_values() -> dict[str, Any]:
    """Return what the tests ran on, and why there is none if there is none."""
    reason = unavailable()
    values: dict[str, Any] = {
        "device": None, "architecture": None, "driver_cuda": None, "unavailable": reason,
    }  # fmt: skip
    if reason is None:
        from ptxtemplates.gpu import boundary

        number = boundary.current_device()
        (major, minor), _ = boundary.describe_driver()
        values |= {
            "device": boundary.name(number),
            "architecture": boundary.architecture(number),
            "driver_cuda": f"{major}.{minor}",
        }
    return values


class GpuReport:
    """Collects outcomes and writes them.

    Parameters
    ----------
    path : Path
        Where to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, dict[str, Any]] = {}
        self._values: dict[str, Any] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        fresh = {"test": item.nodeid, "outcome": "passed", "seconds": 0.0, "reason": None, "details": []}
        test = self._tests.setdefault(item.nodeid, fresh)
        test["seconds"] = round(test["seconds"] + report.duration, 3)
        test["details"] = item.stash.get(DETAILS, [])
        if report.failed or (report.skipped and test["outcome"] == "passed"):
            test["outcome"], test["reason"] = report.outcome, _reason(report)
        if report.when == "teardown":
            self._write(finished=False)
        return report

    def pytest_sessionfinish(self) -> None:
        self._write(finished=True)

    def _write(self, *, finished: bool) -> None:
        if not self._values:
            self._values = {
                "schema_version": SCHEMA_VERSION,
                "package_version": VERSION,
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                **device_values(),
            }
        tests = list(self._tests.values())
        whole = {
            **self._values,
            "finished": finished,
            "ok": finished and bool(tests) and all(test["outcome"] != "failed" for test in tests),
            "tests": tests,
        }
        staged = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")
        staged.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        staged.replace(self._path)


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped or has failed: the last line of the latter."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(report.longrepr if crash is None else crash.message)
