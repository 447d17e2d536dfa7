"""Global memory of a launch: the caller's arrays at addresses that show mistakes.

Buffers lie above 4 GiB with unmapped gaps of more than 4 GiB between them: an offset that was cut to 32 bits,
or went past the end, meets no other buffer.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.memory.conflicts import Conflicts
from ptxtemplates.emulator.memory.regions import Region

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from ptxtemplates.emulator.grid import Blocks
    from ptxtemplates.emulator.memory.accesses import Access
    from ptxtemplates.emulator.memory.sparse import SparseArray

    Indices = npt.NDArray[np.int64]
    Report = Callable[..., None]

FIRST_ADDRESS: Final = 1 << 33
PARAMETERS: Final = "parameters"
"""Name of the buffer that holds the kernel's parameters; it comes first."""

GAP: Final = (1 << 32) + (1 << 20)
ALIGNMENT: Final = 256
"""Of every buffer, as `cudaMalloc` gives."""

WIDEST: Final = 16
"""Bytes that are moved at once; a wider access is done in parts."""


class Part(NamedTuple):
    """The threads of an access that meet one buffer: who (None: all), and where their bytes are kept."""

    region: Region
    chosen: npt.NDArray[np.int64] | None
    places: Indices


class Memory:
    """The buffers of a launch.

    Parameters
    ----------
    report : callable
        Called with the kind of a finding, a message, the thread, and ``address=`` and ``buffer=``.
    granule : int
        Bytes of the smallest access.
    blocks : Blocks
        That run.
    """

    def __init__(self, report: Report, granule: int, blocks: Blocks) -> None:
        self.conflicts = Conflicts(report, granule, blocks)
        self._report = report
        self._regions: list[Region] = []
        self._bases: list[int] = []
        self._starts: list[tuple[int, int]] = []
        """Where the caller's arrays lie, sorted: first byte and end."""
        self.has_previous = False
        """Whether the kernel before in the stream fills a buffer."""
        self._sorted: tuple[npt.NDArray[np.integer[Any]], list[tuple[int, Indices]]] = (
            np.zeros(0, np.int16),
            [],
        )
        """Numbers of the buffers that the last access met, and which threads met each."""
        self._last_in: npt.NDArray[np.integer[Any]] | None = None
        """For each 4 GiB the number of the last buffer that begins there or before."""
        self._known: dict[tuple[int, int], Region] = {}

    def add(self, name: str, data: npt.NDArray[Any] | SparseArray, **properties: bool) -> Region:
        """Give an array an address; what kernels write lands in it. One that has an address keeps it.

        Parameters
        ----------
        name : str
            What findings call it.
        data : numpy.ndarray or SparseArray
            Contiguous, of any type.
        **properties : bool
            `written`, `constant` and `previous`, as in `Region`.

        Raises
        ------
        ValueError
            If the array is not contiguous, or overlaps another without being the same.
        """
        # no array lies at a negative address
        start = -id(data)
        if isinstance(data, np.ndarray):
            if not data.flags.c_contiguous:
                raise ValueError(f"{name} must be contiguous")
            start = data.__array_interface__["data"][0]
            data = data.reshape(-1).view(np.uint8)
        key = (start, start + data.nbytes)
        if key in self._known and data.nbytes:
            self._known[key].names.add(name)
            return self._known[key]
        if isinstance(data, np.ndarray) and data.nbytes:
            place = bisect_right(self._starts, key)
            for other in self._starts[max(place - 1, 0) : place + 1]:
                if other[0] < key[1] and key[0] < other[1]:
                    raise ValueError(
                        f"{name} overlaps {self._known[other].name}: pass the same array, or separate ones"
                    )
            self._starts.insert(place, key)
        end = self._regions[-1].end + GAP if self._regions else FIRST_ADDRESS
        region = Region(name, end + -end % ALIGNMENT, data, **properties)
        self._regions.append(region)
        self._bases.append(region.base)
        self._last_in = None
        self.has_previous |= region.previous
        self._known[key] = region
        return region

    def share(self, buffers: set[str] | None) -> None:
        """Say which buffers stores may reach, by name (None: any): conflicts are looked for there."""
        for region in self._regions:
            names = {name.partition("[")[0] for name in region.names}
            region.shared = not region.constant and (buffers is None or not names.isdisjoint(buffers))

    def load(self, access: Access, *, untouched: bool = False) -> list[npt.NDArray[Any]]:
        """Return the elements that each thread loads, as unsigned integers; 0 where the access is wrong.

        Parameters
        ----------
        access : Access
        untouched : bool
            Whether the kernel promises not to write there (``ld.global.nc``).
        """
        results = None
        for region, chosen, places in self._parts(access):
            if region.shared or region.written is not None:
                mine = access if chosen is None else access.at(chosen)
                self._check_written(region, mine, places)
                if region.shared:
                    self.conflicts.load(region, mine, places, untouched=untouched)
            values = _gather(region, places, access)
            if chosen is None:
                return values
            if results is None:
                results = _nothing(access)
            for result, value in zip(results, values, strict=True):
                result[chosen] = value
        return _nothing(access) if results is None else results

    def store(self, access: Access, values: list[npt.NDArray[Any]]) -> None:
        """Write the elements of each thread; of threads that write one place, the last wins."""
        kind = np.dtype(f"u{access.size}")
        for region, chosen, places in self._parts(access):
            mine = access if chosen is None else access.at(chosen)
            if region.constant:
                self._report_at("read-only memory", mine, 0, region)
                continue
            if region.shared:
                self.conflicts.store(region, mine, places)
            elements = region.records(access.size)
            where = places // access.size if access.size > 1 else places
            for number, value in enumerate(values):
                content = value.view(kind) if value.dtype != kind else value
                elements[where + number if number else where] = content if chosen is None else content[chosen]
            mark_written(region.written, places, access.bytes)

    def update(
        self, access: Access, change: Callable[[npt.NDArray[Any], Indices, Any], None], *, compares: bool
    ) -> None:
        """Let a function change elements in place, atomically.

        Parameters
        ----------
        access : Access
        change : callable
            Called for each buffer with its elements as unsigned integers, the index of the first of each
            thread, and which of the access's threads they are (a slice or numbers).
        compares : bool
            Whether it is a compare-and-swap.
        """
        for region, chosen, places in self._parts(access):
            mine = access if chosen is None else access.at(chosen)
            if region.constant:
                self._report_at("read-only memory", mine, 0, region)
                continue
            self._check_written(region, mine, places)
            if region.shared:
                self.conflicts.update(region, mine, places, compares=compares)
            change(
                region.records(access.size), places // access.size, slice(None) if chosen is None else chosen
            )

    def report_previous(self, access: Access) -> None:
        """Report the first access to a buffer that the kernel before may still fill."""
        for region, chosen, _ in self._parts(access):
            if region.previous:
                mine = access if chosen is None else access.at(chosen)
                if mine.lanes.size:
                    self._report_at("griddepcontrol", mine, 0, region)

    def nearest(self, address: int) -> Region:
        """Return the buffer that is nearest to an address."""
        return min(self._regions, key=lambda region: max(region.base - address, address - region.end, 0))

    def region_at(self, address: int) -> Region | None:
        """Return the buffer that an address lies in."""
        number = bisect_right(self._bases, address) - 1
        region = self._regions[max(number, 0)] if self._regions else None
        return region if region is not None and region.base <= address < region.end else None

    def _parts(self, access: Access) -> Iterator[Part]:
        """Sort the threads by buffer; wrong accesses are reported and left out."""
        if not access.addresses.size:
            return
        first = self.region_at(int(access.addresses[0]))
        if first is not None:
            offsets = access.addresses - np.uint64(first.base)
            if _fits(offsets, access.bytes, first):
                yield Part(first, None, first.bytes_at(offsets.view(np.int64)))
                return
        numbers = self._numbers(access.addresses)
        for number, mine in self._by_buffer(numbers):
            region = self._regions[number]
            offsets = access.addresses[mine] - np.uint64(region.base)
            if not _fits(offsets, access.bytes, region):
                good = self._right(access.at(mine), offsets, region)
                mine, offsets = mine[good], offsets[good]
            if mine.size:
                yield Part(region, mine, region.bytes_at(offsets.view(np.int64)))

    def _by_buffer(self, numbers: npt.NDArray[np.integer[Any]]) -> list[tuple[int, Indices]]:
        """Return which threads have each number; accesses that follow each other mostly ask the same."""
        if not np.array_equal(numbers, self._sorted[0]):
            present = np.flatnonzero(np.bincount(numbers)).tolist()
            self._sorted = numbers, [(number, np.flatnonzero(numbers == number)) for number in present]
        return self._sorted[1]

    def _numbers(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.integer[Any]]:
        """Return the number of the last buffer that begins in the 4 GiB of each address, or before them."""
        if self._last_in is None:
            highest = self._bases[-1] >> 32
            begins = np.array([base >> 32 for base in self._bases])
            last = np.searchsorted(begins, np.arange(highest + 1), side="right") - 1
            self._last_in = np.maximum(last, 0).astype(np.int16 if len(self._bases) < 1 << 15 else np.int64)
        high = np.minimum(addresses >> np.uint64(32), np.uint64(self._last_in.size - 1))
        return np.asarray(self._last_in[high.view(np.int64)])

    def _right(
        self, access: Access, offsets: npt.NDArray[np.uint64], region: Region
    ) -> npt.NDArray[np.bool_]:
        """Return which accesses are right, and report one that is not."""
        inside = offsets <= np.uint64(max(region.size - access.bytes, 0))
        if region.size < access.bytes:
            inside[:] = False
        aligned = offsets & np.uint64(access.bytes - 1) == 0
        for bad, kind in ((~inside, "out of bounds"), (inside & ~aligned, "misaligned")):
            if bad.any():
                self._report_at(kind, access.at(bad), 0, None)
        return np.asarray(inside & aligned)

    def _check_written(self, region: Region, access: Access, places: Indices) -> None:
        if region.written is None:
            return
        unwritten = first_unwritten(region.written, places, access.bytes)
        if unwritten is not None:
            thread, byte = unwritten
            self._report_at(
                "unwritten memory", access.at(np.array([thread])), byte - byte % access.size, region
            )

    def _report_at(self, kind: str, access: Access, byte: int, region: Region | None) -> None:
        """Report a mistake of the first thread of an access, `byte` bytes into it."""
        address = int(access.addresses[0]) + byte
        near = self.nearest(address) if region is None else region
        message = f"{access.bytes} bytes at {address:#x}, {_offset(address, near)}"
        self._report(kind, message, int(access.lanes[0]), address=address, buffer=near.name)


