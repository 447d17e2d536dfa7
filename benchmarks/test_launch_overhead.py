"""What a launch costs beside cuda.core's own: the part that needs no driver.

``pytest benchmarks/test_launch_overhead.py -s`` prints microseconds a launch; none of them fails on a slow
machine. cuda.core's launch does nothing here, and the device of a stream, which asks the driver, is a number.
The arrays are stand-ins written in Python: some of the time is theirs, and less in a library written in C.
"""

from __future__ import annotations

import sys
from timeit import repeat
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

from ptxtemplates.gpu import arrays, availability, boundary, launching, loading
from ptxtemplates.kernels import BatchedRope, FlashDecodingChunk
from tests.gpu.standins import CupyArray, DlpackArray, JaxArray, Machine, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.kernel import Kernel

CHECKED: Final = 15.0
UNCHECKED: Final = 3.0
"""Most microseconds over cuda.core's launch."""

ROPE: Final = BatchedRope(num_heads=32, head_dim=128, theta=1e4)
CHUNK: Final = FlashDecodingChunk(
    head_dim=128, num_heads=32, num_kv_heads=8, chunk_size=128, max_seq_len=4096
)
ROWS: Final = 8
CHUNKS: Final = 4


STREAM_HANDLE: Final = 4096
"""A stream as PyTorch (``cuda_stream``) and CuPy (``ptr``) give it; nothing looks behind it here."""


class Launch(NamedTuple):
    """A launch, and the most that it may take."""

    kernel: Kernel
    by_handle: bool
    array: Callable[[Any], Any]
    options: dict[str, Any]
    limit: float


def address(array: Any) -> int:
    return int(array.ctypes.data)


LAUNCHES: Final = {
    f"{kernel.name}, {how}, {'int handle' if by_handle else 'own stream'}, {state}": Launch(
        kernel,
        by_handle,
        array,
        {"checked": checked} | ({"rows": ROWS} if array is address else {}),
        CHECKED if checked else UNCHECKED,
    )
    for kernel in (ROPE, CHUNK)
    for how, array in (
        ("PyTorch", Tensor), ("CuPy", CupyArray), ("JAX", JaxArray), ("DLPack", DlpackArray),
        ("addresses", address),
    )
    for by_handle in (False, True)
    for checked, state in ((True, "checked"), (False, "unchecked"))
    if array is not address or not checked
}  # fmt: skip


@pytest.fixture(autouse=True)
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a launch that does nothing in the place of cuda.core's, and stand-ins in that of libraries."""
    for name, kind, standin in (
        ("torch", "Tensor", Tensor), ("cupy", "ndarray", CupyArray), ("jax", "Array", JaxArray)
    ):  # fmt: skip
        module = ModuleType(name)
        monkeypatch.setattr(module, kind, standin, raising=False)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(availability, "_decided", [None])
    monkeypatch.setattr(loading, "_loaded", {})
    monkeypatch.setattr(arrays, "READERS", type(arrays.READERS)())
    monkeypatch.setattr(launching, "READERS", arrays.READERS)
    machine = Machine()
    for name in ("architecture", "load", "current_device"):
        monkeypatch.setattr(boundary, name, getattr(machine, name))
    monkeypatch.setattr(boundary, "device_of", lambda stream: 0)
    monkeypatch.setattr("cuda.core.launch", nothing)


def nothing(*_: Any) -> None:
    pass


def numbers_of(kernel: Kernel) -> list[Any]:
    head = np.empty((ROWS, 32, 128), np.float32)
    rows = np.empty(ROWS, np.uint32)
    if kernel is ROPE:
        return [head, np.empty_like(head), rows]
    table = np.empty(ROWS, np.uint64)
    return [head, table, table.copy(), np.empty((ROWS, 32, CHUNKS, 130), np.float32), rows, CHUNKS]


@pytest.mark.benchmark(group="launch")
@pytest.mark.parametrize("name", LAUNCHES)
def test_launch(benchmark: Any, name: str) -> None:
    from cuda.core import PER_THREAD_DEFAULT_STREAM

    kernel, by_handle, array, options, limit = LAUNCHES[name]
    stream = STREAM_HANDLE if by_handle else PER_THREAD_DEFAULT_STREAM
    kept = numbers_of(kernel)
    arguments = [word if isinstance(word, int) else array(word) for word in kept]
    loaded = launching.load(kernel)
    benchmark.pedantic(
        loaded.launch, (stream, *arguments), options, iterations=1000, rounds=20,
        warmup_rounds=1,
    )  # fmt: skip
    benchmark.extra_info["limit_us"] = limit
    if benchmark.stats is not None:  # None with --benchmark-disable
        print(f"\n{name}: {benchmark.stats.stats.min * 1e6:.1f} us, limit {limit:g} us")


def test_where_it_goes() -> None:
    """Print what the parts of a launch of three arrays take."""
    from cuda.core import PER_THREAD_DEFAULT_STREAM

    given = numbers_of(ROPE)
    loaded = launching.load(ROPE)
    stream = PER_THREAD_DEFAULT_STREAM
    tensors, exported = [Tensor(array) for array in given], [DlpackArray(array) for array in given]
    loaded.launch(stream, *tensors)
    view = boundary.strided_view()
    # NumPy exports in C; its own arrays are read otherwise, being the host's
    parts: dict[str, Callable[[], Any]] = {
        "reading 3 tensors": lambda: [arrays.READERS[Tensor].whole(tensor) for tensor in tensors],
        "reading 3 arrays by DLPack": lambda: [
            arrays.READERS[DlpackArray].whole(array) for array in exported
        ],
        "  of that the export in Python": lambda: [array.__dlpack__(stream=-1) for array in exported],
        "  the same of an export in C": lambda: [view(array, -1).shape for array in given],
        "the stream": lambda: boundary.stream_of(stream),
        "the stream of a handle": lambda: boundary.stream_of(STREAM_HANDLE),
        "a launch of 3 tensors, checked": lambda: loaded.launch(stream, *tensors),
        "a launch of 3 tensors, unchecked": lambda: loaded.launch(stream, *tensors, checked=False),
    }
    for name, part in parts.items():
        best = min(repeat(part, number=2000, repeat=5)) / 2000
        print(f"\n{best * 1e6:6.2f} us  {name}", end="")
    print()
