"""Every call to NVIDIA's packages: this file and nothing else knows cuda.core and the driver's functions.

None of them may be called before `ptxtemplates.gpu.availability` has found a driver, except `describe_driver`
and `strided_view`: without one, cuda.core fails in ways that say nothing, and can hang.
"""

from __future__ import annotations

import contextlib
import importlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ptxtemplates.gpu.errors import GpuError, LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuda.core import Buffer, Event, Kernel, LaunchConfig, Stream
    from cuda.core.graph import Graph, GraphBuilder
    from cuda.core.typing import IsStreamType
    from cuda.core.utils import StridedMemoryView

    AnyStream: TypeAlias = Stream | GraphBuilder | IsStreamType | int

Block: TypeAlias = tuple[int, int, int]

NO_DEVICE: Final = 100
"""CUDA_ERROR_NO_DEVICE: a driver that sees no GPU."""


def packages() -> tuple[int, int]:
    """Import what this room needs; return the CUDA version that the packages are made for.

    Raises
    ------
    ImportError
        If one of them is missing or cannot be loaded.
    """
    importlib.import_module("cuda.core")
    bindings = importlib.import_module("cuda.bindings")
    major, minor = bindings.__version__.split(".")[:2]
    return int(major), int(minor)


def describe_driver() -> tuple[tuple[int, int], int]:
    """Initialise the driver; return the CUDA version that it supports, and the number of devices.

    Raises
    ------
    GpuError
        If it is not there, or cannot be used.
    """
    from cuda.bindings import driver

    try:
        (code,) = driver.cuInit(0)
    except Exception as error:  # a library that is not found, or not whole: each has an error of its own
        raise GpuError(f"no NVIDIA driver: {error}") from error
    if int(code) == NO_DEVICE:
        return (0, 0), 0
    _check(code)
    code, version = driver.cuDriverGetVersion()
    _check(code)
    code, count = driver.cuDeviceGetCount()
    _check(code)
    return (version // 1000, version % 1000 // 10), count


def strided_view() -> Callable[[object, int], StridedMemoryView]:
    """Return what reads an array that exports DLPack: takes it, and -1 for no ordering of streams."""
    from cuda.core.utils import StridedMemoryView

    view: Callable[[object, int], StridedMemoryView] = StridedMemoryView.from_dlpack
    return view


def architecture(device: int) -> str:
    """Return what the assembler calls a device's architecture, such as ``sm_90``."""
    from cuda.core import Device

    return f"sm_{Device(device).arch}"


def name(device: int) -> str:
    """Return what NVIDIA calls a device."""
    from cuda.core import Device

    found: str = Device(device).name
    return found


def l2_size(device: int) -> int:
    """Return the bytes of a device's L2 cache."""
    from cuda.core import Device

    return int(Device(device).properties.l2_cache_size)


def free_memory(device: int) -> int:
    """Return how many bytes can be allocated: free ones, and those that the memory resource has kept."""
    from cuda.bindings import driver
    from cuda.core import Device, DeviceMemoryResource

    with current(device):
        code, free, _ = driver.cuMemGetInfo()
        _check(code)
        resource = Device(device).memory_resource
        if not isinstance(resource, DeviceMemoryResource):
            return int(free)
        kept = resource.attributes
        return int(free) + int(kept.reserved_mem_current) - int(kept.used_mem_current)


def current_device() -> int:
    """Return the device of this thread's current context, 0 if it has none."""
    from cuda.bindings import driver

    code, context = driver.cuCtxGetCurrent()
    _check(code)
    if not int(context):
        return 0
    code, device = driver.cuCtxGetDevice()
    _check(code)
    return int(device)


@contextlib.contextmanager
def current(device: int) -> Iterator[None]:
    """Make a device's primary context current for a while, in this thread."""
    from cuda.bindings import driver
    from cuda.core import Device

    code, before = driver.cuCtxGetCurrent()
    _check(code)
    Device(device).set_current()
    try:
        yield
    finally:
        driver.cuCtxSetCurrent(before)


def load(code: bytes, *, assembled: bool, entry: str, device: int) -> Kernel:
    """Load a cubin, or a PTX text for the driver to assemble, so that launching will load nothing more."""
    from cuda.bindings import driver
    from cuda.core import ObjectCode

    with current(device):
        module = ObjectCode.from_cubin(code) if assembled else ObjectCode.from_ptx(code)
        kernel = module.get_kernel(entry)
        # the driver loads machine code at the first launch: too late for a stream that is being captured
        code_, function = driver.cuKernelGetFunction(kernel.handle)
        _check(code_)
        _check(*driver.cuFuncLoad(function))
    return kernel


def configuration(grid: Block, block: Block) -> LaunchConfig:
    """Describe the blocks of a launch."""
    from cuda.core import LaunchConfig

    return LaunchConfig(grid=grid, block=block)


def launcher() -> Callable[..., None]:
    """Return what launches: takes a stream, `configuration`, a kernel and its arguments."""
    from cuda.core import launch

    launching: Callable[..., None] = launch
    return launching


def stream_of(stream: AnyStream) -> Stream:
    """Return the stream that is meant: cuda.core's own, one being captured, any library's, or a handle."""
    own, builder, default = _streams()
    if isinstance(stream, own):
        return stream
    if isinstance(stream, builder):
        return stream.stream
    handle = stream if isinstance(stream, int) else _handle_of(stream)
    return own.from_handle(handle) if handle else default


def device_of(stream: Stream) -> int:
    """Return the device that a stream belongs to; for a default stream, that of the current context."""
    device: int = stream.device.device_id
    return device


def device_of_pointer(pointer: int) -> int:
    """Return the device whose memory an address is in."""
    from cuda.bindings import driver

    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    code, device = driver.cuPointerGetAttribute(attribute, pointer)
    _check(code)
    return int(device)


def allocate(device: int, size: int, stream: Stream) -> Buffer:
    """Allocate bytes in the order of a stream, from the device's memory resource."""
    from cuda.core import Device

    return Device(device).allocate(size, stream=stream)


class Allocation:
    """Memory of cuMemAlloc, which is of no pool and in the order of no stream.

    Attributes
    ----------
    handle : int
        Its address.
    """

    def __init__(self, device: int, size: int) -> None:
        from cuda.bindings import driver

        self._device = device
        with current(device):
            code, pointer = driver.cuMemAlloc(size)
        _check(code)
        self.handle = int(pointer)

    def __del__(self) -> None:
        from cuda.bindings import driver

        if hasattr(self, "handle"):
            with current(self._device):
                driver.cuMemFree(self.handle)


def allocate_alone(device: int, size: int) -> Allocation:
    """Allocate bytes from no pool: memory of which compute-sanitizer knows both ends, and can pad them."""
    return Allocation(device, size)


def copy_to_device(pointer: int, source: int, size: int, stream: Stream) -> None:
    """Copy bytes from an address of the host, in the order of a stream."""
    from cuda.bindings import driver

    _check(*driver.cuMemcpyHtoDAsync(pointer, source, size, stream.handle))


def copy_to_host(target: int, pointer: int, size: int, stream: Stream) -> None:
    """Copy bytes to an address of the host, in the order of a stream."""
    from cuda.bindings import driver

    _check(*driver.cuMemcpyDtoHAsync(target, pointer, size, stream.handle))


def copy_on_device(target: int, pointer: int, size: int, stream: Stream) -> None:
    """Copy bytes from one place of device memory to another, in the order of a stream."""
    from cuda.bindings import driver

    _check(*driver.cuMemcpyDtoDAsync(target, pointer, size, stream.handle))


def fill(pointer: int, word: int, words: int, stream: Stream) -> None:
    """Fill memory with a 32-bit word, in the order of a stream."""
    from cuda.bindings import driver

    _check(*driver.cuMemsetD32Async(pointer, word, words, stream.handle))


def synchronise(stream: Stream) -> None:
    """Wait until all work of a stream is done."""
    stream.sync()


def create_stream(device: int) -> Stream:
    """Make a stream of its own on a device."""
    from cuda.core import Device

    with current(device):
        return Device(device).create_stream()


def handle_of(stream: Stream) -> int:
    """Return a stream's handle, as other libraries take it."""
    return int(stream.handle)


def capture(stream: Stream, enqueue: Callable[[Stream], None]) -> Graph:
    """Return the graph of what a function puts on the stream that it is given; nothing of it is executed."""
    builder = stream.create_graph_builder()
    builder.begin_building()
    try:
        try:
            enqueue(builder.stream)
        finally:  # or the stream would be capturing for ever
            builder.end_building()
        graph = builder.complete()
        graph.upload(stream)
    finally:
        builder.close()
    return graph


def replay(graph: Graph, stream: Stream) -> None:
    """Put what a graph has captured on a stream."""
    graph.launch(stream)


def create_event(device: int) -> Event:
    """Make an event that has a time."""
    from cuda.core import Device, EventOptions

    with current(device):
        return Device(device).create_event(EventOptions(timing_enabled=True))


def record(event: Event, stream: Stream) -> None:
    """Let an event happen when all work that is on a stream now is done."""
    stream.record(event)


def elapsed_ms(start: Event, end: Event) -> float:
    """Wait for the second of two events; return the milliseconds between them."""
    end.sync()
    elapsed: float = end - start
    return elapsed


@cache
def _streams() -> tuple[type[Stream], type[GraphBuilder], Stream]:
    """Return cuda.core's classes of streams, and the stream that a handle of 0 means."""
    from cuda.core import LEGACY_DEFAULT_STREAM, Stream
    from cuda.core.graph import GraphBuilder

    return Stream, GraphBuilder, LEGACY_DEFAULT_STREAM


def _handle_of(stream: IsStreamType) -> int:
    if not hasattr(stream, "__cuda_stream__"):
        raise LaunchError(
            f"{type(stream).__name__} is no stream: pass one of cuda.core, an object with __cuda_stream__, "
            "or the handle as an int (torch: stream.cuda_stream, CuPy: stream.ptr)",
            argument="stream",
        )
    handle: int = stream.__cuda_stream__()[1]
    return handle


def _check(code: Any) -> None:
    """Raise `GpuError` if the driver's result code is an error."""
    if not int(code):
        return
    from cuda.bindings import driver

    _, word = driver.cuGetErrorName(code)
    _, text = driver.cuGetErrorString(code)
    raise GpuError(f"the driver says {_text(word)}: {_text(text)}")


def _text(said: bytes | None) -> str:
    return (said or b"an error that it has no name for").decode()
