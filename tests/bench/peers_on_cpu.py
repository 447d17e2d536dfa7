"""Problems on the CPU, and what the references say of their results. Run as a program: Triton's interpreter."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.bench.peers.graphs import Recorded
from ptxtemplates.bench.peers.problems import PROBLEMS, Decoding, Place, Reduction, Rotation
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.references import flash_decoding, rope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from ptxtemplates.bench.peers.problems import Problem, Tensor
    from ptxtemplates.kernel import Kernel

    Float64s = npt.NDArray[np.float64]
    Shape = tuple[tuple[Kernel, ...], dict[str, int]]


def decoding(
    num_heads: int, num_kv_heads: int, head_dim: int, chunk_size: int, max_seq_len: int, **sizes: int
) -> Shape:
    """Return chunks and their reduction, and run-time sizes."""
    chunk = FlashDecodingChunk(
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        chunk_size=chunk_size,
        max_seq_len=max_seq_len,
    )
    reduce = FlashDecodingReduce(num_heads=num_heads, head_dim=head_dim, chunk_size=chunk_size)
    return (chunk, reduce), sizes


SHAPES: Final[dict[str, Shape]] = {
    "rope of one row": ((BatchedRope(num_heads=3, head_dim=64, theta=1e4),), {"rows": 1}),
    "rope of a narrow head": ((BatchedRope(num_heads=5, head_dim=6, theta=0.5),), {"rows": 9}),
    "rope of one head": ((BatchedRope(num_heads=1, head_dim=512, theta=1e4),), {"rows": 2}),
    "rope backward": ((BatchedRopeBackward(num_heads=8, head_dim=128, theta=5e5),), {"rows": 33}),
    "reduce one chunk": (
        (FlashDecodingReduce(num_heads=2, head_dim=64, chunk_size=16),),
        {"rows": 1, "max_chunks": 1},
    ),
    "reduce many chunks": (
        (FlashDecodingReduce(num_heads=3, head_dim=72, chunk_size=128),),
        {"rows": 2, "max_chunks": 85},
    ),
    "decode one row": decoding(4, 4, 64, 16, 256, rows=1, max_chunks=7),
    "decode grouped": decoding(8, 2, 24, 16, 200, rows=3, max_chunks=16),
    "decode one key head": decoding(16, 1, 8, 128, 4096, rows=2, max_chunks=3),
    "decode one key": decoding(3, 3, 40, 1, 8, rows=2, max_chunks=1),
}


def problem_of(shape: Shape, torch: Any) -> Problem:
    """Return a problem with tensors of the CPU."""
    kernels, sizes = shape
    return PROBLEMS[tuple(map(type, kernels))](kernels, sizes, Place(torch, "cpu"))


def rotated(problem: Rotation, inputs: tuple[Tensor, ...]) -> Float64s:
    """Return what RoPE gives, as the references have it."""
    return rope.rotated(problem.kernel, inputs[0].double().numpy(), range(1, problem.rows + 1)).exact


def reduced(problem: Reduction, inputs: tuple[Tensor, ...]) -> Float64s:
    """Return what partial results combine to, each row's chunks alone."""
    partials, lengths = (part.numpy() for part in inputs)
    chunks = -(-lengths // problem.kernel.chunk_size)
    return np.array(
        [
            [flash_decoding.reduced(head[:count]).exact for head in row]
            for row, count in zip(partials, chunks, strict=True)
        ]
    )


def attended(problem: Decoding, inputs: tuple[Tensor, ...]) -> Float64s:
    """Return what attention gives, head by head."""
    kernel = problem.kernel
    query, keys, values = (part.double().numpy() for part in inputs)

    def of_head(row: int, head: int) -> Float64s:
        kv_head = head * kernel.num_kv_heads // kernel.num_heads
        scores = flash_decoding.scored(kernel, query[row, head], keys[row, kv_head])
        return flash_decoding.attended(kernel, scores, values[row, kv_head]).exact

    heads = range(kernel.num_heads)
    return np.array([[of_head(row, head) for head in heads] for row in range(problem.rows)])


TRUTHS: Final[dict[type, Callable[[Any, tuple[Tensor, ...]], Float64s]]] = {
    Rotation: rotated,
    Reduction: reduced,
    Decoding: attended,
}


def error_of(work: Any, problem: Problem) -> float:
    """Return the largest error of a call, as a share of the largest result; all rows."""
    inputs = tuple(part.clone() for part in work.layout.sets(1)[0])
    exact = TRUTHS[type(problem)](problem, inputs)
    result = work.call(*inputs).double().numpy().reshape(exact.shape)
    return float(np.abs(result - exact).max() / np.abs(exact).max())


def ragged(work: Any, problem: Reduction, torch: Any) -> float:
    """Return the largest error where rows have some of their chunks alone."""
    partials, _ = work.layout.sets(1)[0]
    size, most = problem.kernel.chunk_size, problem.max_chunks
    lengths = torch.tensor([1 + row * size * (most // 2) for row in range(problem.rows)], dtype=torch.int32)
    exact = reduced(problem, (partials, lengths))
    return float(np.abs(work.call(partials, lengths).double().numpy() - exact).max() / np.abs(exact).max())


class Repeated:
    """Makes calls again; keeps what it was given."""

    def __init__(self, *, captured: bool = True) -> None:
        self.captured = captured
        self.made: list[Sequence[Callable[[], Any]]] = []
        self.stream = 0

    def __call__(self, calls: Sequence[Callable[[], Any]]) -> Recorded:
        self.made.append(calls)
        ends: list[Any] = []

        def enqueue() -> None:
            results = [call() for call in calls]
            ends[:] = [results[0], results[-1]]

        return Recorded(enqueue, self.captured, ends)


def _tuned(prepare: Callable[[Any], Any], problem: Decoding) -> Any:
    """Return the work in which each configuration has been tried, as on a GPU, where it is slower than the next."""
    kernels: Any = importlib.import_module("ptxtemplates.bench.peers.triton_kernels")
    tried: list[float] = []

    def take(call: Callable[[], None], quantiles: object) -> list[float]:
        call()
        tried.append(-len(tried))
        return [tried[-1]] * 3

    plain = kernels.attend
    kernels.attend = tuned = kernels.tuned(plain, do_bench=take)
    try:
        work = prepare(problem)
    finally:
        kernels.attend = plain
    work.call(*work.layout.sets(1)[0])
    assert len(tried) == len(kernels.CONFIGURATIONS) > 1
    assert tuned.best_config is kernels.CONFIGURATIONS[-1]
    return work


def main() -> None:
    """Print the errors of the kernels in Triton, by shape; a line of JSON."""
    assert os.environ["TRITON_INTERPRET"] == "1"
    torch = importlib.import_module("torch")
    prepare = importlib.import_module("ptxtemplates.bench.peers.triton_peer").prepare
    errors = {}
    for name, shape in SHAPES.items():
        problem = problem_of(shape, torch)
        errors[name] = error_of(prepare(problem), problem)
        if isinstance(problem, Reduction):
            errors[f"{name}, ragged"] = ragged(prepare(problem), problem, torch)
        if isinstance(problem, Decoding):
            errors[f"{name}, tuned"] = error_of(_tuned(prepare, problem), problem)
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