def _fits(offsets: npt.NDArray[np.uint64], count: int, region: Region) -> bool:
    """Say whether all accesses of so many bytes are inside a buffer, and aligned."""
    return int(offsets.max()) + count <= region.size and not int(np.bitwise_or.reduce(offsets)) & (count - 1)


def _offset(address: int, region: Region) -> str:
    size = f"({region.size} bytes)"
    if address < region.base:
        return f"{region.base - address} bytes before the start of {region.name} {size}"
    if address >= region.end:
        return f"{address - region.end} bytes behind the end of {region.name} {size}"
    return f"{address - region.base} bytes into {region.name} {size}"


def _nothing(access: Access) -> list[npt.NDArray[Any]]:
    return [np.zeros(access.addresses.size, f"u{access.size}") for _ in range(access.elements)]


def _gather(region: Region, places: Indices, access: Access) -> list[npt.NDArray[Any]]:
    """Read the elements of each thread, as few gathers as the widths allow."""
    whole = min(access.bytes, WIDEST)
    per_part = whole // access.size
    results: list[npt.NDArray[Any]] = []
    kind = np.dtype(f"u{access.size}")
    for part in range(access.bytes // whole):
        index = places // whole if not part else places // whole + part
        content = region.records(whole)[index]
        if per_part == 1:
            results.append(content.view(kind))
        else:
            columns = content.view(kind).reshape(-1, per_part)
            results += [columns[:, number].copy() for number in range(per_part)]
    return results


def mark_written(written: npt.NDArray[np.bool_] | None, places: Indices, count: int) -> None:
    """Note that `count` bytes from each place on were written; None stands for memory that all is."""
    if written is not None:
        for part, flags in _flags(written, places, count):
            flags[part] = ONES[flags.itemsize]


def first_unwritten(written: npt.NDArray[np.bool_], places: Indices, count: int) -> tuple[int, int] | None:
    """Return which of the places, and which of its bytes, is the first that nobody wrote."""
    for part, flags in _flags(written, places, count):
        bad = flags[part] != ONES[flags.itemsize]
        if bad.any():
            thread = int(bad.argmax())
            start = int(places[thread])
            return thread, int((~written[start : start + count]).argmax())
    return None


def _flags(
    written: npt.NDArray[np.bool_], places: Indices, count: int
) -> Iterator[tuple[Indices, npt.NDArray[Any]]]:
    """Look at the flags of aligned bytes as few integers."""
    whole = min(count, 8)
    flags = written[: written.size - written.size % whole].view(f"u{whole}")
    first = places // whole
    for part in range(count // whole):
        yield (first + part if part else first), flags


ONES: Final = {size: int.from_bytes(b"\1" * size, "little") for size in (1, 2, 4, 8)}
"""So many flags that are set, as one integer."""
