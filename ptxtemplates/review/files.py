"""Kernels of one PTX file, of any producer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ptxtemplates.errors import PtxSyntaxError, PtxTemplatesError
from ptxtemplates.ptx.parser import parse
from ptxtemplates.review.model import KernelSet, Side
from ptxtemplates.review.reading import decoded, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ptxtemplates.ptx.statements import Function


def of_file(path: Path) -> KernelSet:
    """Read the kernels of a PTX file.

    They go by the names of their entries. Where there are several, the text of each is the file without the
    others, so that what changes in one is no change of another; lines are counted in that text. A file that
    does not parse, or has no entry, is one kernel by the name of the file.

    Raises
    ------
    PtxTemplatesError
        If the file cannot be read or is no text, or two entries have one name or share a line.
    """
    text = decoded(read(path), str(path))
    try:
        entries = parse(text).entries
    except PtxSyntaxError:
        entries = ()  # what is wrong with it is part of the comparison
    if len(entries) < 2:
        name = entries[0].name if entries else path.stem
        return KernelSet(str(path), {name: Side(name, text, None, None, str(path))})
    _refuse_tangled(entries, path)
    sides = {
        entry.name: Side(entry.name, _alone(text, entry, entries), None, None, f"{path}:{entry.name}")
        for entry in entries
    }
    return KernelSet(str(path), dict(sorted(sides.items())))


def _refuse_tangled(entries: Sequence[Function], path: Path) -> None:
    for earlier, later in pairwise(entries):
        if later.line <= earlier.end_line:
            raise PtxTemplatesError(
                f"{path}:{later.line}: {earlier.name!r} ends and {later.name!r} begins; break the line there"
            )
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            raise PtxTemplatesError(f"{path}:{entry.line}: {entry.name!r} is defined twice")
        seen.add(entry.name)


def _alone(text: str, kept: Function, entries: Sequence[Function]) -> str:
    """Return a text without its other entries, and without the comments right above them."""
    lines = text.split("\n")
    gone: set[int] = set()
    for entry in entries:
        if entry is not kept:
            gone.update(range(_start(lines, entry.line), entry.end_line + 1))
    return "\n".join(line for number, line in enumerate(lines, start=1) if number not in gone)


def _start(lines: Sequence[str], line: int) -> int:
    """Return the first of the comments and blank lines above a line."""
    while line > 1 and (not (above := lines[line - 2].strip()) or above.startswith("//")):
        line -= 1
    return line
