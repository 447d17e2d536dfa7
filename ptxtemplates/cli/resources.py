"""What kernels need on each architecture, and the machine code they become: what an assembler tells."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ptxtemplates.assembly import assemble_all, toolchain
from ptxtemplates.assembly.faults import located
from ptxtemplates.assembly.occupancy import occupancy
from ptxtemplates.assembly.sass import by_line, disassemble, listing, source_text
from ptxtemplates.errors import AssemblyError
from ptxtemplates.ptx.targets import USUAL, runs_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ptxtemplates.assembly import Resources
    from ptxtemplates.assembly.sass import MachineInstruction
    from ptxtemplates.cli.subjects import Subject

    Code = dict[str, tuple[MachineInstruction, ...]]
    """Instructions of each function."""

UNKNOWN: Final = "n/a"


class Row(NamedTuple):
    """An entry on an architecture."""

    subject: Subject
    entry: str
    architecture: str
    resources: Resources
    code: Code

    @property
    def block(self) -> tuple[int, ...] | None:
        """Threads in x, y and z."""
        return self.subject.blocks.get(self.entry)

    @property
    def occupancy(self) -> float | None:
        """Theoretical occupancy, with static shared memory alone."""
        if self.block is None:
            return None
        needs = self.resources
        return occupancy(
            self.architecture,
            registers=needs.registers,
            shared_memory=needs.shared_memory,
            threads=prod(self.block),
            barriers=needs.barriers,
        )


def rows_of(subject: Subject, asked: tuple[str, ...]) -> list[Row]:
    """Assemble a text for each architecture; the rows are sorted.

    Raises
    ------
    AssemblyError
        If it does not assemble; the message shows where.
    """
    try:
        return _rows_of(subject, asked)
    except AssemblyError as error:
        raise located(error, subject.text, subject.places, subject.source_of, name=subject.file) from error


def _rows_of(subject: Subject, asked: tuple[str, ...]) -> list[Row]:
    names = asked or tuple(name for name in USUAL if subject.target is None or runs_on(subject.target, name))
    if not names and subject.target is not None:
        names = (subject.target,)
    names = tuple(sorted(names, key=lambda name: (len(name.rstrip("af")), name)))
    # the text itself first: its faults have the lines that the reader knows
    assemblies = assemble_all((subject.text, name) for name in names)
    codes: list[Code] = [{} for _ in names]
    if subject.lined is not None:
        lined = assemble_all([(subject.lined, name) for name in names], lineinfo=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            codes = list(pool.map(lambda item: disassemble(item.cubin, own=subject.file), lined))
    return [
        Row(
            subject,
            entry,
            assembly.architecture,
            assembly.resources_of(entry),
            _of_entry(entry, code, subject),
        )
        for entry in sorted(subject.blocks)
        for assembly, code in zip(assemblies, codes, strict=True)
    ]


def _of_entry(entry: str, code: Code, subject: Subject) -> Code:
    """Return the code of an entry if there is any, and below it that of functions: it may call them.

    Also the assembler adds functions: the slow path of a division, for one.
    """
    return {
        name: code[name]
        for name in (entry, *code)
        if name in code and (name == entry or name not in subject.blocks)
    }


def listings(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the listing of each function of each text, once for each architecture."""
    seen: set[tuple[str, str, str]] = set()
    for row in rows:
        for function, instructions in row.code.items():
            key = (row.subject.name, row.architecture, function)
            if key not in seen:
                if seen:
                    yield ""
                seen.add(key)
                title = _title(row.subject, function)
                yield f"{title} on {row.architecture}, {len(instructions)} instructions"
                yield ""
                yield from listing(instructions, row.subject.source_of)


def _title(subject: Subject, function: str) -> str:
    """Name a function: a rendered text has one entry, which goes by the name of the variant."""
    rendered_entry = subject.places is not None and function in subject.blocks
    return subject.name if rendered_entry else f"{subject.name}:{function}"


def table(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a line for each entry and architecture, and one that names the assembler."""
    header = ("kernel", "arch", "block", "registers", "spills", "shared", "instructions", "occupancy")
    cells = [header, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        # names stand at the left, figures at the right
        names = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
        figures = [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
        yield "  ".join(names + figures)
    yield f"spills and shared memory in bytes; {toolchain()}"


def _cells(row: Row) -> tuple[str, ...]:
    needs = row.resources
    return (
        _title(row.subject, row.entry),
        row.architecture,
        UNKNOWN if row.block is None else "x".join(map(str, row.block)),
        str(needs.registers),
        str(needs.spill_stores + needs.spill_loads),
        str(needs.shared_memory),
        str(needs.instructions),
        UNKNOWN if row.occupancy is None else f"{row.occupancy:.0%}",
    )


def described(row: Row, sass: bool) -> dict[str, Any]:
    """Return a row as JSON values, with its machine code if that is asked for."""
    code = {
        function: [
            {
                "file": group.file,
                "line": group.line if group.file else None,
                "source": source_text(group, row.subject.source_of),
                "instructions": [
                    {"address": item.address, "text": item.text, "labels": list(item.labels)}
                    for item in group.instructions
                ],
            }
            for group in by_line(instructions)
        ]
        for function, instructions in row.code.items()
    }
    return {
        "name": row.subject.name,
        "entry": row.entry,
        "architecture": row.architecture,
        "block": row.block,
        **row.resources._asdict(),
        "occupancy": row.occupancy,
        "toolchain": toolchain(),
        **({"sass": code} if sass else {}),
    }
