"""Shared, local and constant memory, vectors, shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tests.emulator.compiled.checking import Case

if TYPE_CHECKING:
    import numpy.typing as npt

    from tests.emulator.compiled.checking import Arguments, Expected

AFFINE: Final = np.dtype(
    [("scale", "f4"), ("shift", "i2"), ("offset", "i8"), ("mask", "u1", 6), ("limits", "i4", 2)], align=True
)


def _normal(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    return rng.standard_normal(shape).astype(np.float32)


def _histogram(arguments: Arguments) -> Expected:
    return {1: np.bincount(arguments[0] % 64, minlength=64) + 5}


def _transpose(rows: int, columns: int) -> Any:
    def make(rng: np.random.Generator) -> Arguments:
        return [
            _normal(rng, rows, columns),
            np.zeros((columns, rows), np.float32),
            np.int32(rows),
            np.int32(columns),
        ]

    return make


def _bytes(arguments: Arguments) -> Expected:
    x, z = (each.astype(np.int64) for each in arguments[:2])
    return {2: (3 * x - z).astype(np.int16), 3: (x + z).astype(np.uint8)}


def _constant_tables(arguments: Arguments) -> Expected:
    x, which, _ = arguments
    coefficients = np.array([0.5, -1.25, 3, 0.0625, -7], np.float32)
    steps = np.array([[1, -2, 3, -4], [5, 6, -7, 8]], np.float32)
    value = np.zeros_like(x)
    for each in coefficients:
        value = value * x + each
    return {2: value + coefficients[which % 5] * steps[which & 1, (which >> 1) & 3]}


def _affine() -> Any:
    return np.array([(1.5, 3, -(1 << 34), [1, 2, 3, 250, 251, 252], [-(1 << 20), (1 << 31) - 1])], AFFINE)[0]


def _by_value(arguments: Arguments) -> Expected:
    x, affine, _, index = arguments
    value = np.clip((x << int(affine["shift"])) + affine["offset"], *affine["limits"].astype(np.int64))
    mask = affine["mask"][np.arange(x.size) % 6]
    return {2: value * float(affine["scale"]) + mask + affine["limits"][index & 1]}


TABLE: Final = np.dtype([("values", "i4", 12), ("shifts", "i2", 4)], align=True)


def _table() -> Any:
    return np.array([(np.arange(12) * 7 - 20, [0, 3, 1, 2])], TABLE)[0]


def _grid_constant(arguments: Arguments) -> Expected:
    x, table, _ = arguments
    values, index = table["values"], x % 12
    return {2: (values[index] << table["shifts"][index & 3]) + values[(index + np.arange(64)) % 12]}


def _vectors_arguments(rng: np.random.Generator) -> Arguments:
    return [
        rng.integers(0, 256, (64, 4)).astype(np.uint8),
        rng.integers(-300, 300, (64, 4)).astype(np.int16),
        rng.standard_normal((64, 2)),
        np.zeros((64, 4), np.uint8),
        np.zeros((64, 2)),
        np.zeros(64, np.uint32),
    ]


def _vectors(arguments: Arguments) -> Expected:
    a, b, c = arguments[0].astype(np.int64), arguments[1].astype(np.int64), arguments[2]
    y = np.stack([a[:, 3] + b[:, 0], a[:, 2], a[:, 1] >> 1, b[:, 1] * a[:, 0]], axis=1).astype(np.uint8)
    v = np.stack([c[:, 1] - b[:, 2], c[:, 0] * b[:, 3]], axis=1)
    word = (a[:, 0] | a[:, 1] << 8 | a[:, 2] << 16 | 0x3F << 24).astype(np.uint32)
    return {3: y, 4: v, 5: (word.view(np.float32) * np.float32(2)).view(np.uint32)}


def _shape(arguments: Arguments) -> Expected:
    bz, by, bx, z, y, x = (each.astype(np.uint32) for each in np.indices((2, 2, 3, 2, 3, 5)))
    values = x | y << 4 | z << 8 | bx << 12 | by << 16 | bz << 20 | np.uint32(2 << 24)
    return {0: values.ravel()}


def _matmul(arguments: Arguments) -> Expected:
    a, b = arguments[:2]
    return {2: a @ b}  # small integers: exact in any order


def _small(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    return rng.integers(-8, 8, shape).astype(np.float32)


def _stencil(arguments: Arguments) -> Expected:
    padded = np.pad(arguments[0], 3)
    i = np.arange(150)
    counts = (i // 64 * 64 + 63 - i % 64) % 5
    return {1: sum(padded[k : k + 150] for k in range(7)) + counts.astype(np.float32)}


def _shared_bytes(arguments: Arguments) -> Expected:
    x = arguments[0]
    words = np.concatenate([x + k for k in range(4)]).astype(np.uint8).view("<u4")
    halves = np.ascontiguousarray((x * 3).astype(np.int16)[::-1]).view("<u4")
    return {1: words ^ halves[np.arange(64) // 2]}


CASES: Final = {
    "histogram": Case(
        (3, 1, 1),
        (96, 1, 1),
        lambda rng: [rng.integers(0, 256, 1000).astype(np.uint8), np.full(64, 5, np.uint32), np.int32(1000)],
        _histogram,
    ),
    "transpose_padded": Case((2, 3, 1), (16, 8, 1), _transpose(37, 29), lambda a: {1: a[0].T}),
    "transpose_float4": Case((2, 3, 1), (8, 32, 1), _transpose(96, 64), lambda a: {1: a[0].T}),
    "copy_float4": Case(
        (2, 1, 1),
        (64, 1, 1),
        lambda rng: [_normal(rng, 407), np.zeros(407, np.float32), np.int32(407)],
        lambda a: {1: a[0]},
    ),
    "copy_bytes": Case(
        (2, 1, 1),
        (64, 1, 1),
        lambda rng: [
            rng.integers(-128, 128, 100).astype(np.int8),
            rng.integers(-32768, 32768, 100).astype(np.int16),
            np.zeros(100, np.int16),
            np.zeros(100, np.uint8),
            np.int32(100),
        ],
        _bytes,
    ),
    "local_array": Case(
        (2, 1, 1),
        (32, 1, 1),
        lambda rng: [rng.integers(0, 1000, 64).astype(np.int32), np.zeros(64, np.int32), np.int32(25)],
    ),
    "local_sort": Case(
        (2, 1, 1),
        (32, 1, 1),
        lambda rng: [rng.integers(0, 256, (64, 8)).astype(np.uint8), np.zeros((64, 8), np.uint8)],
        lambda a: {1: np.sort(a[0], axis=-1)},
    ),
    "constant_tables": Case(
        (2, 1, 1),
        (32, 1, 1),
        lambda rng: [_normal(rng, 64), rng.integers(0, 100, 64).astype(np.int32), np.zeros(64, np.float32)],
        _constant_tables,
    ),
    "by_value": Case(
        (1, 1, 1),
        (64, 1, 1),
        lambda rng: [rng.integers(-(2**33), 2**33, 64), _affine(), np.zeros(64), np.int32(3)],
        _by_value,
    ),
    "grid_constant": Case(
        (1, 1, 1),
        (64, 1, 1),
        lambda rng: [rng.integers(0, 99, 64).astype(np.int32), _table(), np.zeros(64, np.int32)],
        _grid_constant,
    ),
    "vectors": Case((2, 1, 1), (32, 1, 1), _vectors_arguments, _vectors),
    "shape": Case((3, 2, 2), (5, 3, 2), lambda rng: [np.zeros(360, np.uint32)], _shape),
    "saxpy_grid_stride": Case(
        (2, 1, 1),
        (32, 1, 1),
        lambda rng: [_normal(rng, 333), _normal(rng, 333), np.float32(1.7), np.int32(333)],
        lambda a: {1: a[2] * a[0] + a[1]},
    ),
    "matmul_tiles": Case(
        (3, 3, 1),
        (8, 8, 1),
        lambda rng: [_small(rng, 21, 21), _small(rng, 21, 21), np.zeros((21, 21), np.float32), np.int32(21)],
        _matmul,
    ),
    "stencil": Case(
        (3, 1, 1),
        (64, 1, 1),
        lambda rng: [_small(rng, 150), np.zeros(150, np.float32), np.int32(150)],
        _stencil,
        shared=(64 + 6) * 4 + 64 * 4,
    ),
    "shared_bytes": Case(
        (1, 1, 1),
        (64, 1, 1),
        lambda rng: [rng.integers(-100, 100, 64).astype(np.int32), np.zeros(64, np.uint32)],
        _shared_bytes,
    ),
    "generic_addresses": Case(
        (1, 1, 1),
        (64, 1, 1),
        lambda rng: [rng.integers(-100, 100, 64).astype(np.int32), np.zeros(64, np.int32)],
    ),
}
