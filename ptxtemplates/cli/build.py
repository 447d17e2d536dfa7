"""``ptxtemplates build``."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxtemplates.artifacts import build, check
from ptxtemplates.config import load, select

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ptxtemplates.artifacts import BuildPlan
    from ptxtemplates.kernel import Kernel


@click.command("build")
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    default=Path("kernels.toml"),
    show_default=True,
    help="List of variants.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("build"),
    show_default=True,
    help="Directory to build into.",
)
@click.option(
    "--kernel", "pattern", metavar="GLOB", help="Only variants or kernels of this name; * and ? are wild."
)
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; name what is stale and exit with 1."
)
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
def command(config: Path, out: Path, pattern: str | None, only_check: bool, as_json: bool) -> int:
    """Render every listed kernel into a build directory, with a manifest.

    Files that would not change are not touched; files of earlier builds that are no longer listed go.
    """
    kernels = load(config)
    if pattern is not None:
        kernels = select(kernels, pattern)
    plan = (check if only_check else build)(kernels, out, pattern=pattern, progress=_progress)
    if as_json:
        click.echo(json.dumps(_report(plan, out, only_check), indent=2, sort_keys=True))
    elif only_check:
        _print_check(plan, config, out, pattern)
    else:
        for path in plan.written:
            click.echo(f"wrote {out / path}")
        for path in plan.dropped:
            click.echo(f"removed {out / path}")
        click.echo(
            f"kernels: {len(kernels)}; files: {len(plan.written)} written, {len(plan.unchanged)} unchanged, "
            f"{len(plan.dropped)} removed"
        )
    return 1 if only_check and not plan.current else 0


def _progress(kernels: Iterable[Kernel]) -> Iterator[Kernel]:
    if sys.stderr is None or not sys.stderr.isatty():
        yield from kernels
        return
    with click.progressbar(kernels, label="rendering", file=sys.stderr) as bar:
        yield from bar


def _report(plan: BuildPlan, out: Path, only_check: bool) -> dict[str, Any]:
    lists = {
        "missing" if only_check else "written": plan.missing if only_check else plan.written,
        "unchanged": plan.unchanged,
        "unlisted" if only_check else "removed": plan.dropped,
    }
    if only_check:
        lists["differing"] = plan.differing
    return {"out": out.as_posix(), **{key: sorted(value) for key, value in lists.items()}}


def _print_check(plan: BuildPlan, config: Path, out: Path, pattern: str | None) -> None:
    reasons = {
        **dict.fromkeys(plan.missing, "missing"),
        **{path: _difference(out / path, plan.contents[path]) for path in plan.differing},
        **dict.fromkeys(plan.dropped, "no longer listed"),
    }
    for path, reason in sorted(reasons.items()):
        click.echo(f"{out / path}: {reason}")
    if plan.current:
        click.echo(f"{out} is current: {len(plan.unchanged)} files")
        return
    arguments = ["ptxtemplates", "build", "-c", str(config), "--out", str(out)]
    if pattern is not None:
        arguments += ["--kernel", pattern]
    click.echo(f"to mend it: {shlex.join(arguments)}")


def _difference(file: Path, wanted: bytes) -> str:
    if file.read_bytes().replace(b"\r\n", b"\n") == wanted:
        return "differs in line ends only (with Git: '* text eol=lf' in a .gitattributes beside it)"
    return "differs from what would be built"
