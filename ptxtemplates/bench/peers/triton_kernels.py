# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
# mypy: disable-error-code="import-not-found,import-untyped"
# A kernel of Triton is no Python function: its parameters have no types, and Triton may be missing.
"""Kernels in Triton, as one writes them by hand: coalesced, every element read once, float32 throughout.

Triton has none of its own for what is measured: these are this project's.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def rotate(
    x_ptr,
    out_ptr,
    table_ptr,
    positions_ptr,
    num_heads,
    HEAD_DIM: tl.constexpr,
    PAIRS: tl.constexpr,
    HEADS: tl.constexpr,
):
    """Rotate adjacent pairs of `HEADS` heads of a row; `PAIRS` is head_dim / 2, to a power of two."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    pair = tl.arange(0, PAIRS)
    element = tl.arange(0, 2 * PAIRS)
    direction_ptr = table_ptr + tl.load(positions_ptr + row) * HEAD_DIM + pair
    cosine = tl.load(direction_ptr, mask=pair < HEAD_DIM // 2, other=0.0)[None, :]
    sine = tl.load(direction_ptr + HEAD_DIM // 2, mask=pair < HEAD_DIM // 2, other=0.0)[None, :]
    at = (row * num_heads + head)[:, None] * HEAD_DIM + element[None, :]
    inside = (head < num_heads)[:, None] & (element < HEAD_DIM)[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    even, odd = tl.split(tl.reshape(x, (HEADS, PAIRS, 2)))
    turned = tl.join(even * cosine - odd * sine, odd * cosine + even * sine)
    tl.store(out_ptr + at, tl.reshape(turned, (HEADS, 2 * PAIRS)), mask=inside)


@triton.jit
def combine(
    partials_ptr,
    out_ptr,
    lengths_ptr,
    num_heads,
    max_chunks,
    chunk_size,
    HEAD_DIM: tl.constexpr,
    ELEMENTS: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Combine the partial results of a row and head, `CHUNKS` at a time; `ELEMENTS` is a power of two."""
    row_head = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths_ptr + row_head // num_heads)
    chunks = tl.minimum((length + chunk_size - 1) // chunk_size, max_chunks)
    element = tl.arange(0, ELEMENTS)
    top = float("-inf")
    total = 0.0
    values = tl.zeros((ELEMENTS,), tl.float32)
    for start in range(0, chunks, CHUNKS):
        chunk = start + tl.arange(0, CHUNKS)
        used = chunk < chunks
        partial_ptr = partials_ptr + (row_head * max_chunks + chunk) * (HEAD_DIM + 2)
        inside = used[:, None] & (element < HEAD_DIM)[None, :]
        some = tl.load(partial_ptr[:, None] + element[None, :], mask=inside, other=0.0)
        maxima = tl.load(partial_ptr + HEAD_DIM, mask=used, other=float("-inf"))
        sums = tl.load(partial_ptr + HEAD_DIM + 1, mask=used, other=0.0)
        higher = tl.maximum(top, tl.max(maxima, 0))
        # empty chunks alone: any finite number gives them the weight 0
        reference = tl.where(higher == float("-inf"), 0.0, higher)
        kept = tl.exp(top - reference)
        weights = tl.exp(maxima - reference)
        some = tl.where((maxima == float("-inf"))[:, None], 0.0, some)
        values = values * kept + tl.sum(weights[:, None] * some, 0)
        total = total * kept + tl.sum(weights * sums, 0)
        top = higher
    result = tl.where(total == 0.0, 0.0, values / total)
    tl.store(out_ptr + row_head * HEAD_DIM + element, result, mask=element < HEAD_DIM)


@triton.jit
def attend(
    query_ptr,
    keys_ptr,
    values_ptr,
    partials_ptr,
    num_heads,
    num_kv_heads,
    num_keys,
    split_keys,
    scale,
    HEAD_DIM: tl.constexpr,
    ELEMENTS: tl.constexpr,
    GROUP: tl.constexpr,
    HEADS: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Attend with the `GROUP` query heads of a key head to one split of a row's keys, `KEYS` at a time.

    `HEADS` is the group to a power of two. From 16 on, products of matrices are `tl.dot` in full float32;
    smaller groups would leave most of one empty.
    """
    split = tl.program_id(0)
    kv_head = tl.program_id(1)
    row = tl.program_id(2).to(tl.int64)
    member = tl.arange(0, HEADS)
    element = tl.arange(0, ELEMENTS)
    whole = element < HEAD_DIM
    inside = (member < GROUP)[:, None] & whole[None, :]
    head = row * num_heads + kv_head * GROUP + member
    query = tl.load(query_ptr + head[:, None] * HEAD_DIM + element[None, :], mask=inside, other=0.0) * scale
    tensor = (row * num_kv_heads + kv_head) * num_keys * HEAD_DIM
    first = split * split_keys
    last = tl.minimum(first + split_keys, num_keys)
    top = tl.full((HEADS,), float("-inf"), tl.float32)
    total = tl.zeros((HEADS,), tl.float32)
    sums = tl.zeros((HEADS, ELEMENTS), tl.float32)
    for start in range(first, last, KEYS):
        key = start + tl.arange(0, KEYS)
        used = key < last
        at = tensor + key[:, None] * HEAD_DIM + element[None, :]
        keys = tl.load(keys_ptr + at, mask=used[:, None] & whole[None, :], other=0.0)
        values = tl.load(values_ptr + at, mask=used[:, None] & whole[None, :], other=0.0)
        if HEADS >= 16:
            scores = tl.dot(query, tl.trans(keys), input_precision="ieee")
        else:
            scores = tl.sum(query[:, None, :] * keys[None, :, :], 2)
        scores = tl.where(used[None, :], scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        kept = tl.exp(top - higher)
        weights = tl.exp(scores - higher[:, None])
        if HEADS >= 16:
            weighted = tl.dot(weights, values, input_precision="ieee")
        else:
            weighted = tl.sum(weights[:, :, None] * values[None, :, :], 1)
        sums = sums * kept[:, None] + weighted
        total = total * kept + tl.sum(weights, 1)
        top = higher
    partial_ptr = partials_ptr + (head * tl.num_programs(0) + split) * (HEAD_DIM + 2)
    tl.store(partial_ptr[:, None] + element[None, :], sums, mask=inside)
    tl.store(partial_ptr + HEAD_DIM, top, mask=member < GROUP)
    tl.store(partial_ptr + HEAD_DIM + 1, total, mask=member < GROUP)


CONFIGURATIONS = [
    triton.Config({}, num_warps=warps, num_stages=stages) for warps in (2, 4, 8) for stages in (2, 3)
]
"""What `tuned` chooses from."""


def tuned(kernel: Any, **options: Any) -> Any:
    """Return a kernel that tries every configuration at its first call, and keeps to the best one."""
    return triton.autotune(CONFIGURATIONS, key=[], **options)(kernel)
