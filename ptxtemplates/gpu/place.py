"""A GPU as a place that runs cases: buffers between guards, every case twice; or bare, for a sanitizer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.gpu import boundary
from ptxtemplates.gpu.availability import require
from ptxtemplates.gpu.blocks import beside_the_case
from ptxtemplates.gpu.errors import GpuError
from ptxtemplates.gpu.loading import load_text
from ptxtemplates.gpu.signature import signature_of
from ptxtemplates.references.case import Close, Input, Output, Sparse, Table
from ptxtemplates.references.place import Observation, Ran, SkippedCase

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import cuda.core
    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.references.case import Buffer, Case, Launch
    from ptxtemplates.references.place import Contents, Text

    Bytes = npt.NDArray[np.uint8]

GUARD: Final = 4096
"""Bytes before and behind each buffer; a multiple of what a device aligns memory to."""

GUARD_WORD: Final = 0xA5A5A5A5
NAN: Final = 0x7FC00000
"""Bits of the float32 that outputs are filled with."""

FAULTS: Final = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "out of bounds",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "misaligned",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "wrong state space",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "illegal instruction",
    "CUDA_ERROR_INVALID_PC": "invalid program counter",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "stack error",
    "CUDA_ERROR_ASSERT": "trap",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "does not end",
    "CUDA_ERROR_LAUNCH_FAILED": "launch failed",
}
"""What a kernel can do that ends the context it runs in, and with it what this process can do on the GPU."""


class Device:
    """A GPU.

    Buffers lie between guard bytes, outputs are filled with NaN, and every case runs twice: its results must
    have the same bits. All blocks of a grid run; where a case chooses some, the elements of the others count
    as never written.

    A kernel that does what hardware does not allow (`FAULTS`) is a finding of its case, in which nothing
    counts as written then. CUDA runs nothing more in the process: all other cases are skipped, with that
    reason.

    Parameters
    ----------
    device : int, optional
        Which; by default that of this thread's current context, or 0.
    bare : bool
        For a process under compute-sanitizer (see `ptxtemplates.gpu.sanitizer`), from which guards would hide
        accesses beside a buffer, and NaN in outputs that they were never written: no guards, outputs as they
        were allocated, one run, and nothing read back but what is asked for.

    Raises
    ------
    GpuError
        If no GPU can be used.
    """

    def __init__(self, device: int | None = None, *, bare: bool = False) -> None:
        require()
        self._bare = bare
        self.number = boundary.current_device() if device is None else device
        self._stream = boundary.create_stream(self.number)
        self._lost: str | None = None
        self._running = ""  # the entry of what has been launched and is not done

    @property
    def name(self) -> str:
        """What NVIDIA calls it."""
        return boundary.name(self.number)

    def obstacle(self, case: Case) -> str | None:
        """Return why a case cannot be run here; None if it can.

        Its buffers do not fit the free memory, or a case before it has ended the context.
        """
        if self._lost is not None:
            return self._lost
        needed = sum(_allocated(buffer, self._guard) for buffer in case.buffers.values())
        free = boundary.free_memory(self.number)
        if needed <= free:
            return None
        return f"{case.name} needs {needed / 2**30:.1f} GiB, and {self.name} has {free / 2**30:.1f} GiB free"

    def run(self, case: Case, programs: Mapping[Kernel, Text]) -> Ran:
        """Run a case, twice; once if this place is bare.

        Parameters
        ----------
        case : Case
        programs : mapping of Kernel to Text
            The text of every kernel that the case launches.

        Raises
        ------
        SkippedCase
            If it cannot be run (see `obstacle`).
        GpuError
            If the driver reports an error that is not the kernel's.
        """
        if reason := self.obstacle(case):
            raise SkippedCase(reason)
        self._running = ""
        try:
            return self._run(case, programs)
        except GpuError as error:
            if not self._running or error.name not in FAULTS:
                raise
            self._lost = (
                f"the GPU runs nothing more in this process, since {self._running} ended with {error.name} "
                f"in {case.name}"
            )
            message = f"{error}; the emulator or compute-sanitizer can tell where"
            return Ran(_untouched(case), (_finding(FAULTS[error.name], message, self._running, None, None),))

    def _run(self, case: Case, programs: Mapping[Kernel, Text]) -> Ran:
        with boundary.current(self.number):
            buffers = _Buffers(case, self.number, self._stream, self._guard)
            findings: list[Observation] = []
            first: list[Bytes] = []
            for _ in range(1 if self._bare else 2):
                buffers.fill()
                for launch in case.launches:
                    self._launch(launch, programs[launch.kernel], buffers)
                if not self._bare:
                    entry = programs[case.launches[-1].kernel].entry
                    results = [buffers.read(*part).view(np.uint8) for part in results_of(case)]
                    findings += [*buffers.overwritten(entry), *_differing(case, first, results, entry)]
                    first = results

        beside = beside_the_case(case)

        def contents(name: str, at: int, size: int) -> npt.NDArray[Any]:
            with boundary.current(self.number):
                elements = buffers.read(name, at, size)
            if name in beside:
                elements[beside[name].reshape(-1)[at : at + size]] = np.nan
            return elements

        return Ran(contents, tuple(dict.fromkeys(findings)))  # the two runs may show the same

    @property
    def _guard(self) -> int:
        return 0 if self._bare else GUARD

    def _launch(self, launch: Launch, program: Text, buffers: _Buffers) -> None:
        if 0 in launch.grid:
            return
        kernel = launch.kernel
        handle = load_text(program.text, program.entry, self.number)
        makers = {position: scalar.make for position, scalar in signature_of(kernel).scalars}
        values = [
            buffers.addresses[word] if isinstance(word, str) else makers[position](word)
            for position, word in enumerate(launch.arguments)
        ]
        configuration = boundary.configuration(launch.grid, kernel.block)
        self._running = program.entry
        boundary.launcher()(self._stream, configuration, handle, *values)
        boundary.synchronise(self._stream)  # each by itself: an error is then of this one
        self._running = ""


class _Buffers:
    """The buffers of a case, in device memory.

    Attributes
    ----------
    addresses : dict of str to int
        Of the first element, by name.
    """

    def __init__(self, case: Case, device: int, stream: cuda.core.Stream, guard: int) -> None:
        self._buffers = case.buffers
        self._stream = stream
        self._guard = guard
        # without guards, not of a pool: a sanitizer must know where each ends
        self._memory = {
            name: boundary.allocate(device, _allocated(buffer, guard), stream)
            if guard
            else boundary.allocate_alone(device, _allocated(buffer, guard))
            for name, buffer in case.buffers.items()
        }
        self.addresses = {name: int(memory.handle) + guard for name, memory in self._memory.items()}

    def fill(self) -> None:
        """Write inputs; with guards, also these, and NaN where nothing is known."""
        for name, buffer in self._buffers.items():
            address = self.addresses[name]
            if self._guard:
                words = _allocated(buffer, self._guard) // 4
                boundary.fill(address - self._guard, GUARD_WORD, words, self._stream)
            if isinstance(buffer, Input):
                self._write(address, buffer.array)
            elif isinstance(buffer, Table):
                self._write(address, np.array([self.addresses[to] for to in buffer.buffers], np.uint64))
            elif self._guard:
                boundary.fill(address, NAN, math.prod(buffer.shape), self._stream)
            if isinstance(buffer, Sparse):
                for piece in buffer.pieces:
                    self._write(address + piece.at * 4, piece.array)
        boundary.synchronise(self._stream)

    def read(self, name: str, at: int, size: int) -> npt.NDArray[Any]:
        """Return elements of a buffer."""
        dtype = _dtype(self._buffers[name])
        return self._bytes(self.addresses[name] + at * dtype.itemsize, size * dtype.itemsize).view(dtype)

    def overwritten(self, entry: str) -> Iterator[Observation]:
        """Look at the guard bytes on both sides of each buffer."""
        for name, buffer in self._buffers.items():
            start, end = self.addresses[name], self.addresses[name] + _size(buffer)
            for side, at in (("before the start", start - GUARD), ("behind the end", end)):
                changed = np.flatnonzero(self._bytes(at, GUARD) != GUARD_WORD & 0xFF)
                if changed.size:
                    nearest = int(changed[-1] if at < start else changed[0])
                    away = start - at - nearest if at < start else nearest
                    message = f"{changed.size} bytes written, the nearest {away} bytes {side} of {name}"
                    yield _finding("out of bounds", message, entry, at + nearest, name)

    def _write(self, address: int, array: npt.NDArray[Any]) -> None:
        whole = np.ascontiguousarray(array)
        if whole.size:
            boundary.copy_to_device(address, whole.ctypes.data, whole.nbytes, self._stream)
            boundary.synchronise(self._stream)  # `whole` may go

    def _bytes(self, address: int, size: int) -> Bytes:
        read = np.empty(size, np.uint8)
        if size:
            boundary.copy_to_host(read.ctypes.data, address, size, self._stream)
            boundary.synchronise(self._stream)
        return read


def _dtype(buffer: Buffer) -> np.dtype[Any]:
    if isinstance(buffer, Input):
        return buffer.array.dtype
    return np.dtype(np.uint64 if isinstance(buffer, Table) else np.float32)


def _size(buffer: Buffer) -> int:
    """Return the bytes of a buffer."""
    elements = len(buffer.buffers) if isinstance(buffer, Table) else math.prod(buffer.shape)
    return elements * _dtype(buffer).itemsize


def _allocated(buffer: Buffer, guard: int) -> int:
    """Return the bytes of a buffer and its guards, if it has any: whole words then."""
    if not guard:
        return max(_size(buffer), 1)
    return -(-(guard + _size(buffer) + guard) // 4) * 4


def _untouched(case: Case) -> Contents:
    """Return what the buffers of a case hold before its launches."""

    def contents(name: str, at: int, size: int) -> npt.NDArray[Any]:
        buffer = case.buffers[name]
        if isinstance(buffer, Input):
            return np.array(buffer.array.reshape(-1)[at : at + size])
        elements = np.full(size, np.nan, np.float32)
        for piece in buffer.pieces if isinstance(buffer, Sparse) else ():
            first, last = max(at, piece.at), min(at + size, piece.at + piece.array.size)
            if first < last:
                elements[first - at : last - at] = piece.array.reshape(-1)[first - piece.at : last - piece.at]
        return elements

    return contents


def results_of(case: Case) -> list[tuple[str, int, int]]:
    """Return what a case changes or looks at: buffer, flat index, size; of sparse buffers the latter."""
    parts = [
        (name, 0, math.prod(buffer.shape))
        for name, buffer in case.buffers.items()
        if isinstance(buffer, Output) or (isinstance(buffer, Input) and buffer.changes)
    ]
    whole = {name for name, _, _ in parts}
    for expected in case.expectations:
        if expected.buffer not in whole:
            size = expected.exact.size if isinstance(expected, Close) else expected.size
            parts.append((expected.buffer, expected.at, size))
    return list(dict.fromkeys(parts))


def _differing(case: Case, first: list[Bytes], second: list[Bytes], entry: str) -> Iterator[Observation]:
    """Compare the results of two runs; `first` is empty in the first one."""
    for (name, at, _), before, after in zip(results_of(case), first, second, strict=False):
        differing = np.flatnonzero(before != after)
        if differing.size:
            element = at + int(differing[0]) // _dtype(case.buffers[name]).itemsize
            message = f"a second run gives other bits, first in element {element} of {name}"
            yield _finding("not reproducible", message, entry, None, name)


def _finding(kind: str, message: str, entry: str, address: int | None, buffer: str | None) -> Observation:
    return Observation(kind, message, entry, 0, None, (), (), address, buffer)
