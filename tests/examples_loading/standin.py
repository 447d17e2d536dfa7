"""A stand-in of cuda.core: memory is the host's, and the emulator executes launches."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import cuda.core
import numpy as np

from ptxtemplates.emulator import emulate

if TYPE_CHECKING:
    from collections.abc import Callable


class Buffer:
    """Memory that exports DLPack; what only the GPU reaches starts as NaN."""

    def __init__(self, size: int, waiting: list[Callable[[], None]], *, host: bool) -> None:
        self.memory = np.full(size, 0 if host else -1, np.int8)
        self.host = host
        self._waiting = waiting

    def copy_from(self, source: Buffer, *, stream: Any) -> None:
        assert source.memory.size == self.memory.size
        self._waiting.append(lambda: np.copyto(self.memory, source.memory))

    def copy_to(self, target: Buffer, *, stream: Any) -> None:
        target.copy_from(self, stream=stream)

    def __dlpack__(self, **keywords: Any) -> Any:
        assert self.host, "memory of the GPU is read on the CPU"
        return self.memory.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.memory.__dlpack_device__()


class Core:
    """What the example uses of cuda.core; `calls` has what it did, and copies wait for ``sync``.

    Parameters
    ----------
    text : str
        What a launch executes, whether it was loaded as PTX or in a fat binary.
    refused : bool
        Whether the driver refuses the code.
    """

    def __init__(self, text: str, *, refused: bool = False) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._text, self._refused = text, refused
        self._waiting: list[Callable[[], None]] = []

    def module(self) -> ModuleType:
        """Return it as the module that is to be imported."""
        made = ModuleType("cuda.core")
        made.__dict__.update(
            Device=lambda: SimpleNamespace(
                set_current=lambda: self.calls.append(("set_current",)),
                create_stream=lambda: SimpleNamespace(sync=self._sync),
                allocate=lambda size, *, stream: Buffer(size, self._waiting, host=False),
                arch="90",
            ),
            Kernel=object,
            LaunchConfig=lambda grid, block: (grid, block),
            LegacyPinnedMemoryResource=lambda: SimpleNamespace(
                allocate=lambda size: Buffer(size, self._waiting, host=True)
            ),
            Linker=self._linker,
            LinkerOptions=cuda.core.LinkerOptions,
            ObjectCode=SimpleNamespace(
                from_ptx=lambda code: self._code("from_ptx", code),
                from_fatbin=lambda code: self._code("from_fatbin", code),
            ),
            launch=self._launch,
        )
        return made

    def _code(self, how: str, code: bytes) -> SimpleNamespace:
        def get_kernel(entry: str) -> str:
            self.calls.append((how, code, entry))
            if self._refused:
                raise RuntimeError("the driver refuses it")
            return entry

        return SimpleNamespace(code=code, get_kernel=get_kernel)

    def _linker(self, code: SimpleNamespace, options: cuda.core.LinkerOptions) -> cuda.core.Linker:
        """Return the real one: it needs no driver."""
        return cuda.core.Linker(cuda.core.ObjectCode.from_ptx(code.code), options=options)

    def _launch(self, stream: Any, config: Any, entry: str, *buffers: Buffer) -> None:
        self.calls.append(("launch", config, entry, len(buffers)))
        grid, block = config
        self._waiting.append(lambda: self._execute(entry, grid, block, buffers))

    def _execute(self, entry: str, grid: Any, block: Any, buffers: tuple[Buffer, ...]) -> None:
        assert not any(buffer.host for buffer in buffers)
        report = emulate(self._text, entry, grid, block, [buffer.memory for buffer in buffers])
        assert not report.findings, report.findings[0].describe()

    def _sync(self) -> None:
        self.calls.append(("sync",))
        for work in self._waiting:
            work()
        self._waiting.clear()
