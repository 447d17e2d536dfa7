"""Assembling: each kernel and architecture, and this repository's whole list for six architectures.

``pytest benchmarks/test_assembly.py``. The first table is the library's whole work on texts that it has not
seen (a comment makes each one new), over all processors: divide by the number of jobs, which the name tells.
The second is the whole process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("cuda.bindings.nvjitlink", reason="nvJitLink is not installed")

from ptxtemplates.assembly import assemble_all
from ptxtemplates.config import load
from ptxtemplates.rendering import render

ROOT: Final = Path(__file__).resolve().parents[1]
ARCHITECTURES: Final = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_103", "sm_120")
KERNELS: Final = load(ROOT / "kernels.toml")
SHORT: Final = [text for text in (render(kernel).text for kernel in KERNELS) if text.count("\n") <= 200]
JOBS: Final = len(SHORT) * len(ARCHITECTURES)


@pytest.mark.benchmark(group="assembling texts of up to 200 lines")
@pytest.mark.parametrize("jobs", [JOBS], ids=lambda jobs: f"{jobs} jobs")
def test_assemble_all(benchmark: Any, jobs: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rounds = iter(range(100))

    def setup() -> tuple[tuple[list[tuple[str, str]]], dict[str, Any]]:
        mark = f"// {next(rounds)}\n"
        return ([(mark + text, architecture) for text in SHORT for architecture in ARCHITECTURES],), {}

    result = benchmark.pedantic(assemble_all, setup=setup, rounds=5, warmup_rounds=1)
    assert len(result) == jobs


def build(project: Path, cache: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["XDG_CACHE_HOME"] = str(cache)
    words = [word for architecture in ARCHITECTURES for word in ("--arch", architecture)]
    command = [sys.executable, "-m", "ptxtemplates", "build", "-c", str(ROOT / "kernels.toml"), *words]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.benchmark(group="the whole list for six architectures")
def test_cold(benchmark: Any, tmp_path: Path) -> None:
    rounds = iter(range(100))

    def run() -> str:
        folder = tmp_path / str(next(rounds))
        folder.mkdir()
        return build(folder, folder)

    output = benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    assert f"{len(KERNELS) * 7 + 1} written" in output


@pytest.mark.benchmark(group="the whole list for six architectures")
def test_nothing_changed(benchmark: Any, tmp_path: Path) -> None:
    build(tmp_path, tmp_path)
    output = benchmark.pedantic(build, args=(tmp_path, tmp_path), rounds=10, warmup_rounds=1)
    assert "files: 0 written" in output


@pytest.mark.benchmark(group="the whole list for six architectures")
def test_check(benchmark: Any, tmp_path: Path) -> None:
    """A check renders and takes machine code from the cache."""
    build(tmp_path, tmp_path)

    def run() -> None:
        words = [word for architecture in ARCHITECTURES for word in ("--arch", architecture)]
        command = [
            sys.executable,
            "-m",
            "ptxtemplates",
            "build",
            "-c",
            str(ROOT / "kernels.toml"),
            "--check",
            *words,
        ]
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)

    benchmark.pedantic(run, rounds=10, warmup_rounds=1)
