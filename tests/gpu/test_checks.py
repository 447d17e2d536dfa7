"""Every check of a launch: what is refused, in which words, and the near miss that is not."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

from ptxtemplates.gpu import LaunchError, load
from ptxtemplates.kernels import BatchedRope, FlashDecodingChunk, FlashDecodingReduce
from tests.gpu.standins import CupyArray, DlpackArray, InterfaceArray, Stream, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel
    from tests.gpu.standins import Machine

ROPE: Final = BatchedRope(num_heads=4, head_dim=16, theta=1e4)
REDUCE: Final = FlashDecodingReduce(head_dim=16, num_heads=4, chunk_size=8)
CHUNK: Final = FlashDecodingChunk(head_dim=16, num_heads=4, chunk_size=8, num_kv_heads=2, max_seq_len=32)
STREAM: Final = Stream(0)


def numbers(*shape: int, dtype: Any = np.float32) -> npt.NDArray[Any]:
    """Return zeros at an address that is a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = np.zeros(size + 64, np.uint8)
    aligned: npt.NDArray[Any] = whole[-whole.ctypes.data % 64 :][:size]
    made: npt.NDArray[Any] = aligned.view(dtype).reshape(shape)
    return made


def x(*shape: int, **how: Any) -> DlpackArray:
    return DlpackArray(numbers(*(shape or (3, 4, 16))), **how)


def positions(rows: int = 3, dtype: Any = np.uint32, **how: Any) -> DlpackArray:
    return DlpackArray(numbers(rows, dtype=dtype), **how)


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def reduce_arguments(**replaced: Any) -> list[Any]:
    given = {
        "partials": x(3, 4, 5, 18), "output": x(), "seq_lens": positions(), "max_chunks": 5
    } | replaced  # fmt: skip
    return list(given.values())


def chunk_arguments(**replaced: Any) -> list[Any]:
    given = {
        "q": x(), "k": positions(dtype=np.uint64), "v": positions(dtype=np.int64),
        "partials": x(3, 4, 5, 18), "seq_lens": positions(), "max_chunks": 5,
    } | replaced  # fmt: skip
    return list(given.values())


def shifted(array: npt.NDArray[Any], by: int, size: int) -> npt.NDArray[Any]:
    return array.reshape(-1)[by : by + size].reshape(3, 4, 16)


LONG: Final = numbers(3 * 4 * 16 + 8)
"""A row of x and a little more: two views of it overlap in part."""


class Refused(NamedTuple):
    """A launch and what is said of it."""

    kernel: Kernel
    arguments: Callable[[], list[Any]]
    argument: str
    message: str


