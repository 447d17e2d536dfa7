"""Shuffles, votes, scans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tests.emulator.compiled.checking import Case

if TYPE_CHECKING:
    from tests.emulator.compiled.checking import Arguments, Expected

LANES: Final = np.arange(32)


def _warp_scan(arguments: Arguments) -> Expected:
    warps = arguments[0].reshape(-1, 32)
    inclusive = np.cumsum(warps, axis=1)
    return {1: inclusive.ravel(), 2: (inclusive - warps).ravel()}


def _block_scan(arguments: Arguments) -> Expected:
    x = np.zeros(3 * 160, np.uint64)
    x[:450] = arguments[0]
    return {1: np.cumsum(x.reshape(3, 160), axis=1).ravel()[:450] % (1 << 32)}


def _shuffles(arguments: Arguments) -> Expected:
    x, lane = arguments[0], LANES
    up, down = lane - 3, lane + 5
    sources = [
        np.full(32, 11),
        lane // 8 * 8 + (lane + 11) % 8,
        np.where(lane % 16 >= 3, up, lane),
        np.where(lane % 16 + 5 < 16, down, lane),
        lane ^ 9,
        np.where((lane ^ 6) < lane // 4 * 4 + 4, lane ^ 6, lane),
    ]
    return {1: np.stack([x[source] for source in sources], axis=1)}


def _ballot(flags: Any) -> Any:
    return (flags.astype(np.uint32) << LANES.astype(np.uint32)).sum(axis=-1, keepdims=True)


def _votes(arguments: Arguments) -> Expected:
    x = arguments[0].reshape(2, 2, 32)  # block, warp, lane
    kinds = [_ballot(x & 3 == kind) for kind in range(4)]
    all_same = ((x < 1000) == (x < 1000)[..., :1]).all(axis=-1, keepdims=True)
    block = (1, 2)
    columns = [
        _ballot(x > 0),
        (x > 50).any(axis=-1, keepdims=True),
        (x > -100).all(axis=-1, keepdims=True),
        np.choose(x & 3, kinds),
        np.where(all_same, 0xFFFFFFFF, 0),
        all_same,
        (x > 0).sum(axis=block, keepdims=True),
        (x == 7).any(axis=block, keepdims=True) * 2 + (x < 90).all(axis=block, keepdims=True),
    ]
    return {1: np.stack([np.broadcast_to(column, x.shape) for column in columns], axis=-1).reshape(-1, 8)}


def _reductions(arguments: Arguments) -> Expected:
    x = arguments[0].reshape(-1, 32)
    u = x.view(np.uint32)
    columns = [
        x.sum(axis=1, dtype=np.int32),
        x.min(axis=1),
        x.max(axis=1),
        u.min(axis=1).view(np.int32),
        u.max(axis=1).view(np.int32),
        np.bitwise_and.reduce(x | 0xFF, axis=1),
        np.bitwise_or.reduce(x & 0xFFFF, axis=1),
        np.bitwise_xor.reduce(x, axis=1),
    ]
    return {1: np.repeat(np.stack(columns, axis=1), 32, axis=0)}


def _integers(count: int, low: int, high: int, outputs: Any) -> Any:
    return lambda rng: [rng.integers(low, high, count, endpoint=True).astype(np.int32), *outputs()]


def _compact(arguments: Arguments) -> Expected:
    x = arguments[0]
    kept = x[x % 3 == 0]
    y = np.full(200, -1, np.int32)
    y[: kept.size] = kept
    return {1: y, 2: np.array([kept.size])}


CASES: Final = {
    "warp_scan": Case(
        (2, 1, 1),
        (64, 1, 1),
        _integers(128, -1000, 1000, lambda: [np.zeros(128, np.int32), np.zeros(128, np.int32)]),
        _warp_scan,
    ),
    "block_scan": Case(
        (3, 1, 1),
        (160, 1, 1),
        lambda rng: [rng.integers(0, 2**31, 450).astype(np.uint32), np.zeros(450, np.uint32), np.int32(450)],
        _block_scan,
    ),
    "shared_scan": Case(
        (2, 1, 1),
        (128, 1, 1),
        _integers(256, -1000, 1000, lambda: [np.zeros(256, np.int32)]),
        lambda a: {1: np.cumsum(a[0].reshape(2, 128), axis=1).ravel()},
        shared=1024,
    ),
    "shuffles": Case(
        (1, 1, 1),
        (32, 1, 1),
        lambda rng: [rng.standard_normal(32), np.zeros((32, 6)), np.int32(11)],
        _shuffles,
    ),
    "votes": Case(
        (2, 1, 1), (64, 1, 1), _integers(128, -99, 99, lambda: [np.zeros((128, 8), np.uint32)]), _votes
    ),
    "votes_of_some": Case((1, 1, 1), (64, 1, 1), _integers(64, 0, 4000, lambda: [np.zeros(64, np.uint32)])),
    "warp_reductions": Case(
        (1, 1, 1),
        (96, 1, 1),
        _integers(96, -(2**31), 2**31 - 1, lambda: [np.zeros((96, 8), np.int32)]),
        _reductions,
    ),
    "compact": Case(
        (2, 1, 1),
        (96, 1, 1),
        _integers(180, 0, 1000, lambda: [np.full(200, -1, np.int32), np.zeros(1, np.int32), np.int32(180)]),
        _compact,
        unordered=(1,),
    ),
}
