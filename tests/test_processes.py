"""Tasks in processes of their own: results in order, and an end without a word too many."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Final

import pytest

from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.processes import each

END: Final = """
import signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as the command line's own start does
from ptxtemplates.processes import each
from tests.test_processes import refuse
for _ in range(20):
    try:
        each(refuse, range(50), 2)
    except ValueError as error:
        assert str(error) == "0 is refused"
assert signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL
print("done")
"""


def double(number: int) -> int:
    return 2 * number


def refuse(number: int) -> int:
    raise ValueError(f"{number} is refused")


def end(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_are_in_order(jobs: int) -> None:
    seen = 0

    def counted(work: object) -> object:
        nonlocal seen
        for job in work:  # type: ignore[attr-defined]  # it is a sequence of callables of any kind
            seen += 1
            yield job

    assert each(double, range(7), jobs, counted) == [0, 2, 4, 6, 8, 10, 12]  # type: ignore[arg-type]  # as above
    assert seen == 7


def test_a_process_that_is_killed_is_an_error() -> None:
    with pytest.raises(
        PtxTemplatesError, match=r"^a process ended before its time; -j 1 works without them$"
    ):
        each(end, range(4), 2)


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="a system without SIGPIPE")
def test_an_error_ends_the_others_and_not_this_process() -> None:
    """Whoever feeds processes that have just been ended writes into closed pipes."""
    result = subprocess.run([sys.executable, "-c", END], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
