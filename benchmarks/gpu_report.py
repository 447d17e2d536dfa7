"""What ``gpu.sh`` writes: the reports of the tests and of the bench in one. ``gpu-1.json`` describes it."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.version import VERSION
from tests.gpu.reporting import device_values

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA_VERSION: Final = 1
RESULTS: Final = Path("benchmarks", "results")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the script asks for; return its exit code."""
    parser = argparse.ArgumentParser(prog="gpu_report")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("where", help="print where results of this GPU belong")
    merging = commands.add_parser("merge", help="write tests and bench as one JSON")
    for part in ("tests", "bench"):
        merging.add_argument(f"--{part}", type=Path, required=True)
        merging.add_argument(f"--{part}-exit-code", type=int, required=True)
        merging.add_argument(f"--{part}-seconds", type=int, required=True)
    merging.add_argument("output", type=Path)
    chosen = parser.parse_args(arguments)
    device = device_values()
    if chosen.command == "where":
        if device["device"] is None:
            print(f"error: no GPU: {device['unavailable']}", file=sys.stderr)
            return 2
        print(RESULTS / f"{slug(device['device'])}.json")
        return 0
    tests, bench = read(chosen.tests), read(chosen.bench)
    code = exit_code(tests, chosen.tests_exit_code, bench, chosen.bench_exit_code)
    values = {
        "schema_version": SCHEMA_VERSION,
        "ok": code == 0,
        "package_version": VERSION,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **{name: device[name] for name in ("device", "architecture", "driver_cuda")},
        "exit_codes": {"tests": chosen.tests_exit_code, "bench": chosen.bench_exit_code},
        "seconds": {"tests": chosen.tests_seconds, "bench": chosen.bench_seconds},
        "tests": tests,
        "bench": bench,
    }
    output = chosen.output
    if whole(read(output)) and not whole(values):
        output = output.with_name(f"{output.stem}.failed{output.suffix}")
    write(output, values)
    print(summary(values, output))
    return code


def slug(name: str) -> str:
    """Return a device's name as that of a file: ``NVIDIA H100 80GB HBM3`` is ``nvidia-h100-80gb-hbm3``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def read(path: Path) -> Any:
    """Return the JSON of a file; None if it has none, as when the program was killed."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def whole(values: Any) -> bool:
    """Say whether a result has all of the tests and of the bench, whatever became of them."""
    if not isinstance(values, dict):
        return False
    tests, bench = values.get("tests"), values.get("bench")
    if not isinstance(tests, dict) or not isinstance(bench, dict):
        return False
    return tests.get("finished") is True and bench.get("stopped") is None


def exit_code(tests: Any, tests_code: int, bench: Any, bench_code: int) -> int:
    """Return 0 if all is well, 1 if something is wrong, 2 if it is not known.

    pytest ends with 1 if a test failed, and with more if it was stopped or ran none.
    """
    if 1 in (tests_code, bench_code):
        return 1
    return 0 if tests_code == bench_code == 0 and tests and tests["ok"] and bench is not None else 2


def write(path: Path, values: dict[str, Any]) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f"{path.name}.{os.getpid()}.part")
    staged.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    staged.replace(path)


def summary(values: dict[str, Any], output: Path) -> str:
    """Say in a line what came of it."""
    tests = (values["tests"] or {}).get("tests", [])
    counts = [
        f"{sum(test['outcome'] == outcome for test in tests)} {outcome}"
        for outcome in ("passed", "failed", "skipped")
    ]
    codes, seconds = values["exit_codes"], values["seconds"]
    return (
        f"{values['device']}: tests {', '.join(counts)} (exit code {codes['tests']}, {seconds['tests']} s); "
        f"bench exit code {codes['bench']}, {seconds['bench']} s; {output}"
    )


if __name__ == "__main__":
    sys.exit(main())
