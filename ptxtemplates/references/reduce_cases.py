"""The cases of `flash_decoding_reduce`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ptxtemplates.references.case import (
    MOST_ROWS,
    Close,
    Input,
    Output,
    Piece,
    SameBytes,
    Setup,
    Sparse,
    flat,
    launch,
    some_rows,
)
from ptxtemplates.references.flash_decoding import reduced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from ptxtemplates.kernels.flash_decoding import FlashDecodingReduce

    Floats = npt.NDArray[np.float32]

NAN, INFINITY = np.float32("nan"), np.float32("inf")


def _some_heads(kernel: FlashDecodingReduce, rng: np.random.Generator) -> list[int]:
    return sorted({0, kernel.num_heads - 1, int(rng.integers(kernel.num_heads))})


def _ordinary(kernel: FlashDecodingReduce, rng: np.random.Generator, *shape: int) -> Floats:
    """Return ordinary partials [*shape, head_dim + 2]."""
    result = (3 * rng.standard_normal((*shape, kernel.head_dim + 2))).astype(np.float32)
    result[..., -1] = rng.uniform(1, kernel.chunk_size, shape)
    return result


def _partials(
    kernel: FlashDecodingReduce, rng: np.random.Generator, rows: int, chunks: int, heads: Sequence[int]
) -> Floats:
    """Return ordinary partials of some heads; those of others are NaN."""
    result = np.full((rows, kernel.num_heads, chunks, kernel.head_dim + 2), NAN, np.float32)
    for head in heads:
        result[:, head] = _ordinary(kernel, rng, rows, chunks)
    return result


def _make_empty(partials: Floats) -> None:
    """Make partials those of empty chunks, whose values may be anything."""
    partials[...] = NAN
    partials[..., -2], partials[..., -1] = -INFINITY, 0


def _counts(kernel: FlashDecodingReduce, lengths: Sequence[int], chunks: int) -> list[int]:
    return [min(-(-length // kernel.chunk_size), chunks) for length in lengths]


def _setup(
    kernel: FlashDecodingReduce, partials: Floats, lengths: Sequence[int], heads: Sequence[int]
) -> Setup:
    """Reduce some heads of every row; what lies beyond a row's chunks is overwritten with NaN first."""
    rows, chunks = len(lengths), partials.shape[2]
    shape = (rows, kernel.num_heads, kernel.head_dim)
    exact, bound = np.full(shape, np.nan), np.zeros(shape)
    for row, count in enumerate(_counts(kernel, lengths, chunks)):
        partials[row, :, count:] = NAN
        for head in heads:
            exact[row, head], bound[row, head] = reduced(partials[row, head, :count])
    blocks = [(head, row, 0) for row in range(rows) for head in heads]
    arguments = ("partials", "output", "seq_lens", chunks)
    return Setup(
        {
            "partials": Input(partials),
            "output": Output(shape),
            "seq_lens": Input(np.array(lengths, np.uint32)),
        },
        (launch(kernel, *arguments, work=chunks, blocks=blocks, rows=rows),),
        (Close("output", exact, bound),),
    )


