"""``ptxtemplates inspect``."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxtemplates.cli.parameters import config_option, json_option
from ptxtemplates.cli.progress import with_progress
from ptxtemplates.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxtemplates.cli.resources import Row


@click.command("inspect")
@click.argument("subjects", nargs=-1, metavar="[VARIANT|FILE.ptx]...")
@config_option
@click.option(
    "--arch",
    "architectures",
    multiple=True,
    metavar="ARCH",
    help="Architecture, sm_90 say; may be repeated. Without it sm_80, sm_90, sm_100, sm_120, as far as "
    "the text runs on them, or else its target.",
)
@click.option("--sass", is_flag=True, help="Print each source line and the machine code that it became.")
@click.option(
    "--counts",
    is_flag=True,
    help="Execute variants once on the CPU and print what they executed and how they access memory.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="SIZE=N,...",
    help="Run-time sizes for --counts, rows=4,max_chunks=16 say; may be repeated.",
)
@json_option
def command(
    subjects: tuple[str, ...],
    config: Path,
    architectures: tuple[str, ...],
    sass: bool,
    counts: bool,
    shapes: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show what kernels need on each architecture: registers, spills, shared memory, occupancy.

    Takes variants of the list, by name or with * and ?, and PTX files of any producer; without arguments
    the whole list. No GPU is needed. With --counts it exits with 1 if the execution showed a mistake.
    """
    if shapes and not counts:
        raise click.UsageError("--shape gives sizes to a launch, and only --counts has one")
    if counts:
        if architectures or sass:
            raise click.UsageError(
                "--counts executes PTX, --arch and --sass assemble it: drop one or the other"
            )
        return _count(subjects, config, shapes, as_json)
    rows = _assemble(subjects, config, tuple(dict.fromkeys(architectures)), sass)
    from ptxtemplates.cli.resources import described, listings, table

    if as_json:
        _print_json([described(row, sass) for row in rows])
    else:
        _print_lines(listings(rows) if sass else table(rows))
    return 0


def _assemble(words: tuple[str, ...], config: Path, architectures: tuple[str, ...], sass: bool) -> list[Row]:
    from ptxtemplates.assembly import toolchain
    from ptxtemplates.assembly.sass import TOOL
    from ptxtemplates.assembly.tools import find_tool
    from ptxtemplates.cli.resources import rows_of
    from ptxtemplates.cli.subjects import subjects

    toolchain()  # what is missing is said before any work
    if sass:
        find_tool(TOOL)
    found = with_progress("assembling")(subjects(words, config, sass))
    return [row for subject in found for row in rows_of(subject, architectures)]


def _count(words: tuple[str, ...], config: Path, shapes: tuple[str, ...], as_json: bool) -> int:
    if any(find_spec(name) is None for name in ("numpy", "ml_dtypes")):
        raise MissingExtraError(
            "executing PTX needs numpy and ml-dtypes, which are not both installed: "
            "pip install 'ptxtemplates[emulate]'"
        )
    from ptxtemplates.cli.counting import count, described, lines_of, planned
    from ptxtemplates.cli.subjects import chosen

    kernels, files = chosen(words, config)
    if files:
        raise click.ClickException(
            f"{files[0]}: --counts needs a variant of the list: "
            "a PTX file does not say what its arguments point to"
        )
    plans = planned(sorted(kernels.values(), key=lambda kernel: kernel.variant), shapes)
    counted = [count(plan) for plan in with_progress("counting")(plans)]
    if as_json:
        _print_json([described(each) for each in counted])
    else:
        _print_lines(lines_of(counted))
    return 1 if any(each.report.findings for each in counted) else 0


def _print_json(values: object) -> None:
    click.echo(json.dumps(values, indent=2, sort_keys=True))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
