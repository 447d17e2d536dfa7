"""The cases of `batched_rope` and `batched_rope_backward`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np

from ptxtemplates.kernels.rope import BatchedRope, BatchedRopeBackward
from ptxtemplates.references.case import Close, Input, Output, Piece, SameBytes, Setup, Sparse, flat, launch
from ptxtemplates.references.rope import TRIGONOMETRIC, directions, rotated, rotated_back

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ptxtemplates.kernels.rope import Rope

    Floats = npt.NDArray[np.float32]

POSITIONS: Final = (
    0, 1, 40, 1_000, 2_000, 131_069, 131_070, 131_071, 1_048_575, 8_984_417, 2**24 + 1, 3_769_183_842,
    2**32 - 1,
)  # fmt: skip
"""Where other libraries were wrong."""

RANDOM_POSITIONS: Final = 19
MOST_ROWS: Final = 65_535


def _positions(rng: np.random.Generator, count: int) -> npt.NDArray[np.uint32]:
    return rng.integers(0, 2**32, count, dtype=np.uint32)


def _vectors(rng: np.random.Generator, kernel: Rope, rows: int) -> Floats:
    """Return vectors whose elements differ in magnitude from pair to pair."""
    x = rng.standard_normal((rows, kernel.num_heads, kernel.head_dim))
    magnitudes = 2.0 ** rng.integers(-8, 9, kernel.head_dim // 2)
    return (x * np.repeat(magnitudes, 2)).astype(np.float32)


def cosine_and_sine(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Rotate (1, 0) and (0, 1): the results are cosine and sine themselves, and no rounding is added."""
    positions = np.repeat([*POSITIONS, *_positions(rng, RANDOM_POSITIONS)], 2).astype(np.uint32)
    head = int(rng.integers(kernel.num_heads))
    shape = (positions.size, kernel.num_heads, kernel.head_dim)
    x, exact = np.full(shape, np.nan, np.float32), np.full(shape, np.nan)
    x[0::2, head] = np.tile([1, 0], kernel.head_dim // 2)
    x[1::2, head] = np.tile([0, 1], kernel.head_dim // 2)
    cosine, sine = directions(kernel, positions[0::2])
    exact[0::2, head, 0::2] = exact[1::2, head, 1::2] = cosine
    exact[0::2, head, 1::2], exact[1::2, head, 0::2] = sine, -sine
    blocks = [(head, row, 0) for row in range(positions.size)]
    return Setup(
        {"x": Input(x), "out": Output(shape), "positions": Input(positions)},
        (launch(kernel, "x", "out", "positions", rows=positions.size, blocks=blocks),),
        (Close("out", exact, np.full(shape, TRIGONOMETRIC)),),
    )


def rotation(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Rotate vectors of every head."""
    positions = _positions(rng, 3)
    x = _vectors(rng, kernel, 3)
    return Setup(
        {"x": Input(x), "out": Output(x.shape), "positions": Input(positions)},
        (launch(kernel, "x", "out", "positions", rows=3),),
        (Close("out", *rotated(kernel, x, positions)),),
    )


def subnormal_values(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Rotate vectors whose products are below the normal numbers: each rounding shows, and a flush to 0."""
    magnitudes = 2.0 ** np.array([-125, -130, -138, -145])
    positions = _positions(rng, magnitudes.size)
    x = rng.standard_normal((magnitudes.size, kernel.num_heads, kernel.head_dim))
    x = (x * magnitudes[:, None, None]).astype(np.float32)
    return Setup(
        {"x": Input(x), "out": Output(x.shape), "positions": Input(positions)},
        (launch(kernel, "x", "out", "positions", rows=magnitudes.size),),
        (Close("out", *rotated(kernel, x, positions)),),
    )


def position_zero(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Rotate by nothing: the results are the inputs, as numbers."""
    x = _vectors(rng, kernel, 1)
    return Setup(
        {"x": Input(x), "out": Output(x.shape), "positions": Input(np.zeros(1, np.uint32))},
        (launch(kernel, "x", "out", "positions", rows=1),),
        (Close("out", x.astype(np.float64), np.zeros(x.shape)),),
    )


def special_values(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Put NaN and infinity into vectors: they spoil their own pair and nothing else; at position 0 too."""
    positions = np.array([0, *_positions(rng, 2)], np.uint32)
    x = _vectors(rng, kernel, 3)
    elements = rng.permutation(kernel.head_dim)[:2]
    x[:, 0, elements[0]], x[:, -1, elements[1]] = np.nan, np.inf
    exact, bound = rotated(kernel, x, positions)
    infinite = np.isinf(x).reshape(*x.shape[:2], -1, 2).any(-1).repeat(2, -1)
    return Setup(
        {"x": Input(x), "out": Output(x.shape), "positions": Input(positions)},
        (launch(kernel, "x", "out", "positions", rows=3),),
        # an infinity times a cosine near 0 has a sign that no bound tells
        (Close("out", exact, bound, free=infinite),),
    )


def row_alone(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Rotate a row alone and in a batch: the bits are the same in every place of it."""
    rows = int(rng.integers(2, 6))
    positions = np.repeat(_positions(rng, 1), rows)
    x = _vectors(rng, kernel, 1)
    batch = np.repeat(x, rows, axis=0)
    return Setup(
        {
            "x": Input(x), "out": Output(x.shape), "position": Input(positions[:1]),
            "batch": Input(batch), "batch_out": Output(batch.shape), "positions": Input(positions),
        },
        (
            launch(kernel, "x", "out", "position", rows=1),
            launch(kernel, "batch", "batch_out", "positions", rows=rows),
        ),
        (
            Close("out", *rotated(kernel, x, positions[:1])),
            *(SameBytes("batch_out", "out", x.size, at=row * x.size) for row in range(rows)),
        ),
    )  # fmt: skip


def in_place(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Let out be x: the bits are those of a separate output."""
    positions = _positions(rng, 3)
    x = _vectors(rng, kernel, 3)
    return Setup(
        {
            "x": Input(x),
            "out": Output(x.shape),
            "both": Input(x, changes=True),
            "positions": Input(positions),
        },
        (
            launch(kernel, "x", "out", "positions", rows=3),
            launch(kernel, "both", "both", "positions", rows=3),
        ),
        (SameBytes("both", "out", x.size),),
    )


def there_and_back(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Rotate and rotate back: the inputs return, up to the roundings of both."""
    other = BatchedRope if kernel.backward else BatchedRopeBackward
    own = {field.name for field in dataclasses.fields(kernel)} - {"entry"}
    inverse = other(**{name: getattr(kernel, name) for name in own})
    positions = _positions(rng, 2)
    x = _vectors(rng, kernel, 2)
    forward = rotated(kernel, x, positions)
    return Setup(
        {"x": Input(x), "out": Output(x.shape), "back": Output(x.shape), "positions": Input(positions)},
        (
            launch(kernel, "x", "out", "positions", rows=2),
            launch(inverse, "out", "back", "positions", rows=2),
        ),
        (Close("back", x.astype(np.float64), rotated_back(inverse, forward, positions)),),
    )


def last_rows(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Rotate the last legal row, and those in which offsets pass 2^32 bytes and 2^32 elements if any do."""
    shape = (MOST_ROWS, kernel.num_heads, kernel.head_dim)
    crossings = (-(-(2**32) // (kernel.num_heads * kernel.head_dim * size)) for size in (4, 1))
    rows = sorted({MOST_ROWS - 1, *(row for row in crossings if row < MOST_ROWS)})
    head = kernel.num_heads - 1
    positions = _positions(rng, MOST_ROWS)
    pieces, expectations = [], []
    for row in rows:
        x = rng.standard_normal((1, 1, kernel.head_dim)).astype(np.float32)
        at = flat(shape, row, head)
        pieces.append(Piece(at, x.reshape(-1)))
        exact, bound = rotated(kernel, x, positions[row : row + 1])
        expectations.append(Close("out", exact.reshape(-1), bound.reshape(-1), at=at))
    blocks = [(head, row, 0) for row in rows]
    return Setup(
        {"x": Sparse(shape, tuple(pieces)), "out": Sparse(shape), "positions": Input(positions)},
        (launch(kernel, "x", "out", "positions", rows=MOST_ROWS, blocks=blocks),),
        tuple(expectations),
    )


CASES: Final[dict[str, Callable[[Rope, np.random.Generator], Setup]]] = {
    "cosine-and-sine": cosine_and_sine,
    "rotation": rotation,
    "subnormal-values": subnormal_values,
    "position-zero": position_zero,
    "special-values": special_values,
    "row-alone": row_alone,
    "in-place": in_place,
    "there-and-back": there_and_back,
    "last-rows": last_rows,
}
