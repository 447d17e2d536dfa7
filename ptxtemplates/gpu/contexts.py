"""Contexts and streams: a part of `ptxtemplates.gpu.boundary`, which has these functions too."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from ptxtemplates.gpu.errors import LaunchError
from ptxtemplates.gpu.refusals import check, translated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuda.core import Stream
    from cuda.core.graph import GraphBuilder
    from cuda.core.typing import IsStreamType

    AnyStream: TypeAlias = Stream | GraphBuilder | IsStreamType | int

CAPTURE_IMPLICIT: Final = 906
"""CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: a default stream, which another one that is captured would wait for."""

LEGACY: Final = 1
PER_THREAD: Final = 2
DEFAULTS: Final = (0, LEGACY, PER_THREAD)
"""Handles of default streams, which are those of the current context; 0 is the legacy one."""

KEPT: Final = 64
"""How many streams are remembered by their handles."""


def current_device() -> int:
    """Return the device of this thread's current context, 0 if it has none."""
    return _device_of_current() if has_context() else 0


def has_context() -> bool:
    """Say whether a context is current in this thread."""
    from cuda.bindings import driver

    code, context = driver.cuCtxGetCurrent()
    check(code)
    return bool(int(context))


@contextlib.contextmanager
def current(device: int) -> Iterator[None]:
    """Make a device's primary context current for a while, in this thread."""
    from cuda.bindings import driver

    code, before = driver.cuCtxGetCurrent()
    check(code)
    _make_current(device)
    try:
        yield
    except BaseException:
        driver.cuCtxSetCurrent(before)  # what it says would hide the error
        raise
    check(*driver.cuCtxSetCurrent(before))


def stream_of(stream: AnyStream) -> Stream:
    """Return the stream that is meant: cuda.core's own, one being captured, any library's, or a handle."""
    own, builder, by_handle = _streams()
    if isinstance(stream, own):
        return stream
    if isinstance(stream, builder):
        return stream.stream
    handle = stream if isinstance(stream, int) else _handle_of(stream)
    found = by_handle.get(handle)
    if found is None:
        if len(by_handle) >= KEPT:
            for other in [other for other in by_handle if other not in DEFAULTS]:
                by_handle.pop(other, None)
        # cuda.core defines a class for each of these: 10 us, and garbage
        found = by_handle[handle] = own.from_handle(handle)
    return found


def device_of(stream: AnyStream) -> int | None:
    """Return the device that a stream belongs to; None for a default stream where no context is current."""
    own, builder, by_handle = _streams()
    if isinstance(stream, builder):
        stream = stream.stream
    if isinstance(stream, own):
        if stream is not by_handle[LEGACY] and stream is not by_handle[PER_THREAD]:
            return _device_of_own(stream)
        handle = LEGACY
    else:
        handle = stream if isinstance(stream, int) else _handle_of(stream)
    if handle in DEFAULTS:
        return _device_of_current() if has_context() else None
    return _device_of_handle(handle)


def is_capturing(stream: Stream) -> bool:
    """Say whether what is put on a stream goes into a graph."""
    from cuda.bindings import driver

    code, status = driver.cuStreamIsCapturing(stream.handle)
    if int(code) == CAPTURE_IMPLICIT:
        return True
    check(code)
    return bool(int(status))


@cache
def _streams() -> tuple[type[Stream], type[GraphBuilder], dict[int, Stream]]:
    """Return cuda.core's classes of streams, and streams by handle: for a while, but those of `DEFAULTS`."""
    from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Stream
    from cuda.core.graph import GraphBuilder

    legacy, thread = LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM
    return Stream, GraphBuilder, {0: legacy, LEGACY: legacy, PER_THREAD: thread}


def _handle_of(stream: IsStreamType) -> int:
    if not hasattr(stream, "__cuda_stream__"):
        raise LaunchError(
            f"stream: {type(stream).__name__} is no stream: pass one of cuda.core, an object with "
            "__cuda_stream__, or the handle as an int (torch: stream.cuda_stream, CuPy: stream.ptr)",
            argument="stream",
        )
    handle: int = stream.__cuda_stream__()[1]
    return handle


@translated
def _device_of_own(stream: Stream) -> int:
    device: int = stream.device.device_id
    return device


def _device_of_current() -> int:
    from cuda.bindings import driver

    code, device = driver.cuCtxGetDevice()
    check(code)
    return int(device)


@translated
def _make_current(device: int) -> None:
    from cuda.core import Device

    Device(device).set_current()


def _device_of_handle(handle: int) -> int:
    """Ask the driver, each time: a handle may come back as that of another stream, on another device."""
    from cuda.bindings import driver

    # by its context: there are drivers whose cuStreamGetDevice ends a capture
    code, context = driver.cuStreamGetCtx(handle)
    check(code)
    code, present = driver.cuCtxGetCurrent()
    check(code)
    if int(context) == int(present):
        return _device_of_current()
    check(*driver.cuCtxPushCurrent(context))
    try:
        return _device_of_current()
    finally:
        driver.cuCtxPopCurrent()
