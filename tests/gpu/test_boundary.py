"""The one file that calls NVIDIA's packages: held to their own stubs, and its calls recorded."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from cuda.bindings import driver

from ptxtemplates.gpu import boundary
from ptxtemplates.gpu.errors import GpuError, LaunchError
from tests.gpu.standins import Machine
from tests.helpers.variants import ROOT

SUCCESS: Final = driver.CUresult.CUDA_SUCCESS


def test_the_stand_in_has_the_same_functions() -> None:
    ours = {
        name
        for name, function in inspect.getmembers(boundary, inspect.isfunction)
        if function.__module__ == boundary.__name__ and not name.startswith("_")
    }
    of_packages = {"packages", "describe_driver", "strided_view"}
    for name in ours - of_packages:
        theirs = inspect.signature(getattr(Machine(), name)).parameters
        assert list(inspect.signature(getattr(boundary, name)).parameters) == list(theirs), name


def errors_of(source: Path, folder: Path) -> list[str]:
    """Type-check a file against the stubs of the installed cuda.core; return what is said of that file."""
    spec = find_spec("cuda.core")
    assert spec is not None
    assert spec.origin is not None
    # once it is imported, it says that it is the part for a version of CUDA
    package = next(folder for folder in Path(spec.origin).parents if folder.name == "core")
    versioned = max(package.glob("cu1*"))
    stubs = folder / "stubs" / "cuda" / "core"
    for stub in versioned.rglob("*.py*"):
        if stub.suffix in (".py", ".pyi"):
            (stubs / stub.relative_to(versioned)).parent.mkdir(parents=True, exist_ok=True)
            (stubs / stub.relative_to(versioned)).write_bytes(stub.read_bytes())
    # a type checker does not follow the computed list of names of this one
    names = (package / "__init__.py").read_text() + (
        "from cuda.core._memory._buffer import Buffer as Buffer\n"
        "from cuda.core._memory._device_memory_resource import DeviceMemoryResource as DeviceMemoryResource\n"
    )
    (stubs / "__init__.py").write_text(names)
    (stubs / "py.typed").touch()
    (folder / "mypy.ini").write_text(
        f"[mypy]\nmypy_path = {folder / 'stubs'}:{ROOT}\nexplicit_package_bases = true\ncheck_untyped_defs = true\n"
        "[mypy-cuda.*]\nignore_missing_imports = true\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(folder / "mypy.ini")]
    command += ["--cache-dir", str(folder / "cache"), str(source)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "cuda/core" in result.stdout or result.returncode == 0, result.stdout + result.stderr
    return [line for line in result.stdout.splitlines() if Path(line.partition(":")[0]).name == source.name]


def test_calls_fit_the_stubs_of_cuda_core(tmp_path: Path) -> None:
    source = Path(boundary.__file__)
    assert errors_of(source, tmp_path) == []
    mistakes = {
        "ObjectCode.from_cubin(code)": "ObjectCode.from_cubins(code)",
        "Device(device).allocate(size, stream=stream)": "Device(device).allocate(size, stream)",
        "LaunchConfig(grid=grid, block=block)": "LaunchConfig(grid=grid, threads=block)",
        "kept.reserved_mem_current": "kept.reserved_memory",
    }
    text = source.read_text()
    for right, wrong in mistakes.items():
        assert text.count(right) == 1, right
        text = text.replace(right, wrong)
    copy = tmp_path / "mistaken.py"
    copy.write_text(text)
    assert len([line for line in errors_of(copy, tmp_path) if ": error: " in line]) >= len(mistakes)


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


def test_a_memory_view_is_read_without_a_driver() -> None:
    """The one part of cuda.core that the stand-in leaves in its place."""
    import numpy as np

    array = np.zeros((2, 3), np.float32)
    view = boundary.strided_view()(array, -1)
    assert (view.ptr, view.shape, view.is_device_accessible) == (array.ctypes.data, (2, 3), False)
