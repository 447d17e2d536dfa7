"""What a case is: buffers, launches, and what must hold afterwards. Pure data, for any place that can run it.

Whoever runs a case allocates its buffers, fills outputs with NaN and keeps apart what lies before and behind
each buffer, so that a store beside it is noticed. Beside the expectations it always holds that inputs keep
their bytes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel

    Float64s = npt.NDArray[np.float64]

Block: TypeAlias = tuple[int, int, int]

STEPS: Final = 300
"""Instructions that are many for one key or chunk: of the widest head, fewer than 100 are needed."""

STEPS_BESIDE: Final = 3_000
"""The same for all that is done once."""

MOST_ROWS: Final = 65_535
"""That a grid has in y."""


class Input(NamedTuple):
    """A buffer that is filled before the first launch.

    Attributes
    ----------
    array : numpy.ndarray
        Its content.
    changes : bool
        Whether a launch writes over it (in place); else its bytes must stay.
    """

    array: npt.NDArray[Any]
    changes: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""
        return self.array.shape


class Output(NamedTuple):
    """A float32 buffer filled with NaN, which counts as never written until a launch writes it."""

    shape: tuple[int, ...]


class Piece(NamedTuple):
    """Elements of a flat buffer from index `at` on: whole parts of its last extent."""

    at: int
    array: npt.NDArray[Any]


class Sparse(NamedTuple):
    """A float32 buffer too large to hold, of which the launches touch little.

    Attributes
    ----------
    shape : tuple of int
        Extents, outermost first.
    pieces : tuple of Piece
        What is filled before the first launch; the rest counts as never written. None is, in an output.
    """

    shape: tuple[int, ...]
    pieces: tuple[Piece, ...] = ()


class Table(NamedTuple):
    """An array of pointers to other buffers, by their names."""

    buffers: tuple[str, ...]


Buffer: TypeAlias = "Input | Output | Sparse | Table"


class Launch(NamedTuple):
    """A kernel on a grid.

    Attributes
    ----------
    kernel : Kernel
        The one under test, or another that the case needs.
    arguments : tuple of (str or int)
        Names of buffers, and numbers, in the order of the kernel's parameters. A name may come twice: both
        parameters then point to one buffer.
    grid : tuple of int
        Blocks in x, y, z.
    steps : int
        Many times the instructions that a thread needs: one that executes more will not end.
    blocks : tuple of (tuple of int), optional
        Only these blocks matter. A place that cannot choose runs all of them where the buffers allow that.
    """

    kernel: Kernel
    arguments: tuple[str | int, ...]
    grid: Block
    steps: int
    blocks: tuple[Block, ...] | None = None


class Close(NamedTuple):
    """A part of a buffer must be near its exact values.

    Attributes
    ----------
    buffer : str
        Which.
    exact : numpy.ndarray of float64
        The values. NaN means that the result must be NaN: also of elements that nobody may write, since
        outputs are filled with NaN. An infinity must be met exactly.
    bound : numpy.ndarray of float64
        Largest allowed difference of each element.
    free : numpy.ndarray of bool, optional
        Elements that may be anything.
    at : int
        Flat index of the first element; the part is contiguous.
    """

    buffer: str
    exact: Float64s
    bound: Float64s
    free: npt.NDArray[np.bool_] | None = None
    at: int = 0


class SameBytes(NamedTuple):
    """Elements of two buffers must have the same bits.

    Attributes
    ----------
    buffer, other : str
        Names of the buffers.
    size : int
        How many elements.
    at, other_at : int
        Flat index of the first one in each.
    """

    buffer: str
    other: str
    size: int
    at: int = 0
    other_at: int = 0


class Setup(NamedTuple):
    """A case without its name."""

    buffers: Mapping[str, Buffer]
    launches: tuple[Launch, ...]
    expectations: tuple[Close | SameBytes, ...]


class Case(NamedTuple):
    """A named `Setup`; the name is stable, and unique for a kernel."""

    name: str
    buffers: Mapping[str, Buffer]
    launches: tuple[Launch, ...]
    expectations: tuple[Close | SameBytes, ...]


def launch(
    kernel: Kernel,
    *arguments: str | int,
    work: int = 1,
    blocks: Iterable[Block] | None = None,
    **sizes: int,
) -> Launch:
    """Make a launch.

    Parameters
    ----------
    kernel, *arguments, blocks
        As in `Launch`.
    work : int
        Keys or chunks that a thread goes through: a few hundred instructions each.
    **sizes : int
        Run-time sizes that the kernel's grid names.
    """
    for extent in kernel.grid:
        if isinstance(extent, str) and extent not in sizes:
            raise TypeError(f"a launch of {kernel.name} needs {extent}=, which its grid names")
    x, y, z = (sizes[extent] if isinstance(extent, str) else extent for extent in kernel.grid)
    return Launch(
        kernel, arguments, (x, y, z), STEPS * work + STEPS_BESIDE, None if blocks is None else tuple(blocks)
    )


def flat(shape: tuple[int, ...], *index: int) -> int:
    """Return the flat index of the first element of the part that leading indices select."""
    place = 0
    for number, extent in zip(index, shape, strict=False):
        place = place * extent + number
    return place * math.prod(shape[len(index) :])


def some_rows(rng: np.random.Generator, *crossings: int) -> list[int]:
    """Return rows of every magnitude: the last legal one, those around powers of two, and random ones.

    Parameters
    ----------
    rng : numpy.random.Generator
        Decides the random ones.
    *crossings : int
        Rows that are wanted too; those that are not legal are left out.
    """
    around = {2**bits + offset for bits in range(16) for offset in (-1, 0, 1)}
    rows = {MOST_ROWS - 1, *around, *map(int, rng.integers(0, MOST_ROWS, 16)), *crossings}
    return sorted(row for row in rows if row < MOST_ROWS)
