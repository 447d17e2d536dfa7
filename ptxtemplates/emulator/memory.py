"""Global memory of a launch: the caller's arrays at addresses that show mistakes.

Buffers lie above 4 GiB with unmapped gaps of more than 4 GiB between them: an offset that was cut to 32 bits,
or went past the end, meets no other buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Addresses = npt.NDArray[np.uint64]
    Lanes = npt.NDArray[np.bool_]

FIRST_ADDRESS: Final = 1 << 33
GAP: Final = (1 << 32) + (1 << 20)
ALIGNMENT: Final = 256
"""Of every buffer, as `cudaMalloc` gives."""


class Region(NamedTuple):
    """A buffer.

    Attributes
    ----------
    name : str
        What findings call it.
    base : int
        Its address.
    data : numpy.ndarray
        Its bytes: a view of the caller's array.
    written : numpy.ndarray or None
        For each byte whether anyone wrote it; None where all are.
    """

    name: str
    base: int
    data: npt.NDArray[np.uint8]
    written: npt.NDArray[np.bool_] | None

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.base + self.data.size


class Access(NamedTuple):
    """One load or store of all lanes: addresses, which lanes take part, bytes an element, elements."""

    addresses: Addresses
    lanes: Lanes
    size: int
    elements: int


class Memory:
    """The buffers of a launch.

    Parameters
    ----------
    report : callable
        Called with the kind of a finding, a message, and the lane, for each access that is wrong.
    """

    def __init__(self, report: Callable[[str, str, int], None]) -> None:
        self._report = report
        self._regions: list[Region] = []
        self._bases = np.zeros(0, np.uint64)

    def add(self, name: str, array: npt.NDArray[Any], *, written: bool = True) -> int:
        """Give an array an address; what kernels write lands in it.

        Parameters
        ----------
        name : str
            What findings call it.
        array : numpy.ndarray
            Contiguous, of any type.
        written : bool
            Whether it holds values: reading an element of one that does not, before a thread writes it, is a
            finding.
        """
        if not array.flags.c_contiguous:
            raise ValueError(f"{name} must be contiguous")
        data = array.reshape(-1).view(np.uint8)
        end = self._regions[-1].end + GAP if self._regions else FIRST_ADDRESS
        region = Region(name, end + -end % ALIGNMENT, data, None if written else np.zeros(data.size, bool))
        self._regions.append(region)
        self._bases = np.array([each.base for each in self._regions], np.uint64)
        return region.base

    def load(self, access: Access) -> list[npt.NDArray[Any]]:
        """Return the elements that each lane loads, as unsigned integers; 0 where the access is wrong."""
        kind = np.dtype(f"u{access.size}")
        results = [np.zeros(access.addresses.size, kind) for _ in range(access.elements)]
        for region, lanes, indices in self._parts(access):
            elements = self._elements(region, kind)
            for number, result in enumerate(results):
                result[lanes] = elements[indices + number]
            if region.written is not None:
                self._check_written(region, lanes, indices, access)
        return results

    def store(self, access: Access, values: list[npt.NDArray[Any]]) -> None:
        """Write the elements of each lane; of lanes that write one place, the last wins."""
        kind = np.dtype(f"u{access.size}")
        for region, lanes, indices in self._parts(access):
            elements = self._elements(region, kind)
            for number, value in enumerate(values):
                elements[indices + number] = value.view(kind)[lanes]
            if region.written is not None:
                written = region.written[: elements.size * access.size].reshape(-1, access.size)
                for number in range(access.elements):
                    written[indices + number] = True

    @staticmethod
    def _elements(region: Region, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        usable = region.data.size - region.data.size % kind.itemsize
        return region.data[:usable].view(kind)

    def _parts(self, access: Access) -> list[tuple[Region, npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
        """Sort the lanes by region: indices of lanes, and of their elements; wrong accesses are left out."""
        lanes = np.flatnonzero(access.lanes)
        addresses = access.addresses[lanes]
        bytes_ = access.size * access.elements
        parts = []
        numbers = np.searchsorted(self._bases, addresses, side="right") - 1
        for number in np.unique(numbers):
            mine = numbers == number
            region = self._regions[max(number, 0)]
            offsets = (addresses[mine] - np.uint64(region.base)).astype(np.int64)
            inside = (offsets >= 0) & (offsets + bytes_ <= region.data.size)
            aligned = offsets % bytes_ == 0
            for bad, finding in ((~inside, "out of bounds"), (inside & ~aligned, "misaligned")):
                for lane in lanes[mine][bad][:1]:
                    self._report(finding, self._where(int(access.addresses[lane]), bytes_), int(lane))
            good = inside & aligned
            parts.append((region, lanes[mine][good], offsets[good] // access.size))
        return parts

    def _check_written(
        self, region: Region, lanes: npt.NDArray[np.intp], indices: npt.NDArray[np.intp], access: Access
    ) -> None:
        assert region.written is not None
        usable = region.data.size - region.data.size % access.size
        written: Lanes = np.all(region.written[:usable].reshape(-1, access.size), axis=1)
        for number in range(access.elements):
            for lane in lanes[~written[indices + number]][:1]:
                address = int(access.addresses[lane]) + number * access.size
                self._report("unwritten memory", self._where(address, access.size), int(lane))

    def _where(self, address: int, size: int) -> str:
        nearest = min(self._regions, key=lambda region: max(region.base - address, address - region.end, 0))
        place = (
            f"{address - nearest.base} bytes behind the start of {nearest.name} ({nearest.data.size} bytes)"
        )
        return f"{size} bytes at {address:#x}, {place}"
