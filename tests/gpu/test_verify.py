"""``verify --on gpu``, as far as a machine without one can tell: on the stand-in, which executes its launches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from click.testing import CliRunner

from ptxtemplates.cli import main
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward
from ptxtemplates.rendering import render
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.gpu.standins import Machine

KERNEL: dict[str, Any] = {"num_heads": 2, "head_dim": 16, "theta": 1e4}


@pytest.fixture
def project(install: Callable[..., Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(BatchedRope(**KERNEL), BatchedRopeBackward(**KERNEL))
    (tmp_path / "kernels.toml").write_text(
        '[[kernel]]\nname = "batched_rope"\nnum_heads = 2\nhead_dim = 16\ntheta = 1e4\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["verify", *arguments], standalone_mode=False)


@pytest.mark.parametrize("place", ["gpu", "auto"])
def test_cases_run_on_the_device(project: Path, place: str) -> None:
    result = run("--on", place)
    assert result.return_value == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("ok      batched_rope.h2.d16.theta10000")
    assert "emulator" not in lines[-1]
    assert "every result within its bound" in lines[-1]


def test_report_names_the_device(project: Path) -> None:
    report = json.loads(run("--on", "gpu", "--json").output)
    schema = json.loads((ROOT / "ptxtemplates" / "schemas" / "verify-1.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, schema)
    assert report["place"] == "gpu"
    assert report["device"]


def test_wrong_text_fails_there_too(project: Path) -> None:
    text = render(BatchedRopeBackward(**KERNEL)).text
    (project / "other.ptx").write_text(text, encoding="utf-8")
    result = run("--on", "gpu", "--ptx", "other.ptx")
    assert result.return_value == 1
    assert "cosine-and-sine: out[" in result.output
