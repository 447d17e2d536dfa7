"""Reports: of what a GPU finds, which it cannot place, and of ``pytest --gpu-report``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import pytest

from ptxtemplates.references.place import Observation
from ptxtemplates.verification.outcomes import Outcome, Verdict
from ptxtemplates.verification.report import Conditions, lines_of, values_of
from tests.gpu.reporting import as_json
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SEEN: Final = Observation("out of bounds", "4 bytes written", "rope", 0, None, (), (), 4096, "out")
PLACED: Final = Observation(
    "out of bounds", "a load", "rope", 7, ("r.jinja", 5), (1, 0, 0), (2, 0, 0), 4, "x"
)
UNPLACED_THREAD: Final = PLACED._replace(source=None, block=(), thread=())


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (SEEN, "case: out of bounds: rope, on the device: 4 bytes written"),
        (
            PLACED,
            "case: out of bounds: rope, r.jinja:5, PTX line 7: a load; block (1, 0, 0), thread (2, 0, 0)",
        ),
        (UNPLACED_THREAD, "case: out of bounds: rope, PTX line 7: a load"),
    ],
)
def test_where_a_finding_is(finding: Observation, line: str) -> None:
    verdict = Verdict("variant", (Outcome("case", 0.0, None, (), (finding,), "", 0.1),), (), ())
    conditions = Conditions("gpu", "exact", 0, "a GPU")
    assert f"    {line}" in list(lines_of([verdict], conditions))
    schema = json.loads((ROOT / "ptxtemplates" / "schemas" / "verify-1.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(json.dumps(values_of([verdict], conditions))), schema)


TESTS: Final = """
import pytest

def test_tells(tell):
    tell(variant="v", case="c", worst=float("inf"), seconds=0.5, skipped=None, repeatable=True, same_bits=None)

def test_fails(tell):
    tell(opcode="add", target="sm_75", spellings=2, rows=3, wrong=1)
    pytest.fail("one answer is wrong", pytrace=False)

def test_skips():
    pytest.skip("no such instruction")

@pytest.fixture
def broken():
    raise ValueError("not set up")

def test_is_not_set_up(broken):
    pass

@pytest.fixture
def leaving():
    yield
    raise ValueError("not torn down")

def test_is_not_torn_down(leaving):
    pass

@pytest.mark.gpu
def test_needs_a_gpu():
    pass
"""

CONFTEST: Final = (
    "from tests.conftest import pytest_addoption, pytest_configure, pytest_runtest_setup, tell\n"
)


def run(folder: Path, tests: str, *options: str) -> str:
    """Run tests in a process of its own, in which no GPU is seen; return what pytest prints."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs a GPU")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run the tests above, and return what is written."""
    folder = tmp_path_factory.mktemp("report")
    run(folder, TESTS, "--gpu-report=report.json")
    written = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    schema = json.loads((ROOT / "benchmarks" / "gpu-1.json").read_text(encoding="utf-8"))
    jsonschema.validate(written, {**schema["$defs"]["report"], "$defs": schema["$defs"]})
    return written


def test_what_is_written(report: Any) -> None:
    assert (report["device"], report["finished"]) == (None, True)
    assert report["unavailable"]
    assert report["ok"] is False
    tests = {test["test"].partition("::")[2]: test for test in report["tests"]}
    assert {name: test["outcome"] for name, test in tests.items()} == {
        "test_tells": "passed",
        "test_fails": "failed",
        "test_skips": "skipped",
        "test_is_not_set_up": "failed",
        "test_is_not_torn_down": "failed",
        "test_needs_a_gpu": "skipped",
    }
    assert tests["test_tells"]["details"][0]["worst"] == "inf"
    assert tests["test_tells"]["reason"] is None
    assert tests["test_fails"]["reason"] == "Failed: one answer is wrong"
    assert tests["test_fails"]["details"][0]["wrong"] == 1
    assert tests["test_skips"]["reason"] == "no such instruction"
    assert tests["test_is_not_set_up"]["reason"] == "ValueError: not set up"
    assert tests["test_is_not_torn_down"]["reason"] == "ValueError: not torn down"
    assert tests["test_needs_a_gpu"]["reason"] == report["unavailable"]


CUT_OFF: Final = """
import json
from pathlib import Path

def test_first():
    pass

def test_second():
    written = json.loads(Path("report.json").read_text())
    assert [test["outcome"] for test in written["tests"]] == ["passed"]
    assert written["finished"] is False
    assert written["ok"] is False
"""


def test_a_run_that_is_cut_off_leaves_what_it_has_found(tmp_path: Path) -> None:
    assert "2 passed" in run(tmp_path, CUT_OFF, "--gpu-report=report.json")


def test_nothing_is_written_without_the_option(tmp_path: Path) -> None:
    assert "1 passed" in run(tmp_path, "def test_it(tell):\n    tell(anything=1)\n")
    assert not list(tmp_path.glob("*.json*"))


def test_numbers_that_json_lacks() -> None:
    assert [as_json(value) for value in (float("nan"), float("-inf"), 1.5, True, None, "nan")] == [
        "nan", "-inf", 1.5, True, None, "nan",
    ]  # fmt: skip
