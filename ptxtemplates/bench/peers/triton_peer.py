"""Triton: our own kernels in it, with tiles that fit the shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.bench.peers import triton_kernels
from ptxtemplates.bench.peers.problems import Decoding, Reduction, Rotation, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.bench.peers.problems import Problem, Tensor

PAIRS_AT_ONCE: Final = 256
"""That a program of RoPE rotates: 16 bytes a thread of four warps."""

TILE: Final = 4096
"""Elements of partial results that a program has in flight: 32 a thread of four warps."""

PRODUCTS: Final = 8192
"""Of query and key elements that a program has in registers: 64 a thread of four warps."""

PROGRAMS: Final = 8
"""A multiprocessor that attention is split into, where there are keys enough."""

FEWEST_KEYS: Final = 64
"""Of a split: fewer cost more to combine than they gain."""


def prepare(problem: Problem) -> Work:
    """Return how Triton solves a problem."""
    return _WORK[type(problem)](problem)


def _power(number: int) -> int:
    """Return the least power of two that is not below."""
    return 1 << (number - 1).bit_length()


def _rotation(problem: Rotation) -> Work:
    kernel, empty = problem.kernel, problem.place.torch.empty_like
    pairs = _power(kernel.head_dim // 2)
    heads = min(max(PAIRS_AT_ONCE // pairs, 1), _power(kernel.num_heads))
    grid = (problem.rows, -(-kernel.num_heads // heads))

    def rotate(x: Tensor, halves: Tensor, pair_table: Tensor, positions: Tensor) -> Tensor:
        out = empty(x)
        triton_kernels.rotate[grid](
            x, out, halves, positions, kernel.num_heads, HEAD_DIM=kernel.head_dim, PAIRS=pairs, HEADS=heads
        )
        return out

    return Work(problem.layout("f32"), rotate)


def _combining(
    torch: Any, rows: int, heads: int, head_dim: int, chunks: int, chunk_size: int
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return what combines partial results: takes them and lengths, returns [rows, heads, head_dim]."""
    elements = _power(head_dim)
    at_once = min(max(TILE // elements, 1), _power(chunks))

    def combine(partials: Tensor, lengths: Tensor) -> Tensor:
        out = torch.empty((rows, heads, head_dim), dtype=torch.float32, device=partials.device)
        triton_kernels.combine[(rows * heads,)](
            partials,
            out,
            lengths,
            heads,
            chunks,
            chunk_size,
            HEAD_DIM=head_dim,
            ELEMENTS=elements,
            CHUNKS=at_once,
        )
        return out

    return combine


def _reduction(problem: Reduction) -> Work:
    kernel = problem.kernel
    combine = _combining(
        problem.place.torch,
        problem.rows,
        kernel.num_heads,
        kernel.head_dim,
        problem.max_chunks,
        kernel.chunk_size,
    )
    return Work(problem.partials, combine)


def _decoding(problem: Decoding) -> Work:
    kernel, rows, torch = problem.kernel, problem.rows, problem.place.torch
    # the two products of matrices have sides of at least 16
    elements = _power(max(kernel.head_dim, 16))
    heads = _power(problem.group)
    at_once = min(max(_power(PRODUCTS // (heads * elements) or 1), 16 if heads >= 16 else 1), 64)
    split_keys = _split(problem, at_once)
    splits = -(-problem.keys // split_keys)
    combine = _combining(torch, rows, kernel.num_heads, kernel.head_dim, splits, split_keys)
    lengths = problem.place.lengths(rows, problem.keys)
    # at the first call, long before one is captured or timed; there is nothing to choose in the interpreter
    attend = triton_kernels.attend
    if "cuda" in problem.place.device:
        attend = triton_kernels.tuned(attend)

    def decode(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        partials = query.new_empty((rows, kernel.num_heads, splits, kernel.head_dim + 2))
        attend[(splits, kernel.num_kv_heads, rows)](
            query,
            keys,
            values,
            partials,
            kernel.num_heads,
            kernel.num_kv_heads,
            problem.keys,
            split_keys,
            kernel.scale,
            HEAD_DIM=kernel.head_dim,
            ELEMENTS=elements,
            GROUP=problem.group,
            HEADS=heads,
            KEYS=at_once,
        )
        return combine(partials, lengths)

    return Work(problem.contiguous, decode)


def _split(problem: Decoding, at_once: int) -> int:
    """Return how many keys a program attends to, so that programs fill the device."""
    torch, device = problem.place.torch, problem.place.device
    processors = torch.cuda.get_device_properties(device).multi_processor_count if "cuda" in device else 1
    splits = max(PROGRAMS * processors // (problem.rows * problem.kernel.num_kv_heads), 1)
    keys = max(-(-problem.keys // splits), FEWEST_KEYS)
    return -(-keys // at_once) * at_once


_WORK: Final[dict[type[Problem], Callable[[Any], Work]]] = {
    Rotation: _rotation,
    Reduction: _reduction,
    Decoding: _decoding,
}
