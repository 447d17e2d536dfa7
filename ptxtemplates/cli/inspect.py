"""``ptxtemplates inspect``."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ptxtemplates.assembly import assemble_all, toolchain
from ptxtemplates.assembly.faults import located
from ptxtemplates.assembly.occupancy import occupancy
from ptxtemplates.assembly.sass import (
    TOOL,
    by_line,
    disassemble,
    listing,
    source_text,
    with_own_lines,
)
from ptxtemplates.assembly.tools import find_tool
from ptxtemplates.cli.progress import with_progress
from ptxtemplates.config import load, select
from ptxtemplates.errors import AssemblyError, PtxSyntaxError
from ptxtemplates.ptx.parser import parse
from ptxtemplates.ptx.targets import runs_on
from ptxtemplates.rendering import render
from ptxtemplates.sources import BUILT_IN_TEMPLATES, template_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ptxtemplates.assembly import Resources
    from ptxtemplates.assembly.sass import MachineInstruction
    from ptxtemplates.kernel import Kernel

    Code = dict[str, tuple[MachineInstruction, ...]]
    """Instructions of each function."""

DEFAULT_ARCHITECTURES: Final = ("sm_80", "sm_90", "sm_100", "sm_120")
UNKNOWN: Final = "n/a"


class Subject(NamedTuple):
    """A text to inspect.

    Attributes
    ----------
    name : str
        The variant, or the path of the file.
    file : str
        What messages call the text.
    text : str
        PTX.
    lined : str or None
        The same with ``.loc`` lines, where machine code is asked for.
    target : str or None
        Its ``.target``.
    blocks : dict of str to (tuple of int or None)
        Block of each entry, as far as the text fixes it.
    places : sequence of (str, int) or None
        Template line of each line of `text`, if it was rendered.
    folders : tuple of pathlib.Path
        Where its source files lie.
    """

    name: str
    file: str
    text: str
    lined: str | None
    target: str | None
    blocks: dict[str, tuple[int, ...] | None]
    places: Sequence[tuple[str, int]] | None
    folders: tuple[Path, ...]

    def source_of(self, name: str) -> list[str] | None:
        """Return the lines of a source file."""
        if name == self.file:
            return self.text.split("\n")
        return template_lines(self.folders, name)


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


@click.command("inspect")
@click.argument("subjects", nargs=-1, metavar="[VARIANT|FILE.ptx]...")
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    default=Path("kernels.toml"),
    show_default=True,
    help="List of variants.",
)
@click.option(
    "--arch",
    "architectures",
    multiple=True,
    metavar="ARCH",
    help="Architecture, sm_90 say; may be repeated. Without it sm_80, sm_90, sm_100, sm_120, as far as "
    "the text runs on them, or else its target.",
)
@click.option("--sass", is_flag=True, help="Print each source line and the machine code that it became.")
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
def command(
    subjects: tuple[str, ...], config: Path, architectures: tuple[str, ...], sass: bool, as_json: bool
) -> int:
    """Show what kernels need on each architecture: registers, spills, shared memory, occupancy.

    Takes variants of the list, by name or with * and ?, and PTX files of any producer; without arguments
    the whole list. No GPU is needed.
    """
    toolchain()  # what is missing is said before any work
    if sass:
        find_tool(TOOL)
    rows: list[Row] = []
    for subject in with_progress("assembling")(_subjects(subjects, config, sass)):
        try:
            rows += _inspect(subject, tuple(dict.fromkeys(architectures)))
        except AssemblyError as error:
            raise located(
                error, subject.text, subject.places, subject.source_of, name=subject.file
            ) from error
    if as_json:
        click.echo(json.dumps([_described(row, sass) for row in rows], indent=2, sort_keys=True))
    elif sass:
        for line in _listings(rows):
            click.echo(line)
    else:
        for line in _table(rows):
            click.echo(line)
    return 0


def _subjects(words: tuple[str, ...], config: Path, sass: bool) -> list[Subject]:
    """Return what the arguments name, each once, by name."""
    files = [word for word in words if word.endswith(".ptx") or Path(word).is_file()]
    patterns = [word for word in words if word not in files]
    kernels: dict[str, Kernel] = {}
    if patterns or not words:
        listed = load(config)
        for pattern in patterns or ["*"]:
            kernels.update({kernel.variant: kernel for kernel in select(listed, pattern)})
    found = [_of_kernel(kernel, sass) for kernel in kernels.values()]
    found += [_of_file(file, sass) for file in dict.fromkeys(files)]
    return sorted(found, key=lambda subject: subject.name)


def _of_kernel(kernel: Kernel, sass: bool) -> Subject:
    rendered = render(kernel)
    rendered.check()
    return Subject(
        name=kernel.variant,
        file=f"{kernel.variant}.ptx",
        text=rendered.text,
        lined=render(kernel, lineinfo=True).text if sass else None,
        target=kernel.target,
        blocks={kernel.entry: kernel.block},
        places=rendered.places,
        folders=(kernel.template_folder, BUILT_IN_TEMPLATES),
    )


def _of_file(file: str, sass: bool) -> Subject:
    try:
        text = Path(file).read_bytes().decode()
        module = parse(text)
        lined = with_own_lines(text) if sass else None
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise click.ClickException(f"{file}:{line}: is not UTF-8") from error
    except PtxSyntaxError as error:
        raise click.ClickException(f"{file}:{error.line}: {error}") from error
    if not module.entries:
        raise click.ClickException(f"{file}: defines no entry")
    blocks: dict[str, tuple[int, ...] | None] = {}
    for entry in module.entries:
        block = entry.attributes.get("reqntid", entry.attributes.get("maxntid"))
        blocks[entry.name] = None if block is None else (*block, 1, 1)[:3]
    target = module.targets[0] if module.targets else None
    return Subject(file, file, text, lined, target, blocks, None, (Path(file).parent,))


def _inspect(subject: Subject, asked: tuple[str, ...]) -> list[Row]:
    """Assemble a text for each architecture; the rows are sorted."""
    names = asked or tuple(
        name for name in DEFAULT_ARCHITECTURES if subject.target is None or runs_on(subject.target, name)
    )
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


def _listings(rows: Iterable[Row]) -> Iterator[str]:
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


def _table(rows: Iterable[Row]) -> Iterator[str]:
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


def _described(row: Row, sass: bool) -> dict[str, Any]:
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
