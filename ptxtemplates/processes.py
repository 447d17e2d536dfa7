"""One function over many tasks, in processes of their own where that is of use."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ptxtemplates.errors import PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")
R = TypeVar("R")


def each(
    function: Callable[[T], R],
    tasks: Sequence[T],
    jobs: int,
    progress: Callable[[Sequence[Callable[[], R]]], Iterable[Callable[[], R]]] = iter,
) -> list[R]:
    """Return what a function gives for each of the tasks, in their order.

    Parameters
    ----------
    function : callable
        Of a module, so that a process can find it. It imports NumPy itself, if it needs that: NumPy starts
        threads, and no process that has some should fork.
    tasks : sequence
        Of what can be sent to a process.
    jobs : int
        Processes at most; with one, or one task, it happens in this process.
    progress : callable
        Passes on what it is given, one by one, and may tell somebody.

    Raises
    ------
    PtxTemplatesError
        If a process ends before its time. What `function` raises, this does.
    """
    if jobs == 1 or len(tasks) < 2:
        return [job() for job in progress([partial(function, task) for task in tasks])]
    # forked, a process has the kernels that a user's own script registers. Elsewhere they are imported again
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), context, _ignore_interrupts)
    with _closed_pipes_as_errors(), pool:
        try:
            return [job() for job in progress([pool.submit(function, task).result for task in tasks])]
        except BrokenProcessPool as error:
            raise PtxTemplatesError("a process ended before its time; -j 1 works without them") from error
        except BaseException:
            # what is running is of no use any more
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _closed_pipes_as_errors() -> Iterator[None]:
    """Let the thread that feeds processes live when one of them has gone, whatever the command line set."""
    if not hasattr(signal, "SIGPIPE") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def _ignore_interrupts() -> None:
    """Leave it to the first process to end all of them, at once and without a word."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
