"""Flash-decoding: attention of one query token, split into chunks of keys and then reduced.

For one row and head, chunk i of `chunk_size` keys yields the partial (a_i, m_i, l_i) with scores
s = scale q.k in natural-log units: m_i = max s, l_i = sum exp(s - m_i), a_i = sum exp(s - m_i) v,
not normalised. With m = max m_i the reduction gives
out = sum a_i exp(m_i - m) / sum l_i exp(m_i - m).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from ptxtemplates.kernel import Argument, Kernel, Tensor, pointer
from ptxtemplates.parameters import DERIVED, Integer, Parameter, PositiveReal
from ptxtemplates.registry import register

WARP: Final = 32
LOG2_E: Final = 0x3FB8AA3B
"""log2(e) as float32 bits: exp(x) is computed as 2^(x log2 e)."""

MAX_GRID_YZ: Final = 65_535
"""Largest extent of a CUDA grid in y and z."""


def inverse_square_root(value: int) -> float:
    """Return the float64 nearest to value ** -0.5.

    In integers, since the platform's ``pow`` does not give the same bits everywhere: 120 binary digits of the
    root, and one correctly rounded division.
    """
    return math.isqrt(2**240 // value) / 2**120


HeadDim = Annotated[int, Parameter(Integer(8, 512, multiple_of=8), "elements of a head", "d")]
NumHeads = Annotated[int, Parameter(Integer(1, 65_535), "query heads", "h")]
ChunkSize = Annotated[
    int,
    Parameter(Integer(1, 65_536), "keys a chunk; the chunk and the reduce kernel must agree on it", "c"),
]
NumKvHeads = Annotated[int, Parameter(Integer(1, 65_535), "key and value heads; divides num_heads", "kv")]
MaxSeqLen = Annotated[
    int, Parameter(Integer(1, 2**31), "keys that a row's key and value tensors have room for", "s")
]
Scale = Annotated[
    float,
    Parameter(
        PositiveReal(),
        "factor of q.k",
        "scale",
        derived=lambda kernel: inverse_square_root(kernel.head_dim),
        derived_text="head_dim ** -0.5",
    ),
]

PARTIALS_SHAPE: Final = ("rows", "num_heads", "max_chunks", "head_dim + 2")


@dataclass(frozen=True, kw_only=True)
class FlashDecoding(Kernel):
    """What the two kernels share: one warp a block, lanes over pairs of elements of a head."""

    extents: ClassVar = {"rows": MAX_GRID_YZ, "max_chunks": MAX_GRID_YZ}
    at_once: ClassVar[int]

    head_dim: HeadDim
    num_heads: NumHeads
    chunk_size: ChunkSize

    @property
    def block(self) -> tuple[int, int, int]:
        """One warp."""
        return (WARP, 1, 1)

    def constants(self) -> dict[str, object]:
        """Say how elements lie over lanes, and how many keys or chunks are in flight.

        Slot s of a lane is the pair of elements (2 p, 2 p + 1) with p = lane + 32 s; `tail_pairs` lanes own a
        pair in the last slot if it is not full.
        """
        slots, tail_pairs = divmod(self.head_dim // 2, WARP)
        return {
            "log2_e": LOG2_E,
            "slots": slots + (tail_pairs > 0),
            "tail_pairs": tail_pairs,
            "at_once": self.at_once,
        }


@register
@dataclass(frozen=True, kw_only=True)
class FlashDecodingReduce(FlashDecoding):
    """Combine the partial results of a row's chunks into its attention output.

    partials f32 [rows, num_heads, max_chunks, head_dim + 2], output f32 [rows, num_heads, head_dim],
    seq_lens u32 [rows]. A row with no keys, or with empty chunks (max = -inf) only, gives zeros.
    """

    name: ClassVar = "flash_decoding_reduce"
    summary: ClassVar = "combine partial attention results of chunks, weighted by log-sum-exp"
    template: ClassVar = "flash_decoding_reduce.ptx.jinja"
    at_once: ClassVar = 8
    arguments: ClassVar = (
        pointer("partials_ptr", "f32", *PARTIALS_SHAPE, role="data", alignment=8),
        pointer("output_ptr", "f32", "rows", "num_heads", "head_dim", role="output", alignment=8),
        pointer("seq_lens_ptr", "u32", "rows", role="index", alignment=4),
        Argument(name="max_chunks", type="u32", role="index"),
    )

    @property
    def grid(self) -> tuple[int | str, int | str, int | str]:
        """One block a head and row."""
        return (self.num_heads, "rows", 1)


@register
@dataclass(frozen=True, kw_only=True)
class FlashDecodingChunk(FlashDecoding):
    """Attend to one chunk of keys: the producer of the partials that `FlashDecodingReduce` combines.

    q f32 [rows, num_heads, head_dim]; k_ptrs, v_ptrs: a pointer a row to f32
    [num_kv_heads, max_seq_len, head_dim]; partials f32 [rows, num_heads, max_chunks, head_dim + 2];
    seq_lens u32 [rows], clamped to max_seq_len. Query head h reads kv head h num_kv_heads / num_heads. Of an
    empty chunk only (max, sum) = (-inf, 0) is written.
    """

    name: ClassVar = "flash_decoding_chunk"
    summary: ClassVar = "attention of one query token to one chunk of keys and values, not normalised"
    template: ClassVar = "flash_decoding_chunk.ptx.jinja"
    at_once: ClassVar = 4
    arguments: ClassVar = (
        pointer("q_ptr", "f32", "rows", "num_heads", "head_dim", role="data", alignment=8),
        *(
            pointer(
                name,
                "u64",
                "rows",
                role="index",
                alignment=8,
                points_to=Tensor(
                    element="f32",
                    shape=("num_kv_heads", "max_seq_len", "head_dim"),
                    alignment=8,
                    role="data",
                ),
            )
            for name in ("k_ptrs_ptr", "v_ptrs_ptr")
        ),
        pointer("partials_ptr", "f32", *PARTIALS_SHAPE, role="output", alignment=8),
        pointer("seq_lens_ptr", "u32", "rows", role="index", alignment=4),
        Argument(name="max_chunks", type="u32", role="index"),
    )

    num_kv_heads: NumKvHeads
    max_seq_len: MaxSeqLen
    scale: Scale = DERIVED

    def __post_init__(self) -> None:
        """Check the parameters, each and together."""
        super().__post_init__()
        if self.num_heads % self.num_kv_heads:
            raise self.refusal(
                "num_kv_heads", f"must divide num_heads ({self.num_heads}), and {self.num_kv_heads} does not"
            )

    @property
    def grid(self) -> tuple[int | str, int | str, int | str]:
        """One block a head, row and chunk."""
        return (self.num_heads, "rows", "max_chunks")

    def constants(self) -> dict[str, object]:
        """Add the number of query heads that share a kv head; a short chunk has fewer keys in flight."""
        return {
            **super().constants(),
            "group": self.num_heads // self.num_kv_heads,
            "at_once": min(self.at_once, self.chunk_size),
        }
