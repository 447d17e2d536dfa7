"""Every call to NVIDIA's packages: nothing else but `contexts` and `refusals`, parts of it, knows cuda.core.

What cuda.core and the driver refuse is a `GpuError`. None of them may be called before
`ptxtemplates.gpu.availability` has found a driver, except `describe_driver` and `strided_view`: without one,
cuda.core fails in ways that say nothing, and can hang.
"""

from __future__ import annotations

import contextlib
import importlib
import weakref
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ptxtemplates.gpu.contexts import current as current
from ptxtemplates.gpu.contexts import current_device as current_device
from ptxtemplates.gpu.contexts import device_of as device_of
from ptxtemplates.gpu.contexts import has_context as has_context
from ptxtemplates.gpu.contexts import is_capturing as is_capturing
from ptxtemplates.gpu.contexts import stream_of as stream_of
from ptxtemplates.gpu.errors import GpuError
from ptxtemplates.gpu.refusals import check, refusal_of, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuda.core import Buffer, Event, Kernel, LaunchConfig, Stream
    from cuda.core.graph import Graph, GraphBuilder
    from cuda.core.utils import StridedMemoryView

Block: TypeAlias = tuple[int, int, int]

NO_DEVICE: Final = 100
"""CUDA_ERROR_NO_DEVICE: a driver that sees no GPU."""


def packages() -> tuple[int, int]:
    """Return the CUDA version that NVIDIA's packages are made for.

    Raises
    ------
    ImportError
        If one of them is missing, or what asks for a driver cannot be loaded.
    """
    if find_spec("cuda") is None or find_spec("cuda.core") is None:
        raise ImportError("No module named 'cuda.core'")
    bindings = importlib.import_module("cuda.bindings")
    major, minor = bindings.__version__.split(".")[:2]
    return int(major), int(minor)


