"""What is read of arrays of each library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from ptxtemplates.gpu import boundary
from ptxtemplates.gpu.arrays import HOST, NOWHERE, dtype_name, is_contiguous, read
from tests.gpu.standins import CPU, MANAGED, PINNED, DlpackArray, InterfaceArray

if TYPE_CHECKING:
    from tests.gpu.standins import Machine

ARRAY: Final = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_dlpack() -> None:
    array = DlpackArray(ARRAY, device=3)
    pointer, layout = read(array)
    assert pointer == ARRAY.ctypes.data
    assert (layout.shape, layout.device, layout.read_only) == ((2, 3, 4), 3, False)
    assert dtype_name(layout.dtype) == "float32"
    assert layout.contiguous
    assert [export["stream"] for export in array.exports] == [-1], "no stream is made to wait"


@pytest.mark.parametrize(("kind", "device"), [(CPU[0], HOST), (PINNED, 0), (MANAGED, 0)])
def test_memory_that_is_not_only_the_gpus(kind: int, device: int) -> None:
    assert read(DlpackArray(ARRAY, kind=kind))[1].device == device


def test_memory_of_another_maker() -> None:
    rocm = 10
    with pytest.raises(BufferError):
        read(DlpackArray(ARRAY, kind=rocm))


def test_read_only_dlpack() -> None:
    frozen = ARRAY.copy()
    frozen.flags.writeable = False
    assert read(DlpackArray(frozen))[1].read_only


def test_interface(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def device_of_pointer(pointer: int) -> int:
        asked.append(pointer)
        return 1

    monkeypatch.setattr(boundary, "device_of_pointer", device_of_pointer)
    pointer, layout = read(InterfaceArray(ARRAY[:, ::2]))
    assert pointer == ARRAY.ctypes.data
    assert asked == [pointer], "the interface does not say which device"
    assert (layout.shape, layout.strides, layout.device) == ((2, 2, 4), (12, 8, 1), 1)
    assert not layout.contiguous
    frozen = ARRAY.copy()
    frozen.flags.writeable = False
    assert read(InterfaceArray(frozen))[1].read_only


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint32", "uint64", "bool"])
def test_types_of_the_interface(machine: Machine, dtype: str) -> None:
    assert dtype_name(read(InterfaceArray(np.zeros(2, dtype)))[1].dtype) == dtype


def test_types_of_another_byte_order_are_no_numbers_of_a_kernel(machine: Machine) -> None:
    assert dtype_name(read(InterfaceArray(np.zeros(2, ">f4")))[1].dtype) == ">f4"


def test_no_elements_are_nowhere(machine: Machine) -> None:
    pointer, layout = read(InterfaceArray(np.zeros((0, 4), np.float32)))
    assert (pointer, layout.device) == (0, NOWHERE)


def test_numpy() -> None:
    pointer, layout = read(ARRAY.transpose())
    assert pointer == ARRAY.ctypes.data
    assert (layout.shape, layout.strides, layout.device) == ((4, 3, 2), (1, 4, 12), HOST)


@pytest.mark.parametrize("nothing", [3, "text", None, [1.0]])
def test_no_array(nothing: Any) -> None:
    with pytest.raises(
        TypeError, match="is no array: it has neither __dlpack__ nor __cuda_array_interface__"
    ):
        read(nothing)


@pytest.mark.parametrize(
    ("shape", "strides", "contiguous"),
    [
        ((), (), True),
        ((2, 3), (3, 1), True),
        ((2, 3), (4, 1), False),
        ((2, 3), (1, 2), False),
        ((1, 3), (99, 1), True),
        ((2, 1), (1, 99), True),
        ((2, 1), (2, 1), False),
        ((0, 3), (7, 7), True),
        ((2, 3), (0, 1), False),
        ((2, 3), (-3, 1), False),
    ],
)
def test_contiguity(shape: tuple[int, ...], strides: tuple[int, ...], contiguous: bool) -> None:
    assert is_contiguous(shape, strides) is contiguous
