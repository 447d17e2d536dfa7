"""Kernels without a host side: half precision, asynchronous copies, barriers, groups, approximations."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2

from tests.emulator.compiled.cases import library
from tests.emulator.compiled.checking import Bounded, Case

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.emulator.compiled.checking import Arguments, Expected

U: Final = 2.0**-24


def _floats(rng: np.random.Generator, *shape: int) -> Any:
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(np.float32)


def _integers(*shape: int, low: int = 0, high: int = 100, more: Callable[[], Arguments]) -> Any:
    return lambda rng: [rng.integers(low, high, shape).astype(np.int32), *more()]


# ---- half precision; a float32 result rounds to the half that the exact one rounds to, as 24 >= 2 * 11 + 2


def _toward(x: Any, nearest: Any, wrong: Any, direction: float) -> Any:
    return np.where(wrong, np.nextafter(nearest, nearest.dtype.type(direction)), nearest)


def _half_conversions(arguments: Arguments) -> Expected:
    x = arguments[0]
    near = x.astype(np.float16)
    halves = [
        near,
        _toward(x, near, np.abs(near.astype(np.float32)) > np.abs(x), 0.0),
        _toward(x, near, near.astype(np.float32) < x, np.inf),
        (np.trunc(x) + np.float32(0)).astype(np.float16),  # an int has no -0
    ]
    bfloats = [x.astype(bfloat16), (x.view(np.uint32) >> 16).astype(np.uint16).view(bfloat16)]
    back = [near, -near, bfloats[0], np.rint(near) + np.float16(0)]
    return {
        1: np.stack(halves, axis=1),
        2: np.stack(bfloats, axis=1).view(np.uint16),
        3: np.stack([each.astype(np.float32) for each in back], axis=1),
    }


def _half_pairs(kind: Any, columns: int) -> Any:
    def make(rng: np.random.Generator) -> Arguments:
        x, z = (
            (rng.uniform(-1, 1, (64, 2)) * 2.0 ** rng.integers(-6, 6, (64, 2))).astype(kind) for _ in range(2)
        )
        z[:8] = x[:8]
        return [each.view(np.uint16) for each in (x, z, np.zeros((64, columns, 2), kind))]

    return make


def _half_results(a: Any, b: Any) -> list[Any]:
    kind = a.dtype
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    exact = [wide_a + wide_b, wide_a - wide_b, wide_a * wide_b, wide_a * wide_b + wide_a]
    return [*(each.astype(kind) for each in exact), np.minimum(a, b), np.maximum(a, b)]


def _half_arithmetic(arguments: Arguments) -> Expected:
    a, b = (each.view(np.float16) for each in arguments[:2])
    more = [
        (a > b).astype(np.float16),
        -np.abs(a),
        np.stack([a[:, 1], b[:, 0]], axis=1),
        np.repeat(a[:, :1] + b[:, 1:], 2, axis=1),
    ]
    return {2: np.stack([*_half_results(a, b), *more], axis=1).view(np.uint16)}


def _bfloat_arithmetic(arguments: Arguments) -> Expected:
    a, b = (each.view(bfloat16) for each in arguments[:2])
    return {2: np.stack(_half_results(a, b), axis=1).view(np.uint16)}


def _dot_arguments(rng: np.random.Generator) -> Arguments:
    x, z = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((3, 50 * 8), (50 * 8,)))
    return [x, z, np.zeros(3, np.float32), np.int32(50)]


def _eight_bits(arguments: Arguments) -> Expected:
    x = arguments[0]
    # the library saturates to the largest finite value
    y, z = (
        np.clip(x, -largest, largest).astype(kind)
        for kind, largest in ((float8_e4m3fn, 448), (float8_e5m2, 57344))
    )
    back = np.stack([y.astype(np.float32), z.astype(np.float32)], axis=1)
    return {1: y.view(np.uint8), 2: z.view(np.uint8), 3: back}


# ---- approximations, by the ISA's bounds of the instructions in them; 2 ulp from the correctly rounded
# result are 5 u from the exact one


def _approximations(arguments: Arguments) -> Expected:
    x = arguments[0].astype(np.float64)
    size = np.abs(x)
    exp, log, reciprocal_root, ratio = np.exp(x), np.log(size), 1 / np.sqrt(size), 1.5 / x
    near_one = (size > 0.5) & (size < 2)
    columns = [
        # ex2.approx of a product with a rounded constant
        (exp, exp * (5 + 3 * size) * U),
        # lg2.approx times a rounded constant
        (log, np.where(near_one, 2.0**-22, np.abs(log) * 2.0**-22) + np.abs(log) * 3 * U),
        (np.sin(x / 4), np.full_like(x, 2.0**-20.5)),
        (np.cos(x / 4), np.full_like(x, 2.0**-20.5)),
        (reciprocal_root, reciprocal_root * 2.0**-22.9),
        (ratio, np.abs(ratio) * 5 * U),
        (np.clip(x, 0, 1), np.full_like(x, 2.0**-149)),
        (1 / x, np.abs(1 / x) * U),
    ]
    truth, bound = (np.stack(each, axis=1) for each in zip(*columns, strict=True))
    return {1: Bounded(truth, bound)}


def _directed(exact: Fraction, mode: str) -> float:
    """Round to float32: toward minus infinity, plus infinity, or zero."""
    near = np.float32(float(exact))
    if mode == "rz":
        mode = "rd" if exact > 0 else "ru"
    if mode == "rd" and Fraction(float(near)) > exact:
        return float(np.nextafter(near, np.float32(-np.inf)))
    if mode == "ru" and Fraction(float(near)) < exact:
        return float(np.nextafter(near, np.float32(np.inf)))
    return float(near)


def _root_down(value: float) -> float:
    near = np.sqrt(np.float32(value))
    return float(near if Fraction(float(near)) ** 2 <= Fraction(value) else np.nextafter(near, np.float32(0)))


def _roundings(arguments: Arguments) -> Expected:
    rows = []
    for x, z in zip(arguments[0].tolist(), arguments[1].tolist(), strict=True):
        a, b = Fraction(x), Fraction(z)
        rows.append(
            [
                _directed(a + b, "rz"), _directed(a + b, "ru"), _directed(a * b, "rd"),
                _directed(a * b + a, "rz"), _directed(a / b, "ru"), _root_down(abs(x)),
                _directed(a * b, "ru"),
                _directed(Fraction(int(np.float32(x) * np.float32(3e7))), "rz"),
            ]
        )  # fmt: skip
    x = arguments[0]
    unsigned = (
        np.clip((x * np.float32(1e9)).astype(np.float64), 0, 2**32 - 1).astype(np.uint32).view(np.int32)
    )
    integers = [np.floor(x), np.ceil(x), np.rint(x), unsigned]
    return {2: np.array(rows, np.float32), 3: np.stack(integers, axis=1).astype(np.int64)}


def _rounding_arguments(rng: np.random.Generator) -> Arguments:
    x, z = (rng.standard_normal(64).astype(np.float32) * np.float32(8) for _ in range(2))
    return [x, z, np.zeros((64, 8), np.float32), np.zeros((64, 4), np.int32)]


# ---- copies, barriers, groups, words


def _bytes_in_words(arguments: Arguments) -> Expected:
    a, b = (each.view(np.uint8).reshape(-1, 4).astype(np.int64) for each in arguments[:2])
    short_a, short_b = (each.view(np.int16).reshape(-1, 2).astype(np.int64) for each in arguments[:2])
    columns = [
        (a + b).astype(np.uint8),
        np.maximum(short_a, short_b).astype(np.int16),
        np.where(a > b, 255, 0).astype(np.uint8),
        np.clip(short_a + short_b, -(2**15), 2**15 - 1).astype(np.int16),
    ]
    return {2: np.stack([np.ascontiguousarray(each).view(np.uint32)[:, 0] for each in columns], axis=1)}


def _special_registers(arguments: Arguments) -> Expected:
    lane = np.arange(64) % 32
    columns = [np.full(64, 2**32 - 1), lane + 1000, np.full(64, 256), np.full(64, 0b00111)]
    return {0: np.stack(columns, axis=1)}


def _named_barriers(arguments: Arguments) -> Expected:
    x = arguments[0].reshape(2, 64)
    return {1: (x[:, ::-1] * np.array([[1 + 2 + 3], [1 + 2 + 3 + 4]])).ravel()}


def _message_chain(arguments: Arguments) -> Expected:
    total = np.zeros(32, np.int64)
    for row in arguments[0]:
        total = total * 5 + row[::-1]
    return {1: total}


def _tiles_of_eight(arguments: Arguments) -> Expected:
    x = arguments[0].reshape(-1, 8)
    rank = np.arange(8)
    sums = x.sum(axis=1, keepdims=True) * 10 + rank
    odd = ((x & 1) << rank).sum(axis=1, keepdims=True)
    others = x[:, 7:] + np.where((x > 90).any(axis=1, keepdims=True), 1000, 0) + odd * 10000
    return {1: sums.ravel(), 2: np.repeat(others, 8, axis=1).ravel()}


def _aggregated(arguments: Arguments) -> Expected:
    count = int((arguments[0] % 3 == 1).sum())
    places = np.concatenate([np.full(arguments[0].size - count, -1), np.arange(count)])
    return {1: np.array([count]), 2: places}


def _scoped(arguments: Arguments) -> Expected:
    x = arguments[2].astype(np.int64)
    words = [x.sum(), x.max(), *x.reshape(4, 32).sum(axis=1), x.size]
    return {0: np.array(words), 1: np.array([x.sum()])}


def _half_sums(arguments: Arguments) -> Expected:
    x = arguments[0]
    sums = [[x[k::2].sum(), 2 * x[k::2].sum()] for k in range(2)]
    return {
        1: np.array(sums, np.float16).view(np.uint16),
        2: np.array([x.sum()]).astype(bfloat16).view(np.uint16),
    }


def _branch_table(arguments: Arguments) -> Expected:
    x = arguments[0]
    ways = [x + 1000, x * 7 - 5, x - 5, x * 7 - 5]
    return {1: np.choose(x & 3, ways)}


def _zeros(*counts: int) -> Callable[[], Arguments]:
    return lambda: [np.zeros(count, np.int32) for count in counts]


_ONE: Final = (1, 1, 1)

CASES: Final = {
    **library.CASES,
    "half_conversions": Case(
        (2, 1, 1),
        (32, 1, 1),
        lambda rng: [
            _floats(rng, 64),
            np.zeros((64, 4), np.float16),
            np.zeros((64, 2), np.uint16),
            np.zeros((64, 4), np.float32),
        ],
        _half_conversions,
    ),
    "half_arithmetic": Case((2, 1, 1), (32, 1, 1), _half_pairs(np.float16, 10), _half_arithmetic),
    "bfloat_arithmetic": Case((2, 1, 1), (32, 1, 1), _half_pairs(bfloat16, 6), _bfloat_arithmetic),
    "half_dot": Case(
        (3, 1, 1),
        (32, 1, 1),
        _dot_arguments,
        lambda a: {2: a[0].astype(np.float32) @ a[1].astype(np.float32)},
    ),
    "eight_bits": Case(
        (2, 1, 1),
        (32, 1, 1),
        lambda rng: [
            _floats(rng, 64),
            np.zeros(64, np.uint8),
            np.zeros(64, np.uint8),
            np.zeros((64, 2), np.float32),
        ],
        _eight_bits,
    ),
    "special_registers": Case(
        _ONE, (64, 1, 1), lambda rng: [np.zeros((64, 4), np.uint32)], _special_registers, shared=256
    ),
    "bytes_in_words": Case(
        (2, 1, 1),
        (32, 1, 1),
        lambda rng: [
            *rng.integers(0, 2**32, (2, 64)).astype(np.uint32),
            np.zeros((64, 4), np.uint32),
        ],
        _bytes_in_words,
    ),
    "async_tiles": Case(
        _ONE,
        (64, 1, 1),
        lambda rng: [
            rng.integers(-99, 99, (5, 64)).astype(np.float32),
            np.zeros(64, np.float32),
            np.int32(5),
        ],
        lambda a: {1: a[0].sum(axis=0)[::-1]},
    ),
    "async_zero_fill": Case(
        _ONE,
        (64, 1, 1),
        _integers(50, more=lambda: [np.ones(64, np.int32), np.int32(50)]),
        lambda a: {1: np.pad(a[0], (0, 14))[::-1]},
    ),
    "named_barriers": Case(_ONE, (128, 1, 1), _integers(128, more=_zeros(128)), _named_barriers),
    "arrive_and_wait": Case(
        _ONE, (64, 1, 1), _integers(4, 32, more=lambda: [np.zeros(32, np.int32), np.int32(4)]), _message_chain
    ),
    "shared_flag": Case(
        _ONE, (64, 1, 1), _integers(2, more=_zeros(1)), lambda a: {1: 3 * a[0][:1] + a[0][1]}
    ),
    "tiles_of_eight": Case(_ONE, (64, 1, 1), _integers(64, more=_zeros(64, 64)), _tiles_of_eight),
    "aggregated_add": Case(
        (2, 1, 1), (64, 1, 1), _integers(128, more=_zeros(1, 128)), _aggregated, unordered=(2,)
    ),
    "scoped_atomics": Case(
        (4, 1, 1),
        (32, 1, 1),
        lambda rng: [
            np.zeros(7, np.int32),
            np.zeros(1, np.uint64),
            rng.integers(0, 1000, 128).astype(np.int32),
        ],
        _scoped,
    ),
    "message": Case(
        (3, 1, 1),
        (32, 1, 1),
        _integers(1, more=_zeros(1, 1, 3)),
        lambda a: {1: 2 * a[0], 2: np.array([1]), 3: np.array([0, 2 * a[0][0] + 1, 2 * a[0][0] + 2])},
    ),
    "half_atomics": Case(
        _ONE,
        (64, 1, 1),
        lambda rng: [
            rng.integers(0, 4, 64).astype(np.float32),
            np.zeros((2, 2), np.uint16),
            np.zeros(1, np.uint16),
        ],
        _half_sums,
    ),
    "approximations": Case(
        (2, 1, 1),
        (32, 1, 1),
        lambda rng: [
            rng.standard_normal(64).astype(np.float32) * np.float32(3),
            np.zeros((64, 8), np.float32),
        ],
        _approximations,
    ),
    "roundings": Case((2, 1, 1), (32, 1, 1), _rounding_arguments, _roundings),
    "branch_table": Case(
        (2, 1, 1), (32, 1, 1), _integers(64, low=-50, high=50, more=_zeros(64)), _branch_table
    ),
}
