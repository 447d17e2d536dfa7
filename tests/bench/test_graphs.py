"""The calls to cuda.core that timing needs, in their order: recorded, since there is no driver."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver

from ptxtemplates.gpu import boundary


class Recorded:
    """A stream of cuda.core, and the builder and the graph that it makes; writes down what is called."""

    handle = 7

    @property
    def stream(self) -> Recorded:
        return self

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def create_graph_builder(self) -> Recorded:
        self.calls.append("create")
        return self

    def complete(self) -> SimpleNamespace:
        self.calls.append("complete")
        return SimpleNamespace(
            upload=lambda stream: self.calls.append(("upload", stream)),
            launch=lambda stream: self.calls.append(("launch", stream)),
        )

    def record(self, event: Any) -> None:
        self.calls.append(("record", event))

    def __getattr__(self, name: str) -> Any:
        return lambda: self.calls.append(name)


def test_capture_and_replay() -> None:
    stream: Any = Recorded()
    graph = boundary.capture(stream, lambda captured: captured.calls.append("work"))
    assert stream.calls == [
        "create", "begin_building", "work", "end_building", "complete", ("upload", stream), "close",
    ]  # fmt: skip
    boundary.replay(graph, stream)
    assert stream.calls[-1] == ("launch", stream)


def test_a_stream_does_not_stay_captured_after_an_error() -> None:
    stream: Any = Recorded()

    def fail(captured: Any) -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        boundary.capture(stream, fail)
    assert stream.calls == ["create", "begin_building", "end_building", "close"]


def test_events(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    core = SimpleNamespace(
        Device=lambda number: SimpleNamespace(
            set_current=lambda: calls.append(("set_current", number)),
            create_event=lambda options: options,
            properties=SimpleNamespace(l2_cache_size=50 << 20),
        ),
        EventOptions=lambda **options: options,
    )
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    monkeypatch.setattr(driver, "cuCtxGetCurrent", lambda: (driver.CUresult.CUDA_SUCCESS, "before"))
    monkeypatch.setattr(driver, "cuCtxSetCurrent", lambda context: calls.append(context))
    assert boundary.create_event(1) == {"timing_enabled": True}
    assert calls == [("set_current", 1), "before"], "an event belongs to the context that is current"
    assert boundary.l2_size(0) == 50 << 20
    stream: Any = Recorded()
    event: Any = object()
    boundary.record(event, stream)
    assert stream.calls == [("record", event)]
    assert boundary.handle_of(stream) == 7


def test_elapsed_time_is_asked_for_when_the_second_event_has_happened() -> None:
    class Event:
        def __init__(self, at: float) -> None:
            self.at = at
            self.done = False

        def sync(self) -> None:
            self.done = True

        def __sub__(self, other: Event) -> float:
            assert self.done
            return self.at - other.at

    start: Any = Event(1.5)
    end: Any = Event(4.0)
    assert boundary.elapsed_ms(start, end) == 2.5


def test_copies_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def copy(*arguments: Any) -> tuple[Any]:
        calls.append(arguments)
        return (driver.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(driver, "cuMemcpyDtoDAsync", copy)
    boundary.copy_on_device(100, 200, 8, Recorded())
    assert calls == [(100, 200, 8, 7)]
