"""Many more inputs than the cases of a kernel have: what sorts the mutants that its cases let pass.

Each family has a maker of cases with random shapes and lengths, edges included, with magnitudes down to where
float32 numbers are subnormal, and some NaN.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.references import Case
from ptxtemplates.references.case import Close, Input, Output, Piece, Setup, Sparse, Table, flat, launch
from ptxtemplates.references.flash_decoding import partial, reduced, scored
from ptxtemplates.references.rope import TRIGONOMETRIC, directions, rotated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.kernels.rope import Rope
    from ptxtemplates.references.flash_decoding import Bounded

    Floats = npt.NDArray[np.float32]

INPUTS: Final = 10**6
"""How many float32 numbers the blocks read in all."""
SPOILT: Final = 1e-3
"""How many of the numbers are NaN."""

NAN, INFINITY = np.float32("nan"), np.float32("inf")


class Wide(NamedTuple):
    """A case without its name, and how many float32 numbers its blocks read."""

    setup: Setup
    numbers: int


def wide_cases(kernel: Kernel, seed: int, inputs: int = INPUTS) -> Iterator[Case]:
    """Yield cases of a kernel until their blocks have read `inputs` numbers."""
    numbers = 0
    for step in count():
        if numbers >= inputs:
            return
        wide = MAKERS[type(kernel)](kernel, np.random.default_rng([seed, step]))
        numbers += wide.numbers
        yield Case(f"wide-{step}", *wide.setup)


def _rope(kernel: Rope, rng: np.random.Generator) -> Wide:
    """Rotate unit vectors, and vectors of all magnitudes, at random positions of all magnitudes."""
    rows = 2**17 // (kernel.num_heads * kernel.head_dim)
    positions = (rng.integers(0, 2**32, rows) >> rng.integers(0, 32, rows)).astype(np.uint32)
    positions[:2] = 0, 2**32 - 1
    x = rng.standard_normal((rows, kernel.num_heads, kernel.head_dim))
    x *= 2.0 ** rng.integers(-145, 100, (rows, kernel.num_heads, 1))
    x[: rows // 2] = np.tile([1, 0], kernel.head_dim // 2)
    x[: rows // 4] = np.tile([0, 1], kernel.head_dim // 2)
    x[rows // 2 :][rng.random(x[rows // 2 :].shape) < SPOILT] = np.nan
    vectors = x.astype(np.float32)
    exact, bound = rotated(kernel, vectors, positions)
    cosine, sine = (part[:, None, :] for part in directions(kernel, positions[: rows // 2]))
    first, second = slice(rows // 4), slice(rows // 4, rows // 2)
    exact[first, :, 0::2], exact[first, :, 1::2] = -sine[first], cosine[first]
    exact[second, :, 0::2], exact[second, :, 1::2] = cosine[second], sine[second]
    bound[: rows // 2] = TRIGONOMETRIC
    setup = Setup(
        {"x": Input(vectors), "out": Output(vectors.shape), "positions": Input(positions)},
        (launch(kernel, "x", "out", "positions", rows=rows),),
        (Close("out", exact, bound),),
    )
    return Wide(setup, x.size)


def _reduce(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Wide:
    """Reduce rows of random lengths, with maxima near and far from each other and empty chunks among them."""
    rows, chunks = 64, int(rng.integers(1, 100))
    size, heads, width = kernel.chunk_size, kernel.num_heads, kernel.head_dim + 2
    lengths = rng.integers(0, chunks * size + 2, rows)
    lengths[rng.random(rows) < 0.1] = 2**32 - 1
    partials = rng.standard_normal((rows, heads, chunks, width))
    partials[..., :-2] *= 2.0 ** rng.integers(-145, 60, (rows, heads, 1, 1))
    partials[..., -2] *= 2.0 ** rng.choice([-4, 0, 4, 7, 100], (rows, heads, 1))
    partials[..., -1] = rng.uniform(1, size, (rows, heads, chunks))
    partials[rng.random(partials.shape) < SPOILT / 10] = np.nan
    empty = rng.random((rows, heads, chunks)) < rng.choice([0, 0.1, 0.7])
    partials[empty] = np.array([*[np.nan] * kernel.head_dim, -np.inf, 0])
    inputs = partials.astype(np.float32)
    exact, bound = (np.zeros((rows, heads, kernel.head_dim)) for _ in range(2))
    numbers = 0
    for row, length in enumerate(lengths):
        used = min(-(-int(length) // size), chunks)
        numbers += heads * used * width
        inputs[row, :, used:] = NAN
        for head in range(heads):
            exact[row, head], bound[row, head] = reduced(inputs[row, head, :used])
    setup = Setup(
        {
            "partials": Input(inputs),
            "output": Output(exact.shape),
            "seq_lens": Input(lengths.astype(np.uint32)),
        },
        (launch(kernel, "partials", "output", "seq_lens", chunks, work=chunks, rows=rows),),
        (Close("output", exact, bound),),
    )
    return Wide(setup, numbers)


def _chunk(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Wide:
    """Attend to keys of random lengths, with scores near and far from each other."""
    rows, chunks = 8, int(rng.integers(1, 20))
    heads, longest = kernel.num_heads, min(chunks * kernel.chunk_size, kernel.max_seq_len)
    lengths = rng.integers(0, longest + 2, rows)
    lengths[rng.random(rows) < 0.1] = 2**32 - 1
    spread = 2.0 ** rng.integers(-10, 5, (rows, heads, 1))
    query = (spread * rng.standard_normal((rows, heads, kernel.head_dim))).astype(np.float32)
    shape = (rows, heads, chunks, kernel.head_dim + 2)
    exact, bound = np.full(shape, np.nan), np.zeros(shape)
    exact[..., -2], exact[..., -1] = -np.inf, 0
    buffers: dict[str, Any] = {
        "q": Input(query),
        "partials": Output(shape),
        "seq_lens": Input(lengths.astype(np.uint32)),
        "k_ptrs": Table(tuple(f"k{row}" for row in range(rows))),
        "v_ptrs": Table(tuple(f"v{row}" for row in range(rows))),
    }
    numbers = query.size
    for row, length in enumerate(lengths):
        used = min(int(length), longest)
        numbers += heads * used * 2 * kernel.head_dim
        keys, values = (
            rng.standard_normal((kernel.num_kv_heads, longest, kernel.head_dim)).astype(np.float32)
            for _ in range(2)
        )
        values *= np.float32(2.0) ** rng.integers(-145, 60, kernel.head_dim)
        values[rng.random(values.shape) < SPOILT] = NAN
        keys[:, used:], values[:, used:] = NAN, INFINITY
        buffers |= {f"k{row}": _sparse(kernel, keys), f"v{row}": _sparse(kernel, values)}
        for head in range(heads):
            group = head * kernel.num_kv_heads // heads
            parts = _partials(kernel, query[row, head], keys[group, :used], values[group, :used])
            for chunk, part in enumerate(parts):
                exact[row, head, chunk], bound[row, head, chunk] = part
    free = np.repeat(exact[..., -2:-1] == -np.inf, shape[-1], axis=-1)
    free[..., -2:] = False
    arguments = ("q", "k_ptrs", "v_ptrs", "partials", "seq_lens", chunks)
    launched = launch(kernel, *arguments, work=kernel.chunk_size, rows=rows, max_chunks=chunks)
    return Wide(Setup(buffers, (launched,), (Close("partials", exact, bound, free),)), numbers)


def _sparse(kernel: FlashDecodingChunk, array: Floats) -> Sparse:
    """Put the first keys of each head where they belong."""
    shape = (kernel.num_kv_heads, kernel.max_seq_len, kernel.head_dim)
    return Sparse(shape, tuple(Piece(flat(shape, head), part.reshape(-1)) for head, part in enumerate(array)))


def _partials(kernel: FlashDecodingChunk, query: Floats, keys: Floats, values: Floats) -> Iterator[Bounded]:
    """Yield the exact partials of the chunks that have keys."""
    for first in range(0, len(keys), kernel.chunk_size):
        here = slice(first, first + kernel.chunk_size)
        scores = scored(kernel, query.astype(np.float64), keys[here].astype(np.float64))
        yield partial(kernel, scores, values[here].astype(np.float64))


MAKERS: Final[dict[type[Kernel], Callable[[Any, np.random.Generator], Wide]]] = {
    BatchedRope: _rope,
    BatchedRopeBackward: _rope,
    FlashDecodingReduce: _reduce,
    FlashDecodingChunk: _chunk,
}
"""By kernel class."""
