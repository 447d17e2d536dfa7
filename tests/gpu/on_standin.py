"""A program that uses cuda.core itself: run by `test_cuda_core` on a driver that needs no GPU."""

from __future__ import annotations

import gc
import os
import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from ptxtemplates.gpu import GpuError, LaunchError, boundary, launch, load
from ptxtemplates.kernels import BatchedRope
from ptxtemplates.references.rope import rotated
from tests.gpu.standins import DlpackArray

if TYPE_CHECKING:
    from collections.abc import Callable

KERNEL = BatchedRope(num_heads=4, head_dim=64, theta=1e4)
POSITIONS = np.array([0, 7, 4000], np.uint32)


def rows() -> Any:
    return np.random.default_rng(0).standard_normal((3, 4, 64), np.float32)


def near(got: Any, x: Any) -> bool:
    exact, bound = rotated(KERNEL, x, POSITIONS.tolist())
    return bool((np.abs(got - exact) <= bound).all())


class Foreign:
    """A stream of another library."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


stream = boundary.create_stream(0)
loaded = load(KERNEL)


def arrays_of_the_host() -> None:
    x, out = rows(), rows()
    for given in (stream, boundary.handle_of(stream), Foreign(boundary.handle_of(stream))):
        out[:] = 0
        loaded.launch(given, x, out, POSITIONS)
        assert near(out, x)


def addresses(*arrays: Any) -> list[int]:
    """The memory of this driver's device is the host's."""
    return [int(array.ctypes.data) for array in arrays]


def handles_leave_no_garbage() -> None:
    x = rows()
    handle = boundary.handle_of(stream)
    given = addresses(x, x, POSITIONS)
    loaded.launch(handle, *given, checked=False, rows=3)
    gc.collect()
    gc.disable()
    before = len(gc.get_objects())
    for _ in range(100):
        loaded.launch(handle, *given, checked=False, rows=3)
    assert len(gc.get_objects()) - before < 100
    gc.enable()


def a_graph() -> None:
    x = rows()
    start, out = x.copy(), np.zeros_like(x)
    work = addresses(x, out, POSITIONS)
    graph = boundary.capture(stream, lambda captured: loaded.launch(captured, *work, checked=False, rows=3))
    assert not out.any(), "a launch that is captured does nothing yet"
    for _ in range(2):
        out[:] = 0
        boundary.replay(graph, stream)
        boundary.synchronise(stream)
        assert near(out, start)


def a_capture_that_fails() -> None:
    def fail(captured: Any) -> None:
        loaded.launch(captured, rows(), rows(), POSITIONS)

    with pytest.raises(LaunchError, match="being captured into a graph, and arrays of the host") as refusal:
        boundary.capture(stream, fail)
    assert refusal.value.argument == "stream"
    assert not boundary.is_capturing(stream)


def a_thread_without_a_context() -> None:
    x = rows()
    done: list[str] = []

    def run() -> None:
        for how in (loaded.launch, lambda *words, **more: launch(KERNEL, *words, **more)):
            out = np.zeros_like(x)
            how(0, *addresses(x, out, POSITIONS), checked=False, rows=3)
            assert near(out, x)
            out[:] = 0
            how(0, *(DlpackArray(array) for array in (x, out, POSITIONS)))
            assert near(out, x)
            assert not boundary.has_context()
        done.append("all")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == ["all"]


def errors_are_gpu_errors() -> None:
    x = rows()
    work = addresses(x, x, POSITIONS)

    def put(captured: Any) -> None:
        loaded.launch(captured, *work, checked=False, rows=3)

    graph = boundary.capture(stream, put)
    failing: Final[dict[str, Callable[[], object]]] = {
        "cuStreamCreate": lambda: boundary.create_stream(0),
        "cuMemAlloc": lambda: boundary.allocate(0, 16, stream),
        "cuStreamSynchronize": lambda: boundary.synchronise(stream),
        "cuLaunchKernel": lambda: put(stream),
        "cuStreamGetCtx": lambda: loaded.launch(
            boundary.handle_of(stream), *map(DlpackArray, (x, x, POSITIONS))
        ),
        "cuStreamBeginCapture": lambda: boundary.capture(stream, put),
        "cuGraphInstantiateWithParams": lambda: boundary.capture(stream, put),
        "cuGraphLaunch": lambda: boundary.replay(graph, stream),
        "cuFuncLoad": lambda: load(BatchedRope(num_heads=4, head_dim=64, theta=2e4)),
        "cuCtxSetCurrent": lambda: boundary.free_memory(0),
    }
    for function, call in failing.items():
        os.environ["LIBCUDA_FAILS"] = function  # which is read in each call of the driver
        with pytest.raises(GpuError) as refusal:
            call()
        del os.environ["LIBCUDA_FAILS"]
        assert str(refusal.value).endswith("the driver says CUDA_ERROR_UNKNOWN: CUDA_ERROR_UNKNOWN")
        assert refusal.value.name == "CUDA_ERROR_UNKNOWN", function


for check in (
    arrays_of_the_host,
    handles_leave_no_garbage,
    a_graph,
    a_capture_that_fails,
    a_thread_without_a_context,
    errors_are_gpu_errors,
):
    check()
    print(check.__name__)
