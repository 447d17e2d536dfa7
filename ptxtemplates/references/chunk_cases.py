"""The cases of `flash_decoding_chunk`, alone and with the reduction behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ptxtemplates.kernels.flash_decoding import FlashDecodingReduce
from ptxtemplates.references.case import (
    Buffer,
    Close,
    Input,
    Launch,
    Output,
    Piece,
    SameBytes,
    Setup,
    Sparse,
    Table,
    flat,
    launch,
)
from ptxtemplates.references.flash_decoding import Bounded, Scores, attended, partial, scored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from ptxtemplates.kernels.flash_decoding import FlashDecodingChunk

    Floats = npt.NDArray[np.float32]

MOST_CHUNKS: Final = 65_535
NAN, INFINITY = np.float32("nan"), np.float32("inf")
FEW_KEYS: Final = 9
"""Enough for a last step that is not full, where a case is not about the number of keys."""


class Step(NamedTuple):
    """One step of decoding.

    Attributes
    ----------
    query : numpy.ndarray
        float32 [rows, num_heads, head_dim].
    keys, values : list of dict
        For each row the first keys of some kv heads, [keys, head_dim]: those of its length and some beyond.
    lengths : sequence of int
        Keys of each row.
    chunks : int
        Chunks in the partials.
    heads : sequence of int
        Query heads that matter.
    """

    query: Floats
    keys: list[dict[int, Floats]]
    values: list[dict[int, Floats]]
    lengths: Sequence[int]
    chunks: int
    heads: Sequence[int]


def _some_heads(kernel: FlashDecodingChunk) -> list[int]:
    """Return both ends of the first group of heads, the start of the second, and the last head."""
    group = kernel.num_heads // kernel.num_kv_heads
    return sorted({head for head in (0, group - 1, group, kernel.num_heads - 1) if head < kernel.num_heads})


def _kv_head(kernel: FlashDecodingChunk, head: int) -> int:
    return head * kernel.num_kv_heads // kernel.num_heads


def _step(
    kernel: FlashDecodingChunk,
    rng: np.random.Generator,
    lengths: Sequence[int],
    chunks: int,
    heads: Sequence[int],
    spread: float = 1.0,
) -> Step:
    """Make a step; keys beyond a row's length are NaN, values infinite. `spread` scales the scores."""
    rows = len(lengths)
    query = np.full((rows, kernel.num_heads, kernel.head_dim), NAN, np.float32)
    query[:, heads] = spread * rng.standard_normal((rows, len(heads), kernel.head_dim))
    keys: list[dict[int, Floats]] = []
    values: list[dict[int, Floats]] = []
    for length in lengths:
        present = min(length, kernel.max_seq_len, chunks * kernel.chunk_size)
        room = min(present + 2 * FEW_KEYS, kernel.max_seq_len)
        for beyond, tensors in ((NAN, keys), (INFINITY, values)):
            tensors.append({})
            for kv_head in sorted({_kv_head(kernel, head) for head in heads}):
                tensor = rng.standard_normal((room, kernel.head_dim)).astype(np.float32)
                tensor[present:] = beyond
                tensors[-1][kv_head] = tensor
    return Step(query, keys, values, lengths, chunks, heads)


def _used(kernel: FlashDecodingChunk, step: Step, row: int) -> int:
    return min(step.lengths[row], kernel.max_seq_len, step.chunks * kernel.chunk_size)


def _scores(
    kernel: FlashDecodingChunk, step: Step, row: int, head: int, keys: slice
) -> tuple[Scores, Floats]:
    """Return the scores of some keys of a row, and their values."""
    kv_head = _kv_head(kernel, head)
    query, key, value = step.query[row, head], step.keys[row][kv_head][keys], step.values[row][kv_head][keys]
    return scored(kernel, query.astype(np.float64), key.astype(np.float64)), value


def _partial(kernel: FlashDecodingChunk, step: Step, row: int, head: int, chunk: int) -> Bounded:
    """Return the exact partial of a chunk; NaN values, which are free, if it is empty."""
    first = chunk * kernel.chunk_size
    last = min(first + kernel.chunk_size, _used(kernel, step, row))
    if first >= last:
        exact = np.full(kernel.head_dim + 2, np.nan)
        exact[-2:] = -np.inf, 0
        return Bounded(exact, np.zeros(kernel.head_dim + 2))
    scores, values = _scores(kernel, step, row, head, slice(first, last))
    return partial(kernel, scores, values.astype(np.float64))


