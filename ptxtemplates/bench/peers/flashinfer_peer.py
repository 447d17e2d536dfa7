"""FlashInfer's kernels, through its Python interface of version 0.6.18.

They take half types only, so data is bf16, and a call moves half the bytes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.bench.peers.problems import PAGE, Decoding, Reduction, Refused, Rotation, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.bench.peers.problems import Problem, Tensor

WORKSPACE: Final = 128 << 20
"""Bytes for split attention, as FlashInfer recommends."""

TENSOR_CORES: Final = 4
"""Query heads a key head from which its documentation says that tensor cores are the faster ones."""


def prepare(problem: Problem) -> Work:
    """Return how FlashInfer solves a problem.

    Raises
    ------
    Refused
        If it does not.
    """
    return _WORK[type(problem)](problem, importlib.import_module("flashinfer"))


def _rotation(problem: Rotation, flashinfer: Any) -> Work:
    """Rotate in place, queries and keys in one call: the last head is given as that of the keys."""
    kernel = problem.kernel
    if kernel.num_heads == 1:
        raise Refused("FlashInfer rotates queries and keys together: two heads at least")
    queries = (kernel.num_heads - 1) * kernel.head_dim

    def rotate(x: Tensor, halves: Tensor, pairs: Tensor, positions: Tensor) -> Tensor:
        flat = x.flatten(1)
        flashinfer.apply_rope_with_cos_sin_cache_inplace(
            positions=positions,
            query=flat[:, :queries],
            key=flat[:, queries:],
            head_size=kernel.head_dim,
            cos_sin_cache=halves,
            is_neox=False,
        )
        return x

    return Work(problem.layout("bf16"), rotate)


def _reduction(problem: Reduction, flashinfer: Any) -> Work:
    def merge(values: Tensor, logarithms: Tensor) -> Tensor:
        merged, _ = flashinfer.merge_states(values, logarithms)
        return merged

    return Work(problem.states, merge)


def _decoding(problem: Decoding, flashinfer: Any) -> Work:
    """Plan once for all sets of inputs: their shapes and page tables are the same."""
    kernel, place, rows, pages = problem.kernel, problem.place, problem.rows, problem.pages
    torch = place.torch
    indptr = place.counting(rows + 1, "int32", pages)
    indices = place.counting(rows * pages, "int32")
    last_page = place.lengths(rows, problem.keys - (pages - 1) * PAGE)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        torch.zeros(WORKSPACE, dtype=torch.uint8, device=place.device),
        "NHD",
        use_cuda_graph=True,
        use_tensor_cores=problem.group >= TENSOR_CORES,
        paged_kv_indptr_buffer=indptr.clone(),
        paged_kv_indices_buffer=indices.clone(),
        paged_kv_last_page_len_buffer=last_page.clone(),
    )
    wrapper.plan(
        indptr,
        indices,
        last_page,
        kernel.num_heads,
        kernel.num_kv_heads,
        kernel.head_dim,
        PAGE,
        q_data_type=torch.bfloat16,
        kv_data_type=torch.bfloat16,
        sm_scale=kernel.scale,
    )

    def decode(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return wrapper.run(query, (keys, values))

    return Work(problem.paged, decode)


_WORK: Final[dict[type[Problem], Callable[[Any, Any], Work]]] = {
    Rotation: _rotation,
    Reduction: _reduction,
    Decoding: _decoding,
}
