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


class Absent(NamedTuple):
    """A contender that could not be measured, and why."""

    name: str
    reason: str
