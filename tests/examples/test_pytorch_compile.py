"""The operators keep PyTorch's contract for operators, and torch.compile changes no bit of their results."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from examples.pytorch.flash_decoding import flash_decoding
from examples.pytorch.rope import apply_rope
from tests.examples.test_pytorch_flash_decoding import KEYS, LENGTHS, QUERY, VALUES
from tests.examples.test_pytorch_rope import random

if TYPE_CHECKING:
    from collections.abc import Callable

# PyTorch's own, when inductor is imported
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is:DeprecationWarning")

OPERATORS: Final = torch.ops.ptxtemplates
POSITIONS: Final = torch.tensor([0, 7, 4_000_000_000])
COMPILER: Final = pytest.mark.skipif(
    shutil.which("g++") is None, reason="inductor needs a C++ compiler: no g++"
)


def decode(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A step of attention, with work of PyTorch before, between and after."""
    return flash_decoding(apply_rope(query * 2, POSITIONS).mul(0.5), keys, values, LENGTHS) + query


def bare(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The same without that: nothing for inductor to compile."""
    return flash_decoding(apply_rope(query, POSITIONS), keys, values, LENGTHS)


@pytest.mark.parametrize("operator", ["batched_rope", "batched_rope_backward"])
@pytest.mark.parametrize("x", [random(3, 4, 16), random(4, 3, 16).transpose(0, 1), random(0, 4, 16)])
def test_contract_of_rope(operator: str, x: torch.Tensor) -> None:
    arguments = (x.clone().requires_grad_(), POSITIONS[: len(x)], 1e4)
    torch.library.opcheck(getattr(OPERATORS, operator).default, arguments)


@pytest.mark.parametrize("keys", [[KEYS], list(KEYS)])
def test_contract_of_flash_decoding(keys: list[torch.Tensor]) -> None:
    arguments = (QUERY, keys, [VALUES], LENGTHS, None, 16)
    torch.library.opcheck(OPERATORS.flash_decoding.default, arguments)


@pytest.mark.parametrize(
    ("function", "backend"),
    [
        (decode, "aot_eager"),
        (bare, "inductor"),
        pytest.param(decode, "inductor", marks=COMPILER),
    ],
)
def test_compiled_is_eager_bit_for_bit(function: Callable[..., Any], backend: str) -> None:
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    with torch.no_grad():
        assert torch.equal(compiled(QUERY, KEYS, VALUES), function(QUERY, KEYS, VALUES))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_gradient_is_eager_bit_for_bit(backend: str) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return apply_rope(apply_rope(x, POSITIONS), POSITIONS, 20.0)

    compiled = torch.compile(loss, fullgraph=True, backend=backend)
    weight = random(3, 4, 16, seed=3)
    gradients: list[torch.Tensor] = []
    for function in (loss, compiled):
        x = random(3, 4, 16).requires_grad_()
        gradients += torch.autograd.grad(function(x), x, weight)
    assert torch.equal(*gradients)


def test_sizes_that_change_are_compiled_once() -> None:
    frames = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(apply_rope, fullgraph=True, dynamic=True, backend=frames)
    for rows in (2, 3, 5):
        x, positions = random(rows, 4, 16), torch.arange(rows)
        assert torch.equal(compiled(x, positions), apply_rope(x, positions))
    assert frames.frame_count == 1


def test_fake_tensors_are_refused_as_real_ones() -> None:
    with pytest.raises(Exception, match=r"x: its elements are torch.float16.*pass x\.float\(\)"):
        torch.compile(apply_rope, fullgraph=True, backend="eager")(QUERY.half(), POSITIONS)