def chunk_counts(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Take lengths around multiples of chunk_size, and numbers of chunks around those of tile and step."""
    size = kernel.chunk_size
    counts = (1, 2, 7, 8, 9, 31, 32, 33, 64, 65, 85)
    lengths = [
        (count - 1) * size + int(place)
        for count in counts
        for place in (rng.choice([1, size]), rng.integers(1, size + 1))
    ]
    heads = _some_heads(kernel, rng)
    return _setup(kernel, _partials(kernel, rng, len(lengths), max(counts), heads), lengths, heads)


def many_chunks(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Take more than 128, 256 and 1,024 chunks of one head, all of about the same weight; NaN behind."""
    counts = [many + int(rng.integers(1, 40)) for many in (128, 256, 1_024)]
    head, chunks = int(rng.integers(kernel.num_heads)), max(counts) + 1
    shape = (len(counts), kernel.num_heads, chunks, kernel.head_dim + 2)
    out = (len(counts), kernel.num_heads, kernel.head_dim)
    pieces, expectations = [], []
    for row, count in enumerate(counts):
        partials = _ordinary(kernel, rng, chunks)
        partials[:, -2] /= 10
        partials[count:] = NAN
        pieces.append(Piece(flat(shape, row, head), partials.reshape(-1)))
        expectations.append(Close("output", *reduced(partials[:count]), at=flat(out, row, head)))
    lengths = np.array(counts, np.uint32) * np.uint32(kernel.chunk_size)
    blocks = [(head, row, 0) for row in range(len(counts))]
    arguments = ("partials", "output", "seq_lens", chunks)
    return Setup(
        {"partials": Sparse(shape, tuple(pieces)), "output": Output(out), "seq_lens": Input(lengths)},
        (launch(kernel, *arguments, work=chunks, blocks=blocks, rows=len(counts)),),
        tuple(expectations),
    )


def every_head(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Reduce all heads of three rows, one of them of two tiles."""
    heads = range(kernel.num_heads)
    lengths = [37 * kernel.chunk_size, kernel.chunk_size + 1, 1]
    return _setup(kernel, _partials(kernel, rng, 3, 37, heads), lengths, heads)


def empty_rows(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Reduce rows without keys, and with empty chunks only: zeros are written; ordinary rows lie between."""
    heads = _some_heads(kernel, rng)
    partials = _partials(kernel, rng, 4, 34, heads)
    for row in (1, 3):
        _make_empty(partials[row])
    lengths = [0, 33 * kernel.chunk_size, 33 * kernel.chunk_size, 1]
    return _setup(kernel, partials, lengths, heads)


def no_chunks(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Reduce no chunks at all, max_chunks 0: zeros."""
    heads = _some_heads(kernel, rng)
    return _setup(kernel, _partials(kernel, rng, 1, 0, heads), [kernel.chunk_size], heads)


def empty_chunks(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Put empty chunks before, behind and among filled ones: they count nothing, whatever their values."""
    heads = _some_heads(kernel, rng)
    partials = _partials(kernel, rng, 3, 40, heads)
    _make_empty(partials[0, :, :33])
    _make_empty(partials[1, :, 3:])
    for chunk in rng.permutation(40)[:30]:
        _make_empty(partials[2, :, chunk])
    return _setup(kernel, partials, [40 * kernel.chunk_size] * 3, heads)


def far_maxima(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Take very large and very negative maxima, alone and mixed: any finite one is ordinary."""
    levels = (-6e4, -1e30, -3e38, 3e38)
    heads = _some_heads(kernel, rng)
    partials = _partials(kernel, rng, len(levels) + 1, 5, heads)
    for row, level in enumerate(levels):
        partials[row, :, :, -2] = level
    partials[-1, :, :, -2] = rng.permutation([*levels, 0])
    return _setup(kernel, partials, [5 * kernel.chunk_size] * (len(levels) + 1), heads)


def unequal_mass(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Reduce two chunks whose weights differ by e, and by less: base 2 for base e is off by 12 %."""
    heads = _some_heads(kernel, rng)
    partials = _partials(kernel, rng, 2, 2, heads)
    partials[0, :, :, -2], partials[1, :, :, -2] = (0, -1), (-0.3, 0)
    return _setup(kernel, partials, [2 * kernel.chunk_size] * 2, heads)


def magnitudes(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Take values of magnitudes over the whole range of float32, the largest ones alone: no sum overflows."""
    heads = _some_heads(kernel, rng)
    partials = _partials(kernel, rng, 2, 34, heads)
    partials[0, :, :1, :-2] = np.copysign(
        rng.uniform(2.0**126, 1.9 * 2.0**127, kernel.head_dim), partials[0, :, :1, :-2]
    )
    partials[1, ..., :-2] *= 2.0 ** rng.integers(-120, 119, kernel.head_dim)
    return _setup(kernel, partials, [1, 34 * kernel.chunk_size], heads)


def subnormal_values(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Take values, weights, and a rescaling factor, below the normal numbers: none is flushed to 0.

    A weight of e^-92 is seen where values are large, and those of the chunk with the maximum are 0.
    """
    heads = _some_heads(kernel, rng)
    partials = _partials(kernel, rng, 3, 34, heads)
    partials[0, ..., :-2] *= 2.0**-135
    partials[1:, ..., :-2] *= 2.0**60
    partials[1:, ..., -2] = rng.standard_normal(partials.shape[1:3]) - 92
    for row, highest in ((1, 0), (2, 33)):
        partials[row, :, highest, :-1] = 0
    return _setup(kernel, partials, [34 * kernel.chunk_size] * 3, heads)


def beyond_max_chunks(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Exceed max_chunks * chunk_size: the chunks behind are those of the next head."""
    heads = range(min(2, kernel.num_heads))
    lengths = [3 * kernel.chunk_size + 1, 5 * kernel.chunk_size]
    return _setup(kernel, _partials(kernel, rng, 2, 3, heads), lengths, heads)


def longest_lengths(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Take lengths for which seq_len + chunk_size exceeds 32 bits; nothing lies behind the one chunk."""
    heads = _some_heads(kernel, rng)
    lengths = [0xFFFFFFF8, 0xFFFFFFFF, 2**32 - kernel.chunk_size + 1]
    return _setup(
        kernel, _partials(kernel, rng, 3, 1, heads), [min(each, 2**32 - 1) for each in lengths], heads
    )


def spoilt_chunks(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Spoil a chunk: NaN maximum or sum, or infinite maximum, the row and head; a NaN value, its element.

    In one row each chunk has a NaN value, and all weights but one underflow to 0: NaN all the same. In the
    last three, every second pair of a lane has NaN, infinity or -infinity, in every chunk of a step of eight.
    """
    heads = _some_heads(kernel, rng)
    partials = _partials(kernel, rng, 8, 40, heads)
    head = heads[int(rng.integers(len(heads)))]
    chunks = rng.integers(0, 40, 5)
    elements = (kernel.head_dim, kernel.head_dim + 1, kernel.head_dim, int(rng.integers(kernel.head_dim)))
    for row, value in enumerate((NAN, NAN, INFINITY, NAN)):
        partials[row, head, chunks[row], elements[row]] = value
    partials[4, head, np.arange(40), np.arange(40) % kernel.head_dim] = NAN
    partials[4, head, chunks[4], -2] = 1e4
    pairs = np.arange(0, kernel.head_dim // 2, 2)
    for row, value in enumerate((NAN, INFINITY, -INFINITY), start=5):
        spoilt = 8 * rng.integers(5, size=pairs.size) + (pairs // 2 + rng.integers(8)) % 8
        partials[row, head, spoilt, 2 * pairs] = partials[row, head, spoilt, 2 * pairs + 1] = value
    with np.errstate(invalid="ignore"):  # NaN of infinities, in bounds
        return _setup(kernel, partials, [40 * kernel.chunk_size] * 8, heads)


def row_alone(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Reduce a row alone and in a batch: the bits are the same in every place of it."""
    heads = _some_heads(kernel, rng)
    rows = int(rng.integers(2, 6))
    length = int(rng.integers(32 * kernel.chunk_size + 1, 37 * kernel.chunk_size + 1))
    alone = _setup(kernel, _partials(kernel, rng, 1, 37, heads), [length], heads)
    row = alone.buffers["partials"]
    assert isinstance(row, Input)
    batch = _setup(kernel, np.repeat(row.array, rows, axis=0), [length] * rows, heads)
    [launched] = batch.launches
    size = kernel.num_heads * kernel.head_dim
    names = {"partials": "batch", "output": "batch_output", "seq_lens": "batch_seq_lens"}
    arguments = tuple(names[word] if isinstance(word, str) else word for word in launched.arguments)
    return Setup(
        {**alone.buffers, **{names[name]: buffer for name, buffer in batch.buffers.items()}},
        (*alone.launches, launched._replace(arguments=arguments)),
        (
            *alone.expectations,
            *(
                SameBytes("batch_output", "output", kernel.head_dim, at, at % size)
                for row in range(rows)
                for at in (flat((rows, kernel.num_heads, kernel.head_dim), row, head) for head in heads)
            ),
        ),
    )


def last_rows(kernel: FlashDecodingReduce, rng: np.random.Generator) -> Setup:
    """Reduce rows from the first to the last legal one, each with its own length and contents.

    Among them are those in which offsets pass 2^32 bytes and 2^32 elements.
    """
    heads, width, most = kernel.num_heads, kernel.head_dim + 2, 3
    chunks = max(most, -(-(2**32) // ((MOST_ROWS - 1) * heads * width)))
    shape, out = (MOST_ROWS, heads, chunks, width), (MOST_ROWS, heads, kernel.head_dim)
    rows = some_rows(rng, *(-(-(2**32) // (heads * chunks * width * size)) for size in (4, 1)))
    lengths = rng.integers(0, most * kernel.chunk_size + 1, MOST_ROWS, dtype=np.uint32)
    pieces, expectations = [], []
    head = heads - 1
    for row in rows:
        [count] = _counts(kernel, [int(lengths[row])], most)
        piece = _ordinary(kernel, rng, most)
        piece[count:] = NAN
        pieces.append(Piece(flat(shape, row, head), piece.reshape(-1)))
        expectations.append(Close("output", *reduced(piece[:count]), at=flat(out, row, head)))
    return Setup(
        {"partials": Sparse(shape, tuple(pieces)), "output": Sparse(out), "seq_lens": Input(lengths)},
        (
            launch(
                kernel, "partials", "output", "seq_lens", chunks, work=most,
                blocks=[(head, row, 0) for row in rows], rows=MOST_ROWS,
            ),
        ),
        tuple(expectations),
    )  # fmt: skip


CASES: Final[dict[str, Callable[[FlashDecodingReduce, np.random.Generator], Setup]]] = {
    "chunk-counts": chunk_counts,
    "many-chunks": many_chunks,
    "every-head": every_head,
    "empty-rows": empty_rows,
    "no-chunks": no_chunks,
    "empty-chunks": empty_chunks,
    "far-maxima": far_maxima,
    "unequal-mass": unequal_mass,
    "magnitudes": magnitudes,
    "subnormal-values": subnormal_values,
    "beyond-max-chunks": beyond_max_chunks,
    "longest-lengths": longest_lengths,
    "spoilt-chunks": spoilt_chunks,
    "row-alone": row_alone,
    "last-rows": last_rows,
}
