"""Loading and launching: caches under threads and processes, devices, streams, and what an unchecked launch is."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pytest

from ptxtemplates.assembly import assemble
from ptxtemplates.errors import AssemblyError
from ptxtemplates.gpu import GpuError, LaunchError, boundary, launch, launching, load, loading
from ptxtemplates.kernel import Argument, Kernel, pointer
from ptxtemplates.kernels import BatchedRope, FlashDecodingReduce
from ptxtemplates.rendering import render
from tests.gpu.standins import DlpackArray, Loaded, Stream
from tests.gpu.test_checks import REDUCE, ROPE, STREAM, numbers, positions, reduce_arguments, x
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ptxtemplates.rendering import RenderedKernel
    from tests.gpu.standins import Machine

OTHER: Final = BatchedRope(num_heads=4, head_dim=16, theta=5e5)


def test_machine_code_is_that_of_the_device(machine: Machine) -> None:
    machine.arch = "sm_86"
    load(ROPE).launch(STREAM, x(), x(), positions())
    [(_, _, handle, *_)] = machine.launches()
    assert handle.assembled
    assert handle.code == assemble(render(ROPE).text, "sm_86").cubin


def test_without_an_assembler_the_driver_assembles(install: Callable[..., Machine]) -> None:
    machine = install(ROPE)
    load(ROPE)
    [handle] = loading._loaded.values()
    assert handle == (render(ROPE).text.encode(), False, ROPE.entry, 0)
    assert machine.names() == ["load"]


def test_a_gpu_newer_than_the_assembler(machine: Machine) -> None:
    machine.arch = "sm_999"
    load(ROPE)
    [handle] = loading._loaded.values()
    assert (handle.code, handle.assembled) == (render(ROPE).text.encode(), False)


def test_a_text_for_newer_gpus(machine: Machine) -> None:
    machine.arch = "sm_80"
    with pytest.raises(AssemblyError, match=r"\.target sm_90 does not run on sm_80"):
        load(BatchedRope(num_heads=4, head_dim=16, theta=1e4, target="sm_90"))


def test_what_the_driver_refuses(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA_ERROR_INVALID_IMAGE")

    monkeypatch.setattr(boundary, "load", refuse)
    with pytest.raises(GpuError, match="batched_rope cannot be loaded on device 0: CUDA_ERROR_INVALID_IMAGE"):
        load(ROPE)


def test_machine_code_that_the_driver_is_too_old_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An assembler of a newer CUDA than the driver's: the driver assembles the text, and is asked once."""
    asked: list[bool] = []

    def old(code: bytes, *, assembled: bool, entry: str, device: int) -> Loaded:
        asked.append(assembled)
        if assembled:
            raise GpuError(
                "the driver says CUDA_ERROR_INVALID_IMAGE: of code", name="CUDA_ERROR_INVALID_IMAGE"
            )
        return machine.load(code, assembled=assembled, entry=entry, device=device)

    monkeypatch.setattr(boundary, "load", old)
    load(ROPE)
    load(ROPE)
    assert asked == [True, False]
    [handle] = loading._loaded.values()
    assert handle.code == render(ROPE).text.encode()


def test_a_driver_that_refuses_both(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(code: bytes, *, assembled: bool, **_: Any) -> None:
        kind = "INVALID_IMAGE" if assembled else "INVALID_PTX"
        raise GpuError(f"the driver says {kind}", name=kind)

    monkeypatch.setattr(boundary, "load", refuse)
    with pytest.raises(GpuError) as refusal:
        load(ROPE)
    assert str(refusal.value) == (
        "batched_rope cannot be loaded on device 0: the driver says INVALID_IMAGE; of the text, the driver says "
        "INVALID_PTX"
    )
    assert refusal.value.name == "INVALID_PTX"


def test_loaded_once_for_a_text_and_device(machine: Machine) -> None:
    for _ in range(2):
        for kernel in (ROPE, OTHER):
            for device in (0, 1):
                assert load(kernel, device).device == device
    loads = [call.arguments for call in machine.calls if call.name == "load"]
    assert loads == [("batched_rope", 0), ("batched_rope", 1)] * 2
    # two variants of one entry are two texts: theta is not forgotten
    assert len({handle.code for handle in loading._loaded.values()}) == 2


def test_threads_load_once(machine: Machine) -> None:
    together = threading.Barrier(8)

    def loading_it(_: int) -> None:
        together.wait()
        for kernel in (ROPE, OTHER, REDUCE):
            load(kernel)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(loading_it, range(8)))
    assert machine.names() == ["load"] * 3


