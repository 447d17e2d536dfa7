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
from ptxtemplates.references.chunk_places import FEW_KEYS, chunk_numbers, last_places, last_rows
from ptxtemplates.references.flash_decoding import Bounded, Scores, attended, partial, scored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from ptxtemplates.kernels.flash_decoding import FlashDecodingChunk

    Floats = npt.NDArray[np.float32]

NAN, INFINITY = np.float32("nan"), np.float32("inf")
MANY_KEYS: Final = 38
"""Enough for many steps, and more than a warp has threads; the last step is not full."""

SLOT: Final = 64
"""Elements that a warp holds in one pair of registers of each lane."""


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
    behind: int = 2 * FEW_KEYS,
) -> Step:
    """Make a step; behind the keys of a row are `behind` NaN ones. `spread` scales the scores."""
    rows = len(lengths)
    query = np.full((rows, kernel.num_heads, kernel.head_dim), NAN, np.float32)
    query[:, heads] = spread * rng.standard_normal((rows, len(heads), kernel.head_dim))
    keys: list[dict[int, Floats]] = []
    values: list[dict[int, Floats]] = []
    for length in lengths:
        present = min(length, kernel.max_seq_len, chunks * kernel.chunk_size)
        room = min(present + behind, kernel.max_seq_len)
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
    """Return the exact partial of a chunk; NaN values, which are free, if no key counts."""
    first = chunk * kernel.chunk_size
    last = min(first + kernel.chunk_size, _used(kernel, step, row))
    if first < last:
        scores, values = _scores(kernel, step, row, head, slice(first, last))
        if not np.isneginf(scores.exact).all():
            return partial(kernel, scores, values.astype(np.float64))
    exact = np.full(kernel.head_dim + 2, np.nan)
    exact[-2:] = -np.inf, 0
    return Bounded(exact, np.zeros(kernel.head_dim + 2))


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
    """Return what all partials must be; those of heads that do not run stay NaN.

    Of a chunk with a NaN score the maximum may be anything: that of its other keys, or none.
    """
    shape = (*step.query.shape[:2], step.chunks, kernel.head_dim + 2)
    exact, bound, free = np.full(shape, np.nan), np.zeros(shape), np.zeros(shape, np.bool_)
    for row in range(len(step.lengths)):
        for head in step.heads:
            for chunk in range(step.chunks):
                exact[row, head, chunk], bound[row, head, chunk] = _partial(kernel, step, row, head, chunk)
                free[row, head, chunk, :-2] = exact[row, head, chunk, -2] == -np.inf
                free[row, head, chunk, -2] = np.isnan(exact[row, head, chunk, -2])
    return Close("partials", exact, bound, free)


def _setup(kernel: FlashDecodingChunk, step: Step) -> Setup:
    return Setup(_buffers(kernel, step), (_launch(kernel, step),), (_expected(kernel, step),))


