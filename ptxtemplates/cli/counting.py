"""What variants execute, and how they access memory: one launch of each in the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ptxtemplates.cli.shapes import asked_of, share_of
from ptxtemplates.emulator import emulate
from ptxtemplates.emulator.operations import UnsupportedInstruction
from ptxtemplates.errors import EmulationError
from ptxtemplates.references.case import Table
from ptxtemplates.references.launches import sizes_of, typical_launch
from ptxtemplates.rendering import render
from ptxtemplates.verification.places import allocated, argument_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ptxtemplates.emulator import Counts, EmulationReport
    from ptxtemplates.emulator.counts import LineCounts
    from ptxtemplates.kernel import Kernel
    from ptxtemplates.rendering import RenderedKernel

SPACES: Final = ("global", "shared", "local")
"""Memory that is counted; kernel parameters and constants lie in a cache of their own."""


class Plan(NamedTuple):
    """A kernel and every run-time size of its launch."""

    kernel: Kernel
    sizes: Mapping[str, int]


class Counted(NamedTuple):
    """What one launch of a kernel showed."""

    plan: Plan
    rendered: RenderedKernel
    grid: tuple[int, int, int]
    report: EmulationReport

    @property
    def counts(self) -> Counts:
        """What was executed."""
        assert self.report.counts is not None
        return self.report.counts

    @property
    def accesses(self) -> list[LineCounts]:
        """Instructions that access memory."""
        return [line for line in self.counts.lines if line.space in SPACES]

    def moved(self) -> dict[str, tuple[int, int]]:
        """Return, by space, the bytes that warps needed to read and to write."""
        return {
            space: (
                sum(line.bytes for line in self.accesses if line.space == space and not line.stores),
                sum(line.bytes for line in self.accesses if line.space == space and line.stores),
            )
            for space in SPACES
            if any(line.space == space for line in self.accesses)
        }


def planned(kernels: Sequence[Kernel], shapes: Iterable[str]) -> list[Plan]:
    """Give every kernel its sizes: those of ``--shape`` that it has, and typical ones.

    Raises
    ------
    click.UsageError
        If ``--shape`` is malformed.
    ParameterError
        If a value is not allowed, or no kernel has a size of that name.
    """
    asked = asked_of(kernels, shapes)
    return [Plan(kernel, sizes_of(kernel, share_of(kernel, asked))) for kernel in kernels]


def count(plan: Plan) -> Counted:
    """Execute one launch of a kernel.

    Raises
    ------
    TemplateError
        If the text breaks a rule or the kernel's contract.
    UnknownKernelError, EmulationError
        If there is no typical launch of the kernel, or none of these sizes.
    click.ClickException
        If the emulator cannot run the text.
    """
    rendered = render(plan.kernel)
    rendered.check()
    case = typical_launch(plan.kernel, plan.sizes)
    [launch] = case.launches
    buffers = case.buffers
    memories = {name: allocated(each) for name, each in buffers.items() if not isinstance(each, Table)}
    try:
        report = emulate(
            rendered.text,
            plan.kernel.entry,
            launch.grid,
            plan.kernel.block,
            [argument_of(word, buffers, memories, set()) for word in launch.arguments],
            step_limit=launch.steps,
            places=rendered.places,
            count=True,
        )
    except (EmulationError, UnsupportedInstruction) as error:
        raise click.ClickException(f"{plan.kernel.variant}: {error}") from error
    return Counted(plan, rendered, launch.grid, report)


# ---- for a reader


def lines_of(counted: Iterable[Counted]) -> Iterator[str]:
    """Yield the lines of a report for a person."""
    for number, each in enumerate(counted):
        if number:
            yield ""
        counts = each.counts
        sizes = "".join(f", {name}={value}" for name, value in each.plan.sizes.items())
        yield f"{each.plan.kernel.variant}{sizes}: grid {_by(each.grid)}, block {_by(each.plan.kernel.block)}"
        yield (
            f"  {counts.threads:,} thread-instructions in {counts.warps:,} warp-instructions, "
            f"{counts.active_lanes:.1f} lanes active on average, "
            f"{counts.divergent_branches:,} divergent branches"
        )
        for name, executed in sorted(counts.classes.items(), key=lambda item: (-item[1], item[0])):
            yield f"    {executed:>15,}  {name}"
        for space, (read, written) in each.moved().items():
            yield f"  {space} memory: {read:,} bytes read, {written:,} written"
        yield from _table(each)
        for finding in each.report.findings:
            yield f"  {finding.describe()}"


_HEADER: Final = ("line", "source", "instruction", "requests", "bytes", "moved", "in", "ideal", "ratio")
_NAMES: Final = frozenset({"source", "instruction", "in"})


def _table(each: Counted) -> Iterator[str]:
    cells = [_HEADER, *(row for line in each.accesses for row in _rows(line, each.rendered))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        # names stand at the left, figures at the right
        padded = [
            cell.ljust(width) if name in _NAMES else cell.rjust(width)
            for cell, width, name in zip(row, widths, _HEADER, strict=True)
        ]
        yield "  " + "  ".join(padded)


def _rows(line: LineCounts, rendered: RenderedKernel) -> Iterator[tuple[str, ...]]:
    """Yield a row for each memory that an instruction moves something in; a copy has two."""
    file, number = rendered.places[line.line - 1]
    first = (str(line.line), f"{file}:{number}", line.text, f"{line.requests:,}", f"{line.bytes:,}")
    moves = [
        (moved, unit, ideal)
        for moved, unit, ideal in (
            (line.sectors, "sectors", line.ideal_sectors),
            (line.passes, "passes", line.ideal_passes),
        )
        if ideal
    ]
    for moved, unit, ideal in moves:
        yield (*first, f"{moved:,}", unit, f"{ideal:,}", f"{moved / ideal:.2f}")
    if not moves:
        yield (*first, "", "", "", "")


def _by(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))


# ---- for a program


def described(each: Counted) -> dict[str, Any]:
    """Return the same as JSON values."""
    counts = each.counts
    return {
        "name": each.plan.kernel.variant,
        "entry": each.plan.kernel.entry,
        "sizes": dict(each.plan.sizes),
        "grid": list(each.grid),
        "block": list(each.plan.kernel.block),
        "thread_instructions": counts.threads,
        "warp_instructions": counts.warps,
        "active_lanes": counts.active_lanes,
        "divergent_branches": counts.divergent_branches,
        "classes": counts.classes,
        "moved": {
            space: {"read": read, "written": written} for space, (read, written) in each.moved().items()
        },
        "accesses": [
            {**line._asdict(), "source": list(each.rendered.places[line.line - 1])} for line in each.accesses
        ],
        "findings": [finding._asdict() for finding in each.report.findings],
    }
