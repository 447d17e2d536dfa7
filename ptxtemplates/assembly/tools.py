"""NVIDIA's programs that this package runs: where they lie, and how they end."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.errors import AssemblyError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence

_running: Final[set[subprocess.Popen[bytes]]] = set()
_changing: Final = threading.Lock()


class Outcome(NamedTuple):
    """How a program ended.

    Attributes
    ----------
    code : int
        0 if it succeeded; negative if a signal ended it.
    output : bytes
        What it printed.
    errors : str
        What it complained of.
    """

    code: int
    output: bytes
    errors: str


def find_tool(name: str) -> Path:
    """Return the path of a program: of an installed NVIDIA package, or else on ``PATH``.

    The packages come first: they are of one release, and an older program cannot read what a newer one has
    written.

    Parameters
    ----------
    name : str
        Such as ``ptxas``; the extra ``cuda`` has all that this package runs.

    Raises
    ------
    MissingExtraError
        If there is none. The message says what to install.
    """
    folders = _package_folders()
    for folder in (*folders, None):  # None: PATH
        if found := shutil.which(name, path=folder):
            return Path(found)
    for folder in (*folders, *os.environ.get("PATH", "").split(os.pathsep)):
        if folder and Path(folder, name).exists():
            raise MissingExtraError(f"{Path(folder, name)} is no program that may be run")
    raise MissingExtraError(
        f"this needs NVIDIA's {name}, which is neither installed nor on PATH: "
        "pip install 'ptxtemplates[cuda]'"
    )


def identity(tool: Path) -> str:
    """Identify a program by path, size and time: what it made is kept for that very program.

    Its version would not do: a wrapper or a repaired installation has the same.
    """
    state = tool.stat()
    return f"{tool.resolve()} {state.st_size} {state.st_mtime_ns}"


def run_tool(tool: Path, arguments: Sequence[str], folder: str | None = None) -> Outcome:
    """Run a program in a folder, to its end.

    Raises
    ------
    AssemblyError
        If it cannot be run.
    """
    try:
        with _changing:
            process = subprocess.Popen(
                [str(tool), *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            _running.add(process)
    except OSError as error:
        raise AssemblyError(f"cannot run {tool}: {error.strerror or error}") from error
    try:
        with process:
            output, errors = process.communicate()
    finally:
        _running.discard(process)
        if process.returncode is None:
            process.kill()
    return Outcome(process.returncode, output, errors.decode(errors="replace"))


def stop_tools() -> None:
    """End every program that runs: whoever waits for one goes on at once."""
    with _changing:
        for process in _running:
            process.kill()


def failure(tool: Path, outcome: Outcome) -> AssemblyError:
    """Make the error for a program that failed: its own words, or else how it ended."""
    said = (outcome.errors or outcome.output.decode(errors="replace")).strip()
    if not said:
        ended = f"ended with exit code {outcome.code}"
        if outcome.code < 0:
            ended = f"was ended by signal {signal.Signals(-outcome.code).name}"
        said = f"it {ended} and said nothing"
    return AssemblyError(f"{tool} failed: {said}")


def result_of(tool: Path, path: Path) -> bytes:
    """Read the file that a program has written.

    Raises
    ------
    AssemblyError
        If there is none.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise AssemblyError(f"{tool} failed: it ended with exit code 0 and wrote nothing") from None


def _package_folders() -> list[str]:
    """Return the program folders of NVIDIA's packages, such as ``nvidia/cu13/bin``, newest first."""
    spec = importlib.util.find_spec("nvidia")
    roots = (spec.submodule_search_locations or []) if spec else []
    return [str(folder) for root in roots for folder in sorted(Path(root).glob("*/bin"), reverse=True)]
