"""A typical launch of any kernel: buffers made of its declared arguments, for chosen run-time sizes.

Elements are random; tensors that decide addresses or control are full, so that every block works: the longest
sequences, the positions 0, 1, ... What they hold depends on the kernel, and stands in `TYPICAL`.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.errors import EmulationError, ParameterError, UnknownKernelError, suggestion
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.references.case import Case, Input, Launch, Piece, Sparse, Table, flat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel, Tensor
    from ptxtemplates.kernels.rope import Rope
    from ptxtemplates.references.case import Buffer

    Sizes = Mapping[str, int]

DEFAULT_SIZE: Final = 4
"""Of a run-time size that `TYPICAL` says nothing of."""

MOST_BYTES: Final = 1 << 31
"""That the buffers of a launch may take together."""

MOST_STEPS: Final = 1_000_000
"""Instructions after which a thread of a typical launch counts as one that does not end."""

_FLOATS: Final = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


class Typical(NamedTuple):
    """What the declaration of a kernel class does not say of its launches.

    Attributes
    ----------
    sizes : mapping of str to int
        Run-time sizes where the caller says nothing.
    contents : callable
        Takes a kernel and run-time sizes, and returns the elements of each index tensor, by the argument's
        name.
    used : callable
        Takes the same, and returns how much of a parameter's extent a launch reaches, by its name; an extent
        that is not named is used as a whole. Of float32 tensors alone, and one extent of each.
    """

    sizes: Sizes
    contents: Callable[[Any, Sizes], Mapping[str, npt.NDArray[Any]]]
    used: Callable[[Any, Sizes], Sizes] = lambda kernel, sizes: {}


def _of_rope(kernel: Rope, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
    return {"positions_ptr": np.arange(sizes["rows"], dtype=np.uint32)}


def _of_reduce(kernel: FlashDecodingReduce, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
    length = sizes["max_chunks"] * kernel.chunk_size
    return {"seq_lens_ptr": np.full(sizes["rows"], min(length, 2**32 - 1), np.uint32)}


def _of_chunk(kernel: FlashDecodingChunk, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
    return {"seq_lens_ptr": np.full(sizes["rows"], _keys(kernel, sizes), np.uint32)}


def _keys(kernel: FlashDecodingChunk, sizes: Sizes) -> int:
    return min(sizes["max_chunks"] * kernel.chunk_size, kernel.max_seq_len)


TYPICAL: Final[dict[type[Kernel], Typical]] = {
    BatchedRope: Typical({"rows": 4}, _of_rope),
    BatchedRopeBackward: Typical({"rows": 4}, _of_rope),
    FlashDecodingReduce: Typical({"rows": 4, "max_chunks": 16}, _of_reduce),
    # each key costs a thread dozens of instructions: few, so that the widest variants take seconds
    FlashDecodingChunk: Typical(
        {"rows": 2, "max_chunks": 4},
        _of_chunk,
        lambda kernel, sizes: {"max_seq_len": _keys(kernel, sizes)},
    ),
}
"""By kernel class. One that is not here needs no entry if it has no index tensors."""

_PLAIN: Final = Typical({}, lambda kernel, sizes: {})


def run_time_sizes(kernel: Kernel) -> tuple[str, ...]:
    """Return the names of the sizes that a launch of a kernel chooses: of its grid, then of its tensors."""
    named = [*kernel.extents]
    for argument in kernel.arguments:
        tensor = argument.tensor
        while tensor is not None:
            named += [extent.partition(" ")[0] for extent in tensor.shape if not extent.isdecimal()]
            tensor = tensor.points_to
    return tuple(name for name in dict.fromkeys(named) if name not in kernel.parameters)


def sizes_of(kernel: Kernel, chosen: Sizes) -> dict[str, int]:
    """Return every run-time size of a launch: those that were chosen, and typical ones.

    Raises
    ------
    ParameterError
        If the kernel has no size of a chosen name, or none of that value.
    """
    names = run_time_sizes(kernel)
    for name, value in chosen.items():
        if name not in names:
            hint = suggestion(name, names) if names else "it has none"
            raise ParameterError(f"{kernel.name}: no run-time size is named {name!r}; {hint}", field=name)
        most = kernel.extents.get(name)
        if value < 1 or (most is not None and value > most):
            reach = "at least 1" if most is None else f"from 1 to {most}"
            raise ParameterError(f"{kernel.name}: {name} must be {reach}, not {value}", field=name)
    typical = TYPICAL.get(type(kernel), _PLAIN).sizes
    return {name: chosen.get(name, typical.get(name, DEFAULT_SIZE)) for name in names}


def typical_launch(kernel: Kernel, sizes: Sizes, *, seed: int = 0) -> Case:
    """Return one launch of a kernel, as a case that expects nothing of the results.

    Buffers are named as the arguments that point to them. Outputs hold random numbers too: a kernel may work
    in place.

    Parameters
    ----------
    kernel : Kernel
    sizes : mapping of str to int
        Every run-time size, as `sizes_of` returns them.
    seed : int
        Decides, with the variant, the random elements.

    Raises
    ------
    UnknownKernelError
        If the kernel has index arguments of which nothing is known.
    EmulationError
        If the buffers would be larger than `MOST_BYTES`.
    """
    buffers = _Buffers(kernel, sizes, np.random.default_rng([seed, zlib.crc32(kernel.variant.encode())]))
    arguments: list[str | int] = []
    for argument in kernel.arguments:
        if argument.tensor is not None:
            buffers.add(argument.name, argument.tensor)
            arguments.append(argument.name)
        elif argument.name in sizes:
            arguments.append(sizes[argument.name])
        else:
            raise unknown_argument(kernel, argument.name)
    x, y, z = (sizes[extent] if isinstance(extent, str) else extent for extent in kernel.grid)
    launch = Launch(kernel, tuple(arguments), (x, y, z), MOST_STEPS)
    return Case("typical", buffers.made, (launch,), ())


class _Buffers:
    """Buffers of a launch, by name."""

    def __init__(self, kernel: Kernel, sizes: Sizes, rng: np.random.Generator) -> None:
        typical = TYPICAL.get(type(kernel), _PLAIN)
        self.made: dict[str, Buffer] = {}
        self._kernel = kernel
        self._rng = rng
        self._extents = {**kernel.parameters, **sizes}
        self._contents = typical.contents(kernel, sizes)
        self._used = typical.used(kernel, sizes)
        self._bytes = 0

    def add(self, name: str, tensor: Tensor) -> None:
        """Make the buffer of a tensor, and those that it points to."""
        shape = tuple(extent_of(extent, self._extents) for extent in tensor.shape)
        if tensor.points_to is not None:
            names = [f"{name}[{index}]" for index in range(math.prod(shape))]
            for inner in names:
                self.add(inner, tensor.points_to)
            self.made[name] = Table(tuple(names))
        elif tensor.role == "index":
            if name not in self._contents:
                raise unknown_argument(self._kernel, name)
            self.made[name] = Input(self._contents[name])
        else:
            used = tuple(extent_of(extent, {**self._extents, **self._used}) for extent in tensor.shape)
            full = used == shape
            self.made[name] = (
                Input(self._random(shape, tensor.element), changes=tensor.role == "output")
                if full
                else Sparse(shape, tuple(self._pieces(shape, used, tensor.element)))
            )

    def _pieces(self, shape: tuple[int, ...], used: tuple[int, ...], element: str) -> Iterator[Piece]:
        """Yield the first elements along the one extent that is not used as a whole."""
        axis = next(number for number, extent in enumerate(shape) if used[number] < extent)
        for index in np.ndindex(shape[:axis]):
            yield Piece(flat(shape, *index), self._random(used[axis:], element).reshape(-1))

    def _random(self, shape: tuple[int, ...], element: str) -> npt.NDArray[Any]:
        size = (
            TYPE_BITS.get(element, 8) // 8
        )  # single numbers of 8 bits are storage alone, and no types of PTX
        count = math.prod(shape)
        self._bytes += count * size
        if self._bytes > MOST_BYTES:
            raise EmulationError(
                f"{self._kernel.variant}: buffers of these sizes take more than {MOST_BYTES >> 30} GiB; "
                "choose smaller ones"
            )
        if element in _FLOATS:
            return self._rng.standard_normal(shape, np.float32).astype(_FLOATS[element])
        return self._rng.integers(0, 1 << 8 * size, shape, dtype=f"u{size}")


def extent_of(extent: str, values: Mapping[str, Any]) -> int:
    """Return the value of an extent of a tensor: a name, a number, or a name and what is added to it."""
    name, _, added = extent.partition(" + ")
    return (int(name) if name.isdecimal() else int(values[name])) + int(added or 0)


def unknown_argument(kernel: Kernel, argument: str) -> UnknownKernelError:
    """Make the error for an argument of which nothing is known."""
    return UnknownKernelError(
        f"{kernel.name}: what a typical launch passes for {argument} is not known; a kernel of your own "
        "needs an entry in ptxtemplates.references.launches.TYPICAL"
    )
