"""The cases of `batched_rope` and `batched_rope_backward`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np

from ptxtemplates.kernels.rope import BatchedRope, BatchedRopeBackward
from ptxtemplates.references.case import (
    MOST_ROWS,
    Close,
    Input,
    Output,
    Piece,
    SameBytes,
    Setup,
    Sparse,
    flat,
    launch,
    some_rows,
)
from ptxtemplates.references.rope import (
    TRIGONOMETRIC,
    directions,
    position_of,
    rotated,
    rotated_back,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from ptxtemplates.kernels.rope import Rope

    Floats = npt.NDArray[np.float32]

POSITIONS: Final = (
    0, 1, 40, 1_000, 2_000, 131_069, 131_070, 131_071, 1_048_575, 8_984_417, 2**24 + 1, 3_769_183_842,
    2**32 - 1,
)  # fmt: skip
"""Where other libraries were wrong."""

RANDOM_POSITIONS: Final = 19
EIGHTH: Final = 2**29
"""Of a turn of 2^32: quadrants begin at odd multiples, and have their axes at even ones."""


def _positions(rng: np.random.Generator, count: int) -> npt.NDArray[np.uint32]:
    return rng.integers(0, 2**32, count, dtype=np.uint32)


def _vectors(rng: np.random.Generator, kernel: Rope, rows: int) -> Floats:
    """Return vectors whose elements differ in magnitude from pair to pair."""
    x = rng.standard_normal((rows, kernel.num_heads, kernel.head_dim))
    magnitudes = 2.0 ** rng.integers(-8, 9, kernel.head_dim // 2)
    return (x * np.repeat(magnitudes, 2)).astype(np.float32)


def cosine_and_sine(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Rotate (1, 0) and (0, 1): the results are cosine and sine themselves, and no rounding is added."""
    return _unit_vectors(kernel, rng, [*POSITIONS, *_positions(rng, RANDOM_POSITIONS)])


def eighths(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Do the same where a pair's 32-bit turn is a multiple of an eighth, and one less and more.

    Each at the first pair, in a random order, that has such a position; a single pair may have none.
    """
    entries = [
        int(entry) for entry in rng.permutation(np.array(table(kernel.theta, kernel.head_dim), object))
    ]
    positions = []
    for turn in (eighth * EIGHTH + offset for eighth in range(8) for offset in (-1, 0, 1)):
        found = (position_of(entry, turn % 2**32) for entry in entries)
        positions += [position for position in found if position is not None][:1]
    return _unit_vectors(kernel, rng, positions)


def _unit_vectors(kernel: Rope, rng: np.random.Generator, distinct: Sequence[int]) -> Setup:
    """Rotate (1, 0) and (0, 1) of a random head at some positions."""
    positions = np.repeat(np.array(distinct, np.uint32), 2)
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


def magnitudes(kernel: Rope, rng: np.random.Generator) -> Setup:
    """Rotate vectors of magnitudes over the whole range of float32, each pair of its own; none overflows."""
    positions = _positions(rng, 4)
    x = rng.choice([-1, 1], (4, kernel.num_heads, kernel.head_dim)) * rng.uniform(
        1, 2, (4, kernel.num_heads, kernel.head_dim)
    )
    exponents = rng.integers(-126, 127, (4, kernel.num_heads, kernel.head_dim // 2))
    exponents[0] = 126
    x = (x * np.repeat(2.0**exponents, 2, axis=-1)).astype(np.float32)
    return Setup(
        {"x": Input(x), "out": Output(x.shape), "positions": Input(positions)},
        (launch(kernel, "x", "out", "positions", rows=4),),
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
    """Put NaN and infinities into vectors: they spoil their own pair and nothing else; at position 0 too.

    Infinities come out as float64 has them, unless an infinite element meets a cosine or sine that the
    kernel may give another sign, or take for 0.
    """
    positions = np.array([0, *_positions(rng, 3)], np.uint32)
    x = _vectors(rng, kernel, positions.size)
    places = rng.permutation(x.size)[: max(3, x.size // 8)]
    x.reshape(-1)[places] = np.resize(np.array([np.nan, np.inf, -np.inf], np.float32), places.size)
    exact, bound = rotated(kernel, x, positions)
    near_zero = [np.abs(part)[:, None, :] <= TRIGONOMETRIC for part in directions(kernel, positions)]
    even, odd = np.isinf(x[..., 0::2]), np.isinf(x[..., 1::2])
    free = np.empty(x.shape, np.bool_)
    free[..., 0::2] = (even & near_zero[0]) | (odd & near_zero[1])
    free[..., 1::2] = (odd & near_zero[0]) | (even & near_zero[1])
    return Setup(
        {"x": Input(x), "out": Output(x.shape), "positions": Input(positions)},
        (launch(kernel, "x", "out", "positions", rows=positions.size),),
        (Close("out", exact, bound, free=free),),
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
    """Rotate rows from the first to the last legal one, and those in which offsets pass 2^32, if any do."""
    shape = (MOST_ROWS, kernel.num_heads, kernel.head_dim)
    rows = some_rows(rng, *(-(-(2**32) // (kernel.num_heads * kernel.head_dim * size)) for size in (4, 1)))
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
    "eighths": eighths,
    "rotation": rotation,
    "magnitudes": magnitudes,
    "subnormal-values": subnormal_values,
    "position-zero": position_zero,
    "special-values": special_values,
    "row-alone": row_alone,
    "in-place": in_place,
    "there-and-back": there_and_back,
    "last-rows": last_rows,
}
