"""Sets of buffers, one for each call of a round: no call finds in a cache what another one left there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.bench.contents import fill, tile_of, write
from ptxtemplates.gpu import boundary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import cuda.core
    import numpy.typing as npt

    from ptxtemplates.bench.operands import Operand

ALIGNMENT: Final = 256
"""Bytes: as allocations are aligned."""

HOST: Final = "host"
"""Arena of what the host writes: index arrays and tables of pointers."""


class Place(NamedTuple):
    """Where an array lies: in the arena of its type of elements, so many bytes from its start."""

    arena: str
    offset: int


class Layout:
    """Where the arrays of `count` sets lie, before anything is allocated.

    Arrays of which a launch uses only a part, as keys and values of sequences shorter than the longest, are
    laid into each other: each begins where the used part of another one ends. Rows have the strides of their
    declared shape, and memory is needed for little more than is used.

    Attributes
    ----------
    sizes : dict of str to int
        Bytes of each arena.
    sets : list of dict of str to Place
        Of each set, the place of each array by its name.
    contents : list of (int, numpy.ndarray or list of Place)
        What the host writes: where in its arena, and elements, or what the pointers of a table point to.
    """

    def __init__(self, operands: Mapping[str, Operand], count: int) -> None:
        self.sizes: dict[str, int] = {}
        self.contents: list[tuple[int, npt.NDArray[Any] | list[Place]]] = []
        self._nested: dict[tuple[str, tuple[int, ...], tuple[int, ...]], list[Place]] = {}
        self.sets = [{name: self._place(operand) for name, operand in operands.items()} for _ in range(count)]

    @property
    def bytes(self) -> int:
        """Of all arenas."""
        return sum(self.sizes.values())

    def _place(self, operand: Operand) -> Place:
        size = math.prod(operand.shape) * operand.itemsize
        if operand.target is not None:
            place = self._reserve(HOST, size)
            targets = [self._place(operand.target) for _ in range(math.prod(operand.shape))]
            self.contents.append((place.offset, targets))
            return place
        if operand.contents is not None:
            place = self._reserve(HOST, size)
            self.contents.append((place.offset, operand.contents))
            return place
        if operand.used != operand.shape and operand.tensor.role == "data":
            return self._nest(operand, size)
        return self._reserve(operand.tensor.element, size)

    def _reserve(self, arena: str, size: int) -> Place:
        offset = self.sizes.get(arena, 0)
        self.sizes[arena] = offset + -(-size // ALIGNMENT) * ALIGNMENT
        return Place(arena, offset)

    def _nest(self, operand: Operand, size: int) -> Place:
        """Return the next place in memory for one whole array that others of its kind share."""
        key = (operand.tensor.element, operand.shape, operand.used)
        places = self._nested.setdefault(key, [])
        if not places:
            first = self._reserve(operand.tensor.element, size)
            places += [Place(first.arena, first.offset + step) for step in reversed(_steps(operand))]
        return places.pop()


def _steps(operand: Operand) -> range:
    """Return where arrays may begin in the memory of one, so that the used parts of any two are disjoint."""
    shape, used = operand.shape, operand.used
    axis = next(number for number, extent in enumerate(shape) if used[number] < extent)
    inner = math.prod(shape[axis + 1 :]) * operand.itemsize
    aligned = ALIGNMENT // math.gcd(ALIGNMENT, inner)
    step = -(-used[axis] // aligned) * aligned
    return range(0, max(1, shape[axis] // step) * step * inner, step * inner)


class Sets:
    """The buffers of a layout, in device memory, filled.

    Attributes
    ----------
    addresses : list of dict of str to int
        Of each set, the address of each array by its name.

    Raises
    ------
    UnknownKernelError
        If it is not known what elements of a type may be. Nothing has been allocated then.
    """

    def __init__(self, layout: Layout, device: int, stream: cuda.core.Stream) -> None:
        for element in layout.sizes.keys() - {HOST}:
            tile_of(element)
        self._stream = stream
        self._memory = {
            arena: boundary.allocate(device, size, stream) for arena, size in layout.sizes.items()
        }
        self._starts = {arena: int(memory.handle) for arena, memory in self._memory.items()}
        self.addresses = [
            {name: self._address(place) for name, place in places.items()} for places in layout.sets
        ]
        for arena, size in layout.sizes.items():
            if arena != HOST:
                fill(self._starts[arena], size, arena, stream)
        if HOST in layout.sizes:
            self._write(layout.sizes[HOST], layout.contents)

    def close(self) -> None:
        """Give the memory back."""
        for memory in self._memory.values():
            memory.close(self._stream)

    def _address(self, place: Place) -> int:
        return self._starts[place.arena] + place.offset

    def _write(self, size: int, contents: Iterable[tuple[int, npt.NDArray[Any] | list[Place]]]) -> None:
        whole = np.zeros(size, np.uint8)
        for offset, content in contents:
            elements = (
                np.array([self._address(place) for place in content], np.uint64)
                if isinstance(content, list)
                else np.ascontiguousarray(content)
            )
            whole[offset : offset + elements.nbytes] = elements.reshape(-1).view(np.uint8)
        write(self._starts[HOST], whole, self._stream)