def lengths(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Take lengths around multiples of chunk_size, most with empty chunks; beyond are NaN and infinity.

    The last value of each row is infinite in one element, which a weight of 0 would make NaN.
    """
    size = kernel.chunk_size
    around = [0, 1, size - 1, size, size + 1, size + 2, size + size // 4, 2 * size + size // 2, 3 * size]
    limited = [*(min(length, kernel.max_seq_len) for length in around), 2**32 - 1]
    step = _step(kernel, rng, limited, 3, _some_heads(kernel))
    for row, tensors in enumerate(step.values):
        if used := _used(kernel, step, row):
            for tensor in tensors.values():
                tensor[used - 1, row % kernel.head_dim] = INFINITY
    return _setup(kernel, step)


def every_head(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Use all heads, with enough keys for many steps, in one or two chunks; nothing lies behind them."""
    many = min(MANY_KEYS, kernel.max_seq_len)
    chunks = 1 if many <= kernel.chunk_size else 2
    return _setup(kernel, _step(kernel, rng, [many], chunks, range(kernel.num_heads), behind=0))


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


def magnitudes(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Take values, queries and keys of magnitudes over the whole range of float32; nothing overflows."""
    few = min(FEW_KEYS, kernel.max_seq_len)
    step = _step(kernel, rng, [1, few, few], 1, _some_heads(kernel))
    for tensor in step.values[0].values():  # of a single key they come back as they are
        tensor[0] = np.copysign(rng.uniform(2.0**126, 1.9 * 2.0**127, kernel.head_dim), tensor[0])
    for tensor in step.values[1].values():
        tensor *= 2.0 ** rng.integers(-120, 119, kernel.head_dim)
    factors = 2.0 ** rng.integers(-60, 61, kernel.head_dim)
    step.query[2] *= factors
    for tensor in step.keys[2].values():
        tensor /= factors
    return _setup(kernel, step)


def subnormal_values(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Take values, scores, weights, and a rescaling factor, below the normal numbers: none is flushed to 0.

    A weight of e^-92 is seen where values are large, and that of the key with the maximal score is 0.
    """
    few = min(FEW_KEYS, kernel.max_seq_len)
    step = _step(kernel, rng, [few] * 4, 1, _some_heads(kernel))
    for tensor in step.values[0].values():
        tensor *= np.float32(2.0**-135)
    # all scores are negative: one that loses a term, or all, is the maximum
    step.query[1] = np.float32(-(2.0**-135)) * np.abs(step.query[1])
    for tensor in step.keys[1].values():
        np.abs(tensor, out=tensor)
    step.query[2:, :, 0] = 1 / kernel.scale
    for row, highest in ((2, 0), (3, min(few, kernel.chunk_size) - 1)):
        for keys, values in zip(step.keys[row].values(), step.values[row].values(), strict=True):
            keys[:few, 0] = -92
            values *= np.float32(2.0**60)
            keys[highest, 0], values[highest] = 0, 0
    return _setup(kernel, step)


def spoilt_keys(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Spoil keys, queries and values, at random, in every register of a lane and every key of a step.

    A NaN in a key or query spoils sum and values for the heads that read it; a score of infinity does too,
    and one of -infinity counts nothing, nor do those of a whole chunk. A NaN value spoils its element, and an
    infinite one makes an infinity of it. What is beside stays as it is.
    """
    few = min(FEW_KEYS, kernel.max_seq_len, kernel.chunk_size)
    elements = _an_element_of_each_register(kernel, rng)
    slots = range(min(few, kernel.at_once))
    step = _step(kernel, rng, [few] * (6 + 2 * len(elements) + 2 * len(slots)), 1, _some_heads(kernel))
    head = step.heads[int(rng.integers(len(step.heads)))]
    kv_head = _kv_head(kernel, head)
    rows = iter(range(1, len(step.lengths)))  # the first one is as it should be
    for element in elements:
        step.keys[next(rows)][kv_head][int(rng.integers(few)), element] = NAN
        step.query[next(rows), head, element] = NAN
    order = np.array([few - 1, *rng.permutation(few - 1)])
    pairs = np.arange(0, kernel.head_dim // 2, 2)  # every second one: the others are beside
    for value in (NAN, INFINITY, -INFINITY):
        tensor = step.values[next(rows)][kv_head]
        for own in (2 * pairs, 2 * pairs + 1):
            tensor[order[pairs // 2 % few], own] = value
    # the last key is read again where a step has none: all of its value, with a weight of 0
    step.values[next(rows)][kv_head][few - 1] = INFINITY
    element = int(rng.integers(kernel.head_dim))
    single = [rng.choice(np.arange(slot, few, kernel.at_once), 1) for slot in slots]
    for sign, spoilt in ((1, single), (-1, [*single, np.arange(few)])):
        for keys in spoilt:
            row = next(rows)
            infinity = sign * np.copysign(INFINITY, step.query[row, head, element])
            step.keys[row][kv_head][keys, element] = infinity
    with np.errstate(invalid="ignore"):  # NaN of infinities is what is asked for
        return _setup(kernel, step)


def _an_element_of_each_register(kernel: FlashDecodingChunk, rng: np.random.Generator) -> list[int]:
    """Return a random lane's element for each of the registers that hold a vector: even and odd ones."""
    ends = [(first, min(first + SLOT, kernel.head_dim)) for first in range(0, kernel.head_dim, SLOT)]
    return [first + 2 * int(rng.integers((end - first) // 2)) + odd for first, end in ends for odd in (0, 1)]


def row_alone(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Attend alone and in a batch, nothing behind the keys: the bits are the same in every place of it."""
    few = min(FEW_KEYS - 1, kernel.max_seq_len)
    rows = int(rng.integers(2, 5))
    alone = _step(kernel, rng, [few], 1, _some_heads(kernel), behind=0)
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


CASES: Final[dict[str, Callable[[FlashDecodingChunk, np.random.Generator], Setup]]] = {
    "lengths": lengths,
    "every-head": every_head,
    "far-scores": far_scores,
    "magnitudes": magnitudes,
    "subnormal-values": subnormal_values,
    "spoilt-keys": spoilt_keys,
    "row-alone": row_alone,
    "attention": attention,
    "chunk-numbers": chunk_numbers,
    "last-rows": last_rows,
    "last-places": last_places,
}