def _buffers(kernel: FlashDecodingChunk, step: Step, prefix: str = "") -> dict[str, Buffer]:
    """Return the buffers of a step, `partials` with NaN where no block runs."""
    tensor = (kernel.num_kv_heads, kernel.max_seq_len, kernel.head_dim)
    buffers: dict[str, Buffer] = {
        f"{prefix}q": Input(step.query),
        f"{prefix}partials": Output((*step.query.shape[:2], step.chunks, kernel.head_dim + 2)),
        f"{prefix}seq_lens": Input(np.array(step.lengths, np.uint32)),
    }
    for letter, rows in (("k", step.keys), ("v", step.values)):
        names = [f"{prefix}{letter}[{row}]" for row in range(len(rows))]
        for name, heads in zip(names, rows, strict=True):
            pieces = (Piece(flat(tensor, head), array.reshape(-1)) for head, array in heads.items())
            buffers[name] = Sparse(tensor, tuple(pieces))
        buffers[f"{prefix}{letter}_ptrs"] = Table(tuple(names))
    return buffers


def _launch(kernel: FlashDecodingChunk, step: Step, prefix: str = "") -> Launch:
    rows = len(step.lengths)
    blocks = [
        (head, row, chunk) for head in step.heads for row in range(rows) for chunk in range(step.chunks)
    ]
    names = [f"{prefix}{name}" for name in ("q", "k_ptrs", "v_ptrs", "partials", "seq_lens")]
    sizes = {"rows": rows, "max_chunks": step.chunks}
    return launch(kernel, *names, step.chunks, work=kernel.chunk_size, blocks=blocks, **sizes)


def _expected(kernel: FlashDecodingChunk, step: Step) -> Close:
    """Return what all partials must be; those of heads that do not run stay NaN."""
    shape = (*step.query.shape[:2], step.chunks, kernel.head_dim + 2)
    exact, bound, free = np.full(shape, np.nan), np.zeros(shape), np.zeros(shape, np.bool_)
    for row in range(len(step.lengths)):
        for head in step.heads:
            for chunk in range(step.chunks):
                exact[row, head, chunk], bound[row, head, chunk] = _partial(kernel, step, row, head, chunk)
                free[row, head, chunk, :-2] = exact[row, head, chunk, -2] == -np.inf
    return Close("partials", exact, bound, free)


def _setup(kernel: FlashDecodingChunk, step: Step) -> Setup:
    return Setup(_buffers(kernel, step), (_launch(kernel, step),), (_expected(kernel, step),))


