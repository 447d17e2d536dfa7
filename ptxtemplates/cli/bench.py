"""``ptxtemplates bench``."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxtemplates.cli.parameters import config_option, json_option
from ptxtemplates.cli.progress import with_progress
from ptxtemplates.config import load
from ptxtemplates.errors import MissingExtraError, PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ptxtemplates.bench.baselines import Baseline
    from ptxtemplates.bench.running import Outcome
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
@json_option
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
    is slower than before. A run that is interrupted, or that the driver ends, reports what it has measured,
    and exits with 2.
    """
    if find_spec("numpy") is None:
        raise MissingExtraError(
            "the arrays of a launch need numpy, which is not installed: pip install 'ptxtemplates[emulate]'"
        )
    if plot is not None:
        from ptxtemplates.bench.plot import check

        check(plot)
    workloads = _workloads(config, patterns, shapes)
    from ptxtemplates.bench import baselines, compare

    before = None if baseline is None else baselines.read(baseline)
    report = _measured(workloads, before)
    if before is not None:
        report["comparison"] = compare.compared(report, before)
    if as_json:
        click.echo(json.dumps(report, indent=2, sort_keys=True, allow_nan=False))
    else:
        _print(report)
    if plot is not None:  # after the report: a plot that fails costs no measurement
        from ptxtemplates.bench.plot import save

        save(report, plot)
    if report["stopped"] is not None:
        done = len({(each["subject"], *each["sizes"].items()) for each in report["measurements"]})
        raise click.ClickException(
            f"{report['stopped']}; {done} of {len(workloads)} shapes had been measured, and are reported"
        )
    if before is None:
        return 0
    if reason := compare.undecided(report["comparison"]):
        raise click.ClickException(reason)
    return 1 if compare.regressed(report["comparison"]) else 0


def _print(report: Mapping[str, Any]) -> None:
    """Print a report for a person, as wide as the terminal if it is one."""
    from ptxtemplates.bench import compare
    from ptxtemplates.bench.report import lines_of

    terminal = sys.stdout is not None and sys.stdout.isatty()
    for line in lines_of(report, shutil.get_terminal_size().columns if terminal else None):
        click.echo(line)
    if report["comparison"] is not None:
        click.echo()
        for line in compare.lines_of(report["comparison"]):
            click.echo(line)


def _workloads(config: Path, patterns: tuple[str, ...], shapes: tuple[str, ...]) -> list[Workload]:
    from ptxtemplates.bench.units import units_of, workloads_of
    from ptxtemplates.cli.shapes import asked_of

    units = units_of(load(config), patterns)
    kernels = [kernel for unit in units for kernel in unit.kernels]
    return workloads_of(units, asked_of(kernels, shapes))


def _measured(workloads: list[Workload], baseline: Baseline | None) -> dict[str, Any]:
    """Measure workloads and return the report: of all, or of those before an error or an interrupt.

    Raises
    ------
    GpuError
        If there is no GPU, or it fails before anything is measured.
    BaselineError
        If there is nothing to compare. Nothing has been measured then.
    click.ClickException
        If none could be measured.
    """
    from ptxtemplates.bench.baselines import check
    from ptxtemplates.bench.report import values_of
    from ptxtemplates.bench.running import Bench
    from ptxtemplates.bench.software import software

    bench = Bench()
    if baseline is not None:
        check(baseline, bench.facts, workloads)
    installed = software()
    outcomes: list[Outcome] = []
    stopped = None
    try:
        for workload in with_progress("measuring")(workloads):
            outcomes.append(bench.measure(workload))  # noqa: PERF401 - an error leaves those before it
    except (KeyboardInterrupt, PtxTemplatesError) as error:
        if not any(outcome.times for outcome in outcomes):
            raise
        stopped = " ".join(str(error).split()) or "interrupted"
    if not any(outcome.times for outcome in outcomes):
        first = outcomes[0]
        raise click.ClickException(
            f"none of {len(outcomes)} shapes could be measured; the first, {first.workload.title}: "
            f"{first.skipped}"
        )
    return values_of(outcomes, bench.facts, bench.copy.bytes, installed, stopped)
