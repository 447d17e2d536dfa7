"""vLLM's kernels, through the functions that its own layers call.

Written to ``vllm._custom_ops.rotary_embedding`` (commit 0002bde5), the second stage of
``vllm.v1.attention.ops.triton_decode_attention`` (commit 0155494b) and
``vllm.vllm_flash_attn.flash_attn_interface`` (commit 01420e05). ``merge_attn_states`` merges two states, not
any number; the second stage of decoding in Triton is what combines chunks there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.bench.peers.problems import Decoding, Reduction, Rotation, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.bench.peers.problems import Problem, Tensor

VERSIONS: Final = (3, 4, 2)
"""Of FlashAttention, in the order in which vLLM prefers them: 3 on Hopper, 4 on Blackwell."""


def prepare(problem: Problem) -> Work:
    """Return how vLLM solves a problem."""
    return _WORK[type(problem)](problem)


def _rotation(problem: Rotation) -> Work:
    """In place, in f32, with no keys beside the queries."""
    rotary_embedding = importlib.import_module("vllm._custom_ops").rotary_embedding
    head_dim = problem.kernel.head_dim

    def rotate(x: Tensor, halves: Tensor, pairs: Tensor, positions: Tensor) -> Tensor:
        rotary_embedding(positions, x, None, head_dim, halves, False)
        return x

    return Work(problem.layout("f32"), rotate)


def _reduction(problem: Reduction) -> Work:
    """Combine as many splits as there are chunks: keys are shared out evenly, so all are full."""
    name = "vllm.v1.attention.ops.triton_decode_attention"
    reduce = importlib.import_module(name)._decode_softmax_reducev_fwd
    place, kernel = problem.place, problem.kernel
    shape = (problem.rows, kernel.num_heads, kernel.head_dim)
    # of these two it reads the shapes alone
    query = place.torch.empty(shape, device=place.device)
    value_cache = query[:1]

    def combine(partials: Tensor, lengths: Tensor) -> Tensor:
        out = query.new_empty(shape)
        logarithms = query.new_empty(shape[:2])
        reduce(partials, query, out, logarithms, value_cache, lengths, problem.max_chunks)
        return out

    return Work(problem.normalised, combine)


def _decoding(problem: Decoding) -> Work:
    interface = importlib.import_module("vllm.vllm_flash_attn.flash_attn_interface")
    place, rows, pages = problem.place, problem.rows, problem.pages
    version = next((v for v in VERSIONS if interface.is_fa_version_supported(v)), VERSIONS[-1])
    starts = place.counting(rows + 1, "int32")
    lengths = place.lengths(rows, problem.keys)
    table = place.counting(rows * pages, "int32").view(rows, pages)

    def decode(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return interface.flash_attn_varlen_func(
            query,
            keys,
            values,
            max_seqlen_q=1,
            cu_seqlens_q=starts,
            max_seqlen_k=problem.keys,
            seqused_k=lengths,
            softmax_scale=problem.kernel.scale,
            causal=True,
            block_table=table,
            fa_version=version,
        )

    return Work(problem.paged, decode)


_WORK: Final[dict[type[Problem], Callable[[Any], Work]]] = {
    Rotation: _rotation,
    Reduction: _reduction,
    Decoding: _decoding,
}