def lengths(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Take lengths around multiples of chunk_size, most with empty chunks; beyond are NaN and infinity."""
    size = kernel.chunk_size
    around = [0, 1, size - 1, size, size + 1, size + size // 4, 2 * size + size // 2, 3 * size, 2**32 - 1]
    limited = [length if length == around[-1] else min(length, kernel.max_seq_len) for length in around]
    return _setup(kernel, _step(kernel, rng, limited, 3, _some_heads(kernel)))


def every_head(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Use all heads, with a few keys."""
    few = min(FEW_KEYS, kernel.max_seq_len)
    return _setup(kernel, _step(kernel, rng, [few], 1, range(kernel.num_heads)))


def far_scores(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Make scores of about 1e4 and -1e4, and far from each other: nothing overflows."""
    few = min(FEW_KEYS, kernel.max_seq_len)
    step = _step(kernel, rng, [few] * 3, 1, _some_heads(kernel))
    # one element of the query and the keys makes the score; the others are small beside it
    for row, level in enumerate((1e4, -1e4)):
        step.query[row, :, 0] = 1 / kernel.scale
        for tensor in step.keys[row].values():
            tensor[:few, 0] = level + rng.permutation(few)
    step.query[2] *= 1e3
    return _setup(kernel, step)


def spoilt_keys(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Spoil a key by NaN: sum and values of its chunk are NaN for the heads that read it, and no others.

    In another row the last value is infinite: the result is infinite too, and not NaN.
    """
    few = min(FEW_KEYS, kernel.max_seq_len)
    step = _step(kernel, rng, [few] * 3, 1, _some_heads(kernel))
    kv_head = _kv_head(kernel, step.heads[int(rng.integers(len(step.heads)))])
    step.values[2][kv_head][min(few, kernel.chunk_size) - 1] = INFINITY
    close = _expected(kernel, step)
    step.keys[1][kv_head][int(rng.integers(min(few, kernel.chunk_size))), 3] = NAN
    assert close.free is not None
    for head in step.heads:
        if _kv_head(kernel, head) == kv_head:
            close.exact[1, head, 0] = np.nan
            close.free[1, head, 0, -2] = True
    return Setup(_buffers(kernel, step), (_launch(kernel, step),), (close,))


def row_alone(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Attend alone and in a batch: the bits are the same in every place of it."""
    few = min(FEW_KEYS, kernel.max_seq_len)
    rows = int(rng.integers(2, 5))
    alone = _step(kernel, rng, [few], 1, _some_heads(kernel))
    batch = alone._replace(
        query=np.repeat(alone.query, rows, axis=0),
        keys=alone.keys * rows,
        values=alone.values * rows,
        lengths=[few] * rows,
    )
    size = kernel.num_heads * (kernel.head_dim + 2)
    return Setup(
        {**_buffers(kernel, alone), **_buffers(kernel, batch, "batch_")},
        (_launch(kernel, alone), _launch(kernel, batch, "batch_")),
        (
            _expected(kernel, alone),
            *(SameBytes("batch_partials", "partials", size, at=row * size) for row in range(rows)),
        ),
    )


def attention(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Attend to chunks, then reduce them: softmax attention with grouped queries."""
    size = kernel.chunk_size
    longest = [int(rng.integers(2 * size + 1, 3 * size + 1)), int(rng.integers(1, size + 1)), 0]
    rows = [min(length, kernel.max_seq_len) for length in longest]
    step = _step(kernel, rng, rows, 3, _some_heads(kernel), spread=float(rng.choice([1, 4])))
    exact, bound = np.full(step.query.shape, np.nan), np.zeros(step.query.shape)
    for row, head in _rows_and_heads(step):
        exact[row, head], bound[row, head] = 0, 0
        if used := _used(kernel, step, row):
            scores, values = _scores(kernel, step, row, head, slice(used))
            exact[row, head], bound[row, head] = attended(kernel, scores, values.astype(np.float64))
    reduction = FlashDecodingReduce(
        head_dim=kernel.head_dim, num_heads=kernel.num_heads, chunk_size=size, target=kernel.target
    )
    blocks = [(head, row, 0) for row, head in _rows_and_heads(step)]
    arguments = ("partials", "output", "seq_lens", step.chunks)
    reduce = launch(reduction, *arguments, work=step.chunks, blocks=blocks, rows=len(rows))
    return Setup(
        {**_buffers(kernel, step), "output": Output(step.query.shape)},
        (_launch(kernel, step), reduce),
        (Close("output", exact, bound),),
    )


def _rows_and_heads(step: Step) -> Iterable[tuple[int, int]]:
    return ((row, head) for row in range(len(step.lengths)) for head in step.heads)


def last_places(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Read the last keys of the last kv head, and write partials beyond 2^32 bytes and 2^32 elements.

    All rows read the same keys. The length exceeds max_seq_len, and max_chunks the chunks that have keys.
    """
    heads, width = kernel.num_heads, kernel.head_dim + 2
    shape = (-(-(2**32) // (heads * MOST_CHUNKS * width)) + 1, heads, MOST_CHUNKS, width)
    rows = sorted({-(-(2**30) // (heads * MOST_CHUNKS * width)), shape[0] - 1})
    chunk = min(kernel.max_seq_len - 1, MOST_CHUNKS * kernel.chunk_size - 1) // kernel.chunk_size
    first = chunk * kernel.chunk_size
    count = min(kernel.max_seq_len - first, kernel.chunk_size)
    tensor, queries = (
        (kernel.num_kv_heads, kernel.max_seq_len, kernel.head_dim),
        (*shape[:2], kernel.head_dim),
    )
    keys, values = (rng.standard_normal((count, kernel.head_dim)).astype(np.float32) for _ in range(2))
    at = flat(tensor, kernel.num_kv_heads - 1, first)
    buffers: dict[str, Buffer] = {
        "k": Sparse(tensor, (Piece(at, keys.reshape(-1)),)),
        "v": Sparse(tensor, (Piece(at, values.reshape(-1)),)),
        "k_ptrs": Table(("k",) * shape[0]),
        "v_ptrs": Table(("v",) * shape[0]),
        "partials": Sparse(shape),
        "seq_lens": Input(np.full(shape[0], kernel.max_seq_len + 1, np.uint32)),
    }
    pieces, expectations = [], []
    for row in rows:
        query = rng.standard_normal(kernel.head_dim).astype(np.float32)
        pieces.append(Piece(flat(queries, row, heads - 1), query))
        scores = scored(kernel, query.astype(np.float64), keys.astype(np.float64))
        exact, bound = partial(kernel, scores, values.astype(np.float64))
        expectations.append(Close("partials", exact, bound, at=flat(shape, row, heads - 1, chunk)))
    buffers["q"] = Sparse(queries, tuple(pieces))
    blocks = [(heads - 1, row, chunk) for row in rows]
    arguments = ("q", "k_ptrs", "v_ptrs", "partials", "seq_lens", MOST_CHUNKS)
    sizes = {"rows": shape[0], "max_chunks": MOST_CHUNKS}
    launched = launch(kernel, *arguments, work=kernel.chunk_size, blocks=blocks, **sizes)
    return Setup(buffers, (launched,), tuple(expectations))


CASES: Final[dict[str, Callable[[FlashDecodingChunk, np.random.Generator], Setup]]] = {
    "lengths": lengths,
    "every-head": every_head,
    "far-scores": far_scores,
    "spoilt-keys": spoilt_keys,
    "row-alone": row_alone,
    "attention": attention,
    "last-places": last_places,
}
