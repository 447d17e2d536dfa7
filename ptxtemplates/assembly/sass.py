"""Machine code beside the source lines that it comes from."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates import cache as kept
from ptxtemplates.assembly.tools import failure, find_tool, identity, run_tool
from ptxtemplates.ptx.parser import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ptxtemplates.assembly.faults import SourceOf

KIND: Final = "sass"
TOOL: Final = "nvdisasm"
OPTIONS: Final = ("--print-code", "--print-line-info")

OWN: Final = "(ptx)"
"""The file that the ``.loc`` lines of `with_own_lines` name: the PTX text itself."""

_SECTION: Final = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
_PLACE: Final = re.compile(r'\s*//## File "(.*)", line (\d+)')
_LABEL: Final = re.compile(r"(\.L_\w+):")
_INSTRUCTION: Final = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;")
_USED_LABEL: Final = re.compile(r"\.L_\w+")
_PADDING: Final = "NOP"
_BEFORE_OPCODE: Final = r"(?:[{}\s]|[\w$%]+\s*:|@!?[\w$%]+)*"


class MachineInstruction(NamedTuple):
    """An instruction of machine code.

    Attributes
    ----------
    address : int
        Bytes from the start of its function.
    text : str
        As NVIDIA's disassembler writes it.
    labels : tuple of str
        Of the branch targets that stand before it.
    file : str or None
        The source file, as ``.file`` names it; None if the machine code does not tell.
    line : int
        Its line, from 1.
    """

    address: int
    text: str
    labels: tuple[str, ...]
    file: str | None
    line: int


class SourceLine(NamedTuple):
    """A source line, and the instructions that it became in the order of the machine code."""

    file: str | None
    line: int
    instructions: tuple[MachineInstruction, ...]


def disassemble(cubin: bytes, *, own: str = OWN) -> dict[str, tuple[MachineInstruction, ...]]:
    """Return the instructions of each function of a cubin, without the padding behind them.

    Parameters
    ----------
    cubin : bytes
        Of `assemble` with ``lineinfo``: without it no instruction has a line.
    own : str
        What to call the file of instructions that `with_own_lines` gave their line.

    Raises
    ------
    MissingExtraError
        If NVIDIA's disassembler is not installed.
    AssemblyError
        If it fails.
    """
    tool = find_tool(TOOL)
    key = kept.key_of(identity(tool), *OPTIONS, cubin)
    found = kept.load(KIND, key)
    if found is None:
        found = _run(tool, cubin)
        kept.store(KIND, key, found)
    return _read(found.decode(errors="replace"), own)


def _read(listing: str, own: str) -> dict[str, tuple[MachineInstruction, ...]]:
    functions: dict[str, list[MachineInstruction]] = {}
    current: list[MachineInstruction] = []
    labels: tuple[str, ...] = ()
    file: str | None = None
    line = 0
    for text in listing.split("\n"):
        if section := _SECTION.match(text):
            current = functions[section[1]] = []
            labels, file, line = (), None, 0
        elif place := _PLACE.match(text):
            file, line = own if place[1] == OWN else place[1], int(place[2])
        elif label := _LABEL.match(text):
            labels += (label[1],)
        elif found := _INSTRUCTION.match(text):
            current.append(MachineInstruction(int(found[1], 16), found[2], labels, file, line))
            labels = ()
    return {name: _without_noise(instructions) for name, instructions in functions.items()}


def _without_noise(instructions: list[MachineInstruction]) -> tuple[MachineInstruction, ...]:
    """Drop padding, and the labels that mark sizes and unwinding rather than branch targets."""
    end = len(instructions)
    while end and instructions[end - 1].text == _PADDING:
        end -= 1
    code = instructions[:end]
    used = {label for item in code for label in _USED_LABEL.findall(item.text)}
    return tuple(
        item._replace(labels=tuple(label for label in item.labels if label in used)) for item in code
    )


def by_line(instructions: Iterable[MachineInstruction]) -> list[SourceLine]:
    """Group instructions by source line: files in the order in which they first occur, lines ascending.

    The assembler moves and mixes instructions: the source order reads best, and addresses tell the other one.
    Those without a line come last.
    """
    groups: dict[str | None, dict[int, list[MachineInstruction]]] = {}
    for item in instructions:
        groups.setdefault(item.file, {}).setdefault(item.line, []).append(item)
    groups[None] = groups.pop(None, {})
    return [
        SourceLine(file, line, tuple(lines[line])) for file, lines in groups.items() for line in sorted(lines)
    ]


def listing(instructions: Iterable[MachineInstruction], source_of: SourceOf) -> Iterator[str]:
    """Yield the lines of a listing: each source line, and below it the instructions that it became."""
    for group in by_line(instructions):
        yield heading(group, source_of)
        for item in group.instructions:
            for label in item.labels:
                yield f"  {label}:"
            yield f"    {item.address:04x}  {item.text}"


def heading(group: SourceLine, source_of: SourceOf) -> str:
    """Return the place of a source line, and its text where it can be read."""
    if group.file is None:
        return "(no line)"
    text = source_text(group, source_of)
    return f"{group.file}:{group.line}:" + (f" {text}" if text else "")


def source_text(group: SourceLine, source_of: SourceOf) -> str | None:
    """Return the text of a source line without its indentation; None if it cannot be read."""
    lines = None if group.file is None else source_of(group.file)
    return lines[group.line - 1].strip() if lines is not None and 0 < group.line <= len(lines) else None


def with_own_lines(text: str) -> str:
    """Add ``.loc`` lines that name the lines of the text itself, if it has none of its own.

    Raises
    ------
    PtxSyntaxError
        If the text cannot be parsed.
    """
    module = parse(text)
    instructions = [item for function in module.functions for item in function.instructions]
    if any(item.loc is not None for item in instructions):
        return text
    opcodes: dict[int, str] = {}
    for item in instructions:
        opcodes.setdefault(item.line, item.text)
    index = max(module.files, default=0) + 1

    def lines() -> Iterator[str]:
        for number, line in enumerate(text.split("\n"), start=1):
            # a statement may begin on the line on which the one before it ends: that line stays as it is
            if number in opcodes and re.match(_BEFORE_OPCODE + re.escape(opcodes[number]), line):
                yield f".loc {index} {number} 0"
            yield line

    return "\n".join([*lines(), f'.file {index} "{OWN}"', ""])


def _run(tool: Path, cubin: bytes) -> bytes:
    with tempfile.TemporaryDirectory(prefix="ptxtemplates-") as folder:
        Path(folder, "code.cubin").write_bytes(cubin)
        outcome = run_tool(tool, [*OPTIONS, "code.cubin"], folder)
    if outcome.code:
        raise failure(tool, outcome)
    return outcome.output
