"""What calls NVIDIA's packages: held to their own stubs, and its calls recorded."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from cuda.bindings import driver

from ptxtemplates.gpu import boundary, contexts
from ptxtemplates.gpu.errors import GpuError, LaunchError
from tests.gpu.standins import Machine
from tests.helpers.stubs import with_mistakes

if TYPE_CHECKING:
    from collections.abc import Callable

SUCCESS: Final = driver.CUresult.CUDA_SUCCESS


def test_the_stand_in_has_the_same_functions() -> None:
    ours = {
        name
        for name, function in inspect.getmembers(boundary, inspect.isfunction)
        if function.__module__ in (boundary.__name__, contexts.__name__) and not name.startswith("_")
    }
    assert {"current", "stream_of", "launcher", "allocate"} <= ours
    of_packages = {"packages", "load_core", "describe_driver", "strided_view"}
    for name in ours - of_packages:
        theirs = inspect.signature(getattr(Machine(), name)).parameters
        assert list(inspect.signature(getattr(boundary, name)).parameters) == list(theirs), name


def test_calls_fit_the_stubs_of_cuda_core(errors_of: Callable[..., list[list[str]]]) -> None:
    # a buffer's close() has no types there
    text = "# mypy: disallow-untyped-calls=False\n" + Path(boundary.__file__).read_text()
    mistakes = {
        "ObjectCode.from_cubin(code)": "ObjectCode.from_cubins(code)",
        "Device(device).allocate(size, stream=stream)": "Device(device).allocate(size, stream)",
        "LaunchConfig(grid=grid, block=block)": "LaunchConfig(grid=grid, threads=block)",
        "kept.reserved_mem_current": "kept.reserved_memory",
    }
    of_streams = Path(contexts.__file__).read_text()
    no_streams = with_mistakes(of_streams, {"own.from_handle(handle)": "own.of_handle(handle)"})
    said = errors_of(text, with_mistakes(text, mistakes), of_streams, no_streams)
    errors = [[line for line in lines if ": error: " in line] for lines in said]
    assert (said[0], said[2]) == ([], [])
    assert len(errors[1]) >= len(mistakes)
    assert errors[3]


class Recorded:
    """A module in the place of cuda.core, and functions of the driver, that write down their calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[Any] = []
        core = SimpleNamespace(
            Device=self._device,
            ObjectCode=SimpleNamespace(
                from_cubin=lambda code: self._module("from_cubin", code),
                from_ptx=lambda code: self._module("from_ptx", code),
            ),
        )
        monkeypatch.setitem(sys.modules, "cuda.core", core)
        self.answer(monkeypatch, "cuCtxGetCurrent", (SUCCESS, "the caller's"))
        for name in ("cuCtxSetCurrent", "cuFuncLoad"):
            self.answer(monkeypatch, name, (SUCCESS,))
        self.answer(monkeypatch, "cuKernelGetFunction", (SUCCESS, "function"))

    def answer(self, monkeypatch: pytest.MonkeyPatch, name: str, answer: tuple[Any, ...]) -> None:
        def called(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            return answer

        monkeypatch.setattr(driver, name, called)

    def _device(self, number: int) -> SimpleNamespace:
        return SimpleNamespace(set_current=lambda: self.calls.append(("set_current", number)), arch="90")

    def _module(self, how: str, code: bytes) -> SimpleNamespace:
        self.calls.append((how, code))
        return SimpleNamespace(get_kernel=self._kernel)

    def _kernel(self, entry: str) -> SimpleNamespace:
        self.calls.append(("get_kernel", entry))
        return SimpleNamespace(handle="kernel")


@pytest.mark.parametrize(("assembled", "how"), [(True, "from_cubin"), (False, "from_ptx")])
def test_a_kernel_is_loaded_whole_in_the_context_of_its_device(
    monkeypatch: pytest.MonkeyPatch, assembled: bool, how: str
) -> None:
    recorded = Recorded(monkeypatch)
    boundary.load(b"code", assembled=assembled, entry="entry", device=1)
    assert recorded.calls == [
        ("cuCtxGetCurrent",),
        ("set_current", 1),
        (how, b"code"),
        ("get_kernel", "entry"),
        ("cuKernelGetFunction", "kernel"),
        ("cuFuncLoad", "function"),
        ("cuCtxSetCurrent", "the caller's"),
    ]


def test_the_callers_context_is_put_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(monkeypatch)
    recorded.answer(monkeypatch, "cuFuncLoad", (driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY,))
    recorded.answer(monkeypatch, "cuGetErrorName", (SUCCESS, b"CUDA_ERROR_OUT_OF_MEMORY"))
    recorded.answer(monkeypatch, "cuGetErrorString", (SUCCESS, None))
    with pytest.raises(GpuError, match="the driver says CUDA_ERROR_OUT_OF_MEMORY: an error that it has no"):
        boundary.load(b"code", assembled=True, entry="entry", device=1)
    assert recorded.calls[-1] == ("cuCtxSetCurrent", "the caller's")


def test_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    Recorded(monkeypatch)
    assert boundary.architecture(0) == "sm_90"


@pytest.mark.parametrize(("context", "device"), [(0, 0), (1, 3)])
def test_current_device(monkeypatch: pytest.MonkeyPatch, context: int, device: int) -> None:
    recorded = Recorded(monkeypatch)
    recorded.answer(monkeypatch, "cuCtxGetCurrent", (SUCCESS, context))
    recorded.answer(monkeypatch, "cuCtxGetDevice", (SUCCESS, 3))
    assert boundary.current_device() == device


class Foreign:
    """A stream of another library."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def test_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM

    assert boundary.stream_of(PER_THREAD_DEFAULT_STREAM) is PER_THREAD_DEFAULT_STREAM
    assert boundary.stream_of(0) is LEGACY_DEFAULT_STREAM
    assert boundary.stream_of(Foreign(0)) is LEGACY_DEFAULT_STREAM
    with pytest.raises(
        LaunchError, match=r"str is no stream: pass one of cuda\.core, an object with"
    ) as refusal:
        boundary.stream_of("stream")
    assert refusal.value.argument == "stream"


def test_a_handle_is_wrapped_once() -> None:
    """It takes cuda.core 10 us, and leaves cycles; and a handle is what there is of a stream of PyTorch."""
    first = boundary.stream_of(4096)
    assert boundary.stream_of(Foreign(4096)) is first
    assert int(first.handle) == 4096
    for handle in range(8192, 8192 + 2 * contexts.KEPT):
        boundary.stream_of(handle)
    assert len(contexts._streams()[2]) <= contexts.KEPT, "old ones are forgotten"
    assert boundary.stream_of(4096) is not first
    assert boundary.stream_of(0) is boundary.stream_of(1), "default streams are not"


def test_the_device_of_a_handle_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handle may come back on another device; and cuStreamGetDevice ends a capture in some drivers."""
    recorded = Recorded(monkeypatch)
    for context, device in ((70, 0), (71, 1)):
        recorded.calls.clear()
        recorded.answer(monkeypatch, "cuStreamGetCtx", (SUCCESS, context))
        recorded.answer(monkeypatch, "cuCtxGetCurrent", (SUCCESS, 70))
        recorded.answer(monkeypatch, "cuCtxGetDevice", (SUCCESS, device))
        recorded.answer(monkeypatch, "cuCtxPushCurrent", (SUCCESS,))
        recorded.answer(monkeypatch, "cuCtxPopCurrent", (SUCCESS, context))
        assert boundary.device_of(4096) == device
        called = [name for name, *_ in recorded.calls]
        assert called[:2] == ["cuStreamGetCtx", "cuCtxGetCurrent"]
        inside = (
            ["cuCtxGetDevice"] if context == 70 else ["cuCtxPushCurrent", "cuCtxGetDevice", "cuCtxPopCurrent"]
        )
        assert called[2:] == inside


@pytest.mark.parametrize("stream", [0, 1, 2, "legacy", "per thread"])
def test_a_default_stream_is_of_no_device_without_a_context(
    monkeypatch: pytest.MonkeyPatch, stream: Any
) -> None:
    from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM

    given = {"legacy": LEGACY_DEFAULT_STREAM, "per thread": PER_THREAD_DEFAULT_STREAM}.get(stream, stream)
    recorded = Recorded(monkeypatch)
    recorded.answer(monkeypatch, "cuCtxGetCurrent", (SUCCESS, 0))
    assert boundary.device_of(given) is None
    recorded.answer(monkeypatch, "cuCtxGetCurrent", (SUCCESS, 70))
    recorded.answer(monkeypatch, "cuCtxGetDevice", (SUCCESS, 3))
    assert boundary.device_of(given) == 3


@pytest.mark.parametrize(
    ("code", "capturing"),
    [(SUCCESS, True), (SUCCESS, False), (driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, True)],
)
def test_capturing(monkeypatch: pytest.MonkeyPatch, code: Any, capturing: bool) -> None:
    Recorded(monkeypatch).answer(monkeypatch, "cuStreamIsCapturing", (code, int(capturing)))
    assert boundary.is_capturing(boundary.stream_of(4096)) == capturing


class CUDAError(Exception):
    """As cuda.core's, which has no public name."""


@pytest.mark.parametrize(
    ("error", "message", "name"),
    [
        (
            CUDAError("CUDA_ERROR_ILLEGAL_ADDRESS: While executing a kernel. Then a paragraph. And more."),
            "the driver says CUDA_ERROR_ILLEGAL_ADDRESS: of the driver",
            "CUDA_ERROR_ILLEGAL_ADDRESS",
        ),
        (CUDAError("CUDA_ERROR_NEW: It is new. Much more."), "the driver says CUDA_ERROR_NEW: It is new.", "CUDA_ERROR_NEW"),
        (RuntimeError("It is closed. Open it."), "cuda.core says: It is closed.", ""),
    ],
)  # fmt: skip
def test_errors_of_cuda_core(
    monkeypatch: pytest.MonkeyPatch, error: Exception, message: str, name: str
) -> None:
    recorded = Recorded(monkeypatch)
    recorded.answer(monkeypatch, "cuGetErrorName", (SUCCESS, name.encode()))
    recorded.answer(monkeypatch, "cuGetErrorString", (SUCCESS, b"of the driver"))

    def sync() -> None:
        raise error

    stream: Any = SimpleNamespace(sync=sync)
    with pytest.raises(GpuError) as refusal:
        boundary.synchronise(stream)
    assert (str(refusal.value), refusal.value.name) == (message, name)
    assert refusal.value.__cause__ is error


def test_mistakes_of_the_caller_stay_what_they_are() -> None:
    stream: Any = object()
    with pytest.raises(AttributeError):
        boundary.synchronise(stream)


def test_a_context_that_cannot_be_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(monkeypatch)
    recorded.answer(monkeypatch, "cuCtxSetCurrent", (driver.CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED,))
    recorded.answer(monkeypatch, "cuGetErrorName", (SUCCESS, b"CUDA_ERROR_CONTEXT_IS_DESTROYED"))
    recorded.answer(monkeypatch, "cuGetErrorString", (SUCCESS, None))
    with pytest.raises(GpuError, match="CUDA_ERROR_CONTEXT_IS_DESTROYED"), boundary.current(1):
        pass
    with pytest.raises(ValueError, match="of the work"), boundary.current(1):
        raise ValueError("of the work")


def test_memory_of_no_pool_is_freed_with_its_object(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(monkeypatch)
    recorded.answer(monkeypatch, "cuMemAlloc", (SUCCESS, 4096))
    recorded.answer(monkeypatch, "cuMemFree", (SUCCESS,))
    memory = boundary.allocate_alone(1, 16)
    assert memory.handle == 4096
    assert ("cuMemFree", 4096) not in recorded.calls
    del memory
    assert recorded.calls[-3:] == [
        ("set_current", 1),
        ("cuMemFree", 4096),
        ("cuCtxSetCurrent", "the caller's"),
    ]


def test_a_memory_view_is_read_without_a_driver() -> None:
    """The one part of cuda.core that the stand-in leaves in its place."""
    import numpy as np

    array = np.zeros((2, 3), np.float32)
    view = boundary.strided_view()(array, -1)
    assert (view.ptr, view.shape, view.is_device_accessible) == (array.ctypes.data, (2, 3), False)
