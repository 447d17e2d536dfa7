"""Who touched which byte, and whether anything orders the two: what depends on chance is not followed.

Two accesses of one byte, one of them a store, are ordered if the same lane makes them, or if both lanes have
met since: at a barrier of the block, or as lanes of one warp at ``bar.warp.sync``. Lanes of different blocks
never meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ptxtemplates.emulator.types import WARP
from ptxtemplates.symbolic.memory import PAGE, Pages

if TYPE_CHECKING:
    import numpy.typing as npt

    from ptxtemplates.symbolic.memory import Places, Region
    from ptxtemplates.symbolic.values import Mask

    Lanes = npt.NDArray[np.int64]

_NOBODY: Final = -1
_MANY: Final = -2
"""Lanes of several warps; below it stand several lanes of one warp."""


class Order:
    """What is known of the order of accesses.

    Parameters
    ----------
    lanes, width : int
        All lanes; those of a block.
    """

    def __init__(self, lanes: int, width: int) -> None:
        self._width = width
        self._now = 1
        self._met_block = np.zeros(lanes, np.int64)
        self._met_warp = np.zeros(lanes, np.int64)
        self._kept: dict[Region, Pages] = {}

    def meet(self, lanes: Mask, *, of_warps: bool) -> None:
        """Note that lanes have met: of a warp, or of a block."""
        self._now += 1
        (self._met_warp if of_warps else self._met_block)[lanes] = self._now

    def loaded(self, region: Region, places: Places, lanes: Lanes) -> bool:
        """Note loads of bytes, by a lane each; say whether all see what they are meant to."""
        pages = self._pages(region, places)
        writers, when = pages.read("writer", places), pages.read("written", places)
        if self._disordered(writers, when, lanes).any():
            return False
        readers = pages.read("reader", places)
        alone = (
            (readers == _NOBODY)
            | (readers == lanes)
            | ~self._disordered(readers, pages.read("looked", places), lanes)
        )
        warps = lanes // WARP
        together = np.where(np.where(readers >= 0, readers // WARP, -readers - 3) == warps, -warps - 3, _MANY)
        pages.write("reader", places, np.where(alone, lanes, together))
        # of several lanes that load at once the last one stands for all: they are of one warp, or of several
        again = pages.read("reader", places)
        others = (again >= 0) & (again != lanes) & alone
        if others.any():
            same = again[others] // WARP == warps[others]
            pages.write("reader", places[others], np.where(same, -warps[others] - 3, _MANY))
        pages.write("looked", places, np.full(places.shape, self._now))
        return True

    def stored(self, region: Region, places: Places, lanes: Lanes) -> bool:
        """Note stores of bytes, by a lane each; say whether nothing that came before is disturbed."""
        pages = self._pages(region, places)
        for who, when in (("writer", "written"), ("reader", "looked")):
            if self._disordered(pages.read(who, places), pages.read(when, places), lanes).any():
                return False
        pages.write("writer", places, lanes)
        pages.write("written", places, np.full(places.shape, self._now))
        return True

    def _disordered(self, others: Lanes, when: Lanes, lanes: Lanes) -> Mask:
        """Say which accesses nothing orders behind those of others."""
        known = np.maximum(others, 0)
        in_block = np.where(others >= 0, known // self._width == lanes // self._width, others <= _MANY)
        warps = np.where(others >= 0, known // WARP, np.where(others < _MANY, -others - 3, -1))
        met = in_block & (when < self._met_block[lanes])
        met |= (
            (warps == lanes // WARP)
            & (when < self._met_warp[lanes])
            & ((others < 0) | (when < self._met_warp[known]))
        )
        disordered: Mask = (others != _NOBODY) & (others != lanes) & ~met
        return disordered

    def _pages(self, region: Region, places: Places) -> Pages:
        if region not in self._kept:
            self._kept[region] = Pages(region.size)
        pages = self._kept[region]
        nobody, never = np.full(PAGE, _NOBODY, np.int64), np.zeros(PAGE, np.int64)
        for page in pages.missing(places):
            pages.open(page, {"writer": nobody, "reader": nobody, "written": never, "looked": never})
        return pages
