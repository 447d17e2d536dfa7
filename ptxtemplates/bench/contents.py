"""Device memory full of plausible elements: a tile of random ones, copied until all is full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.errors import UnknownKernelError
from ptxtemplates.gpu import boundary

if TYPE_CHECKING:
    from collections.abc import Callable

    import cuda.core
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

TILE: Final = 1 << 20
"""Bytes that are made on the host."""


def _normal(dtype: npt.DTypeLike) -> Callable[[np.random.Generator], npt.NDArray[Any]]:
    return lambda rng: rng.standard_normal(TILE // np.dtype(dtype).itemsize, np.float32).astype(dtype)


def _bfloat(rng: np.random.Generator) -> npt.NDArray[Any]:
    """Cut float32 numbers to their first 16 bits, which are bfloat16 numbers."""
    return (rng.standard_normal(TILE // 2, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _integers(rng: np.random.Generator) -> npt.NDArray[Any]:
    return rng.integers(0, 256, TILE, np.uint8)


ELEMENTS: Final[dict[str, Callable[[np.random.Generator], npt.NDArray[Any]]]] = {
    **{f"{kind}{bits}": _integers for kind in "us" for bits in (8, 16, 32, 64)},
    "b8": _integers,
    # bits of these sizes are floating-point numbers, if they are numbers
    **dict.fromkeys(("f16", "f16x2", "b16"), _normal(np.float16)),
    **dict.fromkeys(("f32", "f32x2", "tf32", "b32"), _normal(np.float32)),
    **dict.fromkeys(("f64", "b64"), _normal(np.float64)),
    **dict.fromkeys(("bf16", "bf16x2"), _bfloat),
}
"""What makes a tile, by type of element. No floating-point number of it is NaN or infinite."""


def tile_of(element: str) -> Bytes:
    """Return a tile of random elements, the same in every run.

    Raises
    ------
    UnknownKernelError
        If it is not known what elements of that type may be.
    """
    if element not in ELEMENTS:
        raise UnknownKernelError(
            f"elements of type {element} cannot be filled: the bench knows {', '.join(sorted(ELEMENTS))}"
        )
    return ELEMENTS[element](np.random.default_rng(0)).view(np.uint8)


def write(address: int, content: Bytes, stream: cuda.core.Stream) -> None:
    """Copy bytes of the host to device memory, and wait until they are there."""
    boundary.copy_to_device(address, content.ctypes.data, content.size, stream)
    boundary.synchronise(stream)  # `content` may go


def fill(address: int, size: int, element: str, stream: cuda.core.Stream) -> None:
    """Fill device memory with elements: a tile from the host, doubled on the device until all is full."""
    done = min(size, TILE)
    write(address, tile_of(element)[:done], stream)
    while done < size:
        step = min(done, size - done)
        boundary.copy_on_device(address + done, address, step, stream)
        done += step
