"""Reviewing 100 variants of which 20 changed, for two architectures, with nothing cached.

``pytest benchmarks/test_diff.py -s`` prints seconds; the limit is 30 on two cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.manifest import description_of, dump
from ptxtemplates.rendering import render

if TYPE_CHECKING:
    from pathlib import Path

    from ptxtemplates.kernel import Kernel

LIMIT: Final = 30.0

CHUNKS: Final[list[Kernel]] = [
    FlashDecodingChunk(
        head_dim=head_dim, num_heads=32, num_kv_heads=kv_heads, chunk_size=chunk_size, max_seq_len=131_072
    )
    for head_dim in (64, 96, 128, 192, 256)
    for kv_heads in (4, 8)
    for chunk_size in (16, 128)
]
REDUCTIONS: Final[list[Kernel]] = [
    FlashDecodingReduce(head_dim=head_dim, num_heads=num_heads, chunk_size=chunk_size)
    for head_dim in (64, 96, 128, 192, 256)
    for num_heads in (28, 32)
    for chunk_size in (16, 128)
]
ROPES: Final[list[Kernel]] = [
    kind(num_heads=num_heads, head_dim=head_dim, theta=theta)
    for kind in (BatchedRope, BatchedRopeBackward)
    for num_heads in (8, 28, 32)
    for head_dim in (64, 80, 96, 128, 256)
    for theta in (1e4, 5e5)
]

EDITS: Final = {
    # the dearest: shown to be the same over the reals, after terms have differed
    "rounding": (CHUNKS, "mul.rn.f32 %sum, %sum, %rescale;", "mul.rn.ftz.f32 %sum, %sum, %rescale;"),
    "bits": (
        CHUNKS,
        "max.f32    %step_max, %step_max, %score1;",
        "max.f32    %step_max, %score1, %step_max;",
    ),
    "reduction": (REDUCTIONS, "rcp.rn.f32  %inverse, %sum;", "rcp.approx.f32  %inverse, %sum;"),
}


def write(folder: Path, texts: dict[str, str]) -> None:
    (folder / "snapshots").mkdir(parents=True)
    for name, text in texts.items():
        (folder / "snapshots" / f"{name}.ptx").write_text(text, encoding="utf-8")
    kernels = [*CHUNKS, *REDUCTIONS, *ROPES]
    descriptions = {kernel.variant: description_of(kernel) for kernel in kernels}
    (folder / "snapshots.json").write_text(dump(descriptions), encoding="utf-8")


@pytest.mark.parametrize("edit", EDITS)
def test_twenty_of_a_hundred(tmp_path: Path, edit: str) -> None:
    kernels, before, after = EDITS[edit]
    texts = {kernel.variant: render(kernel).text for kernel in (*CHUNKS, *REDUCTIONS, *ROPES)}
    assert len(texts) == 100
    edited = {kernel.variant: texts[kernel.variant].replace(before, after) for kernel in kernels}
    write(tmp_path / "old", texts)
    write(tmp_path / "new", texts | edited)
    command = [sys.executable, "-m", "ptxtemplates", "diff", "old/snapshots", "new/snapshots", "--json"]
    command += ["--arch", "sm_80", "--arch", "sm_90"]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    started = time.perf_counter()
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    changes = [each for each in json.loads(ran.stdout)["kernels"] if each["status"] == "changed"]
    assert len(changes) == 20
    verdicts = sorted({each["meaning"]["verdict"] for each in changes})
    print(f"\n{edit}: {seconds:.1f} s, limit {LIMIT:g} s on two cores; {', '.join(verdicts)}")
