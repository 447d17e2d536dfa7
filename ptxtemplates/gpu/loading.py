"""PTX texts to kernels of the driver: each loaded once for a device, by whichever thread comes first."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from ptxtemplates.assembly import assemble
from ptxtemplates.errors import AssemblyError, MissingExtraError
from ptxtemplates.gpu import availability, boundary
from ptxtemplates.gpu.errors import GpuError
from ptxtemplates.ptx.targets import TARGETS

if TYPE_CHECKING:
    import cuda.core

_loading: Final = threading.Lock()
_loaded: Final[dict[tuple[str, str, int], cuda.core.Kernel]] = {}


def load_text(text: str, entry: str, device: int) -> cuda.core.Kernel:
    """Return an entry of a PTX text, ready to be launched on a device.

    Machine code is assembled by ptxas and kept between processes, as `ptxtemplates.assembly` does; where
    ptxas is not installed, does not know the GPU, or is newer than the driver, which refuses its machine code
    then, the driver assembles the text.

    Raises
    ------
    GpuError
        If no GPU can be used, or the driver refuses the text.
    AssemblyError
        If the text does not assemble, or not for this device.
    """
    availability.require()
    key = (text, entry, device)
    if (found := _loaded.get(key)) is not None:
        return found
    with _loading:  # texts one after another: a few milliseconds each, and once
        if key not in _loaded:
            _loaded[key] = _load(text, entry, device)
        return _loaded[key]


def _load(text: str, entry: str, device: int) -> cuda.core.Kernel:
    code, assembled = _machine_code(text, boundary.architecture(device))
    refused: list[Exception] = []
    # a driver that is older than the assembler refuses its machine code, and may know the text
    for image, is_code in [(code, True), (text.encode(), False)] if assembled else [(code, False)]:
        try:
            return boundary.load(image, assembled=is_code, entry=entry, device=device)
        except Exception as error:  # also what cuda.core itself finds wrong
            refused.append(error)
    said = "; of the text, ".join(dict.fromkeys(map(str, refused)))
    last = refused[-1]
    name = last.name if isinstance(last, GpuError) else ""
    raise GpuError(f"{entry} cannot be loaded on device {device}: {said}", name=name) from last


def _machine_code(text: str, architecture: str) -> tuple[bytes, bool]:
    """Return a cubin and True; or, where no assembler can make one, the text and False."""
    try:
        return assemble(text, architecture).cubin, True
    except MissingExtraError:
        return text.encode(), False
    except AssemblyError as error:
        if error.faults or architecture in TARGETS:
            raise
        return text.encode(), False  # a GPU newer than the assembler
