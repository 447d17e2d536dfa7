"""Kernels to PTX text, with a map from every line to the template line that it comes from."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from ptxtemplates.declaration import check_class, check_launch
from ptxtemplates.errors import TemplateError, suggestion
from ptxtemplates.rendering.environment import environment
from ptxtemplates.rendering.places import Place, places_of
from ptxtemplates.rendering.scope import names_used
from ptxtemplates.sources import BUILT_IN_TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.rendering.environment import TemplateEnvironment

__all__ = ["Place", "RenderedKernel", "render"]


@dataclass(frozen=True)
class RenderedKernel:
    """The PTX of a kernel.

    Attributes
    ----------
    kernel : Kernel
        What was rendered.
    text : str
        PTX: ASCII, LF line ends, a final newline.
    places : tuple of Place
        The template line of each line of `text`.
    templates : dict of str to str
        sha256 of every template that was read (with LF line ends), by name.
    """

    kernel: Kernel
    text: str
    places: tuple[Place, ...]
    templates: dict[str, str]

    @cached_property
    def sha256(self) -> str:
        """Digest of the text's bytes."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def place(self, line: int) -> Place:
        """Return the template line that line `line` (from 1) of the text comes from."""
        return self.places[line - 1]

    def check(self) -> None:
        """Parse and lint the text and compare it with the kernel's contract.

        Afterwards it has none of the faults that the lint finds, and is what a manifest says of it.

        Raises
        ------
        TemplateError
            If it is not. The message begins with template and line, then names the line of the text.
        """
        from ptxtemplates.rendering.checks import check  # 15 ms, and rendering alone needs none of it

        check(self)


def render(kernel: Kernel, *, target: str | None = None, lineinfo: bool = False) -> RenderedKernel:
    """Render a kernel to PTX.

    `RenderedKernel.check` says whether the text keeps the rules; a build calls it for every kernel.

    Parameters
    ----------
    kernel : Kernel
        What to render.
    target : str, optional
        Another target than the kernel's own, e.g. ``sm_90``.
    lineinfo : bool
        Add ``.file`` and ``.loc`` directives, so that profilers and debuggers show template lines.

    Raises
    ------
    DeclarationError
        If the kernel's class says something impossible.
    ParameterError
        If the kernel cannot have that target.
    TemplateError
        If the template fails, or uses a name that the kernel does not declare or ignores one that it does.
        The message begins with template and line.
    """
    check_class(type(kernel))
    check_launch(kernel)
    if target is not None:
        kernel = dataclasses.replace(kernel, target=target)
    folders = dict.fromkeys((kernel.template_folder, BUILT_IN_TEMPLATES))
    templates = environment(*folders)
    variables = kernel.variables
    read = _check_names(templates, kernel.name, kernel.template, tuple(variables))
    text = templates.render(kernel.template, variables)
    clean = "\n".join([line.rstrip() for line in text.split("\n")])
    digests = {name: templates.digests[name] for name in read}
    rendered = RenderedKernel(kernel, clean, tuple(places_of(text)), digests)
    return _with_lines(rendered) if lineinfo else rendered


@cache
def _check_names(
    templates: TemplateEnvironment, kernel: str, template: str, declared: tuple[str, ...]
) -> tuple[str, ...]:
    """Compare the names that a kernel declares with those its template uses; return the templates read."""
    used, read = names_used(template, partial(templates.scopes_of, kernel=kernel))
    for name, place in used.items():
        if name not in declared and name not in templates.globals:
            raise TemplateError(
                f"{place}: {name!r} is no parameter or constant of {kernel}; {suggestion(name, declared)}"
            )
    for name in declared:
        if name not in used:
            raise TemplateError(f"{Place(template, 1)}: {kernel} declares {name!r}, which is never used")
    return read


def _with_lines(rendered: RenderedKernel) -> RenderedKernel:
    """Add ``.file`` for each template, and ``.loc`` where instructions of another template line begin."""
    from ptxtemplates.rendering.checks import parse_rendered  # as in RenderedKernel.check

    module = parse_rendered(rendered)
    for name in rendered.templates:
        if not re.fullmatch(r"[ !#-\[\]-~]+", name):
            raise TemplateError(
                f"{Place(name, 1)}: .file cannot name it: use ASCII, without quotes and backslashes"
            )
    indices = {name: index for index, name in enumerate(rendered.templates, start=1)}
    starts = {item.line for function in module.functions for item in function.instructions}

    def lines() -> Iterator[tuple[str, Place]]:
        current = None
        pairs = zip(rendered.text.split("\n")[:-1], rendered.places[:-1], strict=True)
        for number, (line, place) in enumerate(pairs, start=1):
            if number in starts and place != current:
                current = place
                indent = line[: len(line) - len(line.lstrip())]
                yield f"{indent}.loc {indices[place.template]} {place.line} 0", place
            yield line, place

    last = rendered.places[-1]
    files = [(f'.file {index} "{name}"', last) for name, index in indices.items()]
    text, places = zip(*lines(), *files, ("", last), strict=True)
    return dataclasses.replace(rendered, text="\n".join(text), places=places)
