"""What a kernel class says of its kernel, checked before anything is made of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from ptxtemplates.errors import DeclarationError, suggestion
from ptxtemplates.kernel import SCALAR_SIZES, Argument, Kernel, Role, Tensor, parameters_of
from ptxtemplates.parameters import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

ELEMENTS: Final = (
    *(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)),
    *("f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "e4m3", "e5m2"),
)
"""Types that an element of a tensor can have."""

MAX_THREADS: Final = 1024
MAX_BLOCK_Z: Final = 64
MAX_GRID: Final = {"x": 2**31 - 1, "y": 65_535, "z": 65_535}

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_EXTENT: Final = re.compile(rf"{_NAME.pattern}( \+ [0-9]+)?|[0-9]+")
_CHECKED: Final[set[type[Kernel]]] = set()


def check_class(kernel_class: type[Kernel]) -> None:
    """Check what is the same for every kernel of a class; a process checks each class once.

    Raises
    ------
    DeclarationError
        If the class leaves something out or says something impossible. The message begins with the name of
        the class and the attribute.
    """
    if kernel_class in _CHECKED:
        return
    for attribute in ("name", "summary", "template"):
        check_text(kernel_class, attribute)
    if not _NAME.fullmatch(kernel_class.name):  # it names a folder, and by default the entry
        raise _fault(kernel_class, "name", f"must be an identifier, not {shown(kernel_class.name)}")
    folder: object = kernel_class.template_folder
    if not isinstance(folder, Path):
        raise _fault(kernel_class, "template_folder", f"must be a pathlib.Path, not {shown(folder)}")
    parameters_of(kernel_class)
    _check_arguments(kernel_class)
    _check_extents(kernel_class)
    if not _is_count(kernel_class.shared_memory, 0):
        memory = shown(kernel_class.shared_memory)
        raise _fault(kernel_class, "shared_memory", f"must be a number of bytes, an int from 0, not {memory}")
    for attribute, meaning in (("block", "threads a block"), ("grid", "blocks")):
        if getattr(kernel_class, attribute) is getattr(Kernel, attribute):
            raise _fault(kernel_class, attribute, f"is missing; give the {meaning} in x, y, z")
    _CHECKED.add(kernel_class)


def check_text(kernel_class: type[Kernel], attribute: str) -> None:
    """Check that a class has a text as `attribute`.

    Raises
    ------
    DeclarationError
        If it has none, or an empty one.
    """
    value: object = getattr(kernel_class, attribute, None)
    if value is None:
        raise _fault(kernel_class, attribute, "is missing; it must be a str")
    if not isinstance(value, str) or not value:
        raise _fault(kernel_class, attribute, f"must be a str that is not empty, not {shown(value)}")


def check_launch(kernel: Kernel) -> None:
    """Check the block and the grid of a kernel, which may follow from its parameters.

    Raises
    ------
    DeclarationError
        If no launch can have them. The message begins with the name of the class and the attribute.
    """
    of = type(kernel)
    block: object = kernel.block
    if not (isinstance(block, tuple) and len(block) == 3 and all(_is_count(count, 1) for count in block)):
        raise _fault(of, "block", f"must be three ints from 1 (threads in x, y, z), not {shown(block)}")
    if prod(block) > MAX_THREADS:
        raise _fault(of, "block", f"{block} is {prod(block)} threads; a block has at most {MAX_THREADS}")
    if block[2] > MAX_BLOCK_Z:
        raise _fault(of, "block", f"z is {block[2]}; a block has at most {MAX_BLOCK_Z} threads in z")
    grid: object = kernel.grid
    if not (isinstance(grid, tuple) and len(grid) == 3):
        raise _fault(of, "grid", f"must be a tuple of three (blocks in x, y, z), not {shown(grid)}")
    for (axis, most), count in zip(MAX_GRID.items(), grid, strict=True):
        if isinstance(count, str):
            if count not in of.extents:
                hint = suggestion(count, of.extents) if of.extents else "extents is empty"
                raise _fault(of, "grid", f"{shown(count)} is no run-time size of extents; {hint}")
            if of.extents[count] > most:
                reason = f"{count!r} is up to {of.extents[count]}; {axis} of the grid is at most {most}"
                raise _fault(of, "extents", reason)
        elif not _is_count(count, 1, most):
            wanted = f"an int from 1 to {most} or a name in extents"
            raise _fault(of, "grid", f"{axis} must be {wanted}, not {shown(count)}")


def _fault(kernel_class: type[Kernel], attribute: str, reason: str) -> DeclarationError:
    return DeclarationError(f"{kernel_class.__name__}.{attribute}: {reason}")


def _is_count(value: object, least: int, most: int = 2**31 - 1) -> bool:
    """Say whether `value` is an int in range; a bool is no int here."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _check_extents(kernel_class: type[Kernel]) -> None:
    extents: object = kernel_class.extents
    if not isinstance(extents, Mapping):
        reason = f"must be a dict of run-time sizes and their largest values, not {shown(extents)}"
        raise _fault(kernel_class, "extents", reason)
    for name, largest in extents.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _fault(kernel_class, "extents", f"{shown(name)} must be an identifier")
        if not _is_count(largest, 1):
            reason = f"{name!r} must be an int from 1 to {2**31 - 1}, not {shown(largest)}"
            raise _fault(kernel_class, "extents", reason)


