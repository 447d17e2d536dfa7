"""Softmax, norms and sums.

With u = 2^-24: expf is 2 ulp off the correctly rounded result at most (CUDA C++ Programming Guide,
"Mathematical Functions"), so 5 u; its argument is rounded once, which is worth u |argument|.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tests.emulator.compiled.checking import Bounded, Case

if TYPE_CHECKING:
    import numpy.typing as npt

    from tests.emulator.compiled.checking import Arguments, Expected

    Floats = npt.NDArray[np.float32]

U: Final = 2.0**-24
EPSILON: Final = np.float32(1e-5)


def _normal(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.standard_normal(shape).astype(np.float32)


def softmax_truth(
    x: Floats, rescales: int, exp: float = 5, argument: float = 1, division: float = 1
) -> Bounded:
    """Return the softmax of rows.

    A term of the sum may be rescaled so often before it is in the result. In units of u: what an exponential
    is off, what it is off for each 1 of its argument, and what a division is off.
    """
    wide = x.astype(np.float64)
    below = wide.max(axis=-1, keepdims=True) - wide
    weights = np.exp(-below)
    truth = weights / weights.sum(axis=-1, keepdims=True)
    off = (exp + argument * below) * U
    # every term is off by as much as the worst, each rescaling multiplies by an exponential, rounds, adds
    terms = off.max(axis=-1, keepdims=True) * (1 + rescales) + (x.shape[-1] + 2 * rescales) * U
    return Bounded(truth, truth * (off + terms + division * U) * 1.001 + 2.0**-149)


def _softmax_arguments(rows: int, columns: int) -> Any:
    def make(rng: np.random.Generator) -> Arguments:
        x = _normal(rng, rows, columns) * np.float32(4)
        return [x, np.full_like(x, np.nan), np.int32(columns)]

    return make


def _online_arguments(rng: np.random.Generator) -> Arguments:
    x, y, columns = _softmax_arguments(7, 75)(rng)
    return [x, y, np.int32(7), columns]


def _norm_arguments(rng: np.random.Generator) -> Arguments:
    x = _normal(rng, 3, 300)
    return [x, _normal(rng, 300), np.full_like(x, np.nan), np.int32(300), EPSILON]


def _rms_norm(arguments: Arguments) -> Expected:
    x, weight = (each.astype(np.float64) for each in arguments[:2])
    mean = np.mean(x * x, axis=-1, keepdims=True)
    truth = x / np.sqrt(mean + float(EPSILON)) * weight
    # a square, 3 sums in a thread, 10 in the tree, division, the sum with epsilon: half of 16 u after the
    # root; then root, reciprocal, two products
    return {2: Bounded(truth, np.abs(truth) * (8 + 4) * U * 1.001)}


def _layer_arguments(rng: np.random.Generator) -> Arguments:
    x = _normal(rng, 3, 256) + np.float32(3)
    return [x, _normal(rng, 256), _normal(rng, 256), np.full_like(x, np.nan), EPSILON]


def _layer_norm(arguments: Arguments) -> Expected:
    x, weight, bias = (each.astype(np.float64) for each in arguments[:3])
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    scaled = (x - mean) / np.sqrt(variance + float(EPSILON)) * weight
    # the mean's error (a tree: 2 + 5 + 5 sums, a division) moves every difference, and the variance hardly.
    # The variance is 2 + 1 + 12 + 1 u off, plus the sum of epsilon: half of 17 after the root; then root,
    # reciprocal, difference, two products
    shift = 13 * U * np.abs(x).mean(axis=-1, keepdims=True) / np.sqrt(variance) * np.abs(weight)
    bound = shift + np.abs(scaled) * (8.5 + 5) * U + (np.abs(scaled) + np.abs(bias)) * U
    return {3: Bounded(scaled + bias, bound * 1.001)}


def _argmax_arguments(rng: np.random.Generator) -> Arguments:
    x = rng.integers(-50, 50, (4, 200)).astype(np.float32)
    x[2] = -np.abs(x[2]) - 1
    x[3] = -np.inf
    return [x, np.full(4, -1, np.int32), np.int32(200)]


def _sum_arguments(rng: np.random.Generator) -> Arguments:
    x = rng.integers(-100, 100, 1500).astype(np.float32)
    return [x, np.full(6, np.nan, np.float32), np.zeros(1, np.float32), np.int32(1500)]


CASES: Final = {
    "softmax_two_pass": Case(
        (5, 1, 1), (64, 1, 1), _softmax_arguments(5, 150), lambda a: {1: softmax_truth(a[0], 0)}, shared=256
    ),
    "softmax_online": Case(
        (2, 1, 1), (32, 4, 1), _online_arguments, lambda a: {1: softmax_truth(a[0], 3 + 5)}
    ),
    "warp_tree": Case(
        (2, 1, 1),
        (128, 1, 1),
        lambda rng: [rng.integers(-99, 99, (2, 256)).astype(np.float32), np.zeros(2, np.float32)],
        lambda a: {1: a[0].sum(axis=1)},
    ),
    "rms_norm": Case((3, 1, 1), (128, 1, 1), _norm_arguments, _rms_norm),
    "layer_norm": Case((3, 1, 1), (64, 1, 1), _layer_arguments, _layer_norm),
    "argmax": Case((4, 1, 1), (96, 1, 1), _argmax_arguments, lambda a: {1: a[0].argmax(axis=-1)}),
    "sum_last_block": Case(
        (6, 1, 1), (64, 1, 1), _sum_arguments, lambda a: {2: a[0].sum(dtype=np.float32, keepdims=True)}
    ),
}
