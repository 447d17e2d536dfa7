"""Atomics: results that no order changes, and old values sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tests.emulator.compiled.checking import Case

if TYPE_CHECKING:
    from tests.emulator.compiled.checking import Arguments, Expected

THREADS: Final = 128


def _words_arguments(rng: np.random.Generator) -> Arguments:
    words = np.array([1, 2, 2**31, 2**31, 0xFFFFFFFF, 0, 0, 5, 5], np.uint32)
    return [words, np.array([7, 0, 0], np.int32), rng.integers(0, 2**32, THREADS).astype(np.uint32)]


def _words(arguments: Arguments) -> Expected:
    x = arguments[2]
    wide, own = x.astype(np.int64), x.view(np.int32).astype(np.int64)
    unsigned = [
        (1 + wide.sum()) % 2**32,
        (2 - wide.sum()) % 2**32,
        min(2**31, wide.min()),
        max(2**31, wide.max()),
        np.bitwise_and.reduce(wide | 0xFF),
        np.bitwise_or.reduce(wide & 0xFF00FF),
        np.bitwise_xor.reduce(wide),
        (5 + THREADS) % 101,
        (5 - THREADS) % 31,
    ]
    total = (7 + own.sum() + 2**31) % 2**32 - 2**31
    return {0: np.array(unsigned), 1: np.array([total, min(own.min(), 0), max(own.max(), 0)])}


def _long_arguments(rng: np.random.Generator) -> Arguments:
    words = np.array([1, 2**63, 2**63, 2**64 - 1, 0, 0], np.uint64)
    return [words, np.zeros(2, np.int64), rng.integers(0, 2**64, THREADS, np.uint64)]


def _long_words(arguments: Arguments) -> Expected:
    x = arguments[2]
    words = [
        np.uint64(1) + x.sum(),
        min(x.min(), np.uint64(2**63)),
        max(x.max(), np.uint64(2**63)),
        np.bitwise_and.reduce(x | np.uint64(0xFFFF)),
        np.bitwise_or.reduce(x & np.uint64(0xFF00FF00FF00FF)),
        np.bitwise_xor.reduce(x),
    ]
    own = x.view(np.int64)
    return {0: np.array(words, np.uint64), 1: np.array([min(own.min(), 0), max(own.max(), 0)])}


def _floats_arguments(rng: np.random.Generator) -> Arguments:
    return [
        np.zeros(3, np.float32),
        np.ones(3),
        rng.integers(-99, 99, THREADS).astype(np.float32),
        np.int32(3),
    ]


def _floats(arguments: Arguments) -> Expected:
    x = arguments[2]
    sums = np.array([x[k::3].sum() for k in range(3)])
    return {0: sums, 1: 1 + 1024.0 * sums}


def _tickets_arguments(rng: np.random.Generator) -> Arguments:
    return [np.array([7, 0, 0], np.uint32), np.zeros((4, THREADS), np.uint32), np.array([5], np.uint64)]


def _tickets(arguments: Arguments) -> Expected:
    i = np.arange(THREADS)
    tickets = np.stack([7 + 3 * i, i % 10, -i % 10, i])
    return {
        0: np.array([7 + 3 * THREADS, THREADS % 10, -THREADS % 10]),
        1: tickets,
        2: np.array([5 + (THREADS << 32)]),
    }


def _exchange_arguments(rng: np.random.Generator) -> Arguments:
    return [
        np.array([7], np.uint32),
        np.array([9], np.uint64),
        np.zeros(THREADS + 1, np.uint32),
        np.zeros(THREADS + 1, np.uint64),
    ]


def _exchange(arguments: Arguments) -> Expected:
    i = np.arange(THREADS)
    return {
        0: np.array([0]),
        1: np.array([0]),
        2: np.array([7, *(i + 1000)]),
        3: np.array([9, *(i << 33)]),
    }


def _cas_arguments(rng: np.random.Generator) -> Arguments:
    x = rng.standard_normal(THREADS).astype(np.float32)
    return [x, np.array([-1], np.float32).view(np.uint32), np.array([1], np.uint64)]


def _cas(arguments: Arguments) -> Expected:
    return {1: arguments[0].max(keepdims=True).view(np.uint32), 2: np.array([3 * 5 * 7 * 9])}


def _buckets(arguments: Arguments) -> Expected:
    kept = arguments[0] & 7
    return {1: np.bincount(kept, minlength=8), 2: np.sort(kept)}


def _shared_arguments(rng: np.random.Generator) -> Arguments:
    x = rng.integers(-1000, 1000, THREADS).astype(np.int32)
    return [x, np.zeros((2, 2), np.uint64), np.zeros(2, np.float32), np.zeros((2, 2), np.int32)]


def _shared(arguments: Arguments) -> Expected:
    x = arguments[0].reshape(2, -1).astype(np.int64)
    factor = np.uint64(0x9E3779B97F4A7C15)
    bits = np.bitwise_xor.reduce(x.view(np.uint64) * factor, axis=1)
    return {
        1: np.stack([(x.sum(axis=1) << 20).view(np.uint64), ~bits], axis=1),
        2: 2 * x.sum(axis=1) + 0.5,
        3: np.stack([x.min(axis=1), x.max(axis=1)], axis=1),
    }


CASES: Final = {
    "atomic_words": Case((2, 1, 1), (64, 1, 1), _words_arguments, _words),
    "atomic_long_words": Case((2, 1, 1), (64, 1, 1), _long_arguments, _long_words),
    "atomic_floats": Case((2, 1, 1), (64, 1, 1), _floats_arguments, _floats),
    "atomic_tickets": Case((4, 1, 1), (32, 1, 1), _tickets_arguments, _tickets, unordered=(1,)),
    "atomic_exchange": Case((1, 1, 1), (THREADS, 1, 1), _exchange_arguments, _exchange, unordered=(2, 3)),
    "atomic_cas_max": Case((4, 1, 1), (32, 1, 1), _cas_arguments, _cas),
    "shared_buckets": Case(
        (1, 1, 1),
        (96, 1, 1),
        lambda rng: [
            rng.integers(0, 1000, 96).astype(np.int32),
            np.zeros(8, np.int32),
            np.zeros(96, np.int32),
        ],
        _buckets,
    ),
    "shared_atomics": Case((2, 1, 1), (64, 1, 1), _shared_arguments, _shared),
    "spin_lock": Case(
        (2, 1, 1),
        (96, 1, 1),
        lambda rng: [np.zeros(1, np.int32), np.ones(1, np.int32)],
        lambda a: {0: np.array([0]), 1: np.array([(3**7 - 1) // 2])},
    ),
}
