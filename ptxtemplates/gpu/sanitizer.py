"""compute-sanitizer: where it is, how to run a program under it, and what it says.

The program makes a bare `ptxtemplates.gpu.place.Device`, with an allocation for each buffer. memcheck holds
every access against the extents of the allocations. These may lie back to back, and an access behind one is
then inside the next: `PADDING` keeps them apart. NVIDIA documents that for cudaMalloc and its like, and not
for stream-ordered pools: so a bare device takes no memory of these.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.assembly.tools import find_tool
from ptxtemplates.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "compute-sanitizer"

ERROR_CODE: Final = 86
"""Exit code of a run with findings: none that Python, or a program killed by a signal, ends with."""

KILLED: Final = -9
"""Exit code of a program that did not end."""

PADDING: Final = 4096
"""Bytes behind each allocation."""

# what libraries ask of the driver may fail and mean nothing; what matters raises GpuError
TOOLS: Final[dict[str, tuple[str, ...]]] = {
    "memcheck": ("--report-api-errors", "no", "--padding", str(PADDING)),
    "racecheck": (),
    "initcheck": (),
    "synccheck": (),
}
"""Options of each tool."""

_COMMON: Final = (
    *("--error-exitcode", str(ERROR_CODE)),
    *("--target-processes", "application-only"),  # not the assembler
    *("--launch-timeout", "60"),
)

_SUMMARY: Final = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", re.MULTILINE)

SHOWN: Final = 20
"""Lines of the tool that a message has at most."""


class Sanitized(NamedTuple):
    """What became of a program.

    Attributes
    ----------
    tool : str
    code : int
        Exit code.
    findings : int or None
        Errors or hazards that the tool counts in its summary; None if it has written none.
    output : str
        What program and tool have written.
    """

    tool: str
    code: int
    findings: int | None
    output: str

    @property
    def ok(self) -> bool:
        """Whether the program has run to its end, and the tool has looked at it and found nothing."""
        return self.code == 0 and self.findings == 0

    def describe(self) -> str:
        """Say in a line what is wrong, and show the first lines of the tool, or else the last ones of all."""
        if self.findings is None:
            what = f"no summary, exit code {self.code}"
        else:
            what = f"{self.findings} findings, exit code {self.code}"
        lines = self.output.splitlines()
        told = [line for line in lines if line.startswith("===")][:SHOWN] if self.findings else lines[-SHOWN:]
        return "\n".join([f"{self.tool}: {what}", *told])


def find_sanitizer() -> Path | None:
    """Return compute-sanitizer: of ``CUDA_HOME`` or ``CUDA_PATH``, of NVIDIA's package, or on ``PATH``."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if toolkit := os.environ.get(variable):
            for folder in ("bin", NAME):
                if found := shutil.which(NAME, path=str(Path(toolkit, folder))):
                    return Path(found)
    try:
        return find_tool(NAME)
    except MissingExtraError:
        return None


def command(sanitizer: Path, tool: str, program: Sequence[str]) -> list[str]:
    """Return the command that runs a program under a tool of `TOOLS`."""
    return [str(sanitizer), "--tool", tool, *_COMMON, *TOOLS[tool], *program]


def run(
    sanitizer: Path,
    tool: str,
    program: Sequence[str],
    *,
    timeout: float,
    folder: Path | None = None,
) -> Sanitized:
    """Run a program under a tool.

    Parameters
    ----------
    sanitizer : Path
        As `find_sanitizer` returns it.
    tool : str
        One of `TOOLS`.
    program : sequence of str
        Program and arguments.
    timeout : float
        Seconds after which both are killed; the exit code is `KILLED` then.
    folder : Path, optional
        In which it runs; the current one if it is not given.
    """
    process = subprocess.Popen(
        command(sanitizer, tool, program),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        start_new_session=True,
    )
    try:
        written, _ = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        _kill(process)
        (written, _), code = process.communicate(), KILLED
    finally:
        _kill(process)  # also where this is interrupted
    output = written.decode(errors="replace")
    return Sanitized(tool, code, summary_of(output), output)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a tool and the program that it runs, which may not end by itself."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)


def summary_of(output: str) -> int | None:
    """Return how many errors or hazards a tool has counted; None if it says nothing of it."""
    found = _SUMMARY.findall(output)
    return int(found[-1]) if found else None