REFUSED: Final = {
    "too few arguments": Refused(
        ROPE, lambda: [x(), x()], "", "2 arguments, and it takes 3: x_ptr, out_ptr, positions_ptr"
    ),
    "a number for an array": Refused(
        ROPE, lambda: [x(), 4096, positions()], "out_ptr",
        "out_ptr: int is no array: it has neither __dlpack__ nor __cuda_array_interface__",
    ),
    "int64 positions": Refused(
        ROPE, lambda: [x(), x(), positions(dtype=np.int64)], "positions_ptr",
        "positions_ptr: its elements are int64, and the kernel reads uint32: convert it to uint32",
    ),
    "int32 positions": Refused(
        ROPE, lambda: [x(), x(), positions(dtype=np.int32)], "positions_ptr",
        "positions_ptr: its elements are int32, and the kernel reads uint32: "
        "if none is negative, pass .view(uint32)",
    ),
    "half precision": Refused(
        ROPE, lambda: [DlpackArray(numbers(3, 4, 16, dtype=np.float16)), x(), positions()], "x_ptr",
        "x_ptr: its elements are float16, and the kernel reads float32: convert it to float32",
    ),
    "another head_dim": Refused(
        ROPE, lambda: [x(3, 4, 32), x(), positions()], "x_ptr",
        "x_ptr: its shape is (3, 4, 32), and must be (rows, num_heads = 4, head_dim = 16)",
    ),
    "a dimension less": Refused(
        ROPE, lambda: [x(), x(12, 16), positions()], "out_ptr",
        "out_ptr: its shape is (12, 16), and must be (rows = 3 as in x_ptr, num_heads = 4, head_dim = 16)",
    ),
    "rows that do not agree": Refused(
        ROPE, lambda: [x(), x(), positions(2)], "positions_ptr",
        "positions_ptr: its shape is (2), and must be (rows = 3 as in x_ptr)",
    ),
    "max_chunks that does not agree": Refused(
        REDUCE, lambda: reduce_arguments(max_chunks=6), "partials_ptr",
        "partials_ptr: its shape is (3, 4, 5, 18), and must be "
        "(rows, num_heads = 4, max_chunks = 6 as given, head_dim + 2 = 18)",
    ),
    "partials without room for max and sum": Refused(
        REDUCE, lambda: reduce_arguments(partials=x(3, 4, 5, 16)), "partials_ptr",
        "its shape is (3, 4, 5, 16)",
    ),
    "a transposed array": Refused(
        ROPE, lambda: [DlpackArray(numbers(4, 3, 16).transpose(1, 0, 2)), x(), positions()], "x_ptr",
        "x_ptr: its strides are (16, 48, 1), and it must be contiguous in C order: pass a contiguous copy",
    ),
    "every other row": Refused(
        ROPE, lambda: [x(), DlpackArray(numbers(6, 4, 16)[::2]), positions()], "out_ptr",
        "out_ptr: its strides are (128, 16, 1)",
    ),
    "a broadcast array": Refused(
        ROPE, lambda: [DlpackArray(np.broadcast_to(numbers(1, 4, 16), (3, 4, 16))), x(), positions()],
        "x_ptr", "x_ptr: its strides are (0, 16, 1)",
    ),
    "a view that is not aligned": Refused(
        ROPE, lambda: [DlpackArray(shifted(LONG, 1, 192)), x(), positions()], "x_ptr",
        "must be a multiple of 8: it is that of a view into the middle of an array; pass a copy",
    ),
    "an array of the host": Refused(
        ROPE, lambda: [x(), x(), numbers(3, dtype=np.uint32)], "positions_ptr",
        "positions_ptr: it is in host memory, and x_ptr on device 0: copy it there first",
    ),
    "an array of another device": Refused(
        ROPE, lambda: [x(), x(device=1), positions()], "out_ptr",
        "out_ptr: it is on device 1, and the kernel is launched on device 0",
    ),
    "a read-only output": Refused(
        ROPE, lambda: [x(), DlpackArray(frozen(numbers(3, 4, 16))), positions()], "out_ptr",
        "out_ptr: it is read-only, and the kernel writes to it",
    ),
    "an output that overlaps its input": Refused(
        ROPE,
        lambda: [DlpackArray(shifted(LONG, 0, 192)), DlpackArray(shifted(LONG, 2, 192)), positions()],
        "out_ptr",
        "out_ptr: it shares 760 bytes with x_ptr; the two must be the same array, or apart",
    ),
    "an output before its input": Refused(
        ROPE,
        lambda: [DlpackArray(shifted(LONG, 2, 192)), DlpackArray(shifted(LONG, 0, 192)), positions()],
        "out_ptr",
        "out_ptr: it shares 760 bytes with x_ptr",
    ),
    "an output that is an input, not in place": Refused(
        REDUCE,
        lambda: reduce_arguments(
            partials=x(3, 4, 1, 18), max_chunks=1, output=(shared := x()),
            seq_lens=DlpackArray(shared.array.reshape(-1)[:3].view(np.uint32)),
        ),
        "seq_lens_ptr",
        "seq_lens_ptr: it shares 12 bytes with output_ptr; the two must not overlap",
    ),
    "more rows than a grid has room for": Refused(
        ROPE,
        lambda: [DlpackArray(np.lib.stride_tricks.as_strided(a, (65_536, 4, 16))) for a in [numbers(3, 4, 16)]]
        + [DlpackArray(numbers(65_536, 4, 16)), positions(65_536)],
        "rows",
        "rows: 65,536 as in x_ptr, and a grid has room for 65,535: launch slices of at most that many",
    ),
    "a count beyond u32": Refused(
        REDUCE, lambda: reduce_arguments(max_chunks=2**32), "max_chunks",
        "max_chunks: 4294967296 is no u32: it must be from 0 to 4,294,967,295",
    ),
    "a negative count": Refused(
        REDUCE, lambda: reduce_arguments(max_chunks=-1), "max_chunks", "max_chunks: -1 is no u32"
    ),
    "a count that is no integer": Refused(
        REDUCE, lambda: reduce_arguments(max_chunks=5.0), "max_chunks",
        "max_chunks: 5.0 is no integer, as u32 is",
    ),
    "more chunks than a grid has room for": Refused(
        CHUNK,
        lambda: chunk_arguments(partials=x(1, 4, 65_536, 18), max_chunks=65_536, q=x(1, 4, 16),
                                k=positions(1, np.uint64), v=positions(1, np.uint64), seq_lens=positions(1)),
        "max_chunks", "max_chunks: 65,536 as given, and a grid has room for 65,535",
    ),
    "a sequence of device arrays": Refused(
        CHUNK, lambda: chunk_arguments(k=[x(2, 32, 16)] * 3), "k_ptrs_ptr",
        "k_ptrs_ptr: a table of pointers to device arrays would have to be allocated: make it once, as an "
        "array of their addresses (uint64 or int64) on the device, and pass that",
    ),
    "a table of 32-bit numbers": Refused(
        CHUNK, lambda: chunk_arguments(k=positions()), "k_ptrs_ptr",
        "k_ptrs_ptr: its elements are uint32, and the kernel reads uint64",
    ),
    "a masked array": Refused(
        ROPE, lambda: [InterfaceArray(numbers(3, 4, 16), mask=1), x(), positions()], "x_ptr",
        "x_ptr: it has a mask",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(machine: Machine, name: str) -> None:
    kernel, arguments, argument, message = REFUSED[name]
    loaded = load(kernel)
    for _ in range(2):  # what was refused once is not remembered as right
        with pytest.raises(LaunchError) as refusal:
            loaded.launch(STREAM, *arguments())
        assert str(refusal.value).startswith(f"{kernel.variant}: ")
        assert message in str(refusal.value)
        assert refusal.value.argument == argument
    assert machine.launches() == []


class Allowed(NamedTuple):
    """A launch near one that is refused, and its grid."""

    kernel: Kernel
    arguments: Callable[[], list[Any]]
    grid: tuple[int, int, int]


ALLOWED: Final = {
    "rope": Allowed(ROPE, lambda: [x(), x(), positions()], (4, 3, 1)),
    "in place": Allowed(ROPE, lambda: [same := x(), same, positions()], (4, 3, 1)),
    "in place, by another object": Allowed(
        ROPE,
        lambda: [DlpackArray(shifted(LONG, 0, 192)), DlpackArray(shifted(LONG, 0, 192)), positions()],
        (4, 3, 1),
    ),
    "side by side": Allowed(
        ROPE,
        lambda: [DlpackArray((both := numbers(6, 4, 16))[:3]), DlpackArray(both[3:]), positions()],
        (4, 3, 1),
    ),
    "one row, of strides that say nothing": Allowed(
        ROPE, lambda: [DlpackArray(numbers(3, 4, 16)[::3]), x(1, 4, 16), positions(1)], (4, 1, 1)
    ),
    "a read-only input": Allowed(
        ROPE, lambda: [DlpackArray(frozen(numbers(3, 4, 16))), x(), positions()], (4, 3, 1)
    ),
    "the last row that a grid has room for": Allowed(
        ROPE,
        lambda: [same := DlpackArray(numbers(65_535, 4, 16)), same, positions(65_535)],
        (4, 65_535, 1),
    ),
    "reduce": Allowed(REDUCE, reduce_arguments, (4, 3, 1)),
    "a count of NumPy": Allowed(REDUCE, lambda: reduce_arguments(max_chunks=np.uint32(5)), (4, 3, 1)),
    "no chunks, but rows to be written": Allowed(
        REDUCE, lambda: reduce_arguments(partials=x(3, 4, 0, 18), max_chunks=0), (4, 3, 1)
    ),
    "chunk": Allowed(CHUNK, chunk_arguments, (4, 3, 5)),
    "arrays of the interface": Allowed(
        ROPE,
        lambda: [
            InterfaceArray(numbers(3, 4, 16)),
            InterfaceArray(numbers(3, 4, 16)),
            InterfaceArray(numbers(3, dtype=np.uint32)),
        ],
        (4, 3, 1),
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(machine: Machine, name: str) -> None:
    kernel, make, grid = ALLOWED[name]
    loaded = load(kernel)
    for _ in range(2):
        machine.calls.clear()
        arguments = make()
        loaded.launch(STREAM, *arguments)
        [(stream, configuration, handle, *values)] = machine.launches()
        assert machine.names() == ["launch"], "nothing is allocated, copied or waited for"
        assert (stream, handle.entry) == (STREAM, kernel.entry)
        assert configuration == (grid, kernel.block)
        addresses = [
            (a.array.ctypes.data if a.array.size else 0) if hasattr(a, "array") else int(a) for a in arguments
        ]
        assert values == addresses


@pytest.mark.parametrize("checked", [True, False])
def test_no_rows_are_nothing_to_do(machine: Machine, checked: bool) -> None:
    load(ROPE).launch(STREAM, x(0, 4, 16), x(0, 4, 16), positions(0), checked=checked)
    assert machine.launches() == []


def test_a_layout_that_fits_is_checked_again_where_addresses_decide(machine: Machine) -> None:
    loaded = load(ROPE)
    loaded.launch(STREAM, x(), x(), positions())
    with pytest.raises(LaunchError, match="multiple of 8"):
        loaded.launch(STREAM, DlpackArray(shifted(LONG, 1, 192)), x(), positions())
    first, second = (DlpackArray(shifted(LONG, by, 192)) for by in (0, 2))
    with pytest.raises(LaunchError, match="shares 760 bytes"):
        loaded.launch(STREAM, first, second, positions())


def test_a_number_that_is_a_size_is_part_of_what_fits(machine: Machine) -> None:
    loaded = load(REDUCE)
    loaded.launch(STREAM, *reduce_arguments())
    with pytest.raises(LaunchError, match="max_chunks = 6 as given"):
        loaded.launch(STREAM, *reduce_arguments(max_chunks=6))


def test_tensors_of_pytorch(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = ModuleType("torch")
    monkeypatch.setattr(torch, "Tensor", Tensor, raising=False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    loaded = load(ROPE)
    arrays = [numbers(3, 4, 16), numbers(3, 4, 16), numbers(3, dtype=np.uint32)]
    loaded.launch(STREAM, *map(Tensor, arrays))
    assert machine.launches()[0][3:] == tuple(array.ctypes.data for array in arrays)
    rows = Tensor(numbers(3, dtype=np.int64))
    with pytest.raises(LaunchError, match="its elements are int64, and the kernel reads uint32"):
        loaded.launch(STREAM, *map(Tensor, arrays[:2]), rows)
    with pytest.raises(LaunchError, match=r"strides are \(16, 48, 1\)"):
        loaded.launch(STREAM, Tensor(numbers(4, 3, 16).transpose(1, 0, 2)), *map(Tensor, arrays[1:]))
    with pytest.raises(LaunchError, match="out_ptr: it is on device 1"):
        loaded.launch(STREAM, Tensor(arrays[0]), Tensor(arrays[1], index=1), Tensor(arrays[2]))
    with pytest.raises(LaunchError, match="positions_ptr: it is in host memory"):
        loaded.launch(STREAM, *map(Tensor, arrays[:2]), Tensor(arrays[2], "cpu", None))
    with pytest.raises(LaunchError, match="x_ptr: it is on .*meta.*, and not on a GPU of NVIDIA"):
        loaded.launch(STREAM, Tensor(arrays[0], "meta", None), *map(Tensor, arrays[1:]))


def test_arrays_of_cupy(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = ModuleType("cupy")
    monkeypatch.setattr(cupy, "ndarray", CupyArray, raising=False)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    loaded = load(ROPE)
    arrays = [numbers(3, 4, 16), numbers(3, 4, 16), numbers(3, dtype=np.uint32)]
    for checked in (True, False):
        loaded.launch(STREAM, *map(CupyArray, arrays), checked=checked)
    for launched in machine.launches():
        assert launched[3:] == tuple(array.ctypes.data for array in arrays)
    with pytest.raises(LaunchError, match=r"strides are \(16, 48, 1\)"):
        loaded.launch(STREAM, CupyArray(numbers(4, 3, 16).transpose(1, 0, 2)), *map(CupyArray, arrays[1:]))
    with pytest.raises(LaunchError, match="out_ptr: it is on device 1"):
        loaded.launch(STREAM, CupyArray(arrays[0]), CupyArray(arrays[1], 1), CupyArray(arrays[2]))
    with pytest.raises(LaunchError, match="its elements are int32"):
        loaded.launch(STREAM, *map(CupyArray, arrays[:2]), CupyArray(arrays[2].view(np.int32)))


def test_a_size_that_is_named(machine: Machine) -> None:
    loaded = load(ROPE)
    loaded.launch(STREAM, x(), x(), positions(), rows=3)
    with pytest.raises(LaunchError, match=r"must be \(rows = 2 as given"):
        loaded.launch(STREAM, x(), x(), positions(), rows=2)
    with pytest.raises(LaunchError, match="height: there is no such run-time size; there are: rows"):
        loaded.launch(STREAM, x(), x(), positions(), height=3)
    wrong: Any
    for wrong in (-1, 2.0, "3"):
        with pytest.raises(
            LaunchError, match=f"rows: it is {wrong!r}, and must be an integer that is not neg"
        ):
            loaded.launch(STREAM, x(), x(), positions(), rows=wrong)


def test_a_stream_of_another_device(machine: Machine) -> None:
    with pytest.raises(LaunchError, match="stream: it is of device 1, and the kernel is loaded on device 0"):
        load(ROPE).launch(Stream(1), x(), x(), positions())
