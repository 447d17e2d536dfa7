"""What a launch must know of an array, whichever library it is of.

DLPack is read by cuda.core; ``__cuda_array_interface__`` (Numba) where there is no DLPack. Arrays of PyTorch,
CuPy and JAX are read by their attributes, which takes less time. No library is imported for it, and no stream
is made to wait: whoever launches on another stream than an array was made on orders the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from ptxtemplates.gpu import boundary

HOST: Final = -1
"""Device of memory that no GPU can read."""

NOWHERE: Final = -2
"""Device of an array that has no memory, because it has no elements."""

KEPT: Final = 4096
"""How many kinds of arrays of a library are remembered."""


class Layout(NamedTuple):
    """An array without its address.

    Attributes
    ----------
    shape : tuple of int
    strides : tuple of int or None
        In elements; None if it is contiguous in C order.
    dtype : object
        Of its library; `dtype_name` is its name.
    device : int
        `HOST`, `NOWHERE`, or the number of the GPU.
    read_only : bool
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: object
    device: int
    read_only: bool

    @property
    def contiguous(self) -> bool:
        """Whether elements follow each other in C order."""
        return self.strides is None or is_contiguous(self.shape, self.strides)


Plain: TypeAlias = tuple[tuple[int, ...], tuple[int, ...] | None, object, int, bool]
"""The fields of a `Layout`: a tuple of them is made and hashed on every launch."""


class Reader(NamedTuple):
    """What reads arrays of a type.

    Attributes
    ----------
    address : callable
        Takes an array and returns its address.
    whole : callable
        Takes an array and returns its address and layout; raises `BufferError` if it is in the memory of
        another device than a GPU of NVIDIA or the host.
    """

    address: Callable[[Any], int]
    whole: Callable[[Any], tuple[int, Plain]]


class _Readers(dict[type, Reader]):
    """What reads arrays of a type: ``READERS[type(array)].whole(array)``.

    Raises
    ------
    TypeError
        If it is no array: PyTorch's, or one with DLPack or ``__cuda_array_interface__``.
    """

    def __missing__(self, kind: type) -> Reader:
        reader = self[kind] = _reader_of(kind)
        return reader


READERS: Final = _Readers()


def read(array: Any) -> tuple[int, Layout]:
    """Return an array's address and layout."""
    pointer, layout = READERS[type(array)].whole(array)
    return pointer, Layout(*layout)


def dtype_name(dtype: object) -> str:
    """Return NumPy's name of a type of elements, such as ``float32``, for that of any library."""
    return str(dtype).removeprefix("torch.")


def _reader_of(kind: type) -> Reader:
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(kind, torch.Tensor):
        return Reader(lambda tensor: int(tensor.data_ptr()), _read_tensor)
    cupy = sys.modules.get("cupy")
    if cupy is not None and issubclass(kind, cupy.ndarray):
        return Reader(lambda array: int(array.data.ptr), _read_cupy)
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, numpy.ndarray):
        return Reader(lambda array: int(array.ctypes.data), _read_ndarray)
    if hasattr(kind, "__dlpack__"):
        reader = _dlpack_reader(boundary.strided_view())
        jax = sys.modules.get("jax")
        is_jax = jax is not None and issubclass(kind, jax.Array)
        return _jax_reader(reader) if is_jax and all(hasattr(kind, name) for name in _OF_JAX) else reader
    if hasattr(kind, "__cuda_array_interface__"):
        return Reader(lambda array: int(array.__cuda_array_interface__["data"][0]), _read_interface)
    raise TypeError(f"{kind.__name__} is no array: it has neither __dlpack__ nor __cuda_array_interface__")


@lru_cache(maxsize=4096)
def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Say whether elements follow each other in C order; the stride of an extent of 1 says nothing."""
    if 0 in shape:
        return True
    expected = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return all(
        extent == 1 or stride == wanted
        for extent, stride, wanted in zip(shape, strides, expected, strict=True)
    )


def _dlpack_reader(view_of: Callable[[object, int], Any]) -> Reader:
    def read_dlpack(array: Any) -> tuple[int, Plain]:
        view = view_of(array, -1)
        device = view.device_id if view.is_device_accessible else HOST
        return view.ptr, (view.shape, view.strides, view.dtype, device, view.readonly)

    return Reader(lambda array: int(view_of(array, -1).ptr), read_dlpack)


_OF_JAX: Final = ("unsafe_buffer_pointer", "_pjrt_layout")
"""What arrays of JAX are read by beside their public properties; without one of them, by DLPack."""


def _jax_reader(dlpack: Reader) -> Reader:
    """Return what asks DLPack once for arrays that are alike: JAX exports in Python, which takes 5 us."""
    known: dict[tuple[object, ...], Plain] = {}

    def read_jax(array: Any) -> tuple[int, Plain]:
        # two arrays that share all these differ in their addresses alone; the sharding says where they are
        key = (array.shape, array.dtype, array.sharding, array._pjrt_layout)
        plain = known.get(key)
        if plain is None:
            _, plain = dlpack.whole(array)
            if len(known) >= KEPT:
                known.clear()
            known[key] = plain
        return array.unsafe_buffer_pointer(), plain

    return Reader(lambda array: int(array.unsafe_buffer_pointer()), read_jax)


def _read_tensor(tensor: Any) -> tuple[int, Plain]:
    device = tensor.device
    index = device.index if device.type == "cuda" else HOST
    if index == HOST and device.type != "cpu":
        raise BufferError(f"it is on {device}, and not on a GPU of NVIDIA")
    strides = None if tensor.is_contiguous() else tuple(tensor.stride())
    return tensor.data_ptr(), (tuple(tensor.shape), strides, tensor.dtype, index, False)


def _read_cupy(array: Any) -> tuple[int, Plain]:
    strides = None if array.flags.c_contiguous else _counted(array)
    return array.data.ptr, (array.shape, strides, array.dtype, array.device.id, False)


def _read_ndarray(array: Any) -> tuple[int, Plain]:
    strides = None if array.flags.c_contiguous else _counted(array)
    return array.ctypes.data, (array.shape, strides, array.dtype, HOST, not array.flags.writeable)


def _counted(array: Any) -> tuple[int, ...]:
    """Return strides in elements."""
    return tuple(step // array.itemsize for step in array.strides)


def _read_interface(array: Any) -> tuple[int, Plain]:
    interface = array.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise BufferError("it has a mask")
    pointer, read_only = interface["data"]
    shape, kind = tuple(interface["shape"]), interface["typestr"]
    strides = interface.get("strides")
    if strides is not None:
        strides = tuple(step // int(kind[2:]) for step in strides)
    # the interface does not say which device
    device = boundary.device_of_pointer(pointer) if pointer else NOWHERE
    return pointer, (shape, strides, _named(kind), device, read_only)


_KINDS: Final = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}


@lru_cache(maxsize=256)
def _named(typestr: str) -> str:
    """Return the name of a type that the array interface calls ``<f4`` or alike."""
    order, kind, size = typestr[0], typestr[1], typestr[2:]
    if order == ">" or kind not in _KINDS:
        return typestr
    return _KINDS[kind] + ("" if kind == "b" else str(8 * int(size)))
