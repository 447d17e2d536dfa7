"""What can be wrong with the arguments of a launch, each in words that name the argument."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ptxtemplates.gpu.arrays import HOST, NOWHERE, Layout, dtype_name
from ptxtemplates.gpu.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ptxtemplates.gpu.signature import Extent, Memory, Signature

    Given: TypeAlias = Layout | Sequence[Layout]
    """An array; or, for a table of pointers, the arrays that it is to point to."""


class Bound(NamedTuple):
    """A run-time size: its value, and where that comes from."""

    value: int
    source: str


class Checked(NamedTuple):
    """What is known of a launch whose arguments fit.

    Attributes
    ----------
    sizes : dict of str to int
        Every run-time size.
    spans : tuple of int
        Bytes of each array, in the order of `Signature.memories`.
    on_host : bool
        Whether the arrays are the host's, and must be copied.
    """

    sizes: dict[str, int]
    spans: tuple[int, ...]
    on_host: bool


def check(signature: Signature, given: Sequence[Given], sizes: Mapping[str, int], device: int) -> Checked:
    """Check everything but addresses: the same for any arrays of these layouts.

    Parameters
    ----------
    signature : Signature
    given : sequence of Layout, or of sequences of them
        Arrays in the order of `Signature.memories`.
    sizes : mapping of str to int
        Run-time sizes that the caller names: keywords, and scalar arguments.
    device : int
        Where the kernel is loaded.

    Raises
    ------
    LaunchError
    """
    memories = [memory for _, memory in signature.memories]
    bound: dict[str, Bound] = {}
    for name, value in sizes.items():
        if name not in signature.sizes:
            known = ", ".join(signature.sizes) or "none"
            raise _error(signature, name, f"there is no such run-time size; there are: {known}")
        if not isinstance(value, int) or value < 0:
            raise _error(signature, name, f"it is {value!r}, and must be an integer that is not negative")
        bound[name] = Bound(value, "as given")
    on_host = _check_devices(signature, memories, given, device)
    for memory, found in zip(memories, given, strict=True):
        for part, layout in _parts(memory, found, signature, bound):
            for wrong in _CHECKS:
                if message := wrong(part, layout, bound):
                    raise _error(signature, memory.name, message)
    for name in signature.sizes:
        if name not in bound:
            raise _error(signature, name, f"no argument has this size: pass {name}=...")
    _check_grid(signature, bound)
    spans = tuple(prod(_extents(memory.extents, bound)) * memory.itemsize for memory in memories)
    return Checked({name: size.value for name, size in bound.items()}, spans, on_host)


def check_alignment(signature: Signature, pointers: Sequence[int]) -> None:
    """Raise `LaunchError` for an address that is not aligned."""
    for (_, memory), pointer in zip(signature.memories, pointers, strict=True):
        if pointer % memory.alignment:
            raise _error(
                signature,
                memory.name,
                f"address {pointer:#x} must be a multiple of {memory.alignment}: it is that of a view into "
                "the middle of an array; pass a copy",
            )


def check_overlap(signature: Signature, pointers: Sequence[int], spans: Sequence[int]) -> None:
    """Raise `LaunchError` for an output that has memory in common with another array.

    One that is the very same array is fine where the kernel works in place.
    """
    for first, second, may_be_same in signature.pairs:
        a, b = pointers[first], pointers[second]
        if a < b + spans[second] and b < a + spans[first] and not (may_be_same and a == b):
            name, other = (signature.memories[index][1].name for index in (second, first))
            allowed = "be the same array, or apart" if may_be_same else "not overlap"
            raise _error(
                signature,
                name,
                f"it shares {min(a + spans[first], b + spans[second]) - max(a, b):,} bytes with {other}; "
                f"the two must {allowed}",
            )


def _check_devices(
    signature: Signature, memories: Sequence[Memory], given: Sequence[Given], device: int
) -> bool:
    """Return whether the arrays are the host's; they must be all of one place."""
    where: dict[int, str] = {}
    for memory, found in zip(memories, given, strict=True):
        layouts = [found] if isinstance(found, Layout) else found
        for layout in layouts:
            if layout.device != NOWHERE:
                where.setdefault(layout.device, memory.name)
    elsewhere = {place: name for place, name in where.items() if place not in (HOST, device)}
    for place, name in elsewhere.items():
        raise _error(
            signature, name, f"it is on device {place}, and the kernel is launched on device {device}"
        )
    tables = [m.name for m, found in zip(memories, given, strict=True) if not isinstance(found, Layout)]
    if device in where and HOST in where:
        raise _error(
            signature,
            where[HOST],
            f"it is in host memory, and {where[device]} on device {device}: copy it there first",
        )
    if device in where and tables:
        raise _error(
            signature,
            tables[0],
            "a table of pointers to device arrays would have to be allocated: make it once, as an array of "
            "their addresses (uint64 or int64) on the device, and pass that",
        )
    return HOST in where


