"""RoPE as an operator of PyTorch: numbers and gradients, through the emulator."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from ptxtemplates.errors import ParameterError
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward
from ptxtemplates.references.rope import rotated

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from examples.pytorch import running
from examples.pytorch.rope import apply_rope

SHAPE: Final[dict[str, Any]] = {"num_heads": 3, "head_dim": 16, "theta": 500.0}
POSITIONS: Final = torch.tensor([0, 7, 2**32 - 1, 3])


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def assert_rotated(kernel: Any, x: torch.Tensor, result: torch.Tensor) -> None:
    exact, bound = rotated(kernel, x.detach().numpy(), POSITIONS.tolist())
    assert (np.abs(result.detach().numpy() - exact) <= bound).all()


def test_forward_and_gradient_are_within_the_bounds_of_the_kernels() -> None:
    x, gradient = random(4, 3, 16).requires_grad_(), random(4, 3, 16, seed=1)
    result = apply_rope(x, POSITIONS, 500.0)
    assert_rotated(BatchedRope(**SHAPE), x, result)
    (found,) = torch.autograd.grad(result, x, gradient)
    assert_rotated(BatchedRopeBackward(**SHAPE), gradient, found)


@pytest.mark.filterwarnings("ignore:Input #. requires gradient and is not a double precision:UserWarning")
def test_first_and_second_derivative() -> None:
    # a rotation is linear: differences over whole units are off by roundings alone
    x, positions = random(2, 1, 4).requires_grad_(), torch.tensor([1, 40])
    steps: dict[str, Any] = {"eps": 1.0, "atol": 1e-5, "rtol": 1e-5}
    assert torch.autograd.gradcheck(lambda x: apply_rope(x, positions), x, **steps)
    assert torch.autograd.gradgradcheck(
        lambda x: apply_rope(x, positions), x, random(2, 1, 4, seed=1).requires_grad_(), **steps
    )


def test_positions_alone_need_no_gradient() -> None:
    assert not apply_rope(random(4, 3, 16), POSITIONS).requires_grad


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint32])
def test_integers_of_32_bits(dtype: torch.dtype) -> None:
    x, positions = random(2, 3, 16), torch.tensor([5, 9])
    assert torch.equal(apply_rope(x, positions.to(dtype)), apply_rope(x, positions))


def test_leading_axes() -> None:
    x, positions = random(2, 5, 3, 16), torch.arange(5).expand(2, 5)
    result = apply_rope(x, positions)
    assert torch.equal(result.flatten(0, 1), apply_rope(x.flatten(0, 1), positions.reshape(-1)))
    assert torch.equal(apply_rope(x[0, 1], positions[0, 1]), result[0, 1])


def test_memory_that_is_not_contiguous_or_aligned() -> None:
    x = random(3, 4, 16).transpose(0, 1)
    result = apply_rope(x, POSITIONS)
    assert result.is_contiguous()
    assert torch.equal(result, apply_rope(x.contiguous(), POSITIONS))
    odd = random(1 + 4 * 3 * 16)[1:].view(4, 3, 16)
    assert odd.data_ptr() % 8
    assert torch.equal(apply_rope(odd, POSITIONS), apply_rope(odd.clone(), POSITIONS))


def test_result_has_memory_of_its_own() -> None:
    x = random(1, 3, 16)
    before = x.clone()
    result = apply_rope(x, torch.tensor([0]))
    assert torch.equal(result, x)
    result.zero_()
    assert torch.equal(x, before)


def test_no_rows() -> None:
    x = random(0, 3, 16).requires_grad_()
    (gradient,) = torch.autograd.grad(apply_rope(x, POSITIONS[:0]).sum(), x)
    assert gradient.shape == (0, 3, 16)


def test_more_rows_than_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    x = random(4, 3, 16)
    whole = apply_rope(x, POSITIONS)
    monkeypatch.setattr(running, "MOST_ROWS", 3)
    assert [(part.start, part.stop) for part in running.slices(4)] == [(0, 3), (3, 4)]
    assert torch.equal(apply_rope(x, POSITIONS), whole)


@pytest.mark.parametrize(
    ("x", "positions", "error", "message"),
    [
        (
            random(4, 3, 16).bfloat16(),
            POSITIONS,
            TypeError,
            r"x: its elements are torch.bfloat16.*x\.float\(\)",
        ),
        (
            random(4, 3, 16),
            POSITIONS.float(),
            TypeError,
            "positions: .* torch.float32, and must be torch.int64",
        ),
        (random(4, 3, 16), POSITIONS[:3], ValueError, r"x is \[4, 3, 16\] and positions \[3\]: they must be"),
        (random(16), POSITIONS, ValueError, r"must be \[\.\.\., num_heads, head_dim\]"),
        (random(4, 3, 16), POSITIONS.to("meta"), ValueError, "positions: it is on meta, and must be on cpu"),
        (random(4, 3, 16), -POSITIONS, ValueError, "positions: -7 is not from 0 to 2"),
        (random(4, 3, 16), POSITIONS + 1, ValueError, "positions: 4294967296 is not from 0 to 2"),
        (random(4, 3, 15), POSITIONS, ParameterError, "head_dim"),
    ],
)
def test_refused(x: torch.Tensor, positions: torch.Tensor, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        apply_rope(x, positions)


def test_what_the_emulator_finds_is_an_error() -> None:
    kernel, x = BatchedRope(**SHAPE), random(4, 3, 16)
    too_small = torch.empty(3, 3, 16)
    with pytest.raises(RuntimeError, match=r"batched_rope\.h3\.d16\.theta500: .*out of bounds.*out_ptr"):
        running.run(kernel, x, too_small, POSITIONS.to(torch.uint32), rows=4)
