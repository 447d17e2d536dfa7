"""What the operators do for tensors of a GPU, with stand-ins whose launches the emulator executes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from examples.pytorch import flash_decoding as attention
from examples.pytorch import rope, running
from examples.pytorch.flash_decoding import flash_decoding
from examples.pytorch.rope import apply_rope
from tests.examples.test_pytorch_flash_decoding import KEYS, LENGTHS, QUERY, VALUES
from tests.examples.test_pytorch_rope import random
from tests.gpu.standins import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.examples.conftest import Pretended

    Pretending = Callable[..., Pretended]

ROPE: Final[dict[str, Any]] = {"num_heads": 4, "head_dim": 16, "theta": 1e4}
FORWARD, BACKWARD = BatchedRope(**ROPE), BatchedRopeBackward(**ROPE)
SHAPE: Final[dict[str, Any]] = {"num_heads": 4, "head_dim": 16, "chunk_size": 16}
CHUNK = FlashDecodingChunk(**SHAPE, num_kv_heads=2, max_seq_len=40)
REDUCE = FlashDecodingReduce(**SHAPE)
POSITIONS: Final = torch.tensor([0, 7, 4_000_000_000])


def allocations(function: Callable[..., Any], *arguments: Any) -> set[tuple[int, ...]]:
    """Return the shapes of all tensors that a function makes and that are no views."""
    made: set[tuple[int, ...]] = set()

    def noting(mode: Any, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not operator.is_view:
            made.add(tuple(result.shape))
        return result

    # no class statement: where PyTorch is not installed, its type checks otherwise
    mode: Any = type("Noting", (TorchDispatchMode,), {"__torch_dispatch__": noting})
    with mode():
        function(*arguments)
    return made


def launched(pretended: Pretended) -> list[tuple[Any, ...]]:
    """Return (stream, entry, grid, block) of every launch."""
    return [
        (stream, handle.entry, grid, block)
        for stream, (grid, block), handle, *_ in pretended.machine.launches()
    ]


def rope_and_gradient() -> tuple[torch.Tensor, ...]:
    x = random(3, 4, 16).requires_grad_()
    result = apply_rope(x, POSITIONS)
    return result, *torch.autograd.grad(result, x, random(3, 4, 16, seed=1))


def test_rope(pretended: Pretending) -> None:
    expected = rope_and_gradient()
    gpu = pretended(FORWARD, BACKWARD)
    found = rope_and_gradient()
    assert all(map(torch.equal, found, expected))
    assert launched(gpu) == [
        (Stream(0), "batched_rope", (4, 3, 1), (8, 1, 1)),
        (Stream(0), "batched_rope_backward", (4, 3, 1), (8, 1, 1)),
    ]
    assert gpu.machine.names() == ["load", "launch"] * 2, "nothing allocated, copied or waited for"
    assert gpu.done == ["enter cpu", "leave"] * 2
    rope_and_gradient()
    assert gpu.machine.names()[4:] == ["launch"] * 2, "loaded once"


def test_flash_decoding(pretended: Pretending) -> None:
    expected = flash_decoding(QUERY, KEYS, VALUES, LENGTHS, chunk_size=16)
    gpu = pretended(CHUNK, REDUCE)
    for tensor in (*KEYS, *VALUES):
        gpu.know(tensor)
    chunk = (Stream(0), "flash_decoding_chunk", (4, 3, 3), (32, 1, 1))
    reduce = (Stream(0), "flash_decoding_reduce", (4, 3, 1), (32, 1, 1))
    assert torch.equal(flash_decoding(QUERY, KEYS, VALUES, LENGTHS, chunk_size=16), expected)
    assert launched(gpu) == [chunk, reduce]
    assert gpu.machine.names() == ["load", "launch"] * 2, "nothing allocated, copied or waited for"
    assert torch.equal(flash_decoding(QUERY, list(KEYS), list(VALUES), LENGTHS, chunk_size=16), expected)
    assert launched(gpu)[2:] == [chunk, reduce]


def test_rows_of_a_larger_cache_are_pointed_to_where_they_lie() -> None:
    layers = random(3, 5, 2, 40, 16)
    for rows in (layers[:, 1], layers[:1, 2].expand(3, -1, -1, -1), layers[:1, 2]):
        table = running.addresses(running.Table(rows))
        assert table.tolist() == [row.data_ptr() for row in rows]


def test_more_rows_than_a_grid(pretended: Pretending, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = apply_rope(random(3, 4, 16), POSITIONS)
    gpu = pretended(FORWARD)
    monkeypatch.setattr(running, "MOST_ROWS", 2)
    assert torch.equal(apply_rope(random(3, 4, 16), POSITIONS), expected)
    assert [grid for _, _, grid, _ in launched(gpu)] == [(4, 2, 1), (4, 1, 1)]


def test_no_rows_launch_nothing(pretended: Pretending) -> None:
    gpu = pretended()
    apply_rope(random(0, 4, 16), POSITIONS[:0])
    flash_decoding(QUERY[:0], KEYS[:0], VALUES[:0], LENGTHS[:0])
    assert not gpu.machine.calls


def test_nothing_is_allocated_but_results_tables_and_partials(
    pretended: Pretending, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended()
    # the CPU's check of the range is not made for a GPU
    monkeypatch.setattr(running, "in_range", lambda tensor, name: None)
    positions, lengths = POSITIONS.to(torch.uint32), LENGTHS.to(torch.uint32)
    assert allocations(rope._forward, random(3, 4, 16), positions, 1e4) == {(3, 4, 16)}
    made = allocations(attention._attend, QUERY, [KEYS], [VALUES], lengths, None, 16)
    assert made == {(3, 4, 16), (3,), (3, 4, 3, 18)}
    assert allocations(rope._forward, random(3, 4, 16), POSITIONS, 1e4) == {(3, 4, 16), (3,)}, "converted"


def test_a_stream_that_is_captured(pretended: Pretending) -> None:
    gpu = pretended()
    gpu.capturing = True
    with pytest.raises(
        RuntimeError, match=r"batched_rope\.h4\.d16\.theta10000 is not loaded on cuda.* call the op"
    ):
        apply_rope(random(3, 4, 16), POSITIONS)
    assert not gpu.machine.calls
    gpu.capturing = False
    apply_rope(random(3, 4, 16), POSITIONS)
    flash_decoding(QUERY, list(KEYS), list(VALUES), LENGTHS)
    before = len(gpu.machine.calls)
    gpu.capturing = True
    apply_rope(random(3, 4, 16), POSITIONS)
    flash_decoding(QUERY, KEYS, VALUES, LENGTHS)
    assert gpu.machine.names()[before:] == ["launch"] * 3
    with pytest.raises(RuntimeError, match="the addresses of a list of tensors .* pass one tensor"):
        flash_decoding(QUERY, list(KEYS), list(VALUES), LENGTHS)
