"""What is read of arrays of each library."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from ptxtemplates.gpu import arrays, boundary
from ptxtemplates.gpu.arrays import HOST, NOWHERE, dtype_name, is_contiguous, read
from tests.gpu.standins import CPU, MANAGED, PINNED, DlpackArray, InterfaceArray, JaxArray

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


@pytest.fixture
def jax(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("jax")
    monkeypatch.setattr(module, "Array", JaxArray, raising=False)
    monkeypatch.setitem(sys.modules, "jax", module)


def test_jax_exports_one_of_those_that_are_alike(jax: None) -> None:
    first, second = JaxArray(ARRAY, device=1), JaxArray(ARRAY.copy(), device=1)
    of_first, of_second = read(first), read(second)
    assert (of_first[0], of_second[0]) == (first.array.ctypes.data, second.array.ctypes.data)
    assert of_first[1] == of_second[1] == read(DlpackArray(ARRAY, device=1))[1]
    assert (len(first.exports), len(second.exports)) == (1, 0)
    assert arrays.READERS[JaxArray].address(second) == second.array.ctypes.data


@pytest.mark.parametrize(
    ("other", "device"),
    [
        (ARRAY, 2),
        (ARRAY[:1], 1),
        (ARRAY.view(np.uint32), 1),
        (np.asfortranarray(ARRAY), 1),
    ],
)
def test_jax_arrays_that_differ_are_not_taken_for_alike(jax: None, other: Any, device: int) -> None:
    read(JaxArray(ARRAY, device=1))
    assert read(JaxArray(other, device=device))[1] == read(DlpackArray(other, device=device))[1]


def test_jax_without_what_it_is_read_by(jax: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(JaxArray, "unsafe_buffer_pointer")
    array = JaxArray(ARRAY)
    assert read(array) == read(array) == read(DlpackArray(ARRAY))
    assert len(array.exports) == 2


def test_few_kinds_of_jax_arrays_are_remembered(jax: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "KEPT", 2)
    array = JaxArray(ARRAY)
    for extent in (4, 1, 2, 4):
        read(JaxArray(ARRAY[..., :extent]))
    read(array)
    assert not array.exports, "seen just before"
    read(JaxArray(ARRAY[..., :3]))
    read(array)
    assert array.exports, "forgotten"


def test_jax_itself_is_read_as_by_dlpack(machine: Machine) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    for array in (ARRAY, ARRAY[0], ARRAY.T, np.arange(3, dtype=np.uint32), np.zeros((0, 2), np.float32)):
        alike = [jax.device_put(array) for _ in range(2)]
        by_dlpack = arrays._dlpack_reader(boundary.strided_view())
        assert [arrays.READERS[type(one)].whole(one) for one in alike] == [*map(by_dlpack.whole, alike)]
        assert [arrays.READERS[type(one)].address(one) for one in alike] == [*map(by_dlpack.address, alike)]
    assert arrays.READERS[type(alike[0])].address.__code__ is not by_dlpack.address.__code__


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
