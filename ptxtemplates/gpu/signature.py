"""What a kernel's declaration says of the arguments of a launch, in the form that checks and launches use."""

from __future__ import annotations

import ctypes
import operator
from math import isinf, isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ptxtemplates.gpu.errors import LaunchError
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.kernel import Argument, Kernel, Tensor

IN_PLACE: Final[dict[type[Kernel], frozenset[tuple[str, str]]]] = {
    BatchedRope: frozenset({("x_ptr", "out_ptr")}),
    BatchedRopeBackward: frozenset({("x_ptr", "out_ptr")}),
}
"""Inputs and outputs that may be one array; a package with kernels of its own adds to it."""

GRID_LIMITS: Final = (2**31 - 1, 65_535, 65_535)
"""Largest extents of a grid, in x, y, z."""

_NUMBERS: Final = {"u": "uint", "s": "int", "f": "float", "bf": "bfloat"}

_RANGES: Final = {
    "u32": (ctypes.c_uint32, 0, 2**32 - 1),
    "s32": (ctypes.c_int32, -(2**31), 2**31 - 1),
    "u64": (ctypes.c_uint64, 0, 2**64 - 1),
    "s64": (ctypes.c_int64, -(2**63), 2**63 - 1),
}


class Extent(NamedTuple):
    """An extent of a tensor: `number`, or that much more than the run-time size `symbol`.

    Attributes
    ----------
    symbol : str or None
    number : int
    shown : str
        For messages, such as ``head_dim + 2 = 130``, or ``rows``.
    """

    symbol: str | None
    number: int
    shown: str


class Memory(NamedTuple):
    """What a pointer must point to.

    Attributes
    ----------
    name : str
    dtypes : frozenset of str
        Types of elements that are accepted, by NumPy's names.
    dtype : str
        The one to name.
    itemsize : int
        Bytes.
    extents : tuple of Extent
    alignment : int
    output : bool
    target : Memory or None
        What the elements of a table of pointers point to.
    """

    name: str
    dtypes: frozenset[str]
    dtype: str
    itemsize: int
    extents: tuple[Extent, ...]
    alignment: int
    output: bool
    target: Memory | None


class Scalar(NamedTuple):
    """An argument that is a number.

    Attributes
    ----------
    name : str
    convert : callable
        Takes the number and returns what cuda.core passes on; raises `LaunchError` if it does not fit.
    make : callable
        The same, unchecked.
    """

    name: str
    convert: Callable[[Any], Any]
    make: Callable[[Any], Any]


class Signature(NamedTuple):
    """Arguments and grid of a kernel.

    Attributes
    ----------
    variant : str
    arity : int
        How many arguments.
    memories, scalars : tuple of (int, Memory or Scalar)
        With their position among the arguments.
    sizes : tuple of str
        Names of the run-time sizes.
    size_scalars : tuple of (int, str)
        Arguments that are run-time sizes, by position.
    sources : dict of str to (int, int, int)
        Where a size can be read: position of an array, axis, and what the extent there is more than it.
    grid : tuple of (int or str)
    limits : dict of str to int
        Largest value of each size in the grid.
    pairs : tuple of (int, int, bool)
        Two of `memories` that may not overlap, one of them an output, and whether they may be the same.
    """

    variant: str
    arity: int
    memories: tuple[tuple[int, Memory], ...]
    scalars: tuple[tuple[int, Scalar], ...]
    sizes: tuple[str, ...]
    size_scalars: tuple[tuple[int, str], ...]
    sources: dict[str, tuple[int, int, int]]
    grid: tuple[int | str, int | str, int | str]
    limits: dict[str, int]
    pairs: tuple[tuple[int, int, bool], ...]


