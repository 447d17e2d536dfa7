"""``ptxtemplates list``."""

from __future__ import annotations

import dataclasses

import click

from ptxtemplates.kernel import parameters_of
from ptxtemplates.registry import registered


@click.command("list")
def command() -> None:
    """Show the kernels, their parameters, what each may be, and the defaults."""
    for index, (name, kernel) in enumerate(registered().items()):
        click.echo(f"{chr(10) if index else ''}{name}: {kernel.summary}")
        for field, parameter, declared in parameters_of(kernel):
            if declared is dataclasses.MISSING:
                default = "required"
            else:
                default = f"default {parameter.derived_text or declared}"
            click.echo(f"  {field:<14}{parameter.help}")
            click.echo(f"  {'':<14}{parameter.domain.describe()}; {default}")
