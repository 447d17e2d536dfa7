"""ptxas: texts in, cubins out, several at a time, each assembled once.

The program, and not the nvJitLink library: that assembles as if for linking, and below sm_90 turns every
shuffle into a call, which takes up to half as many registers more and twice the code.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates import cache as kept
from ptxtemplates.assembly.resources import Resources, read_resources
from ptxtemplates.assembly.tools import find_tool
from ptxtemplates.errors import AssemblyError
from ptxtemplates.ptx.targets import TARGETS, runs_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KIND: Final = "cubin"
TOOL: Final = "ptxas"
ARCHITECTURE: Final = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")

_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_TARGET: Final = re.compile(r"^[ \t]*\.target[ \t]+(\w+)", re.MULTILINE)
_VERSION: Final = re.compile(r"V(\d+\.\d+\.\d+)")
_FAULT: Final = re.compile(r"^ptxas (?:\S+, line (\d+); )?(?:error|fatal)\s*: (.*)$", re.MULTILINE)
_UNKNOWN: Final = "is not defined for option 'gpu-name'"
_CONSEQUENCE: Final = "Ptx assembly aborted due to errors"


class Assembly(NamedTuple):
    """Machine code for one architecture.

    Attributes
    ----------
    architecture : str
        Such as ``sm_90``.
    cubin : bytes
        An ELF file, for the driver to load.
    resources : dict of str to Resources
        What each entry needs, by name.
    toolchain : str
        The assembler and its version. Figures of different toolchains are not to be compared.
    """

    architecture: str
    cubin: bytes
    resources: dict[str, Resources]
    toolchain: str


@cache
def toolchain() -> str:
    """Return the name and version of the assembler.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    result = subprocess.run([str(find_tool(TOOL)), "--version"], capture_output=True, text=True, check=False)
    version = _VERSION.search(result.stdout)
    return f"{TOOL} {version[1] if version else 'of an unknown version'}"


def assemble(text: str, architecture: str, *, lineinfo: bool = False) -> Assembly:
    """Assemble a PTX text.

    Parameters
    ----------
    text : str
        PTX.
    architecture : str
        Such as ``sm_90``: any that the assembler knows and the text's ``.target`` runs on.
    lineinfo : bool
        Keep what the text's ``.loc`` lines say, for disassemblers and profilers.

    Raises
    ------
    AssemblyError
        If the text does not assemble, or not for that architecture. `faults` has the lines.
    MissingExtraError
        If the assembler is not installed.
    """
    check_architecture(architecture)
    _check_target(text, architecture)
    options = [f"-arch={architecture}", "-v", *(["-lineinfo"] if lineinfo else [])]
    key = kept.key_of(toolchain(), *options, text)
    found = kept.load(KIND, key)
    if found is None:
        cubin, log = _run(text, architecture, options)
        kept.store(KIND, key, log.encode() + b"\0" + cubin)
    else:
        head, _, cubin = found.partition(b"\0")
        log = head.decode()
    return Assembly(architecture, cubin, read_resources(log, cubin), toolchain())


def assemble_all(jobs: Iterable[tuple[str, str]], *, lineinfo: bool = False) -> list[Assembly]:
    """Assemble (text, architecture) pairs, as many at a time as there are processors; in order."""
    pending: Sequence[tuple[str, str]] = list(jobs)
    if pending:
        toolchain()  # asked once, before threads ask for it
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return list(pool.map(lambda job: assemble(*job, lineinfo=lineinfo), pending))
    finally:
        pool.shutdown(cancel_futures=True)  # after the first error, or an interrupt, nothing new begins


def check_architecture(architecture: str) -> None:
    """Raise `AssemblyError` if a name cannot be that of an architecture."""
    if not ARCHITECTURE.fullmatch(architecture):
        known = ", ".join(TARGETS)
        raise AssemblyError(f"there is no architecture {architecture!r}; known are {known}")


def _check_target(text: str, architecture: str) -> None:
    target = _TARGET.search(_COMMENT.sub("", text.partition("{")[0]))
    if target is not None and not runs_on(target[1], architecture):
        raise AssemblyError(f".target {target[1]} does not run on {architecture}")


def _run(text: str, architecture: str, options: list[str]) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory(prefix="ptxtemplates-") as folder:
        Path(folder, "text.ptx").write_bytes(text.encode())
        command = [str(find_tool(TOOL)), *options, "-o", "out.cubin", "text.ptx"]
        result = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        log = (result.stdout + result.stderr).decode(errors="replace")
        if result.returncode:
            raise _refusal(log, architecture)
        return Path(folder, "out.cubin").read_bytes(), log


def _refusal(log: str, architecture: str) -> AssemblyError:
    if _UNKNOWN in log:
        return AssemblyError(f"{toolchain()} knows no architecture {architecture!r}")
    faults = tuple(
        (int(line) if line else None, message)
        for line, message in _FAULT.findall(log)
        if message != _CONSEQUENCE
    )
    if not faults:
        return AssemblyError(f"the assembler refuses the text: {log.strip()}")
    shown = [f"line {line}: {message}" if line else message for line, message in faults]
    return AssemblyError("; ".join(shown), faults=faults)
