"""The emulator on launches of a decoding step, against the time that each may take.

``pytest benchmarks/test_emulator.py -s`` prints limit and best time side by side; none of them
fails on a slow machine.
The text is parsed in the warm-up, as it is once in a process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

from ptxtemplates.emulator import PointerTable, Unwritten, emulate
from ptxtemplates.kernels import BatchedRope, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.rendering import render

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ptxtemplates.emulator import EmulationReport
    from ptxtemplates.kernel import Kernel

HEADS: Final = 32
KV_HEADS: Final = 8
HEAD_DIM: Final = 128


class Work(NamedTuple):
    """What is timed, and the milliseconds that it may take."""

    prepare: Callable[[], Callable[[], list[EmulationReport]]]
    limit: float
    rounds: int


def random(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def launch(kernel: Kernel, *arguments: Any, **sizes: int) -> Callable[[], EmulationReport]:
    text = render(kernel).text
    x, y, z = (sizes[extent] if isinstance(extent, str) else extent for extent in kernel.grid)
    return lambda: emulate(text, kernel.entry, (x, y, z), kernel.block, arguments)


def rope() -> Callable[[], list[EmulationReport]]:
    kernel = BatchedRope(num_heads=HEADS, head_dim=HEAD_DIM, theta=1e4)
    x = random(64, HEADS, HEAD_DIM)
    run = launch(kernel, x, Unwritten(np.empty_like(x)), np.arange(64, dtype=np.uint32), rows=64)
    return lambda: [run()]


def reduce() -> Callable[[], list[EmulationReport]]:
    rows, chunks = 64, 24
    kernel = FlashDecodingReduce(head_dim=HEAD_DIM, num_heads=HEADS, chunk_size=16)
    output = np.empty((rows, HEADS, HEAD_DIM), np.float32)
    lengths = np.full(rows, chunks * 16, np.uint32)
    partials = random(rows, HEADS, chunks, HEAD_DIM + 2)
    run = launch(kernel, partials, Unwritten(output), lengths, chunks, rows=rows)
    return lambda: [run()]


def attention() -> Callable[[], list[EmulationReport]]:
    rows, keys, size = 4, 2048, 128
    chunks = keys // size
    chunk = FlashDecodingChunk(
        head_dim=HEAD_DIM, num_heads=HEADS, num_kv_heads=KV_HEADS, chunk_size=size, max_seq_len=keys
    )
    combine = FlashDecodingReduce(head_dim=HEAD_DIM, num_heads=HEADS, chunk_size=size)
    tables = [PointerTable([random(KV_HEADS, keys, HEAD_DIM) for _ in range(rows)]) for _ in "kv"]
    partials = np.empty((rows, HEADS, chunks, HEAD_DIM + 2), np.float32)
    output = np.empty((rows, HEADS, HEAD_DIM), np.float32)
    lengths = np.full(rows, keys, np.uint32)
    query = random(rows, HEADS, HEAD_DIM)
    first = launch(chunk, query, *tables, Unwritten(partials), lengths, chunks, rows=rows, max_chunks=chunks)
    second = launch(combine, partials, Unwritten(output), lengths, chunks, rows=rows)
    return lambda: [first(), second()]


WORK: Final = {
    "batched_rope, 64 rows, 32 heads of 128": Work(rope, 30, 20),
    "flash_decoding_reduce, 64 rows, 32 heads of 128, 24 chunks": Work(reduce, 250, 10),
    "flash_decoding_chunk and reduce, 4 rows, 32 heads of 128, 2048 keys": Work(attention, 5_000, 3),
}


@pytest.mark.benchmark(group="emulator")
@pytest.mark.parametrize("name", WORK)
def test_launch(benchmark: Any, name: str) -> None:
    prepare, limit, rounds = WORK[name]
    run = prepare()
    reports = benchmark.pedantic(run, rounds=rounds, warmup_rounds=1)
    assert not any(report.findings for report in reports)
    benchmark.extra_info["limit_ms"] = limit
    if benchmark.stats is not None:  # None with --benchmark-disable
        print(f"\n{name}: {benchmark.stats.stats.min * 1e3:,.1f} ms, limit {limit:,} ms")
