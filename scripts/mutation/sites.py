"""The instructions of a rendered text, each with what a mutator needs to rewrite its line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.ptx import parse
from ptxtemplates.ptx.opcodes import result_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COMMENT: Final = re.compile(r"/\*.*?\*/|//.*")
_INSTRUCTION: Final = re.compile(r"(\s*)(?:@(!?)(%\w+)\s+)?([a-z]\w*(?:\.\w+)*)(?:\s+(.*?))?\s*;\s*")
_REGISTERS: Final = re.compile(r"\s*\.reg\s+\.(\w+)\s+(.*?)\s*;\s*")
_LABEL: Final = re.compile(r"\s*(\w+):\s*")
_SEPARATOR: Final = re.compile(r",\s*(?![^{]*\})")


class Guard(NamedTuple):
    """A predicate, and whether its negation is meant."""

    register: str
    negated: bool

    def __str__(self) -> str:
        return f"@{'!' if self.negated else ''}{self.register} "


class Site(NamedTuple):
    """An instruction on a line of its own.

    Attributes
    ----------
    line : int
        From 1.
    indent, opcode : str
        As written.
    guard : Guard or None
        Its predicate.
    operands : tuple of str
        As written, comments left out.
    registers : mapping of str to str
        Type of every register that is visible here.
    labels, parameters : tuple of str
        Those of the whole entry.
    """

    line: int
    indent: str
    guard: Guard | None
    opcode: str
    operands: tuple[str, ...]
    registers: Mapping[str, str]
    labels: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def body(self) -> str:
        """All operands."""
        return ", ".join(self.operands)

    @property
    def results(self) -> int:
        """How many operands, from the first, are results."""
        return result_count(self.opcode)

    def text(self, *, guard: Guard | None = None, opcode: str | None = None, body: str | None = None) -> str:
        """Return the line, with another opcode or other operands; the guard is the given one, or none."""
        written = self.body if body is None else body
        return f"{self.indent}{guard or ''}{opcode or self.opcode}{' ' if written else ''}{written};"

    def changed(self, *, opcode: str | None = None, body: str | None = None) -> str:
        """Return the line with its guard, and another opcode or other operands."""
        return self.text(guard=self.guard, opcode=opcode, body=body)


def sites_of(text: str, entry: str) -> list[Site]:
    """Find the instructions of an entry.

    Raises
    ------
    ValueError
        If the parser sees others: then instructions share lines, which rendered ones do not.
    """
    function = parse(text).function(entry)
    bare = [_COMMENT.sub("", line).rstrip() for line in text.split("\n")]
    labels = tuple(found[1] for line in bare if (found := _LABEL.fullmatch(line)))
    parameters = tuple(parameter.name for parameter in function.parameters)
    sites = list(_sites(bare, labels, parameters))
    seen = [(site.line, site.opcode) for site in sites]
    if seen != [(instruction.line, instruction.text) for instruction in function.instructions]:
        raise ValueError(f"{entry}: not every instruction has a line of its own")
    return sites


def _sites(bare: list[str], labels: tuple[str, ...], parameters: tuple[str, ...]) -> Iterator[Site]:
    blocks: list[dict[str, str]] = []
    for number, line in enumerate(bare, start=1):
        if line.strip() == "{":
            blocks.append({})
        elif line.strip() == "}":
            blocks.pop()
        elif found := _REGISTERS.fullmatch(line):
            blocks[-1].update(dict.fromkeys(_SEPARATOR.split(found[2]), found[1]))
        elif blocks and (found := _INSTRUCTION.fullmatch(line)):
            indent, negated, register, opcode, body = found.groups()
            visible = {name: kind for block in blocks for name, kind in block.items()}
            guard = Guard(register, bool(negated)) if register else None
            operands = tuple(operand.strip() for operand in _SEPARATOR.split(body)) if body else ()
            yield Site(number, indent, guard, opcode, operands, visible, labels, parameters)
