"""``ptxtemplates verify``."""

from __future__ import annotations

import json
import os
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from ptxtemplates.cli.parameters import config_option, jobs_option, json_option, kernel_option
from ptxtemplates.cli.progress import with_progress
from ptxtemplates.config import load, select
from ptxtemplates.errors import MissingExtraError, PtxTemplatesError
from ptxtemplates.processes import each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.verification import Program, Verdict


class Task(NamedTuple):
    """What one process does: a kernel, the text to take in place of its own, and how the emulator runs."""

    kernel: Kernel
    given: Program | None
    accuracy: Literal["exact", "worst"]
    seed: int


@click.command("verify")
@config_option
@kernel_option
@click.option(
    "--ptx",
    type=click.Path(path_type=Path),
    help="Text to run in place of the rendered one; --kernel names the one variant that it is.",
)
@click.option(
    "--on",
    "place",
    type=click.Choice(["emulator", "gpu", "auto"]),
    default="auto",
    show_default=True,
    metavar="PLACE",
    help="Where the text runs: emulator, gpu, or auto, which is the emulator.",
)
@click.option(
    "--accuracy",
    type=click.Choice(["exact", "worst"]),
    default="exact",
    show_default=True,
    metavar="ACCURACY",
    help="What the emulator's approximate instructions give: exact, the correctly rounded result, or worst, "
    "an edge of the bound that the ISA documents.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Decides the random inputs, and with --accuracy worst the edges.",
)
@click.option(
    "--changed-since",
    "revision",
    metavar="REV",
    help="Only variants whose text is not the snapshot that this git revision has of it.",
)
@json_option
@jobs_option
def command(
    config: Path,
    patterns: tuple[str, ...],
    ptx: Path | None,
    place: str,
    accuracy: Literal["exact", "worst"],
    seed: int,
    revision: str | None,
    as_json: bool,
    jobs: int | None,
) -> int:
    """Execute kernels on the CPU and hold every result to a bound.

    Each variant runs its cases: results are compared with float64, tables and constants with the kernel's
    definition, and the execution is watched for what a GPU does not tell. No GPU is needed. Exits with 1 if
    something is wrong.
    """
    if ptx is not None and revision is not None:
        raise click.UsageError(
            "--changed-since chooses among rendered texts, and --ptx gives another: drop one"
        )
    if any(find_spec(name) is None for name in ("numpy", "ml_dtypes")):
        raise MissingExtraError(
            "executing PTX needs numpy and ml-dtypes, which are not both installed: "
            "pip install 'ptxtemplates[emulate]'"
        )
    kernels = load(config)
    if patterns:
        chosen = {kernel.variant for pattern in patterns for kernel in select(kernels, pattern)}
        kernels = [kernel for kernel in kernels if kernel.variant in chosen]
    given = None if ptx is None else _given(ptx, kernels)
    if revision is not None:
        from ptxtemplates.verification.changes import changed_since

        kernels = changed_since(kernels, config.parent, revision)
    tasks = [Task(kernel, given, accuracy, seed) for kernel in kernels]
    device = None
    try:
        if _on_gpu(place):
            device, verdicts = _verify_on_gpu(tasks)
        else:
            verdicts = each(_run, tasks, jobs or os.cpu_count() or 1, with_progress("verifying"))
    except PtxTemplatesError as error:
        # of an instruction that is not emulated; its class would bring NumPy in here
        instruction = getattr(error, "instruction", None)
        if ptx is None or instruction is None:
            raise
        message = str(error).removeprefix(f"line {instruction.line}: ")
        raise click.ClickException(f"{ptx}:{instruction.line}: {message}") from error
    from ptxtemplates.verification.report import Conditions, lines_of, values_of

    conditions = Conditions("emulator" if device is None else "gpu", accuracy, seed, device)
    if as_json:
        click.echo(json.dumps(values_of(verdicts, conditions), indent=2, sort_keys=True, allow_nan=False))
    elif verdicts:
        for line in lines_of(verdicts, conditions):
            click.echo(line)
    else:
        click.echo(f"no variant has changed since {revision}")
    return 0 if all(verdict.ok for verdict in verdicts) else 1


def _given(file: Path, kernels: Sequence[Kernel]) -> Program:
    """Read the text that stands in for the one kernel that was chosen."""
    from ptxtemplates.verification.programs import given_program

    if len(kernels) != 1:
        raise click.UsageError(
            f"--ptx gives the text of one variant, and {len(kernels)} are meant; name it with --kernel"
        )
    try:
        return given_program(kernels[0], file.read_bytes().decode("latin-1"), str(file))
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror or error}") from error


def _on_gpu(place: str) -> bool:
    """Say whether the cases run on a GPU; to insist on one where there is none is an error."""
    if place == "emulator":
        return False
    from ptxtemplates.gpu import unavailable

    reason = unavailable()
    if reason is not None and place == "gpu":
        raise click.ClickException(f"{reason}; --on emulator runs the same cases on the CPU")
    return reason is None


def _verify_on_gpu(tasks: Sequence[Task]) -> tuple[str, list[Verdict]]:
    """Verify kernels on a GPU, one after the other; return its name too."""
    from ptxtemplates.gpu.place import Device
    from ptxtemplates.verification import verify

    gpu = Device()
    jobs = [partial(verify, task.kernel, gpu, seed=task.seed, given=task.given) for task in tasks]
    return gpu.name, [job() for job in with_progress("verifying")(jobs)]


def _run(task: Task) -> Verdict:
    # NumPy starts threads, and no process that has some should fork: it is loaded in here, not above
    from ptxtemplates.verification import Emulator, verify

    place = Emulator(task.accuracy, task.seed)
    return verify(task.kernel, place, seed=task.seed, given=task.given)
