"""Stand-ins for a machine with GPUs: arrays that say they are on one, and what answers for cuda.core.

Their memory is the host's, so that a launch can be executed by the emulator. `Machine` records every call that
the package makes at its boundary.
"""

from __future__ import annotations

import contextlib
import ctypes
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator import PointerTable, emulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel

CPU: Final = (1, 0)
CUDA: Final = 2
PINNED: Final = 3
MANAGED: Final = 13
_CODES: Final = {"i": 0, "u": 1, "f": 2, "b": 6}


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("index", ctypes.c_int))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int),
        ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Version(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32))


class _Managed(ctypes.Structure):
    """The versioned form of DLPack 1, which has the flag for read-only memory."""

    _fields_ = (
        ("version", _Version),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class DlpackArray:
    """An array that exports DLPack, over the memory of a NumPy array.

    `exports` has the keywords of each call of ``__dlpack__``.
    """

    def __init__(self, array: npt.NDArray[Any], device: int = 0, kind: int = CUDA) -> None:
        self.array = array
        self.shape = array.shape
        self.exports: list[dict[str, Any]] = []
        self._device = (kind, device)
        counts = [step // array.itemsize for step in array.strides]
        self._shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self._strides = (ctypes.c_int64 * array.ndim)(*counts)
        kind_of = _Type(_CODES[array.dtype.kind], array.itemsize * 8, 1)
        tensor = _Tensor(
            array.ctypes.data if array.size else None,
            _Device(*self._device), array.ndim, kind_of, self._shape, self._strides, 0,
        )  # fmt: skip
        self._managed = _Managed(_Version(1, 0), None, None, int(not array.flags.writeable), tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **keywords: Any) -> Any:
        self.exports.append(keywords)
        return _capsule(ctypes.addressof(self._managed), b"dltensor_versioned", None)


class InterfaceArray:
    """An array that exports ``__cuda_array_interface__`` alone, over the memory of a NumPy array."""

    def __init__(self, array: npt.NDArray[Any], **more: Any) -> None:
        self.array = array
        self.shape = array.shape
        self._more = more

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        contiguous = self.array.flags.c_contiguous
        return {
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "data": (self.array.ctypes.data if self.array.size else 0, not self.array.flags.writeable),
            "strides": None if contiguous else self.array.strides,
            "version": 3,
        } | self._more


class Tensor:
    """What this package uses of a tensor of PyTorch."""

    def __init__(self, array: npt.NDArray[Any], device: str = "cuda", index: int | None = 0) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = SimpleDtype(f"torch.{array.dtype.name}")
        self.device = SimpleNamespace(type=device, index=index)
        self._pointer, self._contiguous = array.ctypes.data, array.flags.c_contiguous

    def data_ptr(self) -> int:
        return self._pointer

    def is_contiguous(self) -> bool:
        return self._contiguous

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)


class CupyArray:
    """What this package uses of an array of CuPy."""

    def __init__(self, array: npt.NDArray[Any], device: int = 0) -> None:
        self.array = array
        self.shape, self.strides, self.dtype, self.itemsize, self.flags = (
            array.shape, array.strides, array.dtype, array.itemsize, array.flags,
        )  # fmt: skip
        self.data = SimpleNamespace(ptr=array.ctypes.data)
        self.device = SimpleNamespace(id=device)


class JaxArray(DlpackArray):
    """What this package uses of an array of JAX."""

    _pjrt_layout = ""

    def __init__(self, array: npt.NDArray[Any], device: int = 0) -> None:
        super().__init__(array, device)
        self.dtype, self.sharding = array.dtype, f"device {device}"
        self._pjrt_layout, self._pointer = f"strides {array.strides}", array.ctypes.data

    def unsafe_buffer_pointer(self) -> int:
        return self._pointer


class SimpleDtype(NamedTuple):
    """A type of elements that prints as PyTorch's does."""

    name: str

    def __str__(self) -> str:
        return self.name


class Call(NamedTuple):
    """A call at the boundary."""

    name: str
    arguments: tuple[Any, ...]


class Stream(NamedTuple):
    """A stream of a device."""

    device: int


class Event:
    """A point in a stream, and when it was reached."""

    def __init__(self) -> None:
        self.at_us = 0.0


class Graph:
    """What was put on a stream while it was captured, in order."""

    def __init__(self, machine: Machine) -> None:
        self.work: list[Callable[[], None]] = []
        self.replays = 0
        self._machine = machine

    def close(self) -> None:
        """Forget it."""
        self._machine.calls.append(Call("close_graph", (self,)))
        self.work.clear()


class Loaded(NamedTuple):
    """What the driver was given, and where."""

    code: bytes
    assembled: bool
    entry: str
    device: int


class Buffer:
    """Device memory."""

    def __init__(self, memory: npt.NDArray[np.uint8], machine: Machine) -> None:
        self.handle = memory.ctypes.data
        self._machine = machine

    def close(self, stream: Stream) -> None:
        """Free it."""
        self._machine.calls.append(Call("close", (self.handle, stream)))
        self._machine.memories.pop(self.handle, None)

    def __del__(self) -> None:
        self._machine.memories.pop(self.handle, None)


class Machine:
    """Answers for `ptxtemplates.gpu.boundary`: its methods have the names and parameters of those functions.

    Parameters
    ----------
    kernels : Kernel
        Launches of these are executed by the emulator; others are recorded alone. Launches of a graph are
        executed when it is replayed for the first time.

    Attributes
    ----------
    calls : list of Call
        Every call; the launches of a graph stand where they were captured.
    now_us : float
        The time, in microseconds. Nothing takes time but launches and copies on the device.
    launch_us : callable
        Takes what is loaded and returns the time of a launch.
    copy_rate : float
        Bytes a microsecond that a copy on the device reads and writes.
    """

    def __init__(self, *kernels: Kernel) -> None:
        self.calls: list[Call] = []
        self.memories: dict[int, npt.NDArray[np.uint8]] = {}
        self.arch = "sm_90"
        self.present = 0
        self.free = 1 << 26
        self.l2 = 4096
        self.now_us = 0.0
        self.launch_us: Callable[[Loaded], float] = lambda loaded: 2.0
        self.copy_rate = 1000.0
        self.after_launch: Callable[[], None] = lambda: None
        self._captured: Graph | None = None
        self._executes = True
        self._kernels = {kernel.entry: kernel for kernel in kernels}

    def names(self) -> list[str]:
        """Return what was called, in order."""
        return [call.name for call in self.calls]

    def launches(self) -> list[tuple[Any, ...]]:
        """Return (stream, configuration, kernel, arguments ...) of each launch, scalars as numbers."""
        return [
            tuple(getattr(word, "value", word) for word in call.arguments)
            for call in self.calls
            if call.name == "launch"
        ]

    def architecture(self, device: int) -> str:
        return self.arch

    def name(self, device: int) -> str:
        return f"stand-in {device}"

    def describe_driver(self) -> tuple[tuple[int, int], int]:
        return (13, 1), 2

    def l2_size(self, device: int) -> int:
        return self.l2

    def free_memory(self, device: int) -> int:
        return self.free

    def current_device(self) -> int:
        return self.present

    @contextlib.contextmanager
    def current(self, device: int) -> Iterator[None]:
        before, self.present = self.present, device
        yield
        self.present = before

    def load(self, code: bytes, *, assembled: bool, entry: str, device: int) -> Loaded:
        self.calls.append(Call("load", (entry, device)))
        return Loaded(code, assembled, entry, device)

    def configuration(self, grid: Any, block: Any) -> tuple[Any, Any]:
        return grid, block

    def launcher(self) -> Callable[..., None]:
        return self._launch

    def has_context(self) -> bool:
        return True

    def stream_of(self, stream: Any) -> Any:
        return stream

    def device_of(self, stream: Stream) -> int | None:
        return stream.device

    def is_capturing(self, stream: Stream) -> bool:
        return self._captured is not None

    def device_of_pointer(self, pointer: int) -> int:
        return 0

    def allocate(self, device: int, size: int, stream: Stream) -> Buffer:
        self.calls.append(Call("allocate", (device, size, stream)))
        return self._allocated(size)

    def allocate_alone(self, device: int, size: int) -> Buffer:
        self.calls.append(Call("allocate_alone", (device, size)))
        return self._allocated(size)

    def _allocated(self, size: int) -> Buffer:
        whole = np.zeros(size + 256, np.uint8)
        memory = whole[-whole.ctypes.data % 256 :][:size]
        self.memories[memory.ctypes.data] = memory
        return Buffer(memory, self)

    def copy_to_device(self, pointer: int, source: int, size: int, stream: Stream) -> None:
        self.calls.append(Call("copy_to_device", (pointer, source, size, stream)))
        ctypes.memmove(pointer, source, size)

    def copy_to_host(self, target: int, pointer: int, size: int, stream: Stream) -> None:
        self.calls.append(Call("copy_to_host", (target, pointer, size, stream)))
        ctypes.memmove(target, pointer, size)

    def copy_on_device(self, target: int, pointer: int, size: int, stream: Stream) -> None:
        self.calls.append(Call("copy_on_device", (target, pointer, size, stream)))

        def copy() -> None:
            self._view(target)[:size] = self._view(pointer)[:size]
            self.now_us += 2 * size / self.copy_rate

        self._put(copy)

    def fill(self, pointer: int, word: int, words: int, stream: Stream) -> None:
        self.calls.append(Call("fill", (pointer, word, words, stream)))
        self._view(pointer)[: words * 4].view(np.uint32)[:] = word

    def synchronise(self, stream: Stream) -> None:
        self.calls.append(Call("synchronise", (stream,)))

    def create_stream(self, device: int) -> Stream:
        return Stream(device)

    def handle_of(self, stream: Stream) -> int:
        return stream.device + 1

    def capture(self, stream: Stream, enqueue: Callable[[Stream], None]) -> Graph:
        self._captured = graph = Graph(self)
        try:
            enqueue(stream)
        finally:
            self._captured = None
        self.calls.append(Call("capture", (stream, graph)))
        return graph

    def replay(self, graph: Graph, stream: Stream) -> None:
        self.calls.append(Call("replay", (graph, stream)))
        assert graph.work, "a graph that is empty, or closed"
        graph.replays += 1
        self._executes = graph.replays == 1
        for work in graph.work:
            work()
        self._executes = True

    def create_event(self, device: int) -> Event:
        return Event()

    def record(self, event: Event, stream: Stream) -> None:
        event.at_us = self.now_us

    def elapsed_ms(self, start: Event, end: Event) -> float:
        return (end.at_us - start.at_us) / 1000

    def _put(self, work: Callable[[], None]) -> None:
        """Do what is put on a stream, or keep it for the graph that is being captured."""
        if self._captured is None:
            work()
        else:
            self._captured.work.append(work)

    def _launch(self, stream: Stream, configuration: Any, loaded: Loaded, *values: Any) -> None:
        self.calls.append(Call("launch", (stream, configuration, loaded, *values)))

        def launch() -> None:
            if loaded.entry in self._kernels and self._executes:
                self._emulate(self._kernels[loaded.entry], configuration, loaded, values)
            self.now_us += self.launch_us(loaded)
            self.after_launch()

        self._put(launch)

    def _emulate(self, kernel: Kernel, configuration: Any, loaded: Loaded, values: tuple[Any, ...]) -> None:
        grid, block = configuration
        tables = {
            value: self._view(value)[: grid[1] * 8].view(np.uint64)
            for argument, value in zip(kernel.arguments, values, strict=True)
            if argument.tensor is not None and argument.tensor.points_to is not None
        }
        behind: dict[int, bool] = {}
        for argument, value in zip(kernel.arguments, values, strict=True):
            if argument.tensor is not None and value not in tables:
                behind[value] = behind.get(value, False) or argument.role == "output"
        behind |= {int(to): False for table in tables.values() for to in table}
        views = self._apart(behind)
        words: list[Any] = []
        for argument, value in zip(kernel.arguments, values, strict=True):
            if argument.tensor is None:
                words.append(value.value)
            elif value in tables:
                words.append(PointerTable([views[int(to)] for to in tables[value]]))
            else:
                words.append(views[value])
        report = emulate(loaded.code.decode(), loaded.entry, grid, block, words)
        assert not report.findings, report.findings[0].describe()

    def _apart(self, pointers: dict[int, bool]) -> dict[int, npt.NDArray[np.uint8]]:
        """Return the memory behind each address, and whether it is written, as arrays that do not overlap.

        The emulator knows no memory in which arrays lie beside or within each other: there, what is written
        ends where another array begins, and what is only read is a copy.
        """
        views = {}
        for pointer, written in pointers.items():
            view = self._view(pointer)
            within = [other for other in pointers if pointer < other < pointer + view.size]
            before = [other for other in pointers if other < pointer < other + self._view(other).size]
            if written and within:
                view = view[: min(within) - pointer]
            elif within or before:
                view = view if written else view.copy()
            views[pointer] = view
        return views

    def _view(self, pointer: int) -> npt.NDArray[np.uint8]:
        """Return the device memory from an address to the end of its allocation."""
        for start, memory in self.memories.items():
            if start <= pointer < start + memory.size:
                return memory[pointer - start :]
        raise AssertionError(f"{pointer:#x} is no device memory")
