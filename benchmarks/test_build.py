"""A list of 1,000 variants: built from nothing, checked, and built again with nothing to do.

``pytest benchmarks/test_build.py``; each line is the whole process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.building import build

HEADS: Final = "num_heads = [1, 4, 8, 16, 24, 28, 32, 40, 48, 64]\n"
HEAD_DIMS: Final = "head_dim = [64, 80, 96, 128, 256]\n"
LIST: Final = (
    f'[[kernel]]\nname = ["batched_rope", "batched_rope_backward"]\n{HEADS}{HEAD_DIMS}'
    "theta = [1e4, 5e5, 1e6, 5e6, 1e8]\n"
    f'[[kernel]]\nname = "flash_decoding_reduce"\n{HEADS}{HEAD_DIMS}chunk_size = [16, 64, 128, 256, 512]\n'
    f'[[kernel]]\nname = "flash_decoding_chunk"\n{HEADS}{HEAD_DIMS}chunk_size = [16, 64, 128, 256, 512]\n'
    "num_kv_heads = 1\nmax_seq_len = 8192\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "kernels.toml").write_text(LIST)
    return tmp_path


@pytest.mark.benchmark(group="1,000 variants")
def test_from_nothing(benchmark: Any, project: Path) -> None:
    rounds = iter(range(100))
    output = benchmark.pedantic(
        lambda: build(project, "--out", f"build{next(rounds)}"), rounds=5, warmup_rounds=1
    )
    assert "kernels: 1000; files: 1001 written" in output


@pytest.mark.benchmark(group="1,000 variants")
def test_nothing_to_do(benchmark: Any, project: Path) -> None:
    build(project)
    output = benchmark.pedantic(build, args=(project,), rounds=10, warmup_rounds=1)
    assert output == "kernels: 1000; files: 0 written, 1001 unchanged, 0 removed\n"


@pytest.mark.benchmark(group="1,000 variants")
def test_check(benchmark: Any, project: Path) -> None:
    build(project)
    output = benchmark.pedantic(build, args=(project, "--check"), rounds=5, warmup_rounds=1)
    assert output == "build is current: 1001 files\n"
