"""The truth of flash-decoding in float64, and bounds of what the kernels compute in float32.

The kernels keep running sums of exp(x - maximum) and rescale them when the maximum rises. A term's weight is
then a product of exponentials whose distances add up to maximum - x, and of a rounded multiplication for each
rise. While the maximum stays, the factor is 2^0, which ex2.approx gives exactly. docs/verify.md derives each
bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ptxtemplates.references.rounding import EX2, FLOAT64, TINY, U, exponential_error

if TYPE_CHECKING:
    import numpy.typing as npt

    from ptxtemplates.kernels.flash_decoding import FlashDecodingChunk

    Float64s = npt.NDArray[np.float64]

WARP: Final = 32
BUTTERFLY: Final = 5
"""Additions that each lane's value goes through in a sum over a warp."""


class Bounded(NamedTuple):
    """Exact values, and for each the largest allowed error."""

    exact: Float64s
    bound: Float64s


class Scores(NamedTuple):
    """Scaled scores s of a query and keys, and for each the largest error of the computed one."""

    exact: Float64s
    error: Float64s


def reduced(partials: npt.NDArray[np.floating]) -> Bounded:
    """Reduce the partials [chunks, head_dim + 2] of one row and head, those of its length alone.

    Returns
    -------
    Bounded
        Of shape [head_dim]. All NaN where a chunk that is not empty has a NaN maximum or sum, or an infinite
        maximum.
    """
    used = partials[partials[:, -2] != -np.inf].astype(np.float64)
    values, maxima, sums = used[:, :-2], used[:, -2], used[:, -1]
    nothing = np.zeros(partials.shape[1] - 2)
    if not len(used):
        return Bounded(nothing, nothing)
    if not np.isfinite(maxima).all() or np.isnan(sums).any():
        return Bounded(nothing + np.nan, nothing)
    tiles = np.arange(len(partials))[partials[:, -2] != -np.inf] // WARP
    rises = _rises(maxima, tiles, 0.0)
    distance = maxima.max() - maxima
    weight = np.exp(-distance)
    common = EX2 + rises * (EX2 + U)
    total = weight @ sums
    of_values = exponential_error(distance, common + len(used) * U, 1 + rises)
    of_sums = exponential_error(distance, common + (_tiles(len(partials)) + BUTTERFLY) * U, 1 + rises)
    numerator = of_values @ np.abs(values) + (len(used) + rises) * TINY
    denominator = of_sums @ np.abs(sums) + (2 * _tiles(len(partials)) + BUTTERFLY) * TINY
    return _divided(weight @ values, total, numerator, float(denominator))


def scored(kernel: FlashDecodingChunk, query: Float64s, keys: Float64s) -> Scores:
    """Score keys [keys, head_dim] with a query [head_dim].

    A product goes through at most 2 slots roundings in its lane (the first of 2 slots multiply-adds), five
    additions over the warp, the rounding of the scale itself and of the product with it.
    """
    slots = -(-kernel.head_dim // (2 * WARP))
    magnitudes = kernel.scale * (np.abs(keys) @ np.abs(query))
    error = magnitudes * np.expm1((2 * slots + BUTTERFLY + 2) * U)
    exact = kernel.scale * (keys @ query)
    # at most 2^10 operations, each off by 2^-150 if it underflows
    error = FLOAT64 * error + kernel.scale * 2.0**-140 + TINY
    return Scores(exact, np.where(np.isneginf(exact), 0.0, error))


def partial(kernel: FlashDecodingChunk, scores: Scores, values: Float64s) -> Bounded:
    """Attend to one chunk: scores [keys] and values [keys, head_dim] to a partial [head_dim + 2].

    The computed maximum is off by at most the largest error D of a score, so that the exponent of key k is
    off by e_k + D on account of the scores, e_k the error of its own.
    """
    maximum, worst = scores.exact.max(), scores.error.max()
    distance = maximum - scores.exact
    rises, roundings = _chunk_roundings(kernel, scores)
    error = exponential_error(distance, (1 + 3 * U) * (scores.error + worst) + roundings, 1 + rises)
    weight = np.exp(-distance)
    exact = np.array([*(weight @ values), maximum, weight.sum()])
    underflow = (len(weight) + rises) * TINY
    bound = np.array([*(error @ np.abs(values) + underflow), worst, error.sum() + underflow])
    return Bounded(exact, FLOAT64 * bound)


def attended(kernel: FlashDecodingChunk, scores: Scores, values: Float64s) -> Bounded:
    """Attend to all keys of a row with one head: chunks, then their reduction; shape [head_dim].

    What the maxima are off by cancels: the same ones stand in numerator and denominator. What is left of a
    key's weight is the error of its score, and the roundings of its chunk and of the reduction.
    """
    maximum, worst = scores.exact.max(), scores.error.max()
    distance = maximum - scores.exact
    chunks = np.arange(len(distance)) // kernel.chunk_size
    count = int(chunks[-1]) + 1
    own = np.zeros(len(distance))
    maxima = np.zeros(count)
    most_rises = 0
    for chunk in range(count):
        here = chunks == chunk
        rises, own[here] = _chunk_roundings(kernel, Scores(scores.exact[here], scores.error[here]))
        maxima[chunk] = scores.exact[here].max()
        most_rises = max(most_rises, rises)
    rises = _rises(maxima, np.arange(count) // WARP, 2 * worst)
    common = own + (1 + 3 * U) * scores.error + 3 * U * 2 * worst + EX2 + rises * (EX2 + U)
    factors = 2 + rises + most_rises
    weight = np.exp(-distance)
    of_values = exponential_error(distance, common + count * U, factors)
    of_sums = exponential_error(distance, common + (_tiles(count) + BUTTERFLY) * U, factors)
    underflow = (len(distance) + 2 * count + factors + BUTTERFLY) * TINY
    numerator = of_values @ np.abs(values) + underflow
    return _divided(weight @ values, weight.sum(), numerator, float(of_sums.sum() + underflow))


def _chunk_roundings(kernel: FlashDecodingChunk, scores: Scores) -> tuple[int, float]:
    """Return how often the maximum may rise in a chunk, and the exponent of a weight's roundings there."""
    steps = np.arange(len(scores.exact)) // min(kernel.at_once, kernel.chunk_size)
    rises = _rises(scores.exact, steps, 2 * float(scores.error.max()))
    return rises, EX2 + rises * (EX2 + U) + len(scores.exact) * U


def _rises(values: Float64s, steps: npt.NDArray[np.int64], tolerance: float) -> int:
    """Count the steps after the first in which the running maximum rises, or may, as values are off."""
    maxima = np.array([values[steps == step].max() for step in np.unique(steps)])
    before = np.maximum.accumulate(maxima)[:-1]
    return int((maxima[1:] > before - tolerance).sum())


def _tiles(chunks: int) -> int:
    return -(-chunks // WARP)


def _divided(numerator: Float64s, total: float, error: Float64s, total_error: float) -> Bounded:
    """Bound acc * rcp(sum), both rounded, from numerator and denominator and their errors.

    |(N + n) / (T + t) - N / T| <= (|n| + |N / T| |t|) / (T - |t|); two more roundings act on what that gives.
    """
    exact = numerator / total
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = (error + np.abs(exact) * total_error) / max(total - total_error, 0.0)
    bound = bound + np.expm1(2 * U) * (np.abs(exact) + bound)
    return Bounded(exact, FLOAT64 * bound + TINY)
