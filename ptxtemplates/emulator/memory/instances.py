"""Memory that each block (shared) or each thread (local) has for itself: variables at fixed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.memory.buffers import first_unwritten, mark_written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.memory.accesses import Access

    Indices = npt.NDArray[np.int64]

GAP: Final = 128
"""Unmapped bytes behind each variable: an access past its end meets no other. All banks wide, so that the
banks of a variable are those that it has without gaps."""


class Placed(NamedTuple):
    """A variable: its name, its offset and its bytes."""

    name: str
    offset: int
    size: int


class Instances:
    """One space, as every block or thread of a wave has it.

    Parameters
    ----------
    space : str
        What findings call it.
    count : int
        Blocks or threads.
    variables : sequence of Placed
        What lies in it.
    report : callable
        As `Memory` takes it.
    """

    def __init__(
        self, space: str, count: int, variables: Sequence[Placed], report: Callable[..., None]
    ) -> None:
        self.space = space
        self.variables = variables
        end = max((placed.offset + placed.size for placed in variables), default=0)
        self.size = end + -end % 16 + GAP
        self._report = report
        self.bytes = count * self.size
        self._content = np.zeros(self.bytes, np.uint8)
        self._written = np.zeros(self.bytes, np.bool_)
        self._variable_at = np.full(self.size, -1, np.int16)
        for number, placed in enumerate(variables):
            self._variable_at[placed.offset : placed.offset + placed.size] = number

    def place(self, access: Access, instances: Indices) -> tuple[Access, Indices]:
        """Return the part of an access that is right, and where its bytes are kept; the rest is reported."""
        offsets = access.addresses.view(np.int64)
        clipped = np.clip(offsets, 0, self.size - access.bytes)
        first, last = self._variable_at[clipped], self._variable_at[clipped + (access.bytes - 1)]
        inside = (clipped == offsets) & (first >= 0) & (first == last)
        aligned = offsets % access.bytes == 0
        good = inside & aligned
        if not good.all():
            for bad, kind in ((~inside, "out of bounds"), (inside & ~aligned, "misaligned")):
                if bad.any():
                    self.report(kind, access, int(bad.argmax()))
            access, instances, clipped = access.at(good), instances[good], clipped[good]
        return access, instances * self.size + clipped

    def load(self, access: Access, places: Indices) -> list[npt.NDArray[Any]]:
        """Return the elements that each thread loads, as unsigned integers."""
        elements, first = self.elements(access.size), places // access.size
        return [elements[first + number] for number in range(access.elements)]

    def store(self, access: Access, places: Indices, values: list[npt.NDArray[Any]]) -> None:
        """Write the elements of each thread."""
        elements, first = self.elements(access.size), places // access.size
        for number, value in enumerate(values):
            elements[first + number] = value.view(elements.dtype)
        mark_written(self._written, places, access.bytes)

    def written(self, size: int) -> npt.NDArray[np.bool_]:
        """Return the flags of the bytes that were written, a row for each element of a size."""
        return self._written.reshape(-1, size)

    def check_written(self, access: Access, places: Indices) -> None:
        """Report a read of what nobody wrote."""
        unwritten = first_unwritten(self._written, places, access.bytes)
        if unwritten is not None:
            self.report("unwritten memory", access, *unwritten)

    def elements(self, size: int) -> npt.NDArray[Any]:
        """Return everything as unsigned integers of a size."""
        return self._content.view(f"u{size}")

    def report(self, kind: str, access: Access, thread: int, byte: int = 0, detail: str = "") -> None:
        """Report a mistake of one thread of an access."""
        address = int(access.addresses[thread].view(np.int64)) + byte
        near = self.nearest(address)
        place = "there is no variable in it"
        name = None
        if near is not None:
            name = near.name
            place = f"{address - near.offset} bytes from the start of {name} ({near.size} bytes)"
        message = f"{detail}{access.bytes} bytes at {address:#x} of {self.space} memory, {place}"
        self._report(kind, message, int(access.lanes[thread]), address=address, buffer=name)

    def nearest(self, offset: int) -> Placed | None:
        """Return the variable that is nearest to an offset."""
        return min(
            self.variables,
            key=lambda placed: max(placed.offset - offset, offset - placed.offset - placed.size + 1, 0),
            default=None,
        )


def laid_out(placed: Sequence[Placed]) -> int:
    """Return the first offset behind what is placed, with the gap, aligned for anything."""
    end = max((each.offset + each.size for each in placed), default=0)
    return (end + GAP + -end % GAP) if placed else 0
