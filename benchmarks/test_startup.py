"""``ptxtemplates render``, the whole process, against importing what it needs.

``pytest benchmarks/test_startup.py``: the number in brackets is the ratio to the fastest line of the table,
the bare import. Template code compiled by an earlier run is used, as Python uses its own; the line without
it shows what the first run after a change costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {
    "import jinja2, click": ["-c", "import jinja2, click"],
    "batched_rope": ["num_heads=32", "head_dim=128", "theta=1e4"],
    "batched_rope_backward": ["num_heads=32", "head_dim=128", "theta=1e4"],
    "flash_decoding_reduce": ["num_heads=32", "head_dim=128", "chunk_size=16"],
    "flash_decoding_chunk": [
        "num_heads=32",
        "head_dim=128",
        "chunk_size=16",
        "num_kv_heads=8",
        "max_seq_len=4096",
    ],
}


def command(name: str) -> list[str]:
    words = COMMANDS[name]
    if words[0] == "-c":
        return [sys.executable, *words]
    settings = [argument for word in words for argument in ("--set", word)]
    return [sys.executable, "-m", "ptxtemplates", "render", name, *settings]


@pytest.mark.benchmark(group="start-up")
@pytest.mark.parametrize("name", COMMANDS)
def test_process(benchmark: Any, name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run() -> None:
        subprocess.run(command(name), env=environment, stdout=subprocess.DEVNULL, check=True)

    benchmark.pedantic(run, rounds=30, warmup_rounds=3)


@pytest.mark.benchmark(group="start-up")
def test_process_without_compiled_templates(benchmark: Any, tmp_path: Path) -> None:
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    rounds = iter(range(100))

    def run() -> None:
        environment["XDG_CACHE_HOME"] = str(tmp_path / str(next(rounds)))
        subprocess.run(command("batched_rope"), env=environment, stdout=subprocess.DEVNULL, check=True)

    benchmark.pedantic(run, rounds=30, warmup_rounds=3)
