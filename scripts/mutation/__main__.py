"""``python -m scripts.mutation``: mutate the kernels of `variants`, and hold `verify` to it."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from ptxtemplates.assembly import toolchain
from ptxtemplates.cli.progress import with_progress
from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.rendering import render
from scripts.mutation.mutators import drawn, mutants
from scripts.mutation.report import Result, lines_of, ok, values_of
from scripts.mutation.sorting import sort
from scripts.mutation.variants import VARIANTS

if TYPE_CHECKING:
    from ptxtemplates.kernel import Kernel


@click.command()
@click.option("--kernel", "pattern", default="*", metavar="GLOB", help="Only variants of this name.")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Draw N mutants of each variant; all without it.",
)
@click.option("--seed", default=0, metavar="S", help="Decides the sample, and which registers take a place.")
@click.option("--json", "as_json", is_flag=True, help="Report every mutant, as JSON.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, help="Processes.")
def command(pattern: str, sample: int | None, seed: int, as_json: bool, jobs: int) -> None:
    """Change one thing in a rendered kernel, and see whether verify catches it."""
    try:
        toolchain()
    except PtxTemplatesError as error:
        raise click.UsageError(f"mutants are assembled first: {error}") from error
    chosen = [kernel for kernel in VARIANTS if fnmatchcase(kernel.variant, pattern)]
    if not chosen:
        raise click.UsageError(f"no variant is called {pattern!r}")
    results = [_sorted(kernel, seed, sample, jobs) for kernel in chosen]
    click.echo(json.dumps(values_of(results), indent=2) if as_json else "\n".join(lines_of(results)))
    sys.exit(0 if ok(results) else 1)


def _sorted(kernel: Kernel, seed: int, sample: int | None, jobs: int) -> Result:
    rendered = render(kernel)
    chosen = drawn(mutants(rendered.text, kernel.entry, seed), seed, sample)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        pending = [pool.submit(sort, kernel, mutant) for mutant in chosen]
        try:
            found = tuple(with_progress(kernel.variant)(each.result() for each in pending))
        finally:
            pool.shutdown(cancel_futures=True)
    return Result(kernel, rendered.places, found)


if __name__ == "__main__":
    command()
