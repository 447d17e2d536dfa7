"""The calls to cuda.core that timing needs, in their order: recorded, since there is no driver."""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
from cuda.bindings import driver
from cuda.core import Stream
from cuda.core.graph import Graph, GraphBuilder

from ptxtemplates.gpu import GpuError, boundary


class Recorded:
    """A stream of cuda.core, and the builder and the graph that it makes; writes down what is called.

    Parameters
    ----------
    failing : str
        The builder's method that fails.
    """

    handle = 7

    def __init__(self, failing: str = "") -> None:
        self.calls: list[Any] = []
        self._failing = failing

    def create_graph_builder(self) -> Any:
        self.calls.append("create")
        builder = create_autospec(GraphBuilder, instance=True)  # has the names of cuda.core's class alone
        builder.stream = self
        for name in ("begin_building", "end_building", "close"):
            getattr(builder, name).side_effect = partial(self._called, name, builder)
        builder.complete.side_effect = partial(self._called, "complete", self._graph())
        return builder

    def _graph(self) -> Any:
        graph = create_autospec(Graph, instance=True)
        for name in ("upload", "launch"):
            getattr(graph, name).side_effect = lambda stream, name=name: self.calls.append((name, stream))
        return graph

    def _called(self, name: str, returned: Any) -> Any:
        self.calls.append(name)
        if name == self._failing:
            raise RuntimeError(f"{name} fails. So it does.")
        return returned

    def record(self, event: Any) -> None:
        self.calls.append(("record", event))


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


@pytest.mark.parametrize("failing", ["end_building", "close"])
def test_a_failed_capture_keeps_its_cause(failing: str) -> None:
    """The driver refuses to end a capture that an error has made invalid, and says nothing of that error."""
    stream: Any = Recorded(failing)

    def fail(captured: Any) -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        boundary.capture(stream, fail)
    assert stream.calls == ["create", "begin_building", "end_building", "close"]


def test_a_graph_that_cannot_be_made() -> None:
    stream: Any = Recorded("complete")
    with pytest.raises(GpuError, match=r"^cuda\.core says: complete fails\.$"):
        boundary.capture(stream, lambda captured: None)
    assert stream.calls[-1] == "close"


def test_the_recorder_has_no_names_that_cuda_core_lacks() -> None:
    assert {name for name in vars(Recorded) if not name.startswith("_")} <= set(dir(Stream))


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

    def set_current(context: Any) -> tuple[Any]:
        calls.append(context)
        return (driver.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(driver, "cuCtxSetCurrent", set_current)
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
