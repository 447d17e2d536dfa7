"""Flash-decoding as one operator of PyTorch: numbers, through the emulator, and what is refused."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from ptxtemplates.errors import ParameterError
from ptxtemplates.kernels import FlashDecodingChunk
from ptxtemplates.references.flash_decoding import attended, scored

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from examples.pytorch import running
from examples.pytorch.flash_decoding import flash_decoding
from tests.examples.test_pytorch_rope import random

LENGTHS: Final = torch.tensor([40, 0, 9])
QUERY: Final = random(3, 4, 16)
KEYS: Final = random(3, 2, 40, 16, seed=1)
VALUES: Final = random(3, 2, 40, 16, seed=2)


@pytest.mark.parametrize(("scale", "chunk_size"), [(None, 16), (0.5, 7), (None, None)])
def test_within_the_bounds_of_the_kernels(scale: float | None, chunk_size: int | None) -> None:
    result = flash_decoding(QUERY, KEYS, VALUES, LENGTHS, scale=scale, chunk_size=chunk_size)
    kernel = FlashDecodingChunk(
        num_heads=4, num_kv_heads=2, head_dim=16, max_seq_len=40, chunk_size=chunk_size or 128,
        scale=scale or 0.25,
    )  # fmt: skip
    query, keys, values = (tensor.double().numpy() for tensor in (QUERY, KEYS, VALUES))
    for row, length in enumerate(LENGTHS.tolist()):
        for head in range(4):
            found = result[row, head].numpy()
            if not length:
                assert not found.any()
                continue
            scores = scored(kernel, query[row, head], keys[row, head // 2, :length])
            exact, bound = attended(kernel, scores, values[row, head // 2, :length])
            assert (np.abs(found - exact) <= bound).all()


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint32])
def test_integers_of_32_bits(dtype: torch.dtype) -> None:
    lengths = LENGTHS.to(dtype)
    assert torch.equal(
        flash_decoding(QUERY, KEYS, VALUES, lengths), flash_decoding(QUERY, KEYS, VALUES, LENGTHS)
    )


def test_a_tensor_a_row() -> None:
    expected = flash_decoding(QUERY, KEYS, VALUES, LENGTHS)
    assert torch.equal(flash_decoding(QUERY, list(KEYS), VALUES.unbind(), LENGTHS), expected)
    assert torch.equal(flash_decoding(QUERY, list(KEYS), VALUES, LENGTHS), expected)
    one = flash_decoding(QUERY[:1], [KEYS[0]], [VALUES[0]], LENGTHS[:1])
    assert torch.equal(one, expected[:1])


def test_rows_of_a_larger_cache_are_read_where_they_lie() -> None:
    layers = random(3, 5, 2, 40, 16, seed=1)
    keys, values = layers[:, 1], layers[:, 3]
    assert not keys.is_contiguous()
    expected = flash_decoding(QUERY, keys.contiguous(), values.contiguous(), LENGTHS)
    assert torch.equal(flash_decoding(QUERY, keys, values, LENGTHS), expected)
    shared = KEYS[:1].expand(3, -1, -1, -1)
    expected = flash_decoding(QUERY, shared.contiguous(), VALUES, LENGTHS)
    assert torch.equal(flash_decoding(QUERY, shared, VALUES, LENGTHS), expected)


def test_lengths_beyond_the_cache_reach_its_end() -> None:
    longest = torch.tensor([40, 40, 2**32 - 1])
    expected = flash_decoding(QUERY, KEYS, VALUES, longest.clamp(max=40), chunk_size=16)
    assert torch.equal(flash_decoding(QUERY, KEYS, VALUES, longest, chunk_size=16), expected)


def test_query_that_is_not_contiguous() -> None:
    query = random(4, 3, 16).transpose(0, 1)
    result = flash_decoding(query, KEYS, VALUES, LENGTHS)
    assert result.is_contiguous()
    assert torch.equal(result, flash_decoding(query.contiguous(), KEYS, VALUES, LENGTHS))


def test_no_rows() -> None:
    assert flash_decoding(QUERY[:0], KEYS[:0], VALUES[:0], LENGTHS[:0]).shape == (0, 4, 16)
    assert flash_decoding(QUERY[:0], [], [], LENGTHS[:0]).shape == (0, 4, 16)


def test_more_rows_than_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = flash_decoding(QUERY, KEYS, VALUES, LENGTHS)
    monkeypatch.setattr(running, "MOST_ROWS", 2)
    assert torch.equal(flash_decoding(QUERY, KEYS, VALUES, LENGTHS), expected)
    assert torch.equal(flash_decoding(QUERY, list(KEYS), list(VALUES), LENGTHS), expected)


def test_a_gradient_is_refused() -> None:
    query = QUERY.clone().requires_grad_()
    result = flash_decoding(query, KEYS, VALUES, LENGTHS)
    with pytest.raises(NotImplementedError, match=r"for inference and has no gradient: .*torch\.no_grad\(\)"):
        torch.autograd.grad(result.sum(), query)
    with torch.no_grad():
        assert torch.equal(flash_decoding(query, KEYS, VALUES, LENGTHS), result)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"query": QUERY.half()}, TypeError, r"query: .* torch.float16, .* pass query\.float\(\)"),
        ({"keys": KEYS.half()}, TypeError, "keys: its elements are torch.float16"),
        ({"values": [*VALUES[:2], VALUES[2].half()]}, TypeError, "values: its elements are torch.float16"),
        ({"lengths": LENGTHS.float()}, TypeError, "lengths: its elements are torch.float32"),
        ({"query": QUERY[0]}, ValueError, r"query is \[4, 16\] and lengths \[3\]"),
        ({"lengths": LENGTHS[:2]}, ValueError, r"lengths \[2\]: they must be"),
        ({"keys": KEYS[:2]}, ValueError, "keys: they are of 2 rows, and query has 3"),
        ({"keys": list(KEYS[:2])}, ValueError, "keys: they are of 2 rows, and query has 3"),
        ({"values": VALUES[:, :, :39]}, ValueError, r"values: a row is \[2, 39, 16\], and must be"),
        ({"query": QUERY[..., :8]}, ValueError, r"keys: a row is \[2, 40, 16\], .*head_dim = 8"),
        ({"keys": [KEYS[0], KEYS[1], KEYS[2, 0]]}, ValueError, r"keys: a row is \[40, 16\]"),
        ({"keys": KEYS.to("meta")}, ValueError, "keys: it is on meta, and must be on cpu"),
        ({"keys": KEYS.mT.contiguous().mT}, ValueError, "keys: strides are .* each row must be contiguous"),
        ({"lengths": -LENGTHS}, ValueError, "lengths: -40 is not from 0 to 2"),
        ({"chunk_size": 0}, ParameterError, "chunk_size"),
        ({"query": QUERY[:, :3]}, ParameterError, r"num_kv_heads.*must divide num_heads \(3\)"),
    ],
)
def test_refused(changes: dict[str, Any], error: Any, message: str) -> None:
    given = {"query": QUERY, "keys": KEYS, "values": VALUES, "lengths": LENGTHS}
    with pytest.raises(error, match=message):
        flash_decoding(**{**given, **changes})