def load_core() -> None:
    """Import cuda.core: most of a second, which a machine without a driver is spared.

    Raises
    ------
    ImportError
        If it cannot be loaded.
    """
    importlib.import_module("cuda.core")


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
    check(code)
    code, version = driver.cuDriverGetVersion()
    check(code)
    code, count = driver.cuDeviceGetCount()
    check(code)
    return (version // 1000, version % 1000 // 10), count


def strided_view() -> Callable[[object, int], StridedMemoryView]:
    """Return what reads an array that exports DLPack: takes it, and -1 for no ordering of streams."""
    from cuda.core.utils import StridedMemoryView

    view: Callable[[object, int], StridedMemoryView] = StridedMemoryView.from_dlpack
    return view


@translated
def architecture(device: int) -> str:
    """Return what the assembler calls a device's architecture, such as ``sm_90``."""
    from cuda.core import Device

    return f"sm_{Device(device).arch}"


@translated
def name(device: int) -> str:
    """Return what NVIDIA calls a device."""
    from cuda.core import Device

    found: str = Device(device).name
    return found


@translated
def l2_size(device: int) -> int:
    """Return the bytes of a device's L2 cache."""
    from cuda.core import Device

    return int(Device(device).properties.l2_cache_size)


@translated
def free_memory(device: int) -> int:
    """Return how many bytes can be allocated: free ones, and those that the memory resource has kept."""
    from cuda.bindings import driver
    from cuda.core import Device, DeviceMemoryResource

    with current(device):
        code, free, _ = driver.cuMemGetInfo()
        check(code)
        resource = Device(device).memory_resource
        if not isinstance(resource, DeviceMemoryResource):
            return int(free)
        kept = resource.attributes
        return int(free) + int(kept.reserved_mem_current) - int(kept.used_mem_current)


@translated
def load(code: bytes, *, assembled: bool, entry: str, device: int) -> Kernel:
    """Load a cubin, or a PTX text for the driver to assemble, so that launching will load nothing more."""
    from cuda.bindings import driver
    from cuda.core import ObjectCode

    with current(device):
        module = ObjectCode.from_cubin(code) if assembled else ObjectCode.from_ptx(code)
        kernel = module.get_kernel(entry)
        # the driver loads machine code at the first launch: too late for a stream that is being captured
        code_, function = driver.cuKernelGetFunction(kernel.handle)
        check(code_)
        check(*driver.cuFuncLoad(function))
    return kernel


@translated
def configuration(grid: Block, block: Block) -> LaunchConfig:
    """Describe the blocks of a launch."""
    from cuda.core import LaunchConfig

    return LaunchConfig(grid=grid, block=block)


def launcher() -> Callable[..., None]:
    """Return what launches: takes a stream, `configuration`, a kernel and its arguments."""
    from cuda.core import launch

    def launching(*arguments: Any) -> None:  # `translated` takes keywords too, which takes time
        try:
            launch(*arguments)
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            raise refusal from error

    return launching


def device_of_pointer(pointer: int) -> int:
    """Return the device whose memory an address is in."""
    from cuda.bindings import driver

    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    code, device = driver.cuPointerGetAttribute(attribute, pointer)
    check(code)
    return int(device)


@translated
def allocate(device: int, size: int, stream: Stream) -> Buffer:
    """Allocate bytes in the order of a stream, from the device's memory resource."""
    from cuda.core import Device

    return Device(device).allocate(size, stream=stream)


class Allocation:
    """Memory of cuMemAlloc, which is of no pool and in the order of no stream; freed with this object.

    Attributes
    ----------
    handle : int
        Its address.
    """

    def __init__(self, device: int, size: int) -> None:
        from cuda.bindings import driver

        with current(device):
            code, pointer = driver.cuMemAlloc(size)
        check(code)
        self.handle = int(pointer)
        # not __del__, which may come when the interpreter has nothing left to call
        weakref.finalize(self, _free, device, self.handle)


def allocate_alone(device: int, size: int) -> Allocation:
    """Allocate bytes from no pool: memory of which compute-sanitizer knows both ends, and can pad them."""
    return Allocation(device, size)


def copy_to_device(pointer: int, source: int, size: int, stream: Stream) -> None:
    """Copy bytes from an address of the host, in the order of a stream."""
    from cuda.bindings import driver

    check(*driver.cuMemcpyHtoDAsync(pointer, source, size, stream.handle))


def copy_to_host(target: int, pointer: int, size: int, stream: Stream) -> None:
    """Copy bytes to an address of the host, in the order of a stream."""
    from cuda.bindings import driver

    check(*driver.cuMemcpyDtoHAsync(target, pointer, size, stream.handle))


def copy_on_device(target: int, pointer: int, size: int, stream: Stream) -> None:
    """Copy bytes from one place of device memory to another, in the order of a stream."""
    from cuda.bindings import driver

    check(*driver.cuMemcpyDtoDAsync(target, pointer, size, stream.handle))


def fill(pointer: int, word: int, words: int, stream: Stream) -> None:
    """Fill memory with a 32-bit word, in the order of a stream."""
    from cuda.bindings import driver

    check(*driver.cuMemsetD32Async(pointer, word, words, stream.handle))


@translated
def synchronise(stream: Stream) -> None:
    """Wait until all work of a stream is done."""
    stream.sync()


@translated
def create_stream(device: int) -> Stream:
    """Make a stream of its own on a device."""
    from cuda.core import Device

    with current(device):
        return Device(device).create_stream()


@translated
def handle_of(stream: Stream) -> int:
    """Return a stream's handle, as other libraries take it."""
    return int(stream.handle)


def capture(stream: Stream, enqueue: Callable[[Stream], None]) -> Graph:
    """Return the graph of what a function puts on the stream that it is given; nothing of it is executed."""
    builder = _building(stream)
    try:
        enqueue(builder.stream)
        graph = _completed(builder, stream)
    except BaseException:
        # or the stream would be capturing for ever; what the driver says of a capture that has failed would
        # hide why it has
        for end in (builder.end_building, builder.close):
            with contextlib.suppress(Exception):
                end()
        raise
    builder.close()
    return graph


@translated
def replay(graph: Graph, stream: Stream) -> None:
    """Put what a graph has captured on a stream."""
    graph.launch(stream)


@translated
def create_event(device: int) -> Event:
    """Make an event that has a time."""
    from cuda.core import Device, EventOptions

    with current(device):
        return Device(device).create_event(EventOptions(timing_enabled=True))


@translated
def record(event: Event, stream: Stream) -> None:
    """Let an event happen when all work that is on a stream now is done."""
    stream.record(event)


@translated
def elapsed_ms(start: Event, end: Event) -> float:
    """Wait for the second of two events; return the milliseconds between them."""
    end.sync()
    elapsed: float = end - start
    return elapsed


@translated
def _building(stream: Stream) -> GraphBuilder:
    return stream.create_graph_builder().begin_building()


@translated
def _completed(builder: GraphBuilder, stream: Stream) -> Graph:
    graph = builder.end_building().complete()
    graph.upload(stream)
    return graph


def _free(device: int, pointer: int) -> None:
    from cuda.bindings import driver

    with contextlib.suppress(GpuError), current(device):
        driver.cuMemFree(pointer)
