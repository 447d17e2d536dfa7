"""Blocks of one launch that meet in global memory: nothing orders them but what they do about it themselves.

For each granule of a buffer that the kernel may store to, the number of the block is kept that wrote it, read
it, and updated it atomically. Two blocks that meet conflict unless the first ran a fence after its last
access and the second synchronised later: a fence, an atomic operation, or a load that acquires or is
volatile. This is coarser than the memory model (which fence goes with which flag is not looked at), in the
direction of silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ptxtemplates.emulator.memory.accesses import ANYWHERE

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ptxtemplates.emulator.grid import Blocks
    from ptxtemplates.emulator.memory.accesses import Access
    from ptxtemplates.emulator.memory.regions import Region

    Indices = npt.NDArray[np.int64]
    Owners = npt.NDArray[np.int32]

NOBODY: Final = 0
SEVERAL: Final = -1
PROMISED: Final = -2
"""A block that read with the promise that nobody writes."""

_DONE: Final = {"writers": "wrote", "readers": "reads", "updaters": "updates atomically"}


class Conflicts:
    """Who touched what.

    Parameters
    ----------
    report : callable
        As `Memory` takes it.
    granule : int
        Bytes that are looked at together: no access of the kernel is smaller.
    blocks : Blocks
        That run; the first has number 1 here.
    """

    def __init__(self, report: Callable[..., None], granule: int, blocks: Blocks) -> None:
        self.now = 0
        """Step that is being executed; the machine counts."""
        self._granule = granule
        self._blocks = blocks
        self._report = report
        self._owners: dict[tuple[str, str], Owners] = {}
        # by kind of access, the step of each block's last one; before the first fence it makes no difference
        self._last: dict[str, dict[int, int]] = {"writers": {}, "readers": {}, "updaters": {}}
        self._fenced: dict[int, int] = {}
        self._synchronised: dict[int, int] = {}

    def fence(self, blocks: Owners) -> None:
        """Note that blocks ran a fence at the scope of the GPU or wider."""
        for block in np.unique(blocks).tolist():
            self._fenced[block] = self._synchronised[block] = self.now

    def synchronise(self, blocks: Owners) -> None:
        """Note that blocks looked at a flag: an atomic operation, or a load that acquires or is volatile."""
        for block in np.unique(blocks).tolist():
            self._synchronised[block] = self.now

    def load(self, region: Region, access: Access, places: Indices, *, untouched: bool) -> None:
        """Note a load; `untouched` if the kernel promises that nobody writes there."""
        if access.scope == ANYWHERE:
            self.synchronise(access.blocks)
        for index in self._granules(places, access.bytes):
            self._look("reads", region, "writers", index, access, any_block=untouched)
            if access.scope == ANYWHERE:
                continue
            self._look("reads", region, "updaters", index, access, any_block=untouched)
            if untouched:
                self._of(region, "readers")[index] = PROMISED
            else:
                self._note(region, "readers", index, access.blocks)
        self._remember("readers", access)

    def store(self, region: Region, access: Access, places: Indices) -> None:
        """Note a store."""
        strong = access.scope == ANYWHERE
        granules = self._granules(places, access.bytes)
        for index in granules:
            for kind in ("writers", "readers") if strong else ("writers", "readers", "updaters"):
                self._look("writes", region, kind, index, access)
            if strong:
                self._note(region, "updaters", index, access.blocks)
        self._remember("updaters" if strong else "writers", access)
        for index in () if strong else granules:
            self._of(region, "writers")[index] = access.blocks
            # threads of two blocks in one instruction: the later one has overwritten the earlier
            self._look("writes", region, "writers", index, access)

    def update(self, region: Region, access: Access, places: Indices, *, compares: bool) -> None:
        """Note an atomic operation; one that compares may follow a plain read of what it expects."""
        if access.scope != ANYWHERE:
            # to other blocks it is a read and a write
            self.store(region, access, places)
            return
        self.synchronise(access.blocks)
        for index in self._granules(places, access.bytes):
            self._look("updates", region, "writers", index, access)
            if not compares:
                self._look("updates", region, "readers", index, access)
            self._note(region, "updaters", index, access.blocks)

    def _granules(self, places: Indices, count: int) -> list[Indices]:
        first = places // self._granule
        return [first + number if number else first for number in range(-(-count // self._granule))]

    def _of(self, region: Region, kind: str) -> Owners:
        """Return who touched each granule of a buffer; it grows with a sparse one."""
        key = (region.name, kind)
        needed = -(-region.kept // self._granule)
        owners = self._owners.get(key)
        if owners is None:
            owners = self._owners[key] = np.zeros(needed, np.int32)
        elif owners.size < needed:
            owners = self._owners[key] = np.concatenate([owners, np.zeros(needed - owners.size, np.int32)])
        return owners

    def _look(
        self, deed: str, region: Region, kind: str, index: Indices, access: Access, *, any_block: bool = False
    ) -> None:
        """Report the first thread that meets another block's access of a kind, or any if that is promised."""
        if (region.name, kind) not in self._owners:
            return
        before = self._of(region, kind)[index]
        met = (before != NOBODY) if any_block else (before != access.blocks) & (before != NOBODY)
        for thread in np.flatnonzero(met):
            other, block = int(before[thread]), int(access.blocks[thread])
            promised = any_block or other == PROMISED
            if not promised and self._ordered(kind, other, block):
                continue
            name = f"block {self._blocks[other - 1]}" if other > NOBODY else "another block"
            done = "reads with ld.global.nc" if other == PROMISED else _DONE[kind]
            how = " with ld.global.nc" if any_block else ""
            address = int(access.addresses[thread])
            self._report(
                "read-only memory" if promised else "conflict between blocks",
                f"a block {deed}{how} what {name} {done}, at {address:#x} in {region.name}",
                int(access.lanes[thread]),
                address=address,
                buffer=region.name,
            )
            return

    def _ordered(self, kind: str, first: int, second: int) -> bool:
        """Say whether a fence lies between a block's last access of a kind and what another does now."""
        later = self._synchronised.get(second, -1)
        if second == SEVERAL:
            later = min(self._synchronised.values(), default=-1)
        if kind == "updaters":
            return second in self._fenced or (second == SEVERAL and bool(self._fenced))
        if first == SEVERAL:
            return later >= 0
        return self._last[kind].get(first, 0) <= self._fenced.get(first, -1) <= later

    def _note(self, region: Region, kind: str, index: Indices, blocks: Owners) -> None:
        owners = self._of(region, kind)
        before = owners[index]
        if (before == blocks).all():
            return
        after = np.where((before == NOBODY) | (before == blocks), blocks, np.int32(SEVERAL))
        after[before == PROMISED] = PROMISED
        owners[index] = after
        mixed = index[owners[index] != after]
        if mixed.size:
            owners[mixed] = SEVERAL

    def _remember(self, kind: str, access: Access) -> None:
        if self._fenced:
            for block in np.unique(access.blocks).tolist():
                self._last[kind][block] = self.now
