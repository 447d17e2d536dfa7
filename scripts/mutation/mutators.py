"""One change in a rendered text: an opcode, an operand, a constant, an offset, a guard, a line."""

from __future__ import annotations

import random
import re
import struct
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.ptx.datatypes import TYPE_BITS
from scripts.mutation.opcodes import siblings
from scripts.mutation.sites import Guard, Site, sites_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OTHER_REGISTERS: Final = 2
"""How many registers are tried in the place of one."""

_NAME: Final = re.compile(r"%\w+(?:\.[xyz])?")
_INTEGER: Final = re.compile(r"(?<![\w.%])-?(?:0x[0-9a-fA-F]+|\d+)(?!\w)")
_FLOAT: Final = re.compile(r"0f([0-9A-Fa-f]{8})")
_ADDRESS: Final = re.compile(r"\[\s*(%?\w+)\s*(?:\+\s*(-?\d+)\s*)?\]")
_VECTOR: Final = re.compile(r"\{\s*(.*?)\s*\}")
_DIRECTIVE: Final = re.compile(r"\s*(?:\.reqntid|\.minnctapersm|\.global)\b.*")
_ENTRY_OF_TABLE: Final = re.compile(r"(\s*)(0x[0-9a-fA-F]+)(,?)\s*")

SPECIAL: Final = {
    "%tid.x": ("%tid.y", "%ctaid.x"),
    "%ctaid.x": ("%ctaid.y", "%tid.x"),
    "%ctaid.y": ("%ctaid.x", "%ctaid.z"),
    "%ctaid.z": ("%ctaid.y", "%nctaid.z"),
}


class Mutant(NamedTuple):
    """A change of one or two lines.

    Attributes
    ----------
    kind : str
        What was changed: a name in `MUTATORS`, or ``order``, ``table``, ``directive``.
    line : int
        The first line, from 1.
    before, after : tuple of str
        The lines from there on; a deleted one is empty.
    """

    kind: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]

    def text(self, original: str) -> str:
        """Return the whole text; every other line keeps its number."""
        lines = original.split("\n")
        lines[self.line - 1 : self.line - 1 + len(self.after)] = self.after
        return "\n".join(lines)

    def __str__(self) -> str:
        was, now = (" ".join(" ".join(lines).split()) for lines in (self.before, self.after))
        return f"{self.line}: {was} -> {now or '(deleted)'}"


def mutants(text: str, entry: str, seed: int = 0) -> list[Mutant]:
    """Return every mutant of a text, each text once; `seed` chooses among registers and predicates."""
    lines = text.split("\n")
    sites = sites_of(text, entry)
    found: dict[tuple[int, tuple[str, ...]], Mutant] = {}
    changes = (
        Mutant(kind, site.line, (lines[site.line - 1],), (after,))
        for site in sites
        for kind, mutate in MUTATORS.items()
        for after in mutate(site, random.Random(f"{seed} {kind} {site.line}"))
    )
    for mutant in (*changes, *_orders(lines, sites), *_constants(lines)):
        if [" ".join(line.split()) for line in mutant.before] != [
            " ".join(line.split()) for line in mutant.after
        ]:
            found.setdefault((mutant.line, mutant.after), mutant)
    return sorted(found.values(), key=lambda mutant: mutant.line)


def drawn(every: list[Mutant], seed: int, sample: int | None) -> list[Mutant]:
    """Return a sample of mutants, in their order; all if it is None or more than there are."""
    if sample is None or sample >= len(every):
        return every
    numbers = random.Random(seed).sample(range(len(every)), sample)
    return [every[number] for number in sorted(numbers)]


def _replaced(text: str, found: re.Match[str], by: str) -> str:
    return text[: found.start()] + by + text[found.end() :]


def _opcode(site: Site, _: random.Random) -> Iterator[str]:
    return (site.changed(opcode=opcode) for opcode in siblings(site.opcode))


def _operand(site: Site, rng: random.Random) -> Iterator[str]:
    """Put other registers of the type in each register's place, and other parameters in a parameter's."""
    for found in _NAME.finditer(site.body):
        others: tuple[str, ...] = SPECIAL.get(found[0], ())
        if found[0] in site.registers:
            alike = _alike(site, found[0])
            others = tuple(rng.sample(alike, min(OTHER_REGISTERS, len(alike))))
        for other in others:
            yield site.changed(body=_replaced(site.body, found, other))
    for found in _ADDRESS.finditer(site.body):
        if found[1] in site.parameters:
            for other in site.parameters:
                yield site.changed(body=_replaced(site.body, found, f"[{other}]"))


