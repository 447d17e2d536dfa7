"""What a kernel costs, before and after: as the assembler tells it, and one launch in the emulator.

Both texts are assembled now, by the same assembler: what a manifest may say of an earlier one is not used.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from ptxtemplates.assembly.occupancy import occupancy
from ptxtemplates.errors import AssemblyError
from ptxtemplates.ptx.parser import parse
from ptxtemplates.review.assembling import Refusal, assembled, entry_of, same_code
from ptxtemplates.review.executing import executed, launch_of
from ptxtemplates.review.model import Cost, CostChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ptxtemplates.assembly import Resources
    from ptxtemplates.references.settings import Setting
    from ptxtemplates.review.model import Cell, Side

Figure: TypeAlias = "int | float | Refusal"

ASSEMBLED: Final = (
    "registers",
    "spill stores",
    "spill loads",
    "shared memory",
    "machine instructions",
    "occupancy",
)
"""Figures of an architecture."""

EMULATED: Final = ("thread-instructions", "bytes", "sectors", "sectors over ideal")
"""Figures of a launch."""

_FOR: Final = " for \0"

EMULATOR: Final = "emulator"
"""Where those are from."""


def cost(old: Side, new: Side, architectures: Sequence[str]) -> Cost:
    """Compare what two texts of a kernel cost.

    Parameters
    ----------
    old, new : Side
    architectures : sequence of str
        To assemble for, such as ``sm_90``.

    Returns
    -------
    Cost
        Changes by architecture in the order given, then those of the launch.
    """
    if same_code(old.text, new.text):
        new = new._replace(text=old.text)  # measured once
    compared, asked = 0, 0
    changes: list[CostChange] = []
    reasons: list[str] = []
    for where, before, after in _pairs(old, new, architectures):
        for what in before:
            asked += 1
            pair = (before[what], after[what])
            numbers = sum(not isinstance(figure, Refusal) for figure in pair)
            compared += numbers == 2
            # what is no number stays in sight: a policy that names it must not take it for one
            if numbers < 2 or pair[0] != pair[1]:
                changes.append(CostChange(what, where, _cell(pair[0]), _cell(pair[1])))
            reasons += [
                figure.told(side.file)
                for side, figure in zip((old, new), pair, strict=True)
                if isinstance(figure, Refusal)
            ]
    return Cost(tuple(changes), compared, asked, tuple(_merged(reasons, architectures)))


def _merged(reasons: Sequence[str], architectures: Sequence[str]) -> Iterator[str]:
    """Yield each reason once; those that differ in the architecture alone as one."""
    alike: dict[str, list[str]] = {}
    for reason in dict.fromkeys(reasons):
        named = next((each for each in architectures if f" for {each}" in reason), "")
        alike.setdefault(reason.replace(f" for {named}", _FOR, 1) if named else reason, []).append(named)
    for reason, names in alike.items():
        yield reason.replace(_FOR, f" for {', '.join(names)}", 1)


def _cell(figure: Figure) -> Cell:
    return figure.cell if isinstance(figure, Refusal) else figure


def _pairs(
    old: Side, new: Side, architectures: Sequence[str]
) -> Iterator[tuple[str, Mapping[str, Figure], Mapping[str, Figure]]]:
    """Yield where figures are from, and those of both texts by name."""
    for architecture in architectures:
        yield architecture, _of_assembler(old, architecture), _of_assembler(new, architecture)
    described = old if new.description is None else new
    launch = launch_of(described)
    if isinstance(launch, Refusal):
        if described.description is not None:  # one text's fault; else it is that of both
            launch = Refusal(launch.cell, launch.told(described.file), whole=True)
        yield EMULATOR, dict.fromkeys(EMULATED, launch), dict.fromkeys(EMULATED, launch)
        return
    before = _of_emulator(old, launch)
    same = (new.text, new.description) == (old.text, old.description)
    yield EMULATOR, before, before if same else _of_emulator(new, launch)


def _of_assembler(side: Side, architecture: str) -> dict[str, Figure]:
    entry = entry_of(side.text, side.description["entry"] if side.description else "")
    if isinstance(entry, Refusal):
        return dict.fromkeys(ASSEMBLED, entry)
    assembly = assembled(side.text, architecture)
    if isinstance(assembly, Refusal):
        return dict.fromkeys(ASSEMBLED, assembly)
    try:
        needs = assembly.resources_of(entry)
    except AssemblyError as error:
        return dict.fromkeys(ASSEMBLED, Refusal("unreadable", f"cannot be measured: {error}"))
    return {
        "registers": needs.registers,
        "spill stores": needs.spill_stores,
        "spill loads": needs.spill_loads,
        "shared memory": needs.shared_memory,
        "machine instructions": needs.instructions,
        "occupancy": _occupancy(side, entry, needs, architecture),
    }


def _occupancy(side: Side, entry: str, needs: Resources, architecture: str) -> Figure:
    block = _block(side, entry)
    if block is None:
        return Refusal("n/a", "fixes no block, and without one there is no occupancy")
    found = occupancy(
        architecture,
        registers=needs.registers,
        shared_memory=needs.shared_memory,
        threads=math.prod(block),
        barriers=needs.barriers,
    )
    if found is None:
        return Refusal("n/a", f"the limits of {architecture} are not known: no occupancy", whole=True)
    return found


def _block(side: Side, entry: str) -> Sequence[int] | None:
    """Return the block that a kernel is launched with, as far as anything says so."""
    if side.description is not None:
        block: Sequence[int] = side.description["block"]
        return block
    function = next((each for each in parse(side.text).entries if each.name == entry), None)
    if function is None:
        return None
    return function.attributes.get("reqntid", function.attributes.get("maxntid"))


def _of_emulator(side: Side, launch: Setting) -> dict[str, Figure]:
    found = executed(side, launch)
    if isinstance(found, Refusal):
        return dict.fromkeys(EMULATED, found)
    unmoved = Refusal("n/a", "accesses no global memory")
    return {
        "thread-instructions": found.threads,
        "bytes": found.bytes,
        "sectors": found.sectors,
        "sectors over ideal": found.sectors / found.ideal if found.ideal else unmoved,
    }
