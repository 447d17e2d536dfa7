"""Arrays of the host: copied to the GPU, and outputs back, around one launch."""

from __future__ import annotations

import contextlib
from array import array as numbers
from math import prod
from typing import TYPE_CHECKING, Any

from ptxtemplates.gpu import boundary
from ptxtemplates.gpu.arrays import Layout, read
from ptxtemplates.gpu.checks import check, check_overlap
from ptxtemplates.gpu.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import cuda.core

    from ptxtemplates.gpu.signature import Memory, Signature

    Found = tuple[int, Layout]


def launch_on_host(
    signature: Signature,
    arrays: Sequence[Any],
    sizes: Mapping[str, int],
    device: int,
    stream: cuda.core.Stream,
    enqueue: Callable[[list[int], Mapping[str, int]], None],
) -> None:
    """Check, copy in, launch, copy outputs back, and wait for all that.

    Parameters
    ----------
    signature : Signature
    arrays : sequence of array, or of sequences of arrays
        For each of `Signature.memories`; a sequence for a table of pointers.
    sizes : mapping of str to int
        Run-time sizes that the caller names.
    device : int
    stream : cuda.core.Stream
    enqueue : callable
        Takes addresses on the device, in the order of `arrays`, and every run-time size; launches.

    Raises
    ------
    LaunchError
        If the arrays do not fit, or the stream is being captured; nothing has been launched then.
    """
    found: list[Found | list[Found]] = []
    for (_, memory), given in zip(signature.memories, arrays, strict=True):
        try:
            found.append([read(one) for one in given] if isinstance(given, (list, tuple)) else read(given))
        except Exception as error:  # of any library
            raise LaunchError(f"{signature.variant}: {memory.name}: {error}", argument=memory.name) from error
    layouts = [[layout for _, layout in one] if isinstance(one, list) else one[1] for one in found]
    checked = check(signature, layouts, sizes, device)
    for (_, memory), one in zip(signature.memories, found, strict=True):
        if memory.target is not None and not isinstance(one, list):
            raise LaunchError(
                f"{signature.variant}: {memory.name}: addresses in host memory; pass the sequence of the "
                "host's arrays, which are copied with it",
                argument=memory.name,
            )
    # a table is made anew, and shares no memory with anything
    starts = [0 if isinstance(one, list) else one[0] for one in found]
    spans = [0 if isinstance(one, list) else span for one, span in zip(found, checked.spans, strict=True)]
    check_overlap(signature, starts, spans)
    with boundary.current(device), contextlib.ExitStack() as kept:
        if boundary.is_capturing(stream):
            raise LaunchError(
                f"{signature.variant}: stream: it is being captured into a graph, and arrays of the host "
                "cannot be copied then: pass arrays of the GPU",
                argument="stream",
            )
        copies = _Copies(device, stream, kept)
        pointers = [
            copies.table_of(memory.target, one) if isinstance(one, list) else copies.of(one[0], span)
            for (_, memory), one, span in zip(signature.memories, found, spans, strict=True)
        ]
        enqueue(pointers, checked.sizes)
        for (_, memory), start, pointer, span in zip(
            signature.memories, starts, pointers, spans, strict=True
        ):
            if memory.output and span:
                boundary.copy_to_host(start, pointer, span, stream)
        boundary.synchronise(stream)


class _Copies:
    """Arrays of the host on a device, each once, until `kept` is closed."""

    def __init__(self, device: int, stream: cuda.core.Stream, kept: contextlib.ExitStack) -> None:
        self._device = device
        self._stream = stream
        self._kept = kept
        self._made: dict[tuple[int, int], int] = {}
        self._tables: list[numbers[int]] = []

    def of(self, start: int, size: int) -> int:
        """Return the address of a copy of the host's bytes from `start` on."""
        if not size:
            return 0
        if (start, size) not in self._made:
            buffer = boundary.allocate(self._device, size, self._stream)
            self._kept.callback(buffer.close, self._stream)
            boundary.copy_to_device(int(buffer.handle), start, size, self._stream)
            self._made[start, size] = int(buffer.handle)
        return self._made[start, size]

    def table_of(self, target: Memory | None, arrays: Sequence[Found]) -> int:
        """Return the address of a table of the addresses of copies."""
        assert target is not None  # `check` refuses a sequence for anything else
        table = numbers("Q", (self.of(start, prod(a.shape) * target.itemsize) for start, a in arrays))
        self._tables.append(table)  # the copy of it need not be done yet
        start, count = table.buffer_info()
        return self.of(start, count * table.itemsize)
