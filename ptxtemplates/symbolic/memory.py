"""Memory of a symbolic launch: buffers at addresses of their own, data virtual until it is written over."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.emulator.memory.buffers import ALIGNMENT
from ptxtemplates.emulator.types import BITS
from ptxtemplates.symbolic.values import UndecidedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Places = npt.NDArray[np.int64]

GAP: Final = 1 << 33
"""Between two buffers: an offset that wraps at 32 bits meets no other."""
PAGE: Final = 512
"""Bytes that are kept together once one of them is written."""


class Pages:
    """What is kept for bytes, a page at a time, once one of them matters.

    Parameters
    ----------
    size : int
        Bytes.
    """

    def __init__(self, size: int) -> None:
        self._table = np.full(-(-size // PAGE), -1, np.int32)
        self._pools: dict[str, npt.NDArray[Any]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def numbers(self) -> list[int]:
        """Return the numbers of the pages that are kept."""
        return [int(page) for page in np.flatnonzero(self._table >= 0)]

    def missing(self, places: Places) -> list[int]:
        """Return the pages of bytes that are not kept."""
        numbers = np.unique(places // PAGE)
        return [int(page) for page in numbers[self._table[numbers] < 0]]

    def open(self, page: int, contents: dict[str, npt.NDArray[Any]]) -> None:
        """Keep a page from now on; `contents` are arrays of `PAGE` elements, by what they say."""
        for what, content in contents.items():
            pool = self._pools.setdefault(what, np.zeros(0, content.dtype))
            if (self._count + 1) * PAGE > pool.size:
                self._pools[what] = np.concatenate([pool, np.zeros(max(pool.size, 8 * PAGE), pool.dtype)])
            self._pools[what][self._count * PAGE : (self._count + 1) * PAGE] = content
        self._table[page] = self._count
        self._count += 1

    def kept(self, places: Places) -> npt.NDArray[np.bool_]:
        """Say which bytes are in pages that are kept."""
        found: npt.NDArray[np.bool_] = self._table[places // PAGE] >= 0
        return found

    def read(self, what: str, places: Places) -> npt.NDArray[Any]:
        """Return what is kept for bytes; it is meaningless where nothing is."""
        return self._pools[what][self._places(places)]

    def write(self, what: str, places: Places, values: npt.NDArray[Any]) -> None:
        """Change what is kept for bytes."""
        self._pools[what][self._places(places)] = values

    def _places(self, places: Places) -> Places:
        found: Places = np.maximum(self._table[places // PAGE], 0).astype(np.int64) * PAGE + places % PAGE
        return found


class Region:
    """A buffer.

    Parameters
    ----------
    name : str
        The same in both programs that are compared, where it has the same content.
    base, size : int
        Address of the first byte; bytes.
    bits : numpy.ndarray of uint8, or None
        Known content; None of data.
    kind : str
        PTX type of an element of data.
    """

    def __init__(
        self, name: str, base: int, size: int, bits: npt.NDArray[np.uint8] | None, kind: str = "b8"
    ) -> None:
        self.name = name
        self.base = base
        self.size = size
        self.bits = bits
        self.kind = kind
        self.pages = Pages(0)

    @property
    def element(self) -> int:
        """Bytes of an element of data."""
        return BITS[self.kind] // 8

    @property
    def written(self) -> bool:
        """Whether anything was stored there."""
        return len(self.pages) > 0

    def pages_for(self, places: Places) -> list[int]:
        """Return the pages of bytes that must be opened before these are stored to."""
        if not self.written:
            self.pages = Pages(self.size)
        return self.pages.missing(places)


def page_bytes(region: Region, page: int) -> Places:
    """Return the offsets of a page's bytes; those behind the buffer's end are its last one."""
    return np.minimum(np.arange(page * PAGE, (page + 1) * PAGE), region.size - 1)


class Memory:
    """Global and constant memory, by address.

    Parameters
    ----------
    start : int
        Of the first buffer.
    """

    def __init__(self, start: int) -> None:
        self._start = start
        self._regions: list[Region] = []
        self._bases: list[int] = []

    def add(self, name: str, size: int, bits: npt.NDArray[np.uint8] | None, kind: str = "b8") -> Region:
        """Give a buffer its address: the same if the same buffers were added before it."""
        end = self._regions[-1].base + self._regions[-1].size + GAP if self._regions else self._start
        region = Region(name, end + -end % ALIGNMENT, size, bits, kind)
        self._regions.append(region)
        self._bases.append(region.base)
        return region

    def content(self, name: str) -> bytes:
        """Return the known content of a buffer."""
        [region] = [region for region in self._regions if region.name == name]
        assert region.bits is not None
        return region.bits.tobytes()

    def joined(self, behind: Memory) -> Memory:
        """Return this memory and another one whose buffers lie behind its own."""
        memory = Memory(self._start)
        memory._regions = [*self._regions, *behind._regions]
        memory._bases = [*self._bases, *behind._bases]
        return memory

    def parts(
        self, addresses: npt.NDArray[np.uint64], size: int, line: int
    ) -> Iterator[tuple[Region, npt.NDArray[np.intp] | slice, Places]]:
        """Yield the buffers that an access meets, which of the addresses are there, and offsets of those."""
        low, high = int(addresses.min()), int(addresses.max())
        first = self._regions[max(bisect_right(self._bases, low) - 1, 0)]
        if first.base <= low and high + size <= first.base + first.size:
            yield first, slice(None), (addresses - np.uint64(first.base)).astype(np.int64)
            return
        numbers = np.searchsorted(np.array(self._bases, np.uint64), addresses, side="right") - 1
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            region = self._regions[max(number, 0)]
            offsets = (addresses[chosen] - np.uint64(region.base)).astype(np.int64)
            if number < 0 or int(offsets.max()) + size > region.size:
                raise UndecidedError(f"PTX line {line} accesses memory that belongs to no buffer")
            yield region, chosen, offsets
