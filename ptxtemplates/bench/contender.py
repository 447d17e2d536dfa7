"""What is measured side by side: something that computes a subject, ours or another library's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

OURS: Final = "ptxtemplates"
"""Name of the contender that is this package's kernels."""

EMPTY: Final = "empty kernel"
"""Name of the contender that launches as ours does and computes nothing."""

MOST_CALLS: Final = 1000
"""Calls of a round: more make graphs that take long to be made."""

LEAST_CALLS: Final = 8
"""Calls of a round, where memory allows: a graph takes microseconds to start, which they share."""

EMPTY_CALLS: Final = 200
"""Calls of a round of empty kernels, which need no buffers."""


class Contender(NamedTuple):
    """Something that computes a subject.

    Attributes
    ----------
    name : str
        What it is called: a library, and how it is used.
    element : str
        What elements it works on, such as ``f32`` or ``bf16``.
    bytes : int
        What one call must move at least: each input element read once, each output element written once.
    calls : int
        Calls that one `enqueue` makes, over rotating inputs.
    enqueue : callable
        Puts that many calls on the stream; allocates nothing and waits for nothing.
    """

    name: str
    element: str
    bytes: int
    calls: int
    enqueue: Callable[[], None]


def calls_of(size: int, working_set: int, room: int) -> int:
    """Return how many calls a round has.

    Parameters
    ----------
    size : int
        Bytes of the buffers of one.
    working_set : int
        Bytes that all buffers should have at least.
    room : int
        Bytes beyond which there are no more calls than `working_set` asks for.
    """
    return min(max(-(-working_set // size), min(LEAST_CALLS, room // size), 1), MOST_CALLS)


class Absent(NamedTuple):
    """A contender that could not be measured, and why."""

    name: str
    reason: str
