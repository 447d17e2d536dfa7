"""The arrays of a unit's launches: extents, what of them is used, and the bytes that a call must move."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ptxtemplates.bench.units import most_chunks
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.references.launches import TYPICAL, extent_of, unknown_argument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from ptxtemplates.bench.units import Workload
    from ptxtemplates.kernel import Kernel, Tensor


class Operand(NamedTuple):
    """An array that launches read or write.

    Attributes
    ----------
    name : str
        Of the argument that points to it, or to the table that does.
    tensor : Tensor
        Its declaration.
    shape, used : tuple of int
        Extents, and how much of each the launches reach.
    moved : int
        Elements of it that they must read or write.
    contents : numpy.ndarray or None
        Elements that must be these; None where any will do.
    between : bool
        Whether one kernel of the unit writes it for another one to read.
    target : Operand or None
        What each element of a table of pointers points to.
    """

    name: str
    tensor: Tensor
    shape: tuple[int, ...]
    used: tuple[int, ...]
    moved: int
    contents: npt.NDArray[Any] | None
    between: bool
    target: Operand | None

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return TYPE_BITS[self.tensor.element] // 8


def operands_of(workload: Workload) -> dict[str, Operand]:
    """Return the arrays of a unit's launches, by the name of their argument.

    Raises
    ------
    UnknownKernelError
        If it is not known what a typical launch passes for an argument.
    """
    unit, sizes = workload
    found: dict[str, Operand] = {}
    most = most_chunks(unit)
    for kernel in unit.kernels:
        typical = TYPICAL.get(type(kernel))
        contents = {} if typical is None else typical.contents(kernel, sizes)
        extents = {**kernel.parameters, **sizes}
        used = extents if typical is None else {**extents, **typical.used(kernel, sizes)}
        # chunks behind the longest sequence stay empty: of them next to nothing is read or written
        full = {"max_chunks": min(sizes.get("max_chunks", 0), most)} if most is not None else {}
        for argument in kernel.arguments:
            if argument.tensor is None:
                if argument.name not in sizes:
                    raise unknown_argument(kernel, argument.name)
            elif argument.name in found:
                before = found[argument.name]
                between = before.tensor.role == "output" and argument.tensor.role != "output"
                found[argument.name] = before._replace(between=between)
            else:
                found[argument.name] = _operand(
                    kernel, argument.name, argument.tensor, (extents, used, used | full), contents
                )
    return found


def _operand(
    kernel: Kernel,
    name: str,
    tensor: Tensor,
    values: tuple[Mapping[str, Any], ...],
    contents: Mapping[str, npt.NDArray[Any]],
) -> Operand:
    shape, used, moved = (tuple(extent_of(extent, each) for extent in tensor.shape) for each in values)
    target = None if tensor.points_to is None else _operand(kernel, name, tensor.points_to, values, {})
    if tensor.role == "index" and target is None and name not in contents:
        raise unknown_argument(kernel, name)
    return Operand(name, tensor, shape, used, math.prod(moved), contents.get(name), False, target)


def needed_bytes(operands: Iterable[Operand]) -> int:
    """Return the bytes that one call must move at least, however it computes.

    Each element that is used is read once, if it is an input, or written once, if it is an output: keys and
    values that several query heads share count once, and an array that is changed in place counts once too.
    Tables of pointers and lengths count. What one kernel of a unit writes for another one, as the partial
    results of flash-decoding, does not: it is a matter of how the unit is made, and counts where either
    kernel is measured alone.
    """
    return sum(_bytes(operand) for operand in operands if not operand.between)


def _bytes(operand: Operand) -> int:
    behind = 0 if operand.target is None else operand.moved * _bytes(operand.target)
    return operand.moved * operand.itemsize + behind


def element_of(operands: Iterable[Operand]) -> str:
    """Return the types of the elements of a unit's outputs, such as ``f32``."""
    outputs = [operand for operand in operands if operand.tensor.role == "output" and not operand.between]
    return "/".join(dict.fromkeys(operand.tensor.element for operand in outputs))
