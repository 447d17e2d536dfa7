"""A machine with GPUs that are none, and in the place of other libraries what a test wants."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest

from ptxtemplates.bench import running
from ptxtemplates.bench.contender import Absent, Contender
from ptxtemplates.kernels import BatchedRope, FlashDecodingChunk, FlashDecodingReduce
from tests.gpu.conftest import install
from tests.helpers.variants import SMALL_ROPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ptxtemplates.kernel import Kernel
    from tests.gpu.standins import Machine

__all__ = ["install", "machine", "peers", "project"]

ROPE: Final = BatchedRope(num_heads=2, head_dim=16, theta=1e4)
CHUNK: Final = FlashDecodingChunk(num_heads=4, num_kv_heads=2, head_dim=8, chunk_size=4, max_seq_len=40)
REDUCE: Final = FlashDecodingReduce(num_heads=4, head_dim=8, chunk_size=4)
KERNELS: Final[tuple[Kernel, ...]] = (ROPE, CHUNK, REDUCE)
WHOLE: Final = "flash_decoding.d8.h4.c4.kv2.s40"

LIST: Final = f"""\
{SMALL_ROPE}
[[kernel]]
name = "flash_decoding_chunk"
num_heads = 4
num_kv_heads = 2
head_dim = 8
chunk_size = 4
max_seq_len = 40

[[kernel]]
name = "flash_decoding_reduce"
num_heads = 4
head_dim = 8
chunk_size = 4
"""


class Peers(ModuleType):
    """In the place of `ptxtemplates.bench.peers`: yields what a test puts into `made`, notes how it is called.

    Attributes
    ----------
    made : callable
        Returns contenders, present and absent.
    calls : list of (tuple of Kernel, dict)
    """

    def __init__(self) -> None:
        super().__init__("ptxtemplates.bench.peers")
        self.made: Callable[[], list[Contender | Absent]] = list
        self.calls: list[tuple[tuple[Kernel, ...], dict[str, Any]]] = []

    def peers_of(
        self, kernels: tuple[Kernel, ...], sizes: Any, **keywords: Any
    ) -> Iterator[Contender | Absent]:
        self.calls.append((kernels, {"sizes": dict(sizes), **keywords}))
        yield from self.made()


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Peers:
    """No other libraries, whatever is installed."""
    made = Peers()
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


@pytest.fixture
def machine(install: Callable[..., Machine], peers: Peers, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that executes the kernels of the list, has a small cache, and no other libraries."""
    monkeypatch.setattr(running, "EMPTY_CALLS", 20)  # as good as more on a machine of even times
    made = install(*KERNELS)
    made.l2 = 1024
    return made


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a list of small kernels, which is the current one."""
    (tmp_path / "kernels.toml").write_text(LIST)
    monkeypatch.chdir(tmp_path)
    return tmp_path
