"""What ``ptxtemplates inspect`` looks at: variants of the list, and PTX files of any producer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ptxtemplates.assembly.sass import with_own_lines
from ptxtemplates.config import load, select
from ptxtemplates.errors import PtxSyntaxError
from ptxtemplates.ptx.parser import parse
from ptxtemplates.rendering import render
from ptxtemplates.sources import BUILT_IN_TEMPLATES, template_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxtemplates.kernel import Kernel


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


class Chosen(NamedTuple):
    """What the arguments name, each once: kernels by variant, and files."""

    kernels: dict[str, Kernel]
    files: list[str]


def chosen(words: tuple[str, ...], config: Path) -> Chosen:
    """Sort the arguments into kernels of the list and files; without any, the whole list is meant."""
    files = [word for word in dict.fromkeys(words) if word.endswith(".ptx") or Path(word).is_file()]
    patterns = [word for word in words if word not in files]
    kernels: dict[str, Kernel] = {}
    if patterns or not words:
        listed = load(config)
        for pattern in patterns or ["*"]:
            kernels.update({kernel.variant: kernel for kernel in select(listed, pattern)})
    return Chosen(kernels, files)


def subjects(words: tuple[str, ...], config: Path, sass: bool) -> list[Subject]:
    """Return what the arguments name, by name; with lines for machine code if that is asked for."""
    kernels, files = chosen(words, config)
    found = [_of_kernel(kernel, sass) for kernel in kernels.values()]
    found += [_of_file(file, sass) for file in files]
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
