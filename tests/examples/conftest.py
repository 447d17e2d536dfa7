"""A machine with GPUs that are none, which takes tensors of the CPU for its own: see `tests.gpu.standins`."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ptxtemplates.gpu import arrays
from tests.gpu.conftest import install
from tests.gpu.standins import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from tests.gpu.standins import Machine

__all__ = ["install"]  # a fixture


class Pretended:
    """What the code for a GPU calls, recorded in `done`; set `capturing` to capture a stream."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.capturing = False
        self.machine: Machine

    @contextlib.contextmanager
    def guard(self, device: torch.device) -> Iterator[None]:
        self.done.append(f"enter {device}")
        yield
        self.done.append("leave")

    def know(self, tensor: torch.Tensor) -> None:
        """Let launches of the stand-in reach the memory of a tensor."""
        array = tensor.detach().numpy()
        self.machine.memories[tensor.data_ptr()] = array.reshape(-1).view(np.uint8)


@pytest.fixture
def pretended(
    install: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Pretended]]:
    """Return what sends tensors of the CPU the way of those of a GPU from then on; it takes the kernels."""
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    import torch

    from examples.pytorch import running

    made = Pretended()

    def read(tensor: torch.Tensor) -> tuple[int, Any]:
        made.know(tensor)
        assert tensor.is_contiguous()
        return tensor.data_ptr(), (tuple(tensor.shape), None, tensor.dtype, 0, False)

    def pretending(*kernels: Any) -> Pretended:
        made.machine = install(*kernels)
        monkeypatch.setitem(running.PLACES, "cpu", running.on_gpu)
        monkeypatch.setitem(arrays.READERS, torch.Tensor, arrays.Reader(lambda tensor: read(tensor)[0], read))
        return made

    monkeypatch.setattr(torch.cuda, "device", made.guard)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=Stream(0)))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: made.capturing)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    running.loaded.cache_clear()
    yield pretending
    running.loaded.cache_clear()
