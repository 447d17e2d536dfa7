"""The command line: thin and lazy, one file a command."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Final

import click

from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.version import VERSION

COMMANDS: Final = {
    "bench": "Measure kernels on a GPU, against a copy, an empty kernel and other libraries.",
    "build": "Render every listed kernel into a build directory.",
    "diff": "Compare two sets of kernels: text, contract, cost, and whether they still compute the same.",
    "inspect": "Show registers, spills, shared memory and occupancy of kernels, and their machine code.",
    "lint": "Look for mistakes in PTX files that an assembler lets pass.",
    "list": "Show the kernels and their parameters.",
    "render": "Render one kernel.",
    "verify": "Execute kernels on the CPU and hold every result to a bound.",
}
"""Each command and its first line of help; the code lies in the file of that name, loaded when it runs."""


class LazyGroup(click.Group):
    """A group that imports the file of the command that is called, and no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(COMMANDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words of the command line: some commands name the one that mends what they found."""
        ctx.meta["ptxtemplates.words"] = [*args]  # the name of a command, list, hides the builtin here
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])


@click.command(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(VERSION, message="ptxtemplates %(version)s")
def main() -> None:
    """GPU kernels as readable PTX templates: render them, build them, look for mistakes.

    Exit codes: 0 fine, 1 the answer is no (stale, findings), 2 the question could not be answered.
    """


def run() -> None:
    """Run the command line: data on stdout, one ``error:`` line on stderr, exit code 0, 1 or 2."""
    try:
        code = main(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = 2
    except (PtxTemplatesError, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        click.echo(f"error: {' '.join(text.split())}", err=True)
        if isinstance(error, PtxTemplatesError) and error.excerpt:
            click.echo(error.excerpt, err=True)
        code = 2
    except click.Abort:
        raise KeyboardInterrupt from None
    except OSError as error:
        click.echo(
            f"error: cannot write {error.filename or 'the output'}: {error.strerror or error}", err=True
        )
        # Python flushes stdout once more at exit, and would complain again after our one line
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - stays open to the end; a device, not a path
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
