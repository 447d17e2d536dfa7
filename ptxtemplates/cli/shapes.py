"""Reading ``--shape``: run-time sizes that a launch is to have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ptxtemplates.references.launches import run_time_sizes, sizes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ptxtemplates.kernel import Kernel


def asked_of(kernels: Sequence[Kernel], shapes: Iterable[str]) -> dict[str, int]:
    """Return the sizes that ``--shape`` gives, by name; each is one of some of the kernels.

    Raises
    ------
    click.UsageError
        If ``--shape`` is malformed.
    ParameterError
        If no kernel has a size of that name.
    """
    asked = _read(shapes)
    known = {name for kernel in kernels for name in run_time_sizes(kernel)}
    for name, value in asked.items():
        if name not in known:
            sizes_of(kernels[0], {name: value})  # says what is wrong
    return asked


def share_of(kernel: Kernel, asked: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes among those asked for that a kernel has."""
    names = run_time_sizes(kernel)
    return {name: value for name, value in asked.items() if name in names}


def _read(shapes: Iterable[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for word in (word for shape in shapes for word in shape.split(",")):
        name, _, value = word.partition("=")
        if not (name.isidentifier() and value.isascii() and value.isdecimal()):
            raise click.UsageError(f"--shape takes SIZE=N,... such as rows=4,max_chunks=16, not {word!r}")
        if name in sizes:
            raise click.UsageError(f"--shape gives {name} twice")
        sizes[name] = int(value)
    return sizes
