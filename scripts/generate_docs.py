"""Write the generated parts of docs/: tables of kernels, lint rules, commands, and what the emulator knows.

``python -m scripts.generate_docs`` rewrites them in place. A test checks that they are current.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ptxtemplates.cli import main
from ptxtemplates.emulator import KINDS
from ptxtemplates.emulator.instructions import EFFECTS
from ptxtemplates.emulator.operations import BOUNDS, TABLE
from ptxtemplates.emulator.operations.forms import SLOTS
from ptxtemplates.kernel import parameters_of
from ptxtemplates.ptx.linter import RULES
from ptxtemplates.registry import registered
from ptxtemplates.rendering.environment import FILTERS
from scripts import schema_fields

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


def kinds() -> str:
    """Return the table of findings."""
    rows = [f"| {kind} | {meaning} |" for kind, meaning in KINDS.items()]
    return "\n".join(["| finding | means |", "|---|---|", *rows, ""])


def bounds() -> str:
    """Return the table of approximate instructions."""
    rows = [
        f"| `{opcode}.{qualifiers}.{type_}` | {bound.text} |"
        for (opcode, type_, qualifiers), bound in sorted(BOUNDS.items())
    ]
    return "\n".join(["| instruction | largest documented error |", "|---|---|", *rows, ""])


WIDTH: Final = 118
COLUMN: Final = 18

FLOW: Final = {
    "bar": ("cta? sync|arrive", "cta? red popc|and|or u32|pred"),
    "barrier": ("cta? sync|arrive aligned?", "cta? red popc|and|or aligned? u32|pred"),
    "bra": ("uni?",),
    "brx": ("idx uni?",),
    "call": ("uni?",),
    "exit": ("",),
    "ret": ("uni?",),
}
"""What decides which threads run next, and so has no form in a table; the modifiers that are meant."""

ABBREVIATIONS: Final = {
    "any_integer": "u8|u16|u32|u64|s8|s16|s32|s64",
    "atomic_space": "global|shared|shared::cta|shared::cluster",
    "cached": "ca|cg|cs|lu|cv|wb|wt",
    "evict": "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate",
    "evict_l2": "L2::evict_normal|L2::evict_first|L2::evict_last",
    "order": "relaxed|acquire|release|acq_rel",
    "primary": "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged",
    "prefetch_size": "L2::64B|L2::128B|L2::256B",
    "scope": "cta|cluster|gpu|sys",
    "secondary": "L2::evict_first|L2::evict_unchanged",
    "space": "global|const|param|param::entry|param::func|shared|shared::cta|shared::cluster|local",
    "type": "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64",
}
"""Long lists of modifiers, by the word that stands for them."""


def instructions() -> str:
    """Return every form of every instruction, and what the words in them stand for."""
    # the machine looks into `EFFECTS` first
    tables = {opcode: [form.syntax for form in forms] for opcode, forms in TABLE.items()}
    tables |= {opcode: [form.syntax for form in forms] for opcode, forms in EFFECTS.items()}
    lines: list[str] = []
    used: set[str] = set()
    for opcode in sorted({*tables, *FLOW}):
        for number, syntax in enumerate([*tables.get(opcode, ()), *FLOW.get(opcode, ())]):
            words = [_shortened(word) for word in syntax.split()]
            used |= {word.rstrip("?") for word in words}
            lines += _in_columns(opcode if not number else "", " ".join(words))
    meanings = {name: "|".join(options) for name, options in SLOTS.items()} | ABBREVIATIONS
    legend = [line for name in sorted(used & set(meanings)) for line in _in_columns(name, meanings[name])]
    return "\n".join(["```", *lines, "```", "", "where", "", "```", *legend, "```", ""])


def _shortened(word: str) -> str:
    """Return what stands for a list of modifiers, if anything does; a question mark behind it stays."""
    options, optional, _ = word.partition("?")
    return next((name for name, long in ABBREVIATIONS.items() if long == options), options) + optional


def _in_columns(name: str, text: str) -> list[str]:
    """Return lines with a name at the left and a text beside it."""
    parts = textwrap.wrap(text, WIDTH - COLUMN) or [""]
    return [f"{'' if number else name:<{COLUMN}}{part}".rstrip() for number, part in enumerate(parts)]


GENERATED: Final[dict[str, tuple[Callable[[], str], ...]]] = {
    "kernels.md": (kernels,),
    "lint.md": (rules,),
    "cli.md": (commands,),
    "templates.md": (filters,),
    "emulator.md": (kinds, bounds, instructions),
    "diff-reports.md": (lambda: schema_fields.table("diff-1.json"),),
}
"""By document, what stands in each of its generated regions."""

_REGION: Final = re.compile(r"(<!-- generated: .*? -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(file: str) -> str:
    """Return a document with its generated regions as they should be."""
    text = (DOCS / file).read_text(encoding="utf-8")
    regions = iter(GENERATED[file])
    result, count = _REGION.subn(lambda match: f"{match[1]}\n{next(regions)()}\n{match[2]}", text)
    assert count == len(GENERATED[file]), f"{file} has {count} generated regions"
    return result


if __name__ == "__main__":
    for name in GENERATED:
        (DOCS / name).write_bytes(rewritten(name).encode())
