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
        Launches of these are executed by the emulator; others are recorded alone.
    """

    def __init__(self, *kernels: Kernel) -> None:
        self.calls: list[Call] = []
        self.memories: dict[int, npt.NDArray[np.uint8]] = {}
        self.arch = "sm_90"
        self.present = 0
        self.free = 1 << 26
        self.after_launch: Callable[[], None] = lambda: None
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

    def configuration(self, grid: Any, block: Any, shared_memory: int) -> tuple[Any, Any, int]:
        return grid, block, shared_memory

    def launcher(self) -> Callable[..., None]:
        return self._launch

    def stream_of(self, stream: Any) -> Any:
        return stream

    def device_of(self, stream: Stream) -> int:
        return stream.device

    def device_of_pointer(self, pointer: int) -> int:
        return 0

    def allocate(self, device: int, size: int, stream: Stream) -> Buffer:
        self.calls.append(Call("allocate", (device, size, stream)))
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

    def fill(self, pointer: int, word: int, words: int, stream: Stream) -> None:
        self.calls.append(Call("fill", (pointer, word, words, stream)))
        self._view(pointer)[: words * 4].view(np.uint32)[:] = word

    def synchronise(self, stream: Stream) -> None:
        self.calls.append(Call("synchronise", (stream,)))

    def create_stream(self, device: int) -> Stream:
        return Stream(device)

    def _launch(self, stream: Stream, configuration: Any, loaded: Loaded, *values: Any) -> None:
        self.calls.append(Call("launch", (stream, configuration, loaded, *values)))
        if loaded.entry in self._kernels:
            self._emulate(self._kernels[loaded.entry], configuration, loaded, values)
        self.after_launch()

    def _emulate(self, kernel: Kernel, configuration: Any, loaded: Loaded, values: tuple[Any, ...]) -> None:
        grid, block, shared_memory = configuration
        views: dict[int, Any] = {}
        words: list[Any] = []
        for argument, value in zip(kernel.arguments, values, strict=True):
            if argument.tensor is None:
                words.append(value.value)
            elif argument.tensor.points_to is None:
                words.append(views.setdefault(value, self._view(value)))
            else:
                table = self._view(value)[: grid[1] * 8].view(np.uint64)
                words.append(PointerTable([views.setdefault(int(to), self._view(int(to))) for to in table]))
        report = emulate(loaded.code.decode(), loaded.entry, grid, block, words, shared_memory=shared_memory)
        assert not report.findings, report.findings[0].describe()

    def _view(self, pointer: int) -> npt.NDArray[np.uint8]:
        """Return the device memory from an address to the end of its allocation."""
        for start, memory in self.memories.items():
            if start <= pointer < start + memory.size:
                return memory[pointer - start :]
        raise AssertionError(f"{pointer:#x} is no device memory")
