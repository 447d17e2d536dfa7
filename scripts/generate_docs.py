"""Write the generated parts of docs/: the tables of kernels, lint rules and commands.

``python -m scripts.generate_docs`` rewrites them in place. A test checks that they are current.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ptxtemplates.cli import main
from ptxtemplates.kernel import parameters_of
from ptxtemplates.ptx.linter import RULES
from ptxtemplates.registry import registered
from ptxtemplates.rendering.environment import FILTERS

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"


def kernels() -> str:
    """Return a section for each kernel: what it does, its parameters, its arguments."""
    parts = []
    for name, kernel in registered().items():
        parts.append(f"## {name}\n\n{kernel.summary[0].upper()}{kernel.summary[1:]}.\n")
        parts.append("| parameter | | allowed | default |\n|---|---|---|---|")
        for field, parameter, declared in parameters_of(kernel):
            default = "" if declared is dataclasses.MISSING else parameter.derived_text or f"`{declared}`"
            allowed = parameter.domain.describe()
            parts.append(f"| `{field}` | {parameter.help} | {allowed} | {default} |")
        parts.append("\n| argument | type | role | points to |\n|---|---|---|---|")
        for argument in kernel.arguments:
            target = ""
            tensor = argument.tensor
            while tensor is not None:
                shape = ", ".join(tensor.shape)
                target += f"{' of pointers to ' if target else ''}`{tensor.element}` [{shape}]"
                target += f", aligned to {tensor.alignment} bytes"
                tensor = tensor.points_to
            parts.append(f"| `{argument.name}` | `{argument.type}` | {argument.role} | {target} |")
        parts.append("")
    return "\n".join(parts)


def rules() -> str:
    """Return the table of lint rules."""
    return "\n".join(
        ["| rule | finds |", "|---|---|", *(f"| `{rule.id}` | {rule.description} |" for rule in RULES), ""]
    )


def commands() -> str:
    """Return a section for each command: its help, arguments and options."""
    parts = []
    with click.Context(main, info_name="ptxtemplates") as context:
        for name in main.list_commands(context):
            command = main.get_command(context, name)
            assert command is not None
            assert command.help is not None
            arguments = [
                item.make_metavar(context) for item in command.params if isinstance(item, click.Argument)
            ]
            usage = " ".join(["ptxtemplates", name, *arguments])
            parts.append(f"## {name}\n\n`{usage}`\n\n{inspect.cleandoc(command.help)}\n")
            options = [item for item in command.params if isinstance(item, click.Option)]
            if options:
                parts.append("| option | |\n|---|---|")
                parts += [_option(option, context) for option in options]
                parts.append("")
    return "\n".join(parts)


def _option(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    default = f" Default: `{option.default}`." if option.show_default else ""
    return f"| {names}{value} | {option.help}{default} |"


def filters() -> str:
    """Return the table of filters that templates have beside Jinja's own."""
    return "\n".join(
        [
            "| filter | gives |",
            "|---|---|",
            *(f"| `{name}` | {entry.help} |" for name, entry in FILTERS.items()),
            "",
        ]
    )


GENERATED: Final[dict[str, Callable[[], str]]] = {
    "kernels.md": kernels,
    "lint.md": rules,
    "cli.md": commands,
    "templates.md": filters,
}

_REGION: Final = re.compile(r"(<!-- generated: .*? -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(file: str) -> str:
    """Return a document with its generated region as it should be."""
    text = (DOCS / file).read_text(encoding="utf-8")
    region = GENERATED[file]()
    result, count = _REGION.subn(lambda match: f"{match[1]}\n{region}\n{match[2]}", text)
    assert count == 1, f"{file} has {count} generated regions"
    return result


if __name__ == "__main__":
    for name in GENERATED:
        (DOCS / name).write_bytes(rewritten(name).encode())