def _alike(site: Site, register: str) -> list[str]:
    """Return the other registers of a type; those of the width where there are too few."""
    kind = site.registers[register]
    others = {name: each for name, each in site.registers.items() if name != register}
    alike = sorted(name for name, each in others.items() if each == kind)
    if len(alike) >= OTHER_REGISTERS or kind == "pred":
        return alike
    integers = {name: each for name, each in others.items() if "f" not in (each[0], kind[0])}
    return sorted(name for name, each in integers.items() if TYPE_BITS.get(each) == TYPE_BITS[kind]) or alike


def _swap(site: Site, _: random.Random) -> Iterator[str]:
    """Swap two sources, and the elements of a vector."""
    plain = [number for number, operand in enumerate(site.operands) if operand[0] not in "[{"]
    for one, other in combinations([number for number in plain if number >= site.results], 2):
        operands = list(site.operands)
        operands[one], operands[other] = operands[other], operands[one]
        yield site.changed(body=", ".join(operands))
    for found in _VECTOR.finditer(site.body):
        elements = ", ".join(reversed(found[1].split(", ")))
        yield site.changed(body=_replaced(site.body, found, f"{{ {elements} }}"))


def _integer(site: Site, _: random.Random) -> Iterator[str]:
    """Change integers by one, offsets of addresses aside."""
    inside = [range(*found.span()) for found in _ADDRESS.finditer(site.body)]
    for found in _INTEGER.finditer(site.body):
        if not any(found.start() in each for each in inside):
            for step in (1, -1):
                yield site.changed(body=_replaced(site.body, found, _stepped(found[0], step)))


def _stepped(number: str, step: int) -> str:
    value = int(number, 0) + step
    return f"{value:#x}" if "x" in number else str(value)


def _float(site: Site, _: random.Random) -> Iterator[str]:
    """Change float constants by 0.1 %, and their signs."""
    for found in _FLOAT.finditer(site.body):
        value = struct.unpack(">f", bytes.fromhex(found[1]))[0]
        for other in (value * 1.001, value * 0.999, -value):
            word = f"0f{struct.pack('>f', other).hex().upper()}"
            yield site.changed(body=_replaced(site.body, found, word))


def _offset(site: Site, _: random.Random) -> Iterator[str]:
    for found in _ADDRESS.finditer(site.body):
        if found[1].startswith("%"):
            for step in (4, -4, 8):
                address = f"[{found[1]} + {int(found[2] or 0) + step}]"
                yield site.changed(body=_replaced(site.body, found, address))


def _guard(site: Site, rng: random.Random) -> Iterator[str]:
    """Negate, remove or exchange a guard; guard what is not guarded."""
    predicates = sorted(name for name, kind in site.registers.items() if kind == "pred")
    if site.guard is None:
        if predicates:
            yield site.text(guard=Guard(rng.choice(predicates), rng.random() < 0.5))
        return
    register, negated = site.guard
    yield site.text(guard=Guard(register, not negated))
    yield site.text()
    others = [name for name in predicates if name != register]
    if others:
        yield site.text(guard=Guard(rng.choice(others), negated))


def _deletion(site: Site, _: random.Random) -> Iterator[str]:
    yield ""


def _target(site: Site, _: random.Random) -> Iterator[str]:
    """Branch to each other label."""
    if site.opcode.startswith("bra"):
        for label in site.labels:
            yield site.changed(body=label)


MUTATORS: Final[dict[str, Callable[[Site, random.Random], Iterator[str]]]] = {
    "opcode": _opcode,
    "operand": _operand,
    "swap": _swap,
    "integer": _integer,
    "float": _float,
    "offset": _offset,
    "guard": _guard,
    "deletion": _deletion,
    "target": _target,
}


def _orders(lines: list[str], sites: list[Site]) -> Iterator[Mutant]:
    """Swap instructions on neighbouring lines."""
    for site, following in pairwise(sites):
        if following.line == site.line + 1:
            before = (lines[site.line - 1], lines[site.line])
            yield Mutant("order", site.line, before, before[::-1])


def _constants(lines: list[str]) -> Iterator[Mutant]:
    """Add one to each entry of a table; change the integers of directives by one."""
    for number, line in enumerate(lines, start=1):
        if found := _ENTRY_OF_TABLE.fullmatch(line):
            value = (int(found[2], 16) + 1) % 2**64
            yield Mutant("table", number, (line,), (f"{found[1]}{value:#018x}{found[3]}",))
        elif _DIRECTIVE.fullmatch(line):
            code = line.partition("//")[0]
            for integer in _INTEGER.finditer(code):
                for step in (1, -1):
                    after = _replaced(code, integer, _stepped(integer[0], step))
                    yield Mutant("directive", number, (line,), (after,))
