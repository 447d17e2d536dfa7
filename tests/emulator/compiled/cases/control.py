"""Branches, loops, switches and calls."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tests.emulator.compiled.checking import Case

if TYPE_CHECKING:
    from tests.emulator.compiled.checking import Arguments, Expected


def _integers(low: int, high: int, *more: Any) -> Any:
    """Return a maker of 64 integers and copies of more arguments."""
    return lambda rng: [
        rng.integers(low, high, 64, endpoint=True).astype(np.int32),
        *(np.copy(each)[()] for each in more),
    ]


ZEROS: Final = np.zeros(64, np.int32)


def _switch_arguments(rng: np.random.Generator) -> Arguments:
    x = rng.integers(-2, 10, 64).astype(np.int32)
    x[5], x[40] = 1000, -50
    return [x, rng.standard_normal(64).astype(np.float32), np.zeros(64, np.float32)]


def _switches(arguments: Arguments) -> Expected:
    x, z, _ = arguments
    five, seven = np.float32(5), np.float32(7)
    ways = {
        0: z + np.float32(1), 1: z * np.float32(3), 2: z / five - seven, 3: z - seven,
        4: np.sqrt(np.abs(z)), 5: -z,
        6: np.full(64, 42), 7: np.where(z < 0, 11, 13), 1000: np.full(64, 17), -50: np.full(64, 19),
    }  # fmt: skip
    return {2: np.array([ways[k][i] if k in ways else 23 for i, k in enumerate(x.tolist())])}


def _collatz(arguments: Arguments) -> Expected:
    counts = []
    for value in arguments[0].tolist():
        count = 0
        while value > 1:
            value = 3 * value + 1 if value % 2 else value // 2
            count += 1
        counts.append(count)
    return {1: np.array(counts)}


def _euclid_arguments(rng: np.random.Generator) -> Arguments:
    return [*(rng.integers(1, 2000, 64).astype(np.uint32) for _ in range(2)), np.zeros(64, np.uint32)]


def _euclid(arguments: Arguments) -> Expected:
    own = np.array([gcd(int(a), int(b)) for a, b in zip(*arguments[:2], strict=True)])
    return {2: np.where(own[::-1] == 1, 0, own * 1000 + own[::-1])}


def _calls_arguments(rng: np.random.Generator) -> Arguments:
    return [rng.standard_normal(64).astype(np.float32), np.zeros((64, 4)), np.int32(9)]


def _recursion_arguments(rng: np.random.Generator) -> Arguments:
    return [rng.integers(0, 3, 64).astype(np.int32), rng.integers(0, 4, 64).astype(np.int32), np.copy(ZEROS)]


def _recursion(arguments: Arguments) -> Expected:
    m, n, _ = arguments
    return {2: np.choose(m, [n + 1, n + 2, 2 * n + 3])}


def _search_arguments(rng: np.random.Generator) -> Arguments:
    table = np.sort(rng.choice(300, 100, replace=False)).astype(np.int32)
    return [table, np.int32(100), rng.integers(-5, 305, 64).astype(np.int32), np.copy(ZEROS)]


def _search(arguments: Arguments) -> Expected:
    table, _, keys, _ = arguments
    places = np.searchsorted(table, keys)
    return {3: np.where(np.isin(keys, table), places, ~places)}


_GRID: Final = (2, 1, 1)
_BLOCK: Final = (32, 1, 1)

CASES: Final = {
    "switches": Case(_GRID, _BLOCK, _switch_arguments, _switches),
    "early_returns": Case(_GRID, _BLOCK, _integers(-3, 90, ZEROS, np.int32(60))),
    "collatz": Case(
        _GRID,
        _BLOCK,
        lambda rng: [rng.integers(1, 60, 64).astype(np.uint32), np.zeros(64, np.uint32)],
        _collatz,
    ),
    "euclid": Case((1, 1, 1), (64, 1, 1), _euclid_arguments, _euclid),
    "calls": Case(_GRID, _BLOCK, _calls_arguments),
    "recursion": Case((1, 1, 1), (64, 1, 1), _recursion_arguments, _recursion),
    "indirect_calls": Case(
        (1, 1, 1),
        (64, 1, 1),
        lambda rng: [
            rng.standard_normal(64).astype(np.float32),
            rng.integers(0, 30, 64).astype(np.int32),
            np.zeros(64, np.float32),
        ],
        lambda a: {2: np.choose(a[1] % 3, [2 * a[0], a[0] * a[0], a[0] / 2]) + np.float32(1)},
    ),
    "return_before_barrier": Case((1, 1, 1), (64, 1, 1), _integers(-50, 50, ZEROS, np.int32(43))),
    "break_and_barrier": Case((1, 1, 1), (64, 1, 1), _integers(2, 60, ZEROS)),
    "search_sorted": Case(_GRID, _BLOCK, _search_arguments, _search),
}
