"""Capture and replay, against a stand-in of PyTorch that writes down what it is asked for."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ptxtemplates.bench.peers.graphs import WARM_UPS, Graphs

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Torch:
    """PyTorch with one device; `log` has every event, with the stream that was current."""

    def __init__(self, *, capturable: bool = True) -> None:
        self.capturable = capturable
        self.log: list[str] = []
        self.current = "PyTorch's stream"
        self.cuda = SimpleNamespace(
            ExternalStream=self._external,
            default_stream=lambda device: self._stream(f"default stream of {device}"),
            CUDAGraph=lambda: SimpleNamespace(replay=lambda: self.say("replay")),
            stream=self._on,
            graph=self._capture,
            synchronize=lambda: self.say("wait"),
        )

    def say(self, event: str) -> None:
        self.log.append(f"{event} on {self.current}")

    def call(self, event: str) -> str:
        self.say(event)
        return event

    def _external(self, handle: int, *, device: int) -> Any:
        return self._stream(f"stream {handle} of {device}")

    def _stream(self, name: str) -> Any:
        return SimpleNamespace(name=name, synchronize=lambda: self.log.append(f"wait for {name}"))

    @contextlib.contextmanager
    def _on(self, stream: Any) -> Iterator[None]:
        before, self.current = self.current, stream.name
        yield
        self.current = before

    @contextlib.contextmanager
    def _capture(self, graph: Any, *, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        with self._on(SimpleNamespace(name="the capture")):
            if not self.capturable:
                raise RuntimeError("operation not permitted when stream is capturing")
            yield


@pytest.mark.parametrize(
    ("handle", "stream"),
    [(7, "stream 7 of 1"), (0, "default stream of 1")],
    ids=["a stream", "the default one"],
)
def test_calls_are_captured_once_and_replayed_on_the_stream_of_the_bench(handle: int, stream: str) -> None:
    torch = _Torch()
    recorded = Graphs(torch, 1, handle)([lambda: torch.call("first"), lambda: torch.call("second")])
    assert torch.log == [
        "wait on PyTorch's stream",
        *[f"first on {stream}"] * WARM_UPS,
        f"wait for {stream}",
        "first on the capture",
        "second on the capture",
    ]
    assert recorded.captured
    assert recorded.ends == ["first", "second"]
    torch.log.clear()
    recorded.enqueue()
    recorded.enqueue()
    assert torch.log == [f"replay on {stream}"] * 2
    assert torch.current == "PyTorch's stream"


def test_calls_that_cannot_be_captured_are_made_anew() -> None:
    torch = _Torch(capturable=False)
    recorded = Graphs(torch, 1, 7)([lambda: torch.call("first"), lambda: torch.call("second")])
    assert not recorded.captured
    assert recorded.ends == []
    torch.log.clear()
    recorded.enqueue()
    assert recorded.ends == ["first", "second"]
    assert torch.log == ["first on stream 7 of 1", "second on stream 7 of 1"]


def test_results_have_memory_of_their_own_within_a_graph() -> None:
    """Results that were dropped during the capture would share one place in the cache; two are looked at."""
    torch = _Torch()
    alive: list[int] = []

    class Result:
        def __init__(self) -> None:
            alive.append(1)

        def __del__(self) -> None:
            alive.pop()

    most: list[int] = []

    def call() -> Result:
        result = Result()
        most.append(len(alive))
        return result

    recorded = Graphs(torch, 0, 1)([call] * 4)
    assert max(most[WARM_UPS:]) == 4
    assert len(alive) == 2
    del recorded
    assert not alive


def test_what_fails_before_the_capture_is_not_hidden() -> None:
    def fail() -> None:
        raise ValueError("no kernel image")

    with pytest.raises(ValueError, match="no kernel image"):
        Graphs(_Torch(), 0, 1)([fail])