def test_threads_launch_each_its_own(machine: Machine) -> None:
    loaded = load(ROPE)
    rows = [2 + number for number in range(8)]

    def launching_it(count: int) -> None:
        for _ in range(200):
            loaded.launch(Stream(0), x(count, 4, 16), x(count, 4, 16), positions(count))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(launching_it, rows))
    grids = [configuration[0] for _, configuration, *_ in machine.launches()]
    assert sorted(grids) == sorted((4, count, 1) for count in rows for _ in range(200))


_PROCESS: Final = """
import hashlib, sys
from ptxtemplates.assembly import assemble
sys.stdin.readline()
for line in sys.stdin.read().split("@@@"):
    print(hashlib.sha256(assemble(line, "sm_90").cubin).hexdigest())
"""


def test_processes_share_the_cache_of_machine_code(tmp_path: Path) -> None:
    """Each of them finds whole machine code or makes it: never what another is about to write."""
    texts = [render(BatchedRope(num_heads=4, head_dim=16, theta=theta)).text for theta in (2.0, 3.0, 4.0)]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _PROCESS],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n" + "@@@".join(texts))
    said = [process.communicate(timeout=60)[0].split() for process in processes]
    expected = [hashlib.sha256(assemble(text, "sm_90").cubin).hexdigest() for text in texts]
    assert said == [expected] * 4
    kept = [path.suffix for path in (tmp_path / "ptxtemplates").iterdir() if path.name != "swept"]
    assert kept == [".cubin"] * 3, "nothing half written is left"


def test_the_device_is_that_of_the_context(machine: Machine) -> None:
    machine.present = 1
    assert load(ROPE).device == 1
    assert repr(load(ROPE)) == "<batched_rope.h4.d16.theta10000 on device 1>"