def _parts(
    memory: Memory, found: Given, signature: Signature, bound: dict[str, Bound]
) -> Iterable[tuple[Memory, Layout]]:
    """Yield each array with what it must be; the arrays of a table stand for the table too."""
    if isinstance(found, Layout):
        return [(memory, found)]
    if memory.target is None:
        raise _error(signature, memory.name, "it must be one array, and no sequence")
    table = Layout((len(found),), None, memory.dtype, HOST, read_only=False)
    return [(memory, table), *((memory.target, layout) for layout in found)]


def _wrong_dtype(memory: Memory, layout: Layout, bound: dict[str, Bound]) -> str | None:
    name = dtype_name(layout.dtype)
    if name in memory.dtypes:
        return None
    # int32 for uint32 has the same bits where no number is negative
    alike = {name, memory.dtype} <= {"int32", "uint32"} or {name, memory.dtype} <= {"int64", "uint64"}
    advice = f"if none is negative, pass .view({memory.dtype})" if alike else f"convert it to {memory.dtype}"
    return f"its elements are {name}, and the kernel reads {memory.dtype}: {advice}"


def _wrong_shape(memory: Memory, layout: Layout, bound: dict[str, Bound]) -> str | None:
    """Compare a shape with the declared one; a size that is not known yet is taken from it."""
    new: dict[str, Bound] = {}
    fits = len(layout.shape) == len(memory.extents)
    for extent, length in zip(memory.extents, layout.shape, strict=False):
        if extent.symbol is not None and extent.symbol not in bound and extent.symbol not in new:
            new[extent.symbol] = Bound(length - extent.number, f"as in {memory.name}")
        fits &= length == _extents([extent], {**bound, **new})[0] and length >= extent.number
    if fits:
        bound |= new
        return None
    wanted = [
        f"{extent.shown} = {_extents([extent], bound)[0]} {bound[extent.symbol].source}"
        if extent.symbol in bound
        else extent.shown
        for extent in memory.extents
    ]
    return f"its shape is ({', '.join(map(str, layout.shape))}), and must be ({', '.join(wanted)})"


def _not_contiguous(memory: Memory, layout: Layout, bound: dict[str, Bound]) -> str | None:
    if layout.contiguous:
        return None
    return f"its strides are {layout.strides}, and it must be contiguous in C order: pass a contiguous copy"


def _not_writable(memory: Memory, layout: Layout, bound: dict[str, Bound]) -> str | None:
    return "it is read-only, and the kernel writes to it" if memory.output and layout.read_only else None


_CHECKS: Final[tuple[Callable[[Memory, Layout, dict[str, Bound]], str | None], ...]] = (
    _wrong_dtype,
    _wrong_shape,
    _not_contiguous,
    _not_writable,
)
"""In the order in which mistakes are told, for each argument."""


def _check_grid(signature: Signature, bound: Mapping[str, Bound]) -> None:
    for name, limit in signature.limits.items():
        value, source = bound[name]
        if value > limit:
            raise _error(
                signature,
                name,
                f"{value:,} {source}, and a grid has room for {limit:,}: launch slices of at most that many",
            )


def _extents(extents: Iterable[Extent], bound: Mapping[str, Bound]) -> list[int]:
    return [
        extent.number + (bound[extent.symbol].value if extent.symbol is not None else 0) for extent in extents
    ]


def _error(signature: Signature, argument: str, message: str) -> LaunchError:
    return LaunchError(f"{signature.variant}: {argument}: {message}", argument=argument)
