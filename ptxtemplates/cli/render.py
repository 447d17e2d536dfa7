"""``ptxtemplates render``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import click

from ptxtemplates.cli.parameters import KernelName, Setting, kernel_of
from ptxtemplates.errors import ArtifactError
from ptxtemplates.rendering import render


@click.command("render")
@click.argument("kernel", type=KernelName())
@click.option(
    "--set", "settings", type=Setting(), multiple=True, metavar="NAME=VALUE", help="Set a parameter."
)
@click.option("--target", metavar="ARCH", help="Lowest architecture that can load the text, sm_90 say.")
@click.option("--lineinfo", is_flag=True, help="Add .loc lines: profilers and debuggers show template lines.")
@click.option("-o", "output", type=click.Path(path_type=Path), help="File to write; stdout without it.")
def command(
    kernel: str, settings: tuple[str, ...], target: str | None, lineinfo: bool, output: Path | None
) -> None:
    """Render KERNEL to PTX: `ptxtemplates list` shows the kernels and what can be set."""
    rendered = render(kernel_of(kernel, settings), target=target, lineinfo=lineinfo)
    content = rendered.text.encode()
    if output is None:
        click.echo(content, nl=False)  # bytes stay bytes: no system turns LF into CRLF
    else:
        _write(output, content)


def _write(output: Path, content: bytes) -> None:
    """Write a file whole or not at all, through links; in place what is no regular file, such as a pipe."""
    try:
        target = output.resolve()
        in_place = output.exists() and not target.is_file()
        staged = output if in_place else target.with_name(f".ptxtemplates-{os.getpid()}.part")
        try:
            staged.write_bytes(content)
            if not in_place:
                staged.replace(target)
        finally:
            if not in_place:
                with contextlib.suppress(OSError):
                    staged.unlink()
    except OSError as error:
        raise ArtifactError(f"cannot write {output}: {error.strerror or error}") from error
