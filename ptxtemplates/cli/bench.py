"""``ptxtemplates bench``."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxtemplates.cli.parameters import config_option
from ptxtemplates.cli.progress import with_progress
from ptxtemplates.config import load
from ptxtemplates.errors import MissingExtraError

if TYPE_CHECKING:
    from ptxtemplates.bench.compare import Baseline
    from ptxtemplates.bench.units import Workload


@click.command("bench")
@config_option
@click.option(
    "--kernel",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Only variants or kernels of this name, flash_decoding for chunk and reduce as one; * and ? are "
    "wild. May be repeated.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="SIZE=N,...",
    help="Run-time sizes, rows=4,max_chunks=16 say; may be repeated. Without it 1, 8 and 64 rows of "
    "4096 keys.",
)
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Draw the report too: .png, .svg or .pdf.",
)
@click.option(
    "--compare",
    "baseline",
    type=click.Path(path_type=Path),
    metavar="BASELINE.json",
    help="Say what is slower or faster than in a report that --json wrote on the same kind of GPU.",
)
def command(
    config: Path,
    patterns: tuple[str, ...],
    shapes: tuple[str, ...],
    as_json: bool,
    plot: Path | None,
    baseline: Path | None,
) -> int:
    """Measure kernels on a GPU, against a copy, an empty kernel and other libraries.

    Time is that of a call in a CUDA graph, over inputs larger than the L2 cache. PyTorch, Triton, FlashInfer
    and vLLM are measured in the same run where they are installed. With --compare it exits with 1 if a kernel
    is slower than before.
    """
    if find_spec("numpy") is None:
        raise MissingExtraError(
            "the arrays of a launch need numpy, which is not installed: pip install 'ptxtemplates[emulate]'"
        )
    if plot is not None:
        from ptxtemplates.bench.plot import check

        check(plot)
    workloads = _workloads(config, patterns, shapes)
    from ptxtemplates.bench import compare

    before = None if baseline is None else compare.read(baseline)
    report = _measured(workloads, before)
    if before is not None:
        report["comparison"] = compare.compared(report, before)
    if as_json:
        click.echo(json.dumps(report, indent=2, sort_keys=True, allow_nan=False))
    else:
        from ptxtemplates.bench.report import lines_of

        for line in lines_of(report):
            click.echo(line)
        if before is not None:
            click.echo()
            for line in compare.lines_of(report["comparison"]):
                click.echo(line)
    if plot is not None:  # after the report: a plot that fails costs no measurement
        from ptxtemplates.bench.plot import save

        save(report, plot)
    return 1 if before is not None and compare.regressed(report["comparison"]) else 0


def _workloads(config: Path, patterns: tuple[str, ...], shapes: tuple[str, ...]) -> list[Workload]:
    from ptxtemplates.bench.units import units_of, workloads_of
    from ptxtemplates.cli.shapes import asked_of

    units = units_of(load(config), patterns)
    kernels = [kernel for unit in units for kernel in unit.kernels]
    return workloads_of(units, asked_of(kernels, shapes))


def _measured(workloads: list[Workload], baseline: Baseline | None) -> dict[str, Any]:
    """Measure workloads and return the report.

    Raises
    ------
    GpuError
        If there is no GPU.
    BaselineError
        If there is nothing to compare. Nothing has been measured then.
    click.ClickException
        If none could be measured.
    """
    from ptxtemplates.bench.compare import check
    from ptxtemplates.bench.report import values_of
    from ptxtemplates.bench.running import Bench

    bench = Bench()
    if baseline is not None:
        check(baseline, bench.facts.name, workloads)
    outcomes = [bench.measure(workload) for workload in with_progress("measuring")(workloads)]
    if not any(outcome.times for outcome in outcomes):
        first = outcomes[0]
        raise click.ClickException(
            f"none of {len(outcomes)} shapes could be measured; the first, {first.workload.title}: "
            f"{first.skipped}"
        )
    return values_of(outcomes, bench.facts, bench.copy.bytes)
