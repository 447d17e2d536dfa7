"""Calls of a peer as one CUDA graph of PyTorch, whose replay allocates nothing and waits for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Call = Callable[[], Any]

WARM_UPS: Final = 3
"""Calls before the capture: they compile, load and tune, which may not happen in one."""


class Recorded(NamedTuple):
    """Calls that were put together.

    Attributes
    ----------
    enqueue : callable
        Puts them all on the stream.
    captured : bool
        Whether they are a graph; if not, each is made anew.
    ends : list
        Results of the first and of the last call. Those of a graph are written by each replay; others are put
        here by each `enqueue`.
    """

    enqueue: Callable[[], None]
    captured: bool
    ends: list[Any]


class Recorder(Protocol):
    """Puts calls together."""

    def __call__(self, calls: Sequence[Call]) -> Recorded:
        """Make calls that can be repeated of calls that were not."""


class Graphs:
    """Captures calls, and replays them on a stream that is not PyTorch's own.

    Parameters
    ----------
    torch : module
    device : int
    stream : int
        Handle; 0 is the default stream.
    """

    def __init__(self, torch: Any, device: int, stream: int) -> None:
        self._torch = torch
        self._stream = (
            torch.cuda.ExternalStream(stream, device=device) if stream else torch.cuda.default_stream(device)
        )

    def __call__(self, calls: Sequence[Call]) -> Recorded:
        """Capture calls; where that is impossible, make them one by one whenever they are wanted."""
        torch, stream = self._torch, self._stream
        torch.cuda.synchronize()  # inputs were made on another stream
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                calls[0]()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            # other threads may go on using the device
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                # kept to the end, so that each result has memory of its own, as inputs have
                results = [call() for call in calls]
        except Exception:  # each library says in its own way that it cannot be captured
            ends: list[Any] = []
            return Recorded(self._each(calls, ends), captured=False, ends=ends)
        ends = [results[0], results[-1]]
        del results

        def enqueue() -> None:
            with torch.cuda.stream(stream):
                graph.replay()

        return Recorded(enqueue, captured=True, ends=ends)

    def _each(self, calls: Sequence[Call], ends: list[Any]) -> Callable[[], None]:
        torch, stream = self._torch, self._stream

        def enqueue() -> None:
            with torch.cuda.stream(stream):
                first = result = calls[0]()
                for call in calls[1:]:
                    result = call()
            ends[:] = [first, result]

        return enqueue
