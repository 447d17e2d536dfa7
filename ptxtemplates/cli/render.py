"""``ptxtemplates render``."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Final

import click

from ptxtemplates.cli.parameters import KernelName, Setting, kernel_of
from ptxtemplates.errors import ArtifactError
from ptxtemplates.rendering import render

STANDARD_STREAMS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR: Final = re.compile(r"(?:/dev/fd|/proc/self/fd)/([0-9]+)")


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
    """Write a file whole or not at all, through links; what is no regular file, in place.

    A name of an open descriptor means that descriptor: opened or replaced by name, what a shell has written
    there before would be lost.
    """
    try:
        number = _descriptor(output)
        if number is not None:
            with open(number, "wb", closefd=False) as stream:
                stream.write(content)
            return
        target = Path(os.path.realpath(output))
        in_place = output.exists() and not target.is_file()
        staged = output if in_place else target.with_name(f".ptxtemplates-{os.getpid()}.part")
        try:
            staged.write_bytes(content)
            if not in_place:
                if target.exists():
                    shutil.copymode(target, staged)
                staged.replace(target)
        finally:
            if not in_place:
                with contextlib.suppress(OSError):
                    staged.unlink()
    except OSError as error:
        raise ArtifactError(f"cannot write {output}: {error.strerror or error}") from error


def _descriptor(output: Path) -> int | None:
    """Return the open file descriptor that a path, or the link that it is, names."""
    names = [str(output), str(output.parent / output.readlink())] if output.is_symlink() else [str(output)]
    for name in names:
        if name in STANDARD_STREAMS:
            return STANDARD_STREAMS[name]
        if match := _DESCRIPTOR.fullmatch(name):
            return int(match[1])
    return None
