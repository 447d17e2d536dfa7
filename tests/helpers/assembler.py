"""The assembler of the CUDA toolkit as a library: it needs no GPU and no driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from cuda.bindings import nvjitlink

if TYPE_CHECKING:
    from collections.abc import Callable


class Assembled(NamedTuple):
    """A cubin, and the bytes of register spills that the assembler reports for it."""

    cubin: bytes
    spills: int


def assemble(text: str, architecture: str, *more: str) -> Assembled:
    """Assemble and link PTX texts into one cubin; raise ``AssertionError`` with the log if that fails."""
    options = [f"-arch={architecture}", "-verbose"]
    handle = nvjitlink.create(len(options), options)
    try:
        for index, part in enumerate((text, *more)):
            data = part.encode()
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), f"{index}.ptx")
        nvjitlink.complete(handle)
        log = _log(nvjitlink.get_info_log_size, nvjitlink.get_info_log, handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
    except nvjitlink.nvJitLinkError as error:
        log = _log(nvjitlink.get_error_log_size, nvjitlink.get_error_log, handle)
        raise AssertionError(f"{architecture}: {log}") from error
    finally:
        nvjitlink.destroy(handle)
    spills = sum(int(count) for count in re.findall(r"(\d+) bytes spill (?:stores|loads)", log))
    return Assembled(bytes(cubin), spills)


def _log(size: Callable[[int], int], read: Callable[[int, bytearray], object], handle: int) -> str:
    buffer = bytearray(size(handle))
    read(handle, buffer)
    return buffer.decode(errors="replace").rstrip("\0")
