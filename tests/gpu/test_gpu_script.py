"""``benchmarks/gpu.sh`` from end to end on the stand-in, with a few tests, and a bench that is a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jsonschema
import pytest

from benchmarks import gpu_report
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

PYTHON: Final = """\
#!/bin/sh
case "$*" in *"ptxtemplates bench --json"*)
    cat "{folder}/bench.txt"
    exit {code} ;;
esac
exec "{python}" "$@"
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
    """Return what runs the script in another folder, with an output named as a user would: relative to it."""

    def running(
        *, bench: str = json.dumps(BENCH), bench_code: int = 0, chosen: str = CHOSEN, **more: str
    ) -> Ended:
        (tmp_path / "bench.txt").write_text(bench)
        python = tmp_path / "python"
        python.write_text(PYTHON.format(folder=tmp_path, code=bench_code, python=sys.executable))
        python.chmod(0o755)
        variables = environment(
            tmp_path, PYTHON=str(python), PYTEST_ADDOPTS=f"-q -p no:cacheprovider -k '{chosen}'", **more
        )
        for unwanted in ("CUDA_HOME", "CUDA_PATH", "PYTEST_XDIST_WORKER"):
            variables.pop(unwanted, None)
        ended = subprocess.run(
            [ROOT / "benchmarks" / "gpu.sh", "new/result.json"],
            cwd=tmp_path, env=variables, capture_output=True, text=True, check=False,
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
    ended = script(bench="Traceback", bench_code=2, chosen="div.full.f32")
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


def test_where_results_belong(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_report, "device_values", lambda: {"device": "NVIDIA H100 80GB HBM3"})
    assert gpu_report.main(["where"]) == 0
    assert Path(capsys.readouterr().out.strip()) == Path("benchmarks/results/nvidia-h100-80gb-hbm3.json")


def test_a_run_that_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the script's limit of time: what pytest had written until then is kept."""
    device = {"device": "a GPU", "architecture": "sm_90", "driver_cuda": "13.0", "unavailable": None}
    monkeypatch.setattr(gpu_report, "device_values", lambda: device)
    report: dict[str, Any] = {
        "schema_version": 1, "package_version": "0", "date": "2026-01-01T00:00:00+00:00", **device,
        "finished": False, "ok": False, "tests": [],
    }  # fmt: skip
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
