"""The examples of docs/gpu.md, executed with stand-ins of cuda.core, CuPy and PyTorch."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from ptxtemplates.gpu import LaunchError, load
from ptxtemplates.kernels import BatchedRope
from tests.gpu.standins import CupyArray, DlpackArray, Stream, Tensor
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.standins import Machine

TEXT: Final = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
EXAMPLES: Final = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def cuda_core() -> dict[str, Any]:
    device = SimpleNamespace(set_current=lambda: None, create_stream=lambda: Stream(0))
    return {"Device": lambda: device}


def cupy() -> dict[str, Any]:
    def standard_normal(size: tuple[int, ...], dtype: Any) -> CupyArray:
        return CupyArray(np.zeros(size, dtype))

    return {
        "ndarray": CupyArray,
        "float32": np.float32,
        "uint32": np.uint32,
        "random": SimpleNamespace(standard_normal=standard_normal),
        "arange": lambda stop, dtype: CupyArray(np.arange(stop, dtype=dtype)),
        "cuda": SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=Stream(0))),
    }


class Torch(Tensor):
    """A tensor that can be viewed as another type."""

    def view(self, dtype: Any) -> Torch:
        return Torch(self.array.view(dtype))


def torch() -> dict[str, Any]:
    def made(*shape: int, device: str) -> Torch:
        # memory that nobody touches: the tensors of the example are large
        return Torch(np.lib.stride_tricks.as_strided(np.empty(shape, np.float32)))

    return {
        "Tensor": Tensor,
        "int32": np.int32,
        "uint32": np.uint32,
        "randn": made,
        "empty": made,
        "empty_like": lambda tensor: Torch(np.empty_like(tensor.array)),
        "tensor": lambda numbers, device: Torch(np.array(numbers, np.int64)),
        "full": lambda shape, value, dtype, device: Torch(np.full(shape, value, dtype)),
        "cuda": SimpleNamespace(current_stream=lambda: SimpleNamespace(cuda_stream=Stream(0))),
    }


@pytest.fixture
def libraries(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name, contents in {"cuda.core": cuda_core(), "cupy": cupy(), "torch": torch()}.items():
        module = ModuleType(name)
        module.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    return machine


def example(word: str) -> str:
    [found] = [str(text) for text in EXAMPLES if word in text]
    return found


def test_numpy(install: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = BatchedRope(num_heads=32, head_dim=128, theta=1e4)
    install(kernel)
    module = ModuleType("cuda.core")
    module.__dict__.update(cuda_core())
    monkeypatch.setitem(sys.modules, "cuda.core", module)
    names: dict[str, Any] = {}
    exec(example("import numpy"), names)
    # a rotation by position 0 changes nothing, one by another position keeps the length
    x, out = names["x"], names["out"]
    assert np.array_equal(x[0], out[0])
    assert np.allclose(np.linalg.norm(x, axis=-1), np.linalg.norm(out, axis=-1), rtol=1e-5)
    assert not np.allclose(x[1], out[1])


@pytest.mark.parametrize(
    ("word", "entries"),
    [
        ("import cupy", [("batched_rope", (32, 8, 1))]),
        ("import torch", [("flash_decoding_chunk", (32, 4, 32)), ("flash_decoding_reduce", (32, 4, 1))]),
    ],
)
def test_arrays_of_the_gpu(libraries: Machine, word: str, entries: list[Any]) -> None:
    exec(example(word), {})
    launched = [(handle.entry, grid) for _, (grid, _), handle, *_ in libraries.launches()]
    assert launched == entries
    assert not {"allocate", "synchronise"} & set(libraries.names())


def test_availability(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    exec(example("import unavailable"), {})
    assert capsys.readouterr().out == "a GPU can be used\n"


def test_the_message_that_is_shown(machine: Machine) -> None:
    rope = load(BatchedRope(num_heads=32, head_dim=128, theta=1e4))
    x = DlpackArray(np.zeros((8, 32, 128), np.float32))
    with pytest.raises(LaunchError) as refusal:
        rope.launch(Stream(0), x, x, DlpackArray(np.zeros(8, np.int64)))
    assert f"```\n{refusal.value}\n```" in TEXT


def test_every_example_is_executed() -> None:
    assert len(EXAMPLES) == 4
