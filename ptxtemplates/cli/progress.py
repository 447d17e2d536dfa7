"""A progress bar on stderr, at a terminal only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")


def with_progress(label: str) -> Callable[[Iterable[T]], Iterator[T]]:
    """Return what wraps an iterable so that its going by is drawn."""

    def wrapped(items: Iterable[T]) -> Iterator[T]:
        if sys.stderr is None or not sys.stderr.isatty():
            yield from items
            return
        with click.progressbar(items, label=label, file=sys.stderr) as bar:
            yield from bar

    return wrapped