def test_launch_by_kernel_goes_to_the_device_of_the_stream(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[Kernel] = []

    def counted(kernel: Kernel) -> RenderedKernel:
        rendered.append(kernel)
        return render(kernel)

    monkeypatch.setattr(launching, "render", counted)
    for _ in range(2):
        for device in (0, 1):
            launch(ROPE, Stream(device), *(x(device=device) for _ in range(2)), positions(device=device))
    assert [(stream.device, handle.device) for stream, _, handle, *_ in machine.launches()] == [
        (0, 0), (1, 1), (0, 0), (1, 1)
    ]  # fmt: skip
    assert rendered == [ROPE, ROPE], "once for each device"
    assert machine.names().count("load") == 2
    with pytest.raises(LaunchError, match="positions_ptr: it is on device 1"):
        launch(ROPE, Stream(0), x(), x(), positions(device=1))


@pytest.mark.parametrize("checked", [True, False])
def test_a_default_stream_where_no_context_is_current(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    """A thread that has called nothing of CUDA, with PyTorch's default stream: as if on the kernel's device."""
    contexts: list[int] = []
    loaded = load(ROPE, 1)

    @contextlib.contextmanager
    def current(device: int) -> Iterator[None]:
        contexts.append(device)
        yield
        contexts.pop()

    def launching_it(*words: Any) -> None:
        if not contexts:
            raise GpuError("CUDA_ERROR_INVALID_CONTEXT")
        launched.append(contexts[-1])

    launched: list[int] = []
    monkeypatch.setattr(boundary, "current", current)
    monkeypatch.setattr(boundary, "has_context", lambda: bool(contexts))
    monkeypatch.setattr(boundary, "device_of", lambda stream: contexts[-1] if contexts else None)
    monkeypatch.setattr(loaded, "_launch", launching_it)
    arrays = (x(device=1), x(device=1), positions(device=1))
    loaded.launch(0, *arrays, checked=checked)
    assert (launched, contexts) == ([1], [])
    monkeypatch.setattr(boundary, "has_context", lambda: True)
    if not checked:
        with pytest.raises(GpuError, match="INVALID_CONTEXT"):
            loaded.launch(0, *arrays, checked=False)


def test_unchecked(machine: Machine) -> None:
    loaded = load(REDUCE)
    wrong = reduce_arguments(seq_lens=positions(2, np.int64))
    loaded.launch(STREAM, *wrong, checked=False)
    loaded.launch(STREAM, 4096, 8192, 12288, 5, checked=False, rows=7)
    addresses = [array.array.ctypes.data for array in wrong[:3]]
    by_arrays, by_numbers = machine.launches()
    assert by_arrays[1:2] + by_arrays[3:] == (((4, 3, 1), (32, 1, 1)), *addresses, 5)
    assert by_numbers[1:2] + by_numbers[3:] == (((4, 7, 1), (32, 1, 1)), 4096, 8192, 12288, 5)
    scalar = machine.calls[-1].arguments[-1]
    assert isinstance(scalar, ctypes.c_uint32), "cuda.core passes an int as 64 bits"
    with pytest.raises(LaunchError, match=r"rows is not known: pass rows=\.\.\."):
        loaded.launch(STREAM, 4096, 8192, 12288, 5, checked=False)


def test_configurations_are_made_once_and_forgotten(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[Any, ...]] = []

    def configuration(*what: Any) -> tuple[Any, ...]:
        made.append(what)
        return what

    monkeypatch.setattr(boundary, "configuration", configuration)
    monkeypatch.setattr(launching, "KEPT", 3)
    loaded = load(ROPE)
    for rows in (1, 2, 1, 2, 3, 1):
        loaded.launch(STREAM, x(rows, 4, 16), x(rows, 4, 16), positions(rows))
    assert [grid for grid, _ in made] == [(4, 1, 1), (4, 2, 1), (4, 3, 1)]
    loaded.launch(STREAM, x(4, 4, 16), x(4, 4, 16), positions(4))
    assert (len(loaded._configurations), len(loaded._plans)) == (1, 1)


@dataclass(frozen=True, kw_only=True)
class Scale(Kernel):
    """A kernel of someone else's: numbers of several types, and an extent with a sum."""

    name: ClassVar = "scale"
    summary: ClassVar = ""
    template: ClassVar = "scale.ptx.jinja"
    extents: ClassVar = {"blocks": 1000}
    arguments: ClassVar = (
        pointer("x_ptr", "f32", "blocks + 1", "8", role="output", alignment=16),
        Argument("factor", "f32", "data"),
        Argument("offset", "s64", "index"),
    )
    block: ClassVar = (8, 1, 1)
    grid: ClassVar = ("blocks", 1, 1)


@pytest.fixture
def scale(machine: Machine) -> launching.LoadedKernel:
    return launching.LoadedKernel(Scale(), 0, Loaded(b"", True, "scale", 0))


def test_numbers_of_each_type(machine: Machine, scale: launching.LoadedKernel) -> None:
    scale.launch(STREAM, x(4, 8), np.float32(0.1), -(2**63))
    [(_, configuration, _, _, factor, offset)] = machine.launches()
    assert configuration[0] == (3, 1, 1), "one less than the extent"
    assert (factor, offset) == (float(np.float32(0.1)), -(2**63))
    scale.launch(STREAM, x(4, 8), float("inf"), 0)
    scale.launch(STREAM, x(4, 8), -0.0, 0)
    scale.launch(STREAM, x(4, 8), 0.0, 0)
    assert [str(launched[4]) for launched in machine.launches()[1:]] == ["inf", "-0.0", "0.0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1e39, 0), "factor: 1e+39 is no f32: it is beyond the largest one"),
        (("fast", 0), "factor: 'fast' is no number, as f32 is"),
        ((1.0, 2**63), "offset: 9223372036854775808 is no s64"),
    ],
)
def test_numbers_that_do_not_fit(
    machine: Machine, scale: launching.LoadedKernel, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(LaunchError) as refusal:
        scale.launch(STREAM, x(4, 8), *arguments)
    assert message in str(refusal.value)


def test_an_extent_that_is_a_sum(machine: Machine, scale: launching.LoadedKernel) -> None:
    with pytest.raises(LaunchError, match=r"its shape is \(0, 8\), and must be \(blocks \+ 1, 8\)"):
        scale.launch(STREAM, x(0, 8), 1.0, 0)
    scale.launch(STREAM, x(1, 8), 1.0, 0)
    assert machine.launches() == [], "no blocks"
    with pytest.raises(LaunchError, match="blocks: 1,001 as in x_ptr, and a grid has room for 1,000"):
        scale.launch(STREAM, x(1002, 8), 1.0, 0)


def test_limits_of_built_in_kernels() -> None:
    """Those that they declare are those of a grid."""
    for kernel in (ROPE, REDUCE, FlashDecodingReduce(head_dim=8, num_heads=1, chunk_size=1)):
        assert set(kernel.extents.values()) == {65_535}


def test_pointers_are_passed_as_python_ints(machine: Machine) -> None:
    """An int is what cuda.core passes as an address, without asking an array for it."""
    array = DlpackArray(numbers(3, 4, 16))
    load(ROPE).launch(STREAM, array, array, positions())
    assert all(type(word) is int for word in machine.calls[-1].arguments[3:])
