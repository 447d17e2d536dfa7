"""Rotary position embedding as an operator of PyTorch: autograd, torch.compile, CUDA graphs.

``ptxtemplates::batched_rope`` and ``ptxtemplates::batched_rope_backward`` are each other's gradient: a
rotation is linear, and its transpose is the rotation back.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward

from .running import check_types, data, index, run, slices

if TYPE_CHECKING:
    from collections.abc import Callable

    Kind = Callable[..., BatchedRope | BatchedRopeBackward]


def apply_rope(x: torch.Tensor, positions: torch.Tensor, theta: float = 10_000.0) -> torch.Tensor:
    """Rotate each pair (x[2i], x[2i+1]) of every head by the angle position * theta^(-2i / head_dim).

    Parameters
    ----------
    x : torch.Tensor
        float32 [..., num_heads, head_dim], such as [batch, tokens, num_heads, head_dim]; of the GPU, or of
        the CPU, where the emulator executes the kernel. It is copied if it is not contiguous.
    positions : torch.Tensor
        int64, int32 or uint32, with the leading axes of `x`. Each from 0 to 2^32 - 1, which is checked on the
        CPU; on a GPU they are taken modulo 2^32. int64 is converted at each call.
    theta : float
        Base of the frequencies. A kernel is rendered for each (num_heads, head_dim, theta).

    Returns
    -------
    torch.Tensor
        As `x`, contiguous, with memory of its own.

    Raises
    ------
    TypeError
        If the elements are of another type.
    ValueError
        If shapes or devices do not fit.
    """
    result: torch.Tensor = _rope(x, positions, theta)
    return result


def _forward(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    return _rotated(BatchedRope, x, positions, theta)


def _backward(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    return _rotated(BatchedRopeBackward, x, positions, theta)


def _rotated(kind: Kind, x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    out = _like(x, positions, theta)
    num_heads, head_dim = x.shape[-2:]
    each = index(positions, "positions").view(-1)
    given, result = (tensor.view(each.numel(), num_heads, head_dim) for tensor in (data(x), out))
    for rows in slices(each.numel()):
        kernel = _kernel(kind, num_heads, head_dim, theta)
        run(kernel, given[rows], result[rows], each[rows], rows=rows.stop - rows.start)
    return out


@cache
def _kernel(kind: Kind, num_heads: int, head_dim: int, theta: float) -> BatchedRope | BatchedRopeBackward:
    return kind(num_heads=num_heads, head_dim=head_dim, theta=theta)


def _like(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    """Check the arguments and return a result without values: all that torch.compile needs to know."""
    check_types(x.device, {"x": x}, {"positions": positions})
    if x.dim() < 2 or positions.shape != x.shape[:-2]:
        raise ValueError(
            f"x is {list(x.shape)} and positions {list(positions.shape)}: they must be "
            "[..., num_heads, head_dim] and [...]"
        )
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, float], output: torch.Tensor) -> None:
    _, positions, ctx.theta = inputs
    ctx.save_for_backward(positions)


def _gradient_by(other: Callable[..., Any]) -> Callable[..., tuple[torch.Tensor | None, None, None]]:
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, None, None]:
        (positions,) = ctx.saved_tensors
        return (other(gradient, positions, ctx.theta) if ctx.needs_input_grad[0] else None), None, None

    return backward


_rope = torch.library.custom_op(
    "ptxtemplates::batched_rope", _forward, mutates_args=(), device_types=("cpu", "cuda")
)
_rope_backward = torch.library.custom_op(
    "ptxtemplates::batched_rope_backward", _backward, mutates_args=(), device_types=("cpu", "cuda")
)
_rope.register_fake(_like)
_rope_backward.register_fake(_like)
_rope.register_autograd(_gradient_by(_rope_backward), setup_context=_keep)
_rope_backward.register_autograd(_gradient_by(_rope), setup_context=_keep)
