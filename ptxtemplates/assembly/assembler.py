"""nvJitLink: texts in, cubins out, several at a time, each assembled once."""

from __future__ import annotations

import importlib
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ptxtemplates import cache as kept
from ptxtemplates.assembly.resources import Resources, read_resources
from ptxtemplates.errors import AssemblyError, MissingExtraError
from ptxtemplates.ptx.targets import TARGETS, runs_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KIND: Final = "cubin"
ARCHITECTURE: Final = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")
"""Names that the library may be asked about: it ends the process over some others."""

_TARGET: Final = re.compile(r"^[ \t]*\.target[ \t]+(\w+)", re.MULTILINE)
_FAULT: Final = re.compile(
    r"^ptxas (?:application ptx input, line (\d+); )?(?:error|fatal)\s*: (.*)$", re.MULTILINE
)
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
def _library() -> Any:
    try:
        library = importlib.import_module("cuda.bindings.nvjitlink")
        library.version()
    except (ImportError, RuntimeError) as error:  # RuntimeError: the bindings are there, the library is not
        raise MissingExtraError(
            "assembling needs nvJitLink, which is not installed: pip install 'ptxtemplates[cuda]'"
        ) from error
    return library


@cache
def toolchain() -> str:
    """Return the name and version of the assembler.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    _library()
    from cuda.pathfinder import load_nvidia_dynamic_lib

    path = load_nvidia_dynamic_lib("nvJitLink").abs_path or ""
    major, minor = _library().version()
    # the library tells no patch level: its size stands for it
    return f"nvJitLink {major}.{minor}" + (f" ({Path(path).stat().st_size} bytes)" if path else "")


def assemble(text: str, architecture: str, *, lineinfo: bool = False) -> Assembly:
    """Assemble a PTX text.

    Parameters
    ----------
    text : str
        PTX.
    architecture : str
        Such as ``sm_90``: any that the library knows and the text's ``.target`` runs on.
    lineinfo : bool
        Keep what the text's ``.loc`` lines say, for disassemblers and profilers.

    Raises
    ------
    AssemblyError
        If the text does not assemble, or not for that architecture. `faults` has the lines.
    MissingExtraError
        If the assembler is not installed.
    """
    _check_architecture(text, architecture)
    options = [f"-arch={architecture}", "-verbose", *(["-lineinfo"] if lineinfo else [])]
    key = kept.key_of(toolchain(), *options, text)
    found = kept.load(KIND, key)
    if found is None:
        cubin, log = _run(text, architecture, options)
        resources = read_resources(log, cubin)
        header = json.dumps({name: list(values) for name, values in resources.items()}).encode()
        kept.store(KIND, key, header + b"\n" + cubin)
        return Assembly(architecture, cubin, resources, toolchain())
    header, _, cubin = found.partition(b"\n")
    resources = {name: Resources(*values) for name, values in json.loads(header).items()}
    return Assembly(architecture, cubin, resources, toolchain())


def assemble_all(jobs: Iterable[tuple[str, str]], *, lineinfo: bool = False) -> list[Assembly]:
    """Assemble (text, architecture) pairs, as many at a time as there are processors; in order."""
    pending: Sequence[tuple[str, str]] = list(jobs)
    if pending:
        toolchain()  # loaded once, before threads ask for it
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda job: assemble(*job, lineinfo=lineinfo), pending))


def _check_architecture(text: str, architecture: str) -> None:
    if not ARCHITECTURE.fullmatch(architecture):
        known = ", ".join(TARGETS)
        raise AssemblyError(f"there is no architecture {architecture!r}; known are {known}")
    target = _TARGET.search(text)
    if target is not None and not runs_on(target[1], architecture):
        raise AssemblyError(f".target {target[1]} does not run on {architecture}")


def _run(text: str, architecture: str, options: list[str]) -> tuple[bytes, str]:
    library = _library()
    try:
        handle = library.create(len(options), options)
    except library.nvJitLinkError as error:
        raise AssemblyError(f"{toolchain()} knows no architecture {architecture!r}") from error
    try:
        data = text.encode()
        library.add_data(handle, library.InputType.PTX, data, len(data), "ptx")
        library.complete(handle)
        log = _log(library.get_info_log_size, library.get_info_log, handle)
        cubin = bytearray(library.get_linked_cubin_size(handle))
        library.get_linked_cubin(handle, cubin)
    except library.nvJitLinkError as error:
        raise _refusal(_log(library.get_error_log_size, library.get_error_log, handle), error) from error
    finally:
        library.destroy(handle)
    return bytes(cubin), log


def _log(size: Any, read: Any, handle: int) -> str:
    buffer = bytearray(size(handle))
    read(handle, buffer)
    return buffer.decode(errors="replace").rstrip("\0")


def _refusal(log: str, error: Exception) -> AssemblyError:
    faults = tuple(
        (int(line) if line else None, message)
        for line, message in _FAULT.findall(log)
        if message != _CONSEQUENCE
    )
    if not faults:
        return AssemblyError(f"the assembler refuses the text: {log.strip() or error}")
    shown = [f"line {line}: {message}" if line else message for line, message in faults]
    return AssemblyError("; ".join(shown), faults=faults)
