"""The blocks of a launch, wave by wave, and the special registers of their threads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.emulator.types import WARP
from ptxtemplates.errors import EmulationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from ptxtemplates.ptx.operands import SpecialRegister

    Block = tuple[int, int, int]


CLOCKS: Final = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
"""They count steps."""


def spelled(register: SpecialRegister) -> str:
    """Return a special register's name with its component."""
    return register.name if register.component is None else f"{register.name}.{register.component}"


class Blocks:
    """The blocks that run, by number.

    Parameters
    ----------
    grid : tuple of int
    chosen : iterable of tuple of int, optional
        Only these.
    """

    def __init__(self, grid: Block, chosen: Iterable[Block] | None) -> None:
        self._grid = grid
        self._chosen = None if chosen is None else list(chosen)
        for block in self._chosen or ():
            if not all(0 <= number < extent for number, extent in zip(block, grid, strict=True)):
                raise EmulationError(f"block {block} is not in the grid {grid}")

    def __len__(self) -> int:
        return math.prod(self._grid) if self._chosen is None else len(self._chosen)

    def __getitem__(self, number: int) -> Block:
        x, y, z = self._rows(np.array([number]))[0].tolist()
        return x, y, z

    def waves(self, at_once: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield x, y and z of the blocks, a row for each, so many at a time."""
        for start in range(0, len(self), at_once):
            yield self._rows(np.arange(start, min(start + at_once, len(self))))

    def _rows(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if self._chosen is not None:
            return np.array([self._chosen[number] for number in numbers.tolist()], np.int64)
        rest, x = np.divmod(numbers, self._grid[0])
        z, y = np.divmod(rest, self._grid[1])
        return np.stack([x, y, z], axis=1)


def special_registers(
    blocks: npt.NDArray[np.int64], grid: Block, block: Block, shared_memory: int
) -> dict[str, npt.NDArray[Any]]:
    """Return the special registers: shape (blocks, 1), (1, threads) or (1, 1)."""
    thread = np.arange(math.prod(block), dtype=np.uint32)[None]
    lane = thread % WARP
    one = np.uint32(1)
    special: dict[str, npt.NDArray[Any]] = {
        # the number of the thread in its block: no register of PTX, but what the others are made of
        "thread": thread.astype(np.int64),
        "%tid.x": thread % block[0],
        "%tid.y": thread // block[0] % block[1],
        "%tid.z": thread // (block[0] * block[1]),
        "%laneid": lane,
        "%warpid": thread // WARP,
        "%lanemask_eq": one << lane,
        "%lanemask_lt": (one << lane) - one,
        "%lanemask_le": ((one << lane) - one) | one << lane,
        "%lanemask_gt": ~(((one << lane) - one) | one << lane),
        "%lanemask_ge": ~((one << lane) - one),
    }
    numbers = blocks.astype(np.uint32)
    constants = {
        "%nwarpid": -(-thread.size // WARP),
        "%smid": 0,
        "%nsmid": 1,
        "%gridid": 0,
        "%dynamic_smem_size": shared_memory,
        "%clusterid.x": 0,
        "%cluster_ctarank": 0,
        "%cluster_nctarank": 1,
    }
    for number, axis in enumerate("xyz"):
        special[f"%ctaid.{axis}"] = numbers[:, number : number + 1]
        constants |= {f"%ntid.{axis}": block[number], f"%nctaid.{axis}": grid[number]}
        constants |= {f"%cluster_ctaid.{axis}": 0, f"%cluster_nctaid.{axis}": 1}
    special |= {name: np.array([[value]], np.uint32) for name, value in constants.items()}
    return special


_ONE: Final = np.zeros((1, 3), np.int64), (1, 1, 1), (1, 1, 1), 0

KNOWN_REGISTERS: Final = frozenset(special_registers(*_ONE)) | frozenset(CLOCKS)
"""The special registers that can be read, by name and component."""
