"""Flash-decoding as one operator of PyTorch: chunks of keys, then their reduction. For inference alone."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch

from ptxtemplates.kernels import FlashDecodingChunk, FlashDecodingReduce

from .running import Table, check_types, data, index, run, slices

if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNK_SIZE: Final = 128
MOST_CHUNKS: Final = 65_535
"""That a grid has room for."""


def flash_decoding(
    query: torch.Tensor,
    keys: torch.Tensor | Sequence[torch.Tensor],
    values: torch.Tensor | Sequence[torch.Tensor],
    lengths: torch.Tensor,
    *,
    scale: float | None = None,
    chunk_size: int | None = None,
) -> torch.Tensor:
    """Attend with one query token a row to the row's keys and values.

    Parameters
    ----------
    query : torch.Tensor
        float32 [rows, num_heads, head_dim]; of the GPU, or of the CPU, where the emulator executes the
        kernels. It is copied if it is not contiguous.
    keys, values : torch.Tensor, or sequence of torch.Tensor
        One tensor, float32 [rows, num_kv_heads, max_seq_len, head_dim], with any stride between rows; or for
        each row one of its own, [num_kv_heads, max_seq_len, head_dim], all of one shape. Each row must be
        contiguous: a cache is never copied. Query head h reads key and value head
        h * num_kv_heads // num_heads.
    lengths : torch.Tensor
        int64, int32 or uint32 [rows]: keys of each row, of which those beyond max_seq_len are left out. From
        0 to 2^32 - 1, which is checked on the CPU; on a GPU they are not looked at, and taken modulo 2^32. A
        row without keys gives zeros.
    scale : float, optional
        Factor of the scores; head_dim ** -0.5 by default.
    chunk_size : int, optional
        Keys that one warp goes through; the chunks of a row and head work side by side. By default 128, or as
        many as make no more than 65,535 chunks of max_seq_len. It decides rounding: other sizes, other last
        bits.

    Returns
    -------
    torch.Tensor
        As `query`, contiguous. It has no gradient.

    Raises
    ------
    TypeError
        If the elements are of another type.
    ValueError
        If shapes, strides or devices do not fit.
    NotImplementedError
        If a gradient is asked for.
    """
    of_keys, of_values = (
        [given] if isinstance(given, torch.Tensor) else list(given) for given in (keys, values)
    )
    result: torch.Tensor = _flash_decoding(query, of_keys, of_values, lengths, scale, chunk_size)
    return result


def _attend(
    query: torch.Tensor,
    keys: Sequence[torch.Tensor],
    values: Sequence[torch.Tensor],
    lengths: torch.Tensor,
    scale: float | None,
    chunk_size: int | None,
) -> torch.Tensor:
    out = _like(query, keys, values, lengths, scale, chunk_size)
    _check_rows("keys", keys)
    _check_rows("values", values)
    given, counts = data(query), index(lengths, "lengths")
    for rows in slices(query.shape[0]):
        num_kv_heads, max_seq_len, head_dim = keys[0].shape[-3:]
        chunk, reduce = _kernels(query.shape[1], num_kv_heads, head_dim, max_seq_len, scale, chunk_size)
        max_chunks = -(-max_seq_len // chunk.chunk_size)
        partials = query.new_empty(rows.stop - rows.start, query.shape[1], max_chunks, head_dim + 2)
        sizes = {"rows": rows.stop - rows.start, "max_chunks": max_chunks}
        tables = _table(keys, rows), _table(values, rows)
        run(chunk, given[rows], *tables, partials, counts[rows], max_chunks, **sizes)
        run(reduce, partials, out[rows], counts[rows], max_chunks, **sizes)
    return out


@cache
def _kernels(
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    max_seq_len: int,
    scale: float | None,
    chunk_size: int | None,
) -> tuple[FlashDecodingChunk, FlashDecodingReduce]:
    if chunk_size is None:
        chunk_size = max(CHUNK_SIZE, -(-max_seq_len // MOST_CHUNKS))
    scaled: dict[str, Any] = {} if scale is None else {"scale": scale}
    reduce = FlashDecodingReduce(num_heads=num_heads, head_dim=head_dim, chunk_size=chunk_size)
    chunk = FlashDecodingChunk(
        num_heads=num_heads, head_dim=head_dim, chunk_size=chunk_size,
        num_kv_heads=num_kv_heads, max_seq_len=max_seq_len, **scaled,
    )  # fmt: skip
    return chunk, reduce


def _like(
    query: torch.Tensor,
    keys: Sequence[torch.Tensor],
    values: Sequence[torch.Tensor],
    lengths: torch.Tensor,
    scale: float | None,
    chunk_size: int | None,
) -> torch.Tensor:
    """Check the arguments and return a result without values: all that torch.compile needs to know."""
    if query.dim() != 3 or lengths.shape != query.shape[:1]:
        raise ValueError(
            f"query is {list(query.shape)} and lengths {list(lengths.shape)}: they must be "
            "[rows, num_heads, head_dim] and [rows]"
        )
    check_types(query.device, {"query": query}, {"lengths": lengths})
    for name, tensors in (("keys", keys), ("values", values)):
        whole = len(tensors) == 1 and tensors[0].dim() == 4
        count = tensors[0].shape[0] if whole else len(tensors)
        if count != query.shape[0]:
            raise ValueError(f"{name}: they are of {count} rows, and query has {query.shape[0]}")
        for tensor in tensors:
            check_types(query.device, {name: tensor}, {})
            shape, first = tensor.shape[whole:], keys[0].shape[-3:]
            if len(shape) != 3 or shape != first or shape[2] != query.shape[2]:
                raise ValueError(
                    f"{name}: a row is {list(shape)}, and must be [num_kv_heads, max_seq_len, "
                    f"head_dim = {query.shape[2]}], alike in all rows, of keys and of values"
                )
    return torch.empty_like(query, memory_format=torch.contiguous_format)


def _table(tensors: Sequence[torch.Tensor], rows: slice) -> Table:
    """Return what pointers to some rows are made of."""
    return Table(tensors[0][rows] if tensors[0].dim() == 4 else tensors[rows])


def _check_rows(name: str, tensors: Sequence[torch.Tensor]) -> None:
    """Raise `ValueError` if a row cannot be read where it lies: the kernel has pointers, and no strides."""
    for tensor in tensors:
        one = tensor[:1] if tensor.dim() == 4 else tensor  # a row's own stride may be any
        apart = tensor.stride(0) % 2 if tensor.dim() == 4 else 0
        if not one.is_contiguous() or tensor.data_ptr() % 8 or apart:
            raise ValueError(
                f"{name}: strides are {tensor.stride()}, at address {tensor.data_ptr():#x}: each row must be "
                "contiguous and begin at a multiple of 8 bytes, for a cache is not copied"
            )


def _no_gradient(ctx: Any, gradient: torch.Tensor) -> NoReturn:
    raise NotImplementedError(
        "flash_decoding is for inference and has no gradient: call it under torch.no_grad(), or train with "
        "torch.nn.functional.scaled_dot_product_attention"
    )


_flash_decoding = torch.library.custom_op(
    "ptxtemplates::flash_decoding",
    _attend,
    mutates_args=(),
    device_types=("cpu", "cuda"),
    schema="(Tensor query, Tensor[] keys, Tensor[] values, Tensor lengths, float? scale, int? chunk_size)"
    " -> Tensor",
)
_flash_decoding.register_fake(_like)
_flash_decoding.register_autograd(_no_gradient)
