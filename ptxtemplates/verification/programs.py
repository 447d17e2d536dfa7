"""Texts to verify: rendered ones, and from elsewhere in their place."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ptxtemplates.errors import PtxSyntaxError, PtxTemplatesError
from ptxtemplates.ptx.parser import parse
from ptxtemplates.rendering import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.ptx import Function


class Program(NamedTuple):
    """The text of a kernel.

    Attributes
    ----------
    text : str
        PTX.
    entry : str
        Name of the kernel in it.
    places : sequence of (str, int) or None
        Template line of each line, if it was rendered.
    """

    text: str
    entry: str
    places: Sequence[tuple[str, int]] | None


def program_of(kernel: Kernel) -> Program:
    """Render a kernel."""
    rendered = render(kernel)
    return Program(rendered.text, kernel.entry, rendered.places)


def given_program(kernel: Kernel, text: str, file: str) -> Program:
    """Find a kernel in a text from elsewhere: the entry of its name, or else the first.

    Parameters
    ----------
    kernel : Kernel
        Whose parameters and block it must have.
    text : str
        PTX.
    file : str
        What messages call it.

    Raises
    ------
    PtxTemplatesError
        If it is no PTX, has no entry, or one with other parameters or for another block.
    """
    try:
        entries = {function.name: function for function in parse(text).entries}
    except PtxSyntaxError as error:
        raise PtxTemplatesError(f"{file}:{error.line}: {error}") from error
    if not entries:
        raise PtxTemplatesError(f"{file}: defines no entry")
    name = kernel.entry if kernel.entry in entries else next(iter(entries))
    function = entries[name]
    for unknown in function.undeclared:
        raise PtxTemplatesError(f"{file}:{unknown.line}: nothing declares {unknown.name}")
    sizes = [parameter.size for parameter in function.parameters]
    if sizes != [argument.size for argument in kernel.arguments]:
        has = ", ".join(f".{parameter.type} {parameter.name}" for parameter in function.parameters)
        takes = ", ".join(f".{argument.type} {argument.name}" for argument in kernel.arguments)
        raise PtxTemplatesError(
            f"{file}:{function.line}: {name} has the parameters ({has}), {kernel.variant} takes ({takes})"
        )
    if not _takes_block(function, kernel.block):
        block = "x".join(map(str, kernel.block))
        raise PtxTemplatesError(
            f"{file}:{function.line}: {name} cannot run in blocks of {block} threads, {kernel.variant} does"
        )
    return Program(text, name, None)


def _takes_block(function: Function, block: tuple[int, int, int]) -> bool:
    required, most = function.attributes.get("reqntid"), function.attributes.get("maxntid")
    if required is not None:
        return (*required, 1, 1)[:3] == block
    return most is None or prod(block) <= prod(most)