def _check_arguments(kernel_class: type[Kernel]) -> None:
    arguments: object = getattr(kernel_class, "arguments", None)
    if arguments is None:
        raise _fault(kernel_class, "arguments", "is missing; it must be a tuple of Argument")
    if not isinstance(arguments, tuple):
        raise _fault(kernel_class, "arguments", f"must be a tuple of Argument, not {shown(arguments)}")
    names = set()
    for argument in arguments:
        if not isinstance(argument, Argument):
            raise _fault(
                kernel_class, "arguments", f"{shown(argument)} must be an Argument, as pointer() makes"
            )
        if reason := _fault_of_argument(argument):
            raise _fault(kernel_class, "arguments", reason)
        if argument.name in names:
            raise _fault(kernel_class, "arguments", f"two are named {argument.name!r}")
        names.add(argument.name)


def _fault_of_argument(argument: Argument) -> str | None:
    """Say what is wrong with an argument."""
    name: object = argument.name
    if not isinstance(name, str) or not name:
        return f"a name must be a str that is not empty, not {shown(name)}"
    if reason := _not_among(argument.type, SCALAR_SIZES) or _not_among(argument.role, get_args(Role)):
        return f"{name}: {reason}"
    if argument.tensor is None:
        return None
    if argument.type != "u64":
        return f"{name}: a pointer must have type 'u64', not {argument.type!r}"
    reason = _fault_of_tensor(argument.tensor)
    return f"{name}: {reason}" if reason else None


def _fault_of_tensor(tensor: object) -> str | None:
    """Say what is wrong with what a pointer points to."""
    if not isinstance(tensor, Tensor):
        return f"a pointer must have a Tensor, not {shown(tensor)}"
    if reason := _not_among(tensor.element, ELEMENTS) or _not_among(tensor.role, get_args(Role)):
        return reason
    shape: object = tensor.shape
    if not isinstance(shape, tuple):
        return f"shape must be a tuple of str, not {shown(shape)}"
    for extent in shape:
        if not isinstance(extent, str) or not _EXTENT.fullmatch(extent):
            return f"shape has {shown(extent)}; write 'name', 'name + 2' or '2'"
    alignment = tensor.alignment
    if not _is_count(alignment, 1) or alignment & (alignment - 1):
        return f"alignment must be a power of two, not {shown(alignment)}"
    if tensor.points_to is None:
        return None
    if tensor.element != "u64":
        return f"the elements of a table of pointers must be 'u64', not {tensor.element!r}"
    reason = _fault_of_tensor(tensor.points_to)
    return f"points_to: {reason}" if reason else None


def _not_among(value: object, valid: Iterable[str]) -> str | None:
    names = [*valid]
    return None if value in names else f"{shown(value)} is none of {', '.join(names)}"
