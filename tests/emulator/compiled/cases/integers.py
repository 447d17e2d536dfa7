"""Integer and float arithmetic: values at the edges of their types among random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tests.emulator.compiled.checking import Case

if TYPE_CHECKING:
    import numpy.typing as npt

    from tests.emulator.compiled.checking import Arguments, Expected

THREADS: Final = 128

_EDGES: Final = (
    0,
    1,
    -1,
    2,
    -2,
    7,
    255,
    256,
    2**15,
    2**16 - 1,
    2**31 - 1,
    -(2**31),
    2**32,
    -(2**32) - 1,
    2**63 - 1,
)


def _longs(rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return integers of every size; the first are edges."""
    values = rng.integers(-(2**63), 2**63, THREADS) >> rng.integers(0, 63, THREADS)
    values[: len(_EDGES)] = rng.permutation(_EDGES)
    return values


def _divide_arguments(rng: np.random.Generator) -> Arguments:
    divisors = _longs(rng)
    divisors[divisors == 0] = 3
    return [_longs(rng), divisors, np.zeros((THREADS, 12), np.int64)]


def _toward_zero(a: int, b: int) -> tuple[int, int]:
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient, a - b * quotient


def _signed(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _divide(arguments: Arguments) -> Expected:
    rows = []
    for a, b in zip(arguments[0].tolist(), arguments[1].tolist(), strict=True):
        ua, ub = a % 2**64, b % 2**64
        ia, ib = _signed(a, 32), _signed(b >> 3, 32) | 1
        wa, wb = a % 2**32, b % 2**32 | 1
        row = [
            *_toward_zero(a, b), ua // ub, ua % ub, *_toward_zero(ia, ib), wa // wb, wa % wb,
            _toward_zero(a, 7)[0] + _toward_zero(a, 1000003)[1],
            _toward_zero(ia, 10)[0] + _toward_zero(ia, -12)[1],
            a % 2**16 // (b % 2**8 | 1), ua // 641 + wa // 641,
        ]  # fmt: skip
        rows.append([_signed(value, 64) for value in row])
    return {2: np.array(rows)}


def _words(columns: int) -> Any:
    def make(rng: np.random.Generator) -> Arguments:
        words = [_longs(rng).astype(np.uint32) for _ in range(2)]
        return [*words, np.zeros((THREADS, columns), np.uint32)]

    return make


def _long_arguments(columns: int) -> Any:
    def make(rng: np.random.Generator) -> Arguments:
        return [
            _longs(rng).view(np.uint64),
            _longs(rng).view(np.uint64),
            np.zeros((THREADS, columns), np.uint64),
        ]

    return make


def _wide_sum(arguments: Arguments) -> Expected:
    sums = [
        (a * b + a - 8 * b) % 2**128 for a, b in zip(*(each.tolist() for each in arguments[:2]), strict=True)
    ]
    return {2: np.array([[each % 2**64, each >> 64] for each in sums], np.uint64)}


def _real(kind: Any, columns: int) -> Any:
    """Return a maker of reals below 2^31, so that conversions to int are defined; some are ties or zeros."""

    def make(rng: np.random.Generator) -> Arguments:
        pairs = []
        for _ in range(2):
            values = rng.standard_normal(THREADS) * 10.0 ** rng.integers(-9, 9, THREADS)
            values[:10] = rng.permutation([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, -1.0, 3.0])
            pairs.append(values.astype(kind))
        return [*pairs, np.zeros((THREADS, columns), kind)]

    return make


def _conversion_arguments(rng: np.random.Generator) -> Arguments:
    x = _longs(rng)
    return [x, np.zeros((THREADS, 8), np.float32), np.zeros((THREADS, 2)), np.zeros((THREADS, 4), np.int64)]


def _conversions(arguments: Arguments) -> Expected:
    x = arguments[0]
    kinds = (np.int64, np.uint64, np.int32, np.uint32, np.int16, np.uint16, np.int8, np.uint8)
    floats = np.stack([x.astype(kind).astype(np.float32) for kind in kinds], axis=1)
    doubles = np.stack([x.astype(kind).astype(np.float64) for kind in kinds[:2]], axis=1)
    return {1: floats, 2: doubles}


def _philox(arguments: Arguments) -> Expected:
    mask = 0xFFFFFFFF
    rows = []
    for i in range(THREADS):
        k0, k1 = (int(each) for each in arguments[0].tolist())
        c0, c1, c2, c3 = i, 0x1234, ~i & mask, 7
        for _ in range(10):
            first, second = 0xD2511F53 * c0, 0xCD9E8D57 * c2
            c0, c1, c2, c3 = (second >> 32) ^ c1 ^ k0, second & mask, (first >> 32) ^ c3 ^ k1, first & mask
            k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
        rows.append([c0, c1, c2, c3])
    return {1: np.array(rows)}


def _philox_arguments(rng: np.random.Generator) -> Arguments:
    key = np.array([(0xDEADBEEF, 0x12345678)], np.dtype([("x", "u4"), ("y", "u4")]))[0]
    return [key, np.zeros((THREADS, 4), np.uint32)]


_GRID: Final = (4, 1, 1)
_BLOCK: Final = (32, 1, 1)

CASES: Final = {
    "divide": Case(_GRID, _BLOCK, _divide_arguments, _divide),
    "bit_tricks": Case(_GRID, _BLOCK, _words(24)),
    "long_tricks": Case(_GRID, _BLOCK, _long_arguments(12)),
    "wide_sum": Case(_GRID, _BLOCK, _long_arguments(2), _wide_sum),
    "doubles": Case(_GRID, _BLOCK, _real(np.float64, 10)),
    "floats": Case(_GRID, _BLOCK, _real(np.float32, 12)),
    "conversions": Case(_GRID, _BLOCK, _conversion_arguments, _conversions),
    "philox": Case(_GRID, _BLOCK, _philox_arguments, _philox),
}
