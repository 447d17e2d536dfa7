"""``ptxtemplates diff``."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ptxtemplates.cli.parameters import config_option, jobs_option, json_option, kernel_option
from ptxtemplates.cli.progress import with_progress
from ptxtemplates.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxtemplates.review.model import Comparison
    from ptxtemplates.review.policy import Policy

STANDARD_OUTPUT: Final = "-"
NARROWEST: Final = 60
"""Columns; below them a terminal is taken for one that does not tell."""

READ: Final = frozenset({".ptx", ".jinja", ".toml"})
"""Endings of what is never a report."""


class Outputs(NamedTuple):
    """Where reports go: a path, ``-`` for stdout, or nowhere."""

    markdown: str | None
    html: str | None
    json: bool

    @property
    def files(self) -> dict[str, Path]:
        """The files to write, by option."""
        given = {"--markdown": self.markdown, "--html": self.html}
        return {option: Path(word) for option, word in given.items() if word not in (None, STANDARD_OUTPUT)}

    @property
    def on_stdout(self) -> list[str]:
        """The options that ask for something on stdout, where the report for people goes without them."""
        given = {
            "--markdown": self.markdown == STANDARD_OUTPUT,
            "--html": self.html == STANDARD_OUTPUT,
            "--json": self.json,
        }
        return [option for option, asked in given.items() if asked]


@click.command("diff")
@click.argument("old")
@click.argument("new", required=False)
@config_option
@kernel_option
@click.option(
    "--arch",
    "architectures",
    multiple=True,
    metavar="ARCH",
    help="Architecture to compare machine code and costs for, sm_90 say; may be repeated. Without it sm_80, "
    "sm_90, sm_100, sm_120, as far as a text runs on them, or else its target.",
)
@click.option("--markdown", metavar="FILE", help="Report to write for a pull-request comment; - is stdout.")
@click.option("--html", metavar="FILE", help="Report to write as one page for browsers; - is stdout.")
@json_option
@click.option(
    "--fail-on",
    "words",
    multiple=True,
    metavar="WORDS",
    help="Changes that exit with 1: contract,meaning,spills,'registers>5%', say. May be repeated.",
)
@jobs_option
def command(
    old: str,
    new: str | None,
    config: Path,
    patterns: tuple[str, ...],
    architectures: tuple[str, ...],
    markdown: str | None,
    html: str | None,
    as_json: bool,
    words: tuple[str, ...],
    jobs: int | None,
) -> int:
    """Compare two sets of kernels: text, contract, cost, and whether they still compute the same.

    OLD and NEW are build directories, folders of snapshots, PTX files, or git revisions, which mean the
    snapshots that are committed there; NEW is what the working tree renders if it is not given. Nothing of a
    revision is executed. No GPU is needed. Exits with 1 if --fail-on objects to a change.
    """
    outputs = Outputs(markdown, html, as_json)
    _check_outputs(outputs, [word for word in (old, new, str(config)) if word is not None])
    from ptxtemplates.review.collect import collect_both
    from ptxtemplates.review.comparing import compare
    from ptxtemplates.review.policy import Policy, parse

    policy = parse(",".join(words)) if words else Policy()
    _check_tools(policy, architectures, html=html is not None)
    before, after = collect_both(old, new, config, patterns)
    asked = tuple(dict.fromkeys(architectures))
    if not asked:
        from ptxtemplates.review.architectures import usual

        asked = usual([*before.kernels.values(), *after.kernels.values()])
    comparison = compare(
        before, after, asked, jobs=jobs or os.cpu_count() or 1, progress=with_progress("comparing")
    )
    judgement = policy.judge(comparison.changes)
    comparison = comparison._replace(failures=judgement.refused, unanswered=judgement.unanswered)
    _write(comparison, outputs)
    if judgement.refused:
        return 1
    if judgement.unanswered:
        raise click.ClickException(f"--fail-on cannot be answered: {'; '.join(judgement.unanswered)}")
    return 0


def _check_tools(policy: Policy, architectures: Sequence[str], *, html: bool) -> None:
    """Refuse what cannot be told here, before anything is computed: no figure is no consent."""
    if architectures or "assembler" in policy.needs:
        from ptxtemplates.assembly import toolchain
        from ptxtemplates.assembly.assembler import check_architecture
        from ptxtemplates.ptx.targets import TARGETS

        for architecture in architectures:
            check_architecture(architecture)
            if architecture.rstrip("af") not in TARGETS:
                raise click.ClickException(
                    f"--arch {architecture} is not known; known are {', '.join(TARGETS)}"
                )
        toolchain()
    if any(find_spec(name) is None for name in ("numpy", "ml_dtypes")):
        raise MissingExtraError(
            "what kernels compute is found out by executing them, which needs numpy and ml-dtypes; these are "
            "not both installed: pip install 'ptxtemplates[emulate]'"
        )
    if html:
        from ptxtemplates.review.html import check

        check()


def _check_outputs(outputs: Outputs, inputs: Sequence[str]) -> None:
    """Refuse outputs that cannot be written, or are not to be, before anything is computed."""
    if len(outputs.on_stdout) > 1:
        raise click.UsageError(f"{' and '.join(outputs.on_stdout)} both go to stdout; give one a file")
    taken = {os.path.realpath(word) for word in inputs}
    # what is read through them: a folder's files, and what lies beside it
    folders = {word for word in taken if Path(word).is_dir()}
    taken |= {f"{word}.json" for word in folders}
    taken |= {
        os.path.realpath(Path(word).parent / "snapshots.json") for word in inputs if word.endswith(".toml")
    }
    for option, path in outputs.files.items():
        if path.is_symlink():  # of a tree that anyone may have written, it may lead anywhere
            raise click.ClickException(f"{option}: {path} is a symbolic link; name the file itself")
        if path.exists() and not path.is_file():
            raise click.ClickException(f"{option}: {path} is no regular file; - is stdout")
        if not path.parent.is_dir():
            raise click.ClickException(f"{option}: there is no folder {path.parent}")
        if not os.access(path.parent, os.W_OK):
            raise click.ClickException(f"{option}: cannot write in {path.parent}")
        real = os.path.realpath(path)
        if real in taken or any(real.startswith(f"{folder}{os.sep}") for folder in folders):
            raise click.UsageError(f"{option}: {path} is read or written already; name another file")
        if path.exists() and path.suffix in READ:
            raise click.UsageError(f"{option}: {path} looks like something to read; name another file")
        taken.add(real)


def _write(comparison: Comparison, outputs: Outputs) -> None:
    """Write the files, all or none, then what goes to stdout."""
    texts = {"--markdown": _markdown, "--html": _html, "--json": _json}
    wanted = {*outputs.files, *outputs.on_stdout}
    made = {option: text(comparison) for option, text in texts.items() if option in wanted}
    if outputs.files:
        from ptxtemplates.beside import write_files

        write_files({path: made[option] for option, path in outputs.files.items()})
    if outputs.on_stdout:
        click.echo(made[outputs.on_stdout[0]].encode(), nl=False)  # bytes: UTF-8 and LF on every system
    else:
        _show(comparison)


def _markdown(comparison: Comparison) -> str:
    from ptxtemplates.review.markdown import markdown

    return markdown(comparison)


def _html(comparison: Comparison) -> str:
    from ptxtemplates.review.html import page

    return page(comparison)


def _json(comparison: Comparison) -> str:
    from ptxtemplates.review.values import values

    return json.dumps(values(comparison), indent=2, sort_keys=True, allow_nan=False) + "\n"


def _show(comparison: Comparison) -> None:
    """Print the report for people: paged and in colour at a terminal, plain elsewhere."""
    from ptxtemplates.review.terminal import lines

    if sys.stdout is None:  # closed: nobody reads
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a kernel's comment may hold any character
    if not sys.stdout.isatty():
        for line in lines(comparison):
            click.echo(line)
        return
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = max(shutil.get_terminal_size().columns, NARROWEST)
    # what fits the screen is not paged
    os.environ.setdefault("LESS", "-FRX")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # who leaves the pager early gets the exit code too
    report = _ended(lines(comparison, colour=colour, width=width))
    click.echo_via_pager(report, color=None if colour else False)


def _ended(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield f"{line}\n"
