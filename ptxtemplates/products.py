"""What a build makes of each kernel: PTX, and machine code where it is asked for."""

from __future__ import annotations

import hashlib
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from ptxtemplates.errors import AssemblyError
from ptxtemplates.manifest import Entry, assembly_of, entry_of, stem_of
from ptxtemplates.ptx.targets import runs_on
from ptxtemplates.rendering import render
from ptxtemplates.sources import BUILT_IN_TEMPLATES, template_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ptxtemplates.assembly import Assembly
    from ptxtemplates.kernel import Kernel
    from ptxtemplates.rendering import RenderedKernel


class Making(NamedTuple):
    """What to make of each kernel beside its PTX.

    Attributes
    ----------
    architectures : tuple of str
        Assemble for each of them.
    fatbin : bool
        Put PTX and cubins into one file too.
    """

    architectures: tuple[str, ...] = ()
    fatbin: bool = False

    def identity(self) -> list[object]:
        """Return, as JSON values, what the products depend on beside the kernels."""
        tools = ["ptxas"] if self.architectures else []
        tools += ["fatbinary"] if self.fatbin else []
        if not tools:
            return [[]]
        from ptxtemplates.assembly.tools import find_tool, identity

        return [list(self.architectures), *(identity(find_tool(tool)) for tool in tools)]


class Product(NamedTuple):
    """A kernel's entry in the manifest, and its files by path relative to it."""

    entry: Entry
    files: dict[str, bytes]


def make(
    kernels: Sequence[Kernel], making: Making, progress: Callable[[Iterable[Kernel]], Iterable[Kernel]]
) -> list[Product]:
    """Render, check and assemble.

    Raises
    ------
    TemplateError
        If a kernel cannot be rendered, or its text breaks a rule. The message begins with template and line.
    AssemblyError
        If the assembler refuses a text, or an architecture. The message begins with template and line where
        the assembler tells a line, and the lines around are its excerpt.
    MissingExtraError
        If what assembles is not installed.
    """
    rendered = []
    for kernel in progress(kernels):
        rendered.append(render(kernel))
        rendered[-1].check()
    if not (making.architectures or making.fatbin):
        return [Product(entry_of(item), _texts(item)) for item in rendered]
    architectures = making.architectures
    jobs = [(item, architecture) for item in rendered for architecture in architectures]
    assembled = iter(_assemble(jobs))
    return [_product(item, [next(assembled) for _ in architectures], making) for item in rendered]


def outputs_of(kernels: Sequence[Kernel], making: Making) -> list[str]:
    """Return the path of every file that would be made, relative to the manifest, without making any.

    Raises
    ------
    AssemblyError
        If there is no such architecture, or a kernel's target does not run on it.
    """
    if making.architectures:
        from ptxtemplates.assembly import check_architecture

        for architecture, kernel in product(making.architectures, kernels):
            check_architecture(architecture)
            if not runs_on(kernel.target, architecture):
                raise AssemblyError(
                    f"{kernel.variant}.ptx: .target {kernel.target} does not run on {architecture}"
                )
    endings = [".ptx", *(f".{architecture}.cubin" for architecture in making.architectures)]
    endings += [".fatbin"] if making.fatbin else []
    return sorted(f"{kernel.name}/{kernel.variant}{ending}" for kernel in kernels for ending in endings)


def _texts(rendered: RenderedKernel) -> dict[str, bytes]:
    return {f"{stem_of(entry_of(rendered))}.ptx": rendered.text.encode()}


def _assemble(jobs: list[tuple[RenderedKernel, str]]) -> list[Assembly]:
    from ptxtemplates.assembly import assemble, assemble_all

    try:
        return assemble_all((item.text, architecture) for item, architecture in jobs)
    except AssemblyError:
        for item, architecture in jobs:  # one of them, and by now the others are kept
            try:
                assemble(item.text, architecture)
            except AssemblyError as error:
                raise _located(error, item) from error
        raise


def _located(error: AssemblyError, rendered: RenderedKernel) -> AssemblyError:
    from ptxtemplates.assembly.faults import located

    folders = (rendered.kernel.template_folder, BUILT_IN_TEMPLATES)
    name = f"{rendered.kernel.variant}.ptx"
    return located(
        error, rendered.text, rendered.places, lambda template: template_lines(folders, template), name=name
    )


def _product(rendered: RenderedKernel, assemblies: list[Assembly], making: Making) -> Product:
    entry = entry_of(rendered)
    files = _texts(rendered)
    entry["assemblies"] = {item.architecture: assembly_of(entry, item) for item in assemblies} or None
    for item in assemblies:
        files[entry["assemblies"][item.architecture]["file"]] = item.cubin
    if making.fatbin:
        from ptxtemplates.assembly.fatbin import make_fatbin

        cubins = {item.architecture: item.cubin for item in assemblies}
        content = make_fatbin(rendered.text, rendered.kernel.target, cubins)
        path = f"{stem_of(entry)}.fatbin"
        entry["fatbin"] = {"file": path, "sha256": hashlib.sha256(content).hexdigest()}
        files[path] = content
    return Product(entry, files)
