"""``ptxtemplates lint``."""

from __future__ import annotations

from pathlib import Path

import click

from ptxtemplates.errors import PtxSyntaxError
from ptxtemplates.ptx.linter import lint
from ptxtemplates.ptx.parser import parse


@click.command("lint")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
def command(files: tuple[Path, ...]) -> int:
    """Look for mistakes in PTX files that an assembler lets pass.

    Any PTX will do. Where a file has .loc lines, findings name the source (for ours: the template) line too.
    Exits with 1 if there is a finding.
    """
    found = 0
    for file in files:
        for line in _findings(file):
            click.echo(line)
            found += 1
    return 1 if found else 0


def _findings(file: Path) -> list[str]:
    try:
        text = file.read_bytes().decode(
            "latin-1"
        )  # any byte is a character: the lint names those out of place
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror or error}") from error
    try:
        findings = lint(parse(text), text)
    except PtxSyntaxError as error:
        raise click.ClickException(f"{file}:{error.line}: {error}") from error
    return [
        f"{file}:{finding.line}: {finding.rule}: {finding.message}"
        + (f" [{finding.loc[0]}:{finding.loc[1]}]" if finding.loc else "")
        for finding in findings
    ]
