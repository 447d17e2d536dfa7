"""The kernels that are mutated: small ones that render every path of the templates between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce

if TYPE_CHECKING:
    from ptxtemplates.kernel import Kernel

VARIANTS: Final[tuple[Kernel, ...]] = (
    BatchedRope(num_heads=2, head_dim=80, theta=1e4),
    BatchedRopeBackward(num_heads=3, head_dim=64, theta=5e5),
    FlashDecodingReduce(num_heads=3, head_dim=72, chunk_size=16),
    FlashDecodingChunk(num_heads=6, num_kv_heads=2, head_dim=72, chunk_size=16, max_seq_len=512),
)
"""A tail of pairs in both flash-decoding kernels; a division by a shift in one, by a product in the other."""
