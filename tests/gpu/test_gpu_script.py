"""``benchmarks/gpu.sh`` from end to end on the stand-in, with a few tests, and a bench that is a file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jsonschema
import pytest

from benchmarks import gpu_report
from ptxtemplates.bench.units import units_of
from ptxtemplates.config import load
from tests.gpu.everywhere import WRONG, environment
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="a script for bash, where NVIDIA's GPUs for CI are"
)

SCHEMA: Final = json.loads((ROOT / "benchmarks" / "gpu-1.json").read_text(encoding="utf-8"))
CHOSEN: Final = "batched_rope.h1.d256 or bits[add- or div.full.f32 or sanitizer"
BENCH: Final = {"schema_version": 1, "kernels": []}
DEVICE: Final = {"device": "a GPU", "architecture": "sm_90", "driver_cuda": "13.0", "unavailable": None}
REPORT: Final[dict[str, Any]] = {
    "schema_version": 1, "package_version": "0", "date": "2026-01-01T00:00:00+00:00", **DEVICE,
    "finished": True, "ok": True, "tests": [],
}  # fmt: skip

PYTHON: Final = """\
#!/bin/sh
case "$*" in
*"ptxtemplates bench --json"*)
    echo "$*" >"{folder}/bench-arguments.txt"
    cat "{folder}/bench.txt"
    exit {code} ;;
*"-m pytest"*)
    if [ -f "{folder}/interrupt" ]; then
        kill -INT 0  # as from the keyboard: to all of them
        exit 2
    fi
    if [ -f "{folder}/tests.json" ]; then
        for last; do :; done
        cp "{folder}/tests.json" "${{last#--gpu-report=}}"
        exit
    fi ;;
