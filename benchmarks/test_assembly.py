"""Assembling: each kernel and architecture, and this repository's whole list for six architectures.

``pytest benchmarks/test_assembly.py``. The first table is the library's whole work on texts that it has not
seen (a comment makes each one new), over all processors: divide by the number of jobs, which the name tells.
The second is the whole process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.building import build
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


def build_all(project: Path, cache: Path, *arguments: str) -> str:
    words = [word for architecture in ARCHITECTURES for word in ("--arch", architecture)]
    return build(project, "-c", str(ROOT / "kernels.toml"), *words, *arguments, XDG_CACHE_HOME=str(cache))


@pytest.mark.benchmark(group="the whole list for six architectures")
def test_cold(benchmark: Any, tmp_path: Path) -> None:
    rounds = iter(range(100))

    def run() -> str:
        folder = tmp_path / str(next(rounds))
        folder.mkdir()
        return build_all(folder, folder)

    output = benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    assert f"{len(KERNELS) * 7 + 1} written" in output


@pytest.mark.benchmark(group="the whole list for six architectures")
def test_nothing_changed(benchmark: Any, tmp_path: Path) -> None:
    build_all(tmp_path, tmp_path)
    output = benchmark.pedantic(build_all, args=(tmp_path, tmp_path), rounds=10, warmup_rounds=1)
    assert "files: 0 written" in output


@pytest.mark.benchmark(group="the whole list for six architectures")
def test_check(benchmark: Any, tmp_path: Path) -> None:
    """A check renders and takes machine code from the cache."""
    build_all(tmp_path, tmp_path)
    benchmark.pedantic(build_all, args=(tmp_path, tmp_path, "--check"), rounds=10, warmup_rounds=1)
