"""One file for several architectures: cubins, and the PTX for whatever comes later."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ptxtemplates import cache as kept
from ptxtemplates.assembly.tools import failure, find_tool, identity, result_of, run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping

KIND: Final = "fatbin"
TOOL: Final = "fatbinary"


def make_fatbin(text: str, target: str, cubins: Mapping[str, bytes]) -> bytes:
    """Put a PTX text and its cubins into a fat binary: a driver takes the cubin that fits, or the PTX.

    Parameters
    ----------
    text : str
        PTX.
    target : str
        Its ``.target``.
    cubins : mapping of str to bytes
        Machine code by architecture.

    Raises
    ------
    MissingExtraError
        If the program ``fatbinary`` is neither installed as a package nor part of a CUDA toolkit on the path.
    AssemblyError
        If it fails.
    """
    tool = find_tool(TOOL)
    parts = [part for name in sorted(cubins) for part in (name, cubins[name])]
    key = kept.key_of(identity(tool), target, text, *parts)
    found = kept.load(KIND, key)
    if found is None:
        found = _run(tool, text, target, cubins)
        kept.store(KIND, key, found)
    return found


def _run(tool: Path, text: str, target: str, cubins: Mapping[str, bytes]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="ptxtemplates-") as folder:
        images = []
        for architecture in sorted(cubins):
            Path(folder, f"{architecture}.cubin").write_bytes(cubins[architecture])
            number = architecture.removeprefix("sm_")
            images.append(f"--image3=kind=elf,sm={number},file={architecture}.cubin")
        Path(folder, "text.ptx").write_bytes(text.encode())
        images.append(f"--image3=kind=ptx,sm={target.removeprefix('sm_')},file=text.ptx")
        outcome = run_tool(tool, ["-64", "--create", "out.fatbin", *images], folder)
        if outcome.code:
            raise failure(tool, outcome)
        return result_of(tool, Path(folder, "out.fatbin"))
