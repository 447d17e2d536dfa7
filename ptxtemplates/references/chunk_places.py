"""The cases of `flash_decoding_chunk` in tensors too large to hold: far rows, far chunks, far offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ptxtemplates.references.case import (
    MOST_ROWS,
    Buffer,
    Close,
    Input,
    Piece,
    Setup,
    Sparse,
    Table,
    flat,
    launch,
    some_rows,
)
from ptxtemplates.references.flash_decoding import partial, scored

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from ptxtemplates.kernels.flash_decoding import FlashDecodingChunk

    Floats = npt.NDArray[np.float32]

MOST_CHUNKS: Final = 65_535
LONGEST: Final = 2**32 - 1
FEW_KEYS: Final = 10
"""Enough for a last step that is not full, where a case is not about the number of keys."""

COPIES: Final = 5
"""Buffers of keys, and of values, among which each of many rows has its own."""


class _Far(NamedTuple):
    """Blocks of the last head.

    Attributes
    ----------
    lengths : numpy.ndarray of uint32
        Keys of each row.
    tensors : numpy.ndarray of int64
        For each row which buffer of keys, and of values, is its own.
    chunks : int
        Chunks in the partials.
    places : sequence of (int, int)
        Rows and chunks that run.
    """

    lengths: npt.NDArray[np.uint32]
    tensors: npt.NDArray[np.int64]
    chunks: int
    places: Sequence[tuple[int, int]]

    def keys(self, kernel: FlashDecodingChunk, row: int, chunk: int) -> int:
        """Return how many keys of a row lie in a chunk."""
        left = min(int(self.lengths[row]), kernel.max_seq_len) - chunk * kernel.chunk_size
        return max(0, min(left, kernel.chunk_size))


def _contents(
    kernel: FlashDecodingChunk, rng: np.random.Generator, far: _Far
) -> dict[int, dict[int, tuple[Floats, Floats]]]:
    """Return keys and values, for each buffer by the chunk that they start: as many as any place reads."""
    counts: dict[int, dict[int, int]] = {number: {} for number in range(int(far.tensors.max()) + 1)}
    for row, chunk in far.places:
        own = counts[int(far.tensors[row])]
        if used := far.keys(kernel, row, chunk):
            own[chunk] = max(own.get(chunk, 0), used)

    def ordinary(keys: int) -> Floats:
        return rng.standard_normal((keys, kernel.head_dim)).astype(np.float32)

    return {
        number: {chunk: (ordinary(keys), ordinary(keys)) for chunk, keys in sorted(own.items())}
        for number, own in counts.items()
    }


def _setup(kernel: FlashDecodingChunk, rng: np.random.Generator, far: _Far) -> Setup:
    """Run the places; of a chunk without keys only maximum and sum are looked at."""
    rows, head, dim = len(far.lengths), kernel.num_heads - 1, kernel.head_dim
    queries, shape = (rows, kernel.num_heads, dim), (rows, kernel.num_heads, far.chunks, dim + 2)
    tensor = (kernel.num_kv_heads, kernel.max_seq_len, dim)
    contents = _contents(kernel, rng, far)
    buffers: dict[str, Buffer] = {"seq_lens": Input(far.lengths), "partials": Sparse(shape)}
    for part, letter in enumerate("kv"):
        for number, chunks in contents.items():
            pieces = (
                Piece(flat(tensor, tensor[0] - 1, chunk * kernel.chunk_size), arrays[part].reshape(-1))
                for chunk, arrays in chunks.items()
            )
            buffers[f"{letter}{number}"] = Sparse(tensor, tuple(pieces))
        buffers[f"{letter}_ptrs"] = Table(tuple(f"{letter}{number}" for number in far.tensors))
    query = {
        row: rng.standard_normal(dim).astype(np.float32) for row in sorted({row for row, _ in far.places})
    }
    buffers["q"] = Sparse(queries, tuple(Piece(flat(queries, row, head), own) for row, own in query.items()))
    expectations = []
    for row, chunk in far.places:
        at = flat(shape, row, head, chunk)
        if used := far.keys(kernel, row, chunk):
            keys, values = (array[:used] for array in contents[int(far.tensors[row])][chunk])
            scores = scored(kernel, query[row].astype(np.float64), keys.astype(np.float64))
            expectations.append(Close("partials", *partial(kernel, scores, values.astype(np.float64)), at=at))
        else:
            expectations.append(Close("partials", np.array([-np.inf, 0]), np.zeros(2), at=at + dim))
    blocks = [(head, row, chunk) for row, chunk in far.places]
    arguments = ("q", "k_ptrs", "v_ptrs", "partials", "seq_lens", far.chunks)
    sizes = {"rows": rows, "max_chunks": far.chunks}
    launched = launch(kernel, *arguments, work=kernel.chunk_size, blocks=blocks, **sizes)
    return Setup(buffers, (launched,), tuple(expectations))


def _last_chunk(kernel: FlashDecodingChunk) -> int:
    """Return the last chunk that can have keys."""
    return min((kernel.max_seq_len - 1) // kernel.chunk_size, MOST_CHUNKS - 1)


def last_rows(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Attend in rows from the first to the last legal one, each with its own length, query and buffers."""
    of_queries = (-(-(2**32) // (kernel.num_heads * kernel.head_dim * size)) for size in (4, 1))
    of_partials = (-(-(2**32) // (kernel.num_heads * (kernel.head_dim + 2) * size)) for size in (4, 1))
    rows = some_rows(rng, *of_queries, *of_partials)
    few = min(FEW_KEYS, kernel.max_seq_len, kernel.chunk_size)
    lengths = rng.integers(0, few + 1, MOST_ROWS, dtype=np.uint32)
    tensors = rng.integers(0, COPIES, MOST_ROWS)
    return _setup(kernel, rng, _Far(lengths, tensors, 1, [(row, 0) for row in rows]))


def chunk_numbers(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Attend to chunks of small and large numbers, each the last one of its row; behind it is nothing.

    Numbers are chosen where they, or their first key, exceed 8, 10 and 16 bits, at both ends of the chunks
    that can have keys and behind them, and at random.
    """
    last, wrap = _last_chunk(kernel), 2**16 // kernel.chunk_size
    ends = (last - 1, last, last + 1, MOST_CHUNKS - 1)
    wanted = {3, 255, 256, 257, 1_023, 1_024, 1_025, wrap - 1, wrap, wrap + 1, *ends}
    wanted |= {*map(int, rng.integers(0, last + 1, 3)), *map(int, rng.integers(0, MOST_CHUNKS, 3))}
    numbers = sorted(number for number in wanted if 0 <= number < MOST_CHUNKS)
    filled = [number for number in numbers if number <= last]
    places = [(0, number) for number in numbers if number > last]
    lengths = [LONGEST]
    for row, number in enumerate(filled, start=1):
        few = int(rng.integers(1, min(FEW_KEYS, kernel.chunk_size) + 1))
        lengths.append(min(number * kernel.chunk_size + few, kernel.max_seq_len))
        places += [(row, chunk) for chunk in (number, number + 1) if chunk < MOST_CHUNKS]
    tensors = np.zeros(len(lengths), np.int64)
    return _setup(kernel, rng, _Far(np.array(lengths, np.uint32), tensors, MOST_CHUNKS, places))


def last_places(kernel: FlashDecodingChunk, rng: np.random.Generator) -> Setup:
    """Read the last keys of the last kv head, and write partials beyond 2^32 bytes and 2^32 elements.

    Lengths exceed max_seq_len, and max_chunks the chunks that have keys: those behind are empty.
    """
    own = kernel.num_heads * MOST_CHUNKS * (kernel.head_dim + 2)
    rows = sorted({-(-(2**30) // own), -(-(2**32) // own)})
    last = _last_chunk(kernel)
    chunks = [chunk for chunk in (last, last + 1, last + 2, MOST_CHUNKS - 1) if chunk < MOST_CHUNKS]
    lengths = np.full(rows[-1] + 1, min(kernel.max_seq_len + 1, LONGEST), np.uint32)
    lengths[rows[-1]] = LONGEST
    places = [(row, chunk) for row in rows for chunk in dict.fromkeys(chunks)]
    return _setup(kernel, rng, _Far(lengths, np.zeros(len(lengths), np.int64), MOST_CHUNKS, places))