esac
exec "{python}" "$@"
"""

TIMEOUT: Final = """\
#!/bin/sh
echo "$*" >>"{folder}/limits.txt"
exec "{timeout}" "$@"
"""


class Ended(NamedTuple):
    """What became of the script."""

    code: int
    out: str
    err: str
    output: Path

    @property
    def values(self) -> Any:
        values = json.loads(self.output.read_text(encoding="utf-8"))
        jsonschema.validate(values, SCHEMA)
        return values


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Ended]:
    """Return what runs the script in another folder, with an output named as a user would: relative to it.

    Its tests are the chosen ones, or a report in their place; its bench is a text.
    """

    def running(
        *,
        bench: str = json.dumps(BENCH),
        bench_code: int = 0,
        chosen: str = CHOSEN,
        tests: dict[str, Any] | None = None,
        **more: str,
    ) -> Ended:
        (tmp_path / "bench.txt").write_text(bench)
        if tests is not None:
            (tmp_path / "tests.json").write_text(json.dumps(tests))
        python = tmp_path / "python"
        python.write_text(PYTHON.format(folder=tmp_path, code=bench_code, python=sys.executable))
        python.chmod(0o755)
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / "timeout").write_text(
            TIMEOUT.format(folder=tmp_path, timeout=shutil.which("timeout"))
        )
        (tmp_path / "bin" / "timeout").chmod(0o755)
        more.setdefault("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        variables = environment(
            tmp_path, PYTHON=str(python), PYTEST_ADDOPTS=f"-q -p no:cacheprovider -k '{chosen}'", **more
        )
        for unwanted in ("CUDA_HOME", "CUDA_PATH", "PYTEST_XDIST_WORKER"):
            variables.pop(unwanted, None)
        ended = subprocess.run(
            [ROOT / "benchmarks" / "gpu.sh", "new/result.json"],
            cwd=tmp_path, env=variables, capture_output=True, text=True, check=False, start_new_session=True,
            # a shell cannot trap what its parent ignores, as shells let programs in the background do
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        return Ended(ended.returncode, ended.stdout, ended.stderr, tmp_path / "new" / "result.json")

    return running


def test_all_is_well(script: Callable[..., Ended]) -> None:
    ended = script()
    assert ended.code == 0, ended.out + ended.err
    values = ended.values
    assert values["ok"] is True
    assert (values["device"], values["architecture"], values["driver_cuda"]) == (
        "stand-in 0",
        "sm_90",
        "13.0",
    )
    assert values["exit_codes"] == {"tests": 0, "bench": 0}
    assert values["bench"] == BENCH
    tests = {test["test"].partition("::")[2]: test for test in values["tests"]["tests"]}
    cases = tests["test_every_case_holds[batched_rope.h1.d256.theta10000]"]["details"]
    assert {case["case"]: case["same_bits"] for case in cases}["rotation"] is True
    assert all(case["worst"] <= 1 for case in cases if case["skipped"] is None)
    assert tests["test_the_emulator_has_the_same_bits[add-sm_75]"]["details"][0]["wrong"] == 0
    newer = tests["test_the_emulator_has_the_same_bits[add-sm_100]"]
    assert (newer["outcome"], newer["reason"]) == ("skipped", "sm_90 has no instructions of sm_100")
    assert tests["test_results_are_inside_the_documented_bound[div.full.f32]"]["details"] == [
        {"instruction": "div.full.f32", "target": "sm_75", "rows": 16512, "share_of_bound": 0.0}
    ]
    assert [path.name for path in ended.output.parent.iterdir()] == ["result.json"]
    assert "stand-in 0: tests " in ended.out.splitlines()[-1]


def test_what_fails_is_written(script: Callable[..., Ended]) -> None:
    ended = script(chosen="batched_rope.h1.d256 or bits[add-sm_75", **{WRONG: "1"})
    assert ended.code == 1
    values = ended.values
    assert (values["ok"], values["tests"]["ok"], values["tests"]["finished"]) == (False, False, True)
    assert values["exit_codes"] == {"tests": 1, "bench": 0}
    failed = [test for test in values["tests"]["tests"] if test["outcome"] == "failed"]
    assert len(failed) == len(values["tests"]["tests"]) == 2
    assert all(test["reason"] for test in failed)
    [case] = [case for case in failed[0]["details"] if case["case"] == "rotation"]
    assert case["same_bits"] is False
    assert failed[1]["details"][0]["wrong"] > 0
    assert values["bench"] == BENCH


def test_a_bench_that_fails(script: Callable[..., Ended]) -> None:
    ended = script(bench="Traceback", bench_code=2, tests=REPORT)
    assert ended.code == 2
    values = ended.values
    assert (values["ok"], values["tests"]["ok"], values["bench"]) == (False, True, None)
    assert values["exit_codes"] == {"tests": 0, "bench": 2}


@pytest.mark.parametrize(
    ("tests", "tests_code", "bench", "bench_code", "expected"),
    [
        ({"ok": True}, 0, BENCH, 0, 0),
        ({"ok": False}, 1, BENCH, 0, 1),
        ({"ok": False}, 1, None, 2, 1),
        ({"ok": True}, 0, BENCH, 1, 1),
        ({"ok": True}, 0, None, 0, 2),  # no JSON
        ({"ok": False}, 5, BENCH, 0, 2),  # no tests
        ({"ok": False}, 124, BENCH, 0, 2),  # stopped
        (None, 0, BENCH, 0, 2),
    ],
)
def test_exit_codes(tests: Any, tests_code: int, bench: Any, bench_code: int, expected: int) -> None:
    assert gpu_report.exit_code(tests, tests_code, bench, bench_code) == expected


def test_without_a_gpu(tmp_path: Path) -> None:
    """One line, and nothing is written."""
    ended = subprocess.run(
        [ROOT / "benchmarks" / "gpu.sh", "result.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: no GPU: ")
    assert len(ended.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_ends_the_script_and_writes_nothing(
    script: Callable[..., Ended], tmp_path: Path
) -> None:
    """pytest ends by itself then, and what comes behind it must not start."""
    (tmp_path / "interrupt").touch()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "result.json").write_text("of yesterday")
    ended = script()
    assert (ended.code, ended.err) == (2, "error: interrupted; nothing is written\n")
    assert ended.output.read_text() == "of yesterday"
    assert not (tmp_path / "bench-arguments.txt").exists()


def test_what_is_measured_and_how_long_it_may_take(script: Callable[..., Ended], tmp_path: Path) -> None:
    """One variant of each family; and less than five minutes, with five seconds more for what must be killed."""
    assert script(tests=REPORT).code == 0
    tests, bench = (line.split() for line in (tmp_path / "limits.txt").read_text().splitlines())
    assert tests[:3] == ["--foreground", "--kill-after=5", "180"]
    assert bench[:2] == tests[:2]
    assert 200 < int(bench[2]) <= 280 < 300 - 2 * 5, "what the tests have left"
    arguments = (tmp_path / "bench-arguments.txt").read_text().split()
    patterns = [word.removeprefix("--kernel=") for word in arguments if word.startswith("--kernel=")]
    listed = load(ROOT / "kernels.toml")
    chosen = [unit for pattern in patterns for unit in units_of(listed, [pattern])]
    assert sorted(unit.family for unit in chosen) == sorted({unit.family for unit in units_of(listed)})
    assert {unit.name for unit in chosen} == set(patterns)


PART: Final = {**REPORT, "finished": False, "ok": False}


@pytest.mark.parametrize(
    ("before", "tests", "bench", "replaces"),
    [
        ((REPORT, BENCH), REPORT, None, False),
        ((REPORT, BENCH), None, BENCH, False),
        ((REPORT, BENCH), PART, BENCH, False),
        ((REPORT, BENCH), REPORT, {**BENCH, "stopped": "interrupted"}, False),
        ((REPORT, BENCH), {**REPORT, "ok": False}, BENCH, True),
        ((REPORT, None), PART, None, True),
        ((PART, BENCH), None, None, True),
        (None, None, None, True),
    ],
)
def test_what_is_whole_is_replaced_by_what_is_whole(
    before: Any,
    tests: Any,
    bench: Any,
    replaces: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_report, "device_values", lambda: DEVICE)
    output = tmp_path / "a-gpu.json"
    old = json.dumps({"tests": before[0], "bench": before[1]} if before else [])
    output.write_text(old)
    arguments = []
    for name, part in (("tests", tests), ("bench", bench)):
        (tmp_path / name).write_text("" if part is None else json.dumps(part))
        arguments += [f"--{name}={tmp_path / name}", f"--{name}-exit-code=0", f"--{name}-seconds=1"]
    gpu_report.main(["merge", *arguments, str(output)])
    written = output if replaces else tmp_path / "a-gpu.failed.json"
    values = json.loads(written.read_text())
    jsonschema.validate(values, SCHEMA)
    assert (values["tests"], values["bench"]) == (tests, bench)
    assert capsys.readouterr().out.endswith(f"; {written}\n")
    assert (output.read_text() == old) is not replaces


def test_where_results_belong(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_report, "device_values", lambda: {"device": "NVIDIA H100 80GB HBM3"})
    assert gpu_report.main(["where"]) == 0
    assert Path(capsys.readouterr().out.strip()) == Path("benchmarks/results/nvidia-h100-80gb-hbm3.json")


def test_a_run_that_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the script's limit of time: what pytest had written until then is kept."""
    monkeypatch.setattr(gpu_report, "device_values", lambda: DEVICE)
    report = {**REPORT, "finished": False, "ok": False}
    (tmp_path / "tests.json").write_text(json.dumps(report))
    arguments = [
        "--tests",
        str(tmp_path / "tests.json"),
        "--tests-exit-code",
        "124",
        "--tests-seconds",
        "900",
    ]
    arguments += ["--bench", str(tmp_path / "none"), "--bench-exit-code", "2", "--bench-seconds", "1"]
    output = tmp_path / "output.json"
    assert gpu_report.main(["merge", *arguments, str(output)]) == 2
    values = json.loads(output.read_text())
    jsonschema.validate(values, SCHEMA)
    assert (values["tests"]["finished"], values["bench"]) == (False, None)
