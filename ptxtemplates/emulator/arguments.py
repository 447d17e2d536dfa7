"""What a launch can pass for a parameter, beside a number and a plain array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from ptxtemplates.emulator.memory.sparse import SparseArray


class Unwritten(NamedTuple):
    """An array no one has written: reading an element before a thread writes it is a finding."""

    array: npt.NDArray[Any]


class Previous(NamedTuple):
    """An array that the kernel before fills: using it before griddepcontrol.wait is a finding."""

    array: npt.NDArray[Any]


class PointerTable(NamedTuple):
    """An array of pointers to arrays."""

    arrays: Sequence[npt.NDArray[Any] | Unwritten | Previous | SparseArray]


Buffer: TypeAlias = "npt.NDArray[Any] | Unwritten | Previous | SparseArray | PointerTable"
"""What a pointer can point to."""
Value: TypeAlias = "int | float | bytes | np.generic"
"""What a parameter that is no pointer can be: a number of its type, or the bytes of a struct."""