def signature_of(kernel: Kernel) -> Signature:
    """Read a kernel's declaration."""
    parameters = kernel.parameters
    memories = tuple(
        (position, _memory(argument.name, argument.tensor, parameters))
        for position, argument in enumerate(kernel.arguments)
        if argument.tensor is not None
    )
    scalars = tuple(
        (position, _scalar(argument, kernel.variant))
        for position, argument in enumerate(kernel.arguments)
        if argument.tensor is None
    )
    sources: dict[str, tuple[int, int, int]] = {}
    for position, memory in memories:
        for axis, extent in enumerate(memory.extents):
            if extent.symbol is not None:
                sources.setdefault(extent.symbol, (position, axis, extent.number))
    grid = {extent for extent in kernel.grid if isinstance(extent, str)}
    sizes = tuple(sorted(grid | set(sources)))
    limits = {
        extent: min(limit, kernel.extents.get(extent, limit))
        for extent, limit in zip(kernel.grid, GRID_LIMITS, strict=True)
        if isinstance(extent, str)
    }
    return Signature(
        variant=kernel.variant,
        arity=len(kernel.arguments),
        memories=memories,
        scalars=scalars,
        sizes=sizes,
        size_scalars=tuple((position, scalar.name) for position, scalar in scalars if scalar.name in sizes),
        sources=sources,
        grid=kernel.grid,
        limits=limits,
        pairs=_pairs([memory for _, memory in memories], IN_PLACE.get(type(kernel), frozenset())),
    )


def _pairs(memories: list[Memory], in_place: frozenset[tuple[str, str]]) -> tuple[tuple[int, int, bool], ...]:
    return tuple(
        (first, second, (a.name, b.name) in in_place or (b.name, a.name) in in_place)
        for second, b in enumerate(memories)
        for first, a in enumerate(memories[:second])
        if a.output or b.output
    )


def _memory(name: str, tensor: Tensor, parameters: dict[str, Any]) -> Memory:
    letters = tensor.element.rstrip("0123456789")
    bits = tensor.element.removeprefix(letters)
    # bits without a type are what any type of that size has
    names = (
        [f"{_NUMBERS[letters]}{bits}"]
        if letters in _NUMBERS
        else [f"{kind}{bits}" for kind in _NUMBERS.values()]
    )
    if tensor.points_to is not None:
        names.append(f"int{bits}")  # no address has the highest bit, and not every library has uint64
    return Memory(
        name=name,
        dtypes=frozenset(names),
        dtype=names[0],
        itemsize=int(bits) // 8,
        extents=tuple(_extent(extent, parameters) for extent in tensor.shape),
        alignment=tensor.alignment,
        output=tensor.role == "output",
        target=None if tensor.points_to is None else _memory(name, tensor.points_to, parameters),
    )


def _extent(extent: str, parameters: dict[str, Any]) -> Extent:
    name, _, added = extent.partition(" + ")
    more = int(added or 0)
    if name.isdecimal():
        return Extent(None, int(name) + more, extent)
    if name in parameters:
        value = parameters[name] + more
        return Extent(None, value, f"{extent} = {value}")
    return Extent(name, more, extent)


def _scalar(argument: Argument, variant: str) -> Scalar:
    def refusal(value: Any, wanted: str) -> LaunchError:
        return LaunchError(f"{variant}: {argument.name}: {value!r} is no {wanted}", argument=argument.name)

    if argument.type in _RANGES:
        integer, low, high = _RANGES[argument.type]

        def convert(value: Any) -> Any:
            try:
                number = operator.index(value)
            except TypeError:
                raise refusal(value, f"integer, as {argument.type} is") from None
            if not low <= number <= high:
                raise refusal(value, f"{argument.type}: it must be from {low:,} to {high:,}")
            return integer(number)

        return Scalar(argument.name, convert, integer)
    real = {"f32": ctypes.c_float, "f64": ctypes.c_double}[argument.type]

    def round_to(value: Any) -> Any:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise refusal(value, f"number, as {argument.type} is") from None
        made = real(number)
        if isinf(made.value) and not isinf(number) and not isnan(number):
            raise refusal(value, f"{argument.type}: it is beyond the largest one")
        return made

    return Scalar(argument.name, round_to, real)
