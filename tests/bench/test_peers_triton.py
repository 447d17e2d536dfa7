"""Our kernels in Triton, executed by its interpreter in a process of its own: it is chosen at import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptxtemplates.bench.peers import TOLERANCES
from tests.bench.peers_on_cpu import SHAPES

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("triton", reason="Triton is not installed")


@pytest.fixture(scope="module")
def errors() -> dict[str, float]:
    """Return the errors of all kernels, by shape."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench.peers_on_cpu"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, float] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_triton_computes_what_the_kernels_do(shape: str, errors: dict[str, float]) -> None:
    assert errors[shape] < TOLERANCES["f32"]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if "decode" in shape])
def test_tuning_changes_no_result(shape: str, errors: dict[str, float]) -> None:
    """Each configuration runs once at the first call, and the best one from then on."""
    assert errors[f"{shape}, tuned"] < TOLERANCES["f32"]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if "reduce" in shape])
def test_triton_reduces_rows_of_their_own_lengths(shape: str, errors: dict[str, float]) -> None:
    assert errors[f"{shape}, ragged"] < TOLERANCES["f32"]
