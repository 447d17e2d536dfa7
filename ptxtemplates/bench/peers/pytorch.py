"""PyTorch, eager and compiled: each in the form that suits it best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.bench.peers.problems import Decoding, Reduction, Rotation, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.bench.peers.problems import Layout, Problem, Tensor


def eager(problem: Problem) -> Work:
    """Return how PyTorch solves a problem operator by operator."""
    layout, call = _EAGER[type(problem)](problem)
    return Work(layout, call)


def compiled(problem: Problem) -> Work:
    """Return how PyTorch solves a problem through ``torch.compile``, for exactly these shapes.

    Compiled code of earlier problems is dropped: PyTorch compiles a function for a handful of shapes only.
    """
    torch = problem.place.torch
    layout, call = _COMPILED[type(problem)](problem)
    torch.compiler.reset()
    return Work(layout, torch.compile(call, fullgraph=True, dynamic=False))


def _complex_rotation(problem: Rotation) -> tuple[Layout, Callable[..., Tensor]]:
    """Take a pair for a complex number: two operators, the table's rows and one product."""
    torch = problem.place.torch

    def rotate(x: Tensor, halves: Tensor, pairs: Tensor, positions: Tensor) -> Tensor:
        directions = torch.view_as_complex(pairs.index_select(0, positions))
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * directions[:, None]
        return torch.view_as_real(turned).flatten(-2)

    return problem.layout("f32"), rotate


def _real_rotation(problem: Rotation) -> tuple[Layout, Callable[..., Tensor]]:
    """Rotate real numbers: the compiler has no code for complex ones, and fuses these into one kernel."""
    torch = problem.place.torch

    def rotate(x: Tensor, halves: Tensor, pairs: Tensor, positions: Tensor) -> Tensor:
        cosine, sine = halves[positions][:, None].chunk(2, -1)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cosine - odd * sine, odd * cosine + even * sine), -1).flatten(-2)

    return problem.layout("f32"), rotate


def _weights(problem: Reduction) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return what weighs chunks: takes partials and lengths, returns weights and the sum of weighted sums.

    Rows have at least one key, and what unused slots hold is finite: as engines that use PyTorch see to.
    """
    torch = problem.place.torch
    starts = problem.place.counting(problem.max_chunks, "int64", problem.kernel.chunk_size)

    def weigh(partials: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        used = starts < lengths[:, None, None]
        maxima = torch.where(used, partials[..., -2], float("-inf"))
        weights = torch.exp(maxima - maxima.amax(-1, keepdim=True))
        return weights, (weights * partials[..., -1]).sum(-1, keepdim=True)

    return weigh


def _multiplied_reduction(problem: Reduction) -> tuple[Layout, Callable[..., Tensor]]:
    """Multiply a vector by a matrix, which reads the values once, in place."""
    weigh = _weights(problem)

    def reduce(partials: Tensor, lengths: Tensor) -> Tensor:
        weights, total = weigh(partials, lengths)
        return (weights[..., None, :] @ partials[..., :-2])[..., 0, :] / total

    return problem.partials, reduce


def _summed_reduction(problem: Reduction) -> tuple[Layout, Callable[..., Tensor]]:
    """Multiply, then sum: the compiler fuses the two."""
    weigh = _weights(problem)

    def reduce(partials: Tensor, lengths: Tensor) -> Tensor:
        weights, total = weigh(partials, lengths)
        return (weights[..., None] * partials[..., :-2]).sum(-2) / total

    return problem.partials, reduce


def _attention(problem: Decoding) -> tuple[Layout, Callable[..., Tensor]]:
    """Take query heads that share a key head for queries of one head: no key has to be repeated for them."""
    attend = problem.place.torch.nn.functional.scaled_dot_product_attention
    kernel, group = problem.kernel, problem.group

    def decode(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        grouped = query.view(query.shape[0], kernel.num_kv_heads, group, kernel.head_dim)
        return attend(grouped, keys, values, scale=kernel.scale).reshape(query.shape)

    return problem.contiguous, decode


_EAGER: Final[dict[type[Problem], Callable[[Any], tuple[Layout, Callable[..., Tensor]]]]] = {
    Rotation: _complex_rotation,
    Reduction: _multiplied_reduction,
    Decoding: _attention,
}
_COMPILED: Final[dict[type[Problem], Callable[[Any], tuple[Layout, Callable[..., Tensor]]]]] = {
    Rotation: _real_rotation,
    Reduction: _summed_reduction,
    Decoding: _attention,
}
