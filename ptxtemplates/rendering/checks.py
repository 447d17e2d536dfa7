"""A rendered text against the rules: the language, the lint, and what its kernel promises to callers."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.errors import PtxSyntaxError, TemplateError
from ptxtemplates.ptx.linter import lint
from ptxtemplates.ptx.parser import parse
from ptxtemplates.ptx.statements import Function, Module, Variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxtemplates.kernel import Argument, Kernel
    from ptxtemplates.rendering import RenderedKernel

SHOWN: Final = 3
"""How many faults an error names: enough to see a pattern, few enough for one line."""


# The lines in which a number is an operand, an entry of a table or part of a comment, and nothing else: one
# plain instruction a line, rows of hex literals, comments. Any other line keeps its numbers.
_COMMENT: Final = r"/\*[^*\n]*\*/"
_HEX: Final = r"(?:0f[0-9A-F]{8}|0x[0-9a-f]{1,16})"
_REST: Final = r"[^;:{}<>/()?\n]*"
_PLAIN_LINE: Final = re.compile(
    rf"^[ \t]*(?:@!?%\w+[ \t]+)?[a-z]\w*(?:\.\w+)+[ \t]+{_REST}(?:{_COMMENT}{_REST})*;[ \t]*$"
    rf"|^[ \t]*{_HEX}(?:,[ \t]*{_HEX})*,?$"
    r"|^[ \t]*//(?!.*\*/).*$",
    re.MULTILINE,
)
_DIGITS: Final = re.compile("[0-9]+")
_INTEGER: Final = re.compile(
    r"(?:(?<=, )|(?<=\w\+)|^[ \t]+)(?:0x[0-9a-f]{1,16}|0|[1-9][0-9]{0,17})(?=[,;\]]|$)"
)
_FLOAT: Final = re.compile("(?<= )0f[0-9A-F]{8}(?=[,; ])")


def _without_numbers(line: re.Match[str]) -> str:
    if line[0].lstrip().startswith("//"):
        return _DIGITS.sub("0", line[0])
    return _FLOAT.sub("0f", _INTEGER.sub("0", line[0]))


_sound: set[bytes] = set()


def check(rendered: RenderedKernel) -> None:
    """Parse, lint and compare with the contract; see `RenderedKernel.check`.

    Of texts that differ in operands of plain instructions and in tables alone, as most variants of a kernel
    do, one is looked at: no rule reads those numbers.
    """
    kernel = rendered.kernel
    promise = (kernel.entry, kernel.target, kernel.block, kernel.shared_memory, kernel.arguments)
    shape = (promise, _PLAIN_LINE.sub(_without_numbers, rendered.text))
    digest = hashlib.sha256(repr(shape).encode()).digest()
    if digest in _sound:
        return
    name = kernel.variant
    if not rendered.text.endswith("\n"):
        raise TemplateError(f"{rendered.places[-1]}: {name}.ptx: the text must end with a newline")
    module = parse_rendered(rendered)
    faults = [(finding.line, f"{finding.rule}: {finding.message}") for finding in lint(module, rendered.text)]
    faults += [(breach.line, f"contract: {breach.message}") for breach in _breaches(module, kernel)]
    if faults:
        shown = [f"{rendered.place(line)}: {name}.ptx:{line}: {message}" for line, message in faults[:SHOWN]]
        others = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise TemplateError("; ".join(shown) + others)
    _sound.add(digest)


def parse_rendered(rendered: RenderedKernel) -> Module:
    """Parse a rendered text; an error names the template line."""
    try:
        return parse(rendered.text)
    except PtxSyntaxError as error:
        place = f"{rendered.place(error.line)}: {rendered.kernel.variant}.ptx:{error.line}"
        raise TemplateError(f"{place}: {error}") from error


class Breach(NamedTuple):
    """A broken promise, at a line of the text."""

    line: int
    message: str


def _breaches(module: Module, kernel: Kernel) -> Iterator[Breach]:
    """Yield where a text says something else than its kernel: the manifest would lie to a loader."""
    said = (module.version, module.targets, module.address_size)
    promised = (kernel.ptx_version, (kernel.target,), 64)
    if said != promised:
        yield Breach(1, f".version, .target, .address_size are {said}, the kernel has {promised}")
    entries = module.entries
    names = [entry.name for entry in entries]
    if names != [kernel.entry]:
        yield Breach(
            entries[0].line if entries else 1,
            f"the text defines {names or 'no entry'}, the kernel is {kernel.entry!r}",
        )
        return
    entry = entries[0]
    if entry.linkage != "visible":
        yield Breach(entry.line, f".entry {entry.name} must be .visible, or no loader finds it")
    yield from _of_parameters(entry, kernel)
    yield from _of_launch(module, entry, kernel)


def _of_parameters(entry: Function, kernel: Kernel) -> Iterator[Breach]:
    said = [parameter.name for parameter in entry.parameters]
    promised = [argument.name for argument in kernel.arguments]
    if said != promised:
        yield Breach(entry.line, f"the parameters are {said}, the kernel has {promised}")
        return
    for parameter, argument in zip(entry.parameters, kernel.arguments, strict=True):
        if _declaration(parameter) != _promise(argument):
            yield Breach(
                parameter.line, f"parameter {_declaration(parameter)}, the kernel has {_promise(argument)}"
            )


def _declaration(parameter: Variable) -> str:
    extents = "".join(f"[{extent}]" for extent in parameter.dimensions)
    text = f".{parameter.type} {parameter.name}{extents}"
    if parameter.pointer_space is not None:
        text = f"{text} .ptr .{parameter.pointer_space} .align {parameter.pointer_alignment}"
    return text


def _promise(argument: Argument) -> str:
    text = f".{argument.type} {argument.name}"
    if argument.tensor is not None:
        text = f"{text} .ptr .global .align {argument.tensor.alignment}"
    return text


def _of_launch(module: Module, entry: Function, kernel: Kernel) -> Iterator[Breach]:
    block = entry.attributes.get("reqntid", entry.attributes.get("maxntid"))
    if block is None:
        yield Breach(
            entry.line, f"neither .reqntid nor .maxntid is given; the kernel's block is {kernel.block}"
        )
    elif (*block, 1, 1)[:3] != kernel.block:
        yield Breach(entry.line, f"the block is {block}, the kernel has {kernel.block}")
    variables = [*module.variables, *(item for item in entry.body or () if isinstance(item, Variable))]
    shared = sum(variable.size for variable in variables if variable.space == "shared")
    if shared != kernel.shared_memory:
        yield Breach(
            entry.line, f"static shared memory is {shared} bytes, the kernel has {kernel.shared_memory}"
        )
