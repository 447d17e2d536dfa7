"""What several commands share: reading ``--set``, completing names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxtemplates.errors import ParameterError
from ptxtemplates.kernel import parameters_of
from ptxtemplates.parameters import shown
from ptxtemplates.registry import construct, find, registered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxtemplates.kernel import Kernel

    TextType = click.ParamType[str]
else:
    TextType = click.ParamType  # generic since click 8.2 only


class KernelName(TextType):
    """The name of a registered kernel; completes in a shell."""

    name = "kernel"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Offer the registered kernels."""
        return _completions(registered(), incomplete)


class Setting(TextType):
    """``name=value``; completes the names of the kernel that is named before."""

    name = "name=value"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Offer the parameters of the kernel, or of all kernels where none is named yet."""
        # click has not yet taken the kernel's name from the words when an option's value is missing
        name = ctx.params.get("kernel") or next(iter(ctx.args), None)
        kernels = [find(name)] if name in registered() else list(registered().values())
        return _completions(
            {f"{field}=" for kernel in kernels for field, *_ in parameters_of(kernel)}, incomplete
        )


def _completions(names: Iterable[str], incomplete: str) -> list[click.shell_completion.CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def kernel_of(name: str, settings: Iterable[str]) -> Kernel:
    """Build the kernel that a command line describes.

    Raises
    ------
    UnknownKernelError, ParameterError
        If there is no such kernel or parameter, or a value is not allowed.
    """
    kernel = find(name)
    domains = {field: parameter.domain for field, parameter, _ in parameters_of(kernel)}
    values: dict[str, object] = {}
    for setting in settings:
        field, equals, text = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set takes name=value, not {setting!r}")
        if field in values:
            raise click.UsageError(f"{field} is set twice")
        values[field] = text
        if field in domains:
            try:
                values[field] = domains[field].parse(text)
            except ValueError:
                raise ParameterError(
                    f"{name}: {field} must be {domains[field].describe()}, not {shown(text)}", field=field
                ) from None
    return construct(kernel, values)


config_option = click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    default=Path("kernels.toml"),
    show_default=True,
    help="List of variants.",
)
"""The list that a command works on."""

kernel_option = click.option(
    "--kernel",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Only variants or kernels of this name; * and ? are wild. May be repeated.",
)
"""Which of the listed kernels a command is about."""

jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes; as many as there are processors without it.",
)
"""How many processes a command may start."""

json_option = click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
"""Whether a program reads what a command prints."""
