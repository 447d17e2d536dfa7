"""ptxas: texts in, cubins out, several at a time, each assembled once.

The program, and not the nvJitLink library: that assembles as if for linking, and below sm_90 turns every
shuffle into a call, which takes up to half as many registers more and twice the code.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates import cache as kept
from ptxtemplates.assembly.resources import Resources, read_resources
from ptxtemplates.assembly.tools import (
    Outcome,
    failure,
    find_tool,
    identity,
    result_of,
    run_tool,
    stop_tools,
)
from ptxtemplates.errors import AssemblyError
from ptxtemplates.ptx.targets import RENAMED, TARGETS, runs_on

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

    def resources_of(self, entry: str) -> Resources:
        """Return what an entry needs; raise `AssemblyError` if the assembler did not say."""
        if entry not in self.resources:
            raise AssemblyError(f"{self.toolchain} does not say what {entry} needs on {self.architecture}")
        return self.resources[entry]


def toolchain() -> str:
    """Return the name and version of the assembler.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    AssemblyError
        If it cannot be run.
    """
    tool = find_tool(TOOL)
    return _toolchain(tool, identity(tool))


@cache
def _toolchain(tool: Path, identity: str) -> str:
    outcome = run_tool(tool, ["--version"])
    if outcome.code:
        raise failure(tool, outcome)
    version = _VERSION.search(outcome.output.decode(errors="replace"))
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
    tool = find_tool(TOOL)
    identified = identity(tool)
    options = [f"-arch={architecture}", "-v", *(["-lineinfo"] if lineinfo else [])]
    key = kept.key_of(identified, *options, text)
    if (found := kept.load(KIND, key)) is not None:
        size = int.from_bytes(found[:8], "little")
        log, cubin = found[8 : 8 + size].decode(), found[8 + size :]
        return Assembly(architecture, cubin, read_resources(log, cubin), _toolchain(tool, identified))
    cubin, log = _run(tool, text, architecture, options)
    resources = read_resources(log, cubin)  # what cannot be read is not kept
    kept.store(KIND, key, len(log.encode()).to_bytes(8, "little") + log.encode() + cubin)
    return Assembly(architecture, cubin, resources, _toolchain(tool, identified))


def assemble_all(jobs: Iterable[tuple[str, str]], *, lineinfo: bool = False) -> list[Assembly]:
    """Assemble (text, architecture) pairs, as many at a time as there are processors; in order."""
    pending: Sequence[tuple[str, str]] = list(jobs)
    if pending:
        toolchain()  # asked once, before threads ask for it
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = [pool.submit(assemble, *job, lineinfo=lineinfo) for job in pending]
        try:
            return [future.result() for future in futures]
        except BaseException:
            # after the first error, or an interrupt, nothing new begins and nothing goes on
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in futures):
                stop_tools()  # again: a thread may have been about to start one
                time.sleep(0.01)
            raise


def check_architecture(architecture: str) -> None:
    """Raise `AssemblyError` if a name cannot be that of an architecture."""
    if not ARCHITECTURE.fullmatch(architecture):
        raise _unknown(architecture, "there is")


def _unknown(architecture: str, who: str) -> AssemblyError:
    later = RENAMED.get(architecture)
    hint = f"it is called {later} today" if later else f"known are {', '.join(TARGETS)}"
    return AssemblyError(f"{who} no architecture {architecture!r}; {hint}")


def _check_target(text: str, architecture: str) -> None:
    target = _TARGET.search(_COMMENT.sub("", text).partition("{")[0])
    if target is not None and not runs_on(target[1], architecture):
        raise AssemblyError(f".target {target[1]} does not run on {architecture}")


def _run(tool: Path, text: str, architecture: str, options: list[str]) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory(prefix="ptxtemplates-") as folder:
        Path(folder, "text.ptx").write_bytes(text.encode())
        outcome = run_tool(tool, [*options, "-o", "out.cubin", "text.ptx"], folder)
        log = outcome.output.decode(errors="replace") + outcome.errors
        if outcome.code:
            raise _refusal(tool, outcome, log, architecture)
        return result_of(tool, Path(folder, "out.cubin")), log


def _refusal(tool: Path, outcome: Outcome, log: str, architecture: str) -> AssemblyError:
    if _UNKNOWN in log:
        return _unknown(architecture, f"{toolchain()} knows")
    faults = tuple(
        (int(line) if line else None, message)
        for line, message in _FAULT.findall(log)
        if message != _CONSEQUENCE
    )
    if not faults:
        return failure(tool, outcome)
    shown = [f"line {line}: {message}" if line else message for line, message in faults]
    return AssemblyError("; ".join(shown), faults=faults)
