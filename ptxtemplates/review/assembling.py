"""Assembling either text, or saying why there is no machine code: for want of an assembler, or of sense."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from ptxtemplates.assembly import Assembly, assemble
from ptxtemplates.errors import AssemblyError, MissingExtraError, PtxSyntaxError
from ptxtemplates.ptx.parser import parse
from ptxtemplates.ptx.targets import runs_on

_KEPT: Final = 512
"""Assemblies that a process holds on to: costs and meaning ask for the same."""

_NOISE: Final = re.compile(r'("[^"\n]*")|(?://[^\n]*|/\*.*?(?:\*/|\Z)|\s)+', re.DOTALL)


class Refusal(NamedTuple):
    """Why there is nothing to measure.

    Attributes
    ----------
    cell : {"n/a", "unreadable"}
        What stands in place of the figures.
    reason : str
        What a reader is told: a sentence whose subject is the text's file, or a whole one.
    whole : bool
        Whether it is a whole one: then it does not depend on the text.
    """

    cell: Literal["n/a", "unreadable"]
    reason: str
    whole: bool = False

    def told(self, file: str) -> str:
        """Return the reason for a text of that name."""
        return self.reason if self.whole else f"{file} {self.reason}"


@lru_cache(_KEPT)
def assembled(text: str, architecture: str) -> Assembly | Refusal:
    """Assemble a text.

    Parameters
    ----------
    text : str
        PTX.
    architecture : str
        Such as ``sm_90``.

    Returns
    -------
    Assembly or Refusal
        ``n/a`` if the assembler is not installed, or the text is for newer architectures; ``unreadable`` if
        it does not assemble.
    """
    try:
        return assemble(text, architecture)
    except MissingExtraError as error:
        return Refusal("n/a", str(error), whole=True)
    except AssemblyError as error:
        target = _target(text)
        if target is not None and not runs_on(target, architecture):
            return Refusal("n/a", f"is for {target}, which does not run on {architecture}")
        line, message = error.faults[0] if error.faults else (None, str(error))
        more = f"; and {len(error.faults) - 1} more" if len(error.faults) > 1 else ""
        place = f"line {line}: " if line else ""
        return Refusal("unreadable", f"does not assemble for {architecture}: {place}{message}{more}")


def entry_of(text: str, entry: str) -> str | Refusal:
    """Return which entry of a text is meant: the one named, or without a name the only one."""
    if entry:
        return entry
    try:
        entries = [each.name for each in parse(text).entries]
    except PtxSyntaxError as error:
        return Refusal("unreadable", f"is no PTX: line {error.line}: {error}")
    if len(entries) == 1:
        return entries[0]
    if not entries:
        return Refusal("n/a", "defines no entry")
    return Refusal("n/a", f"defines {len(entries)} entries, and nothing says which is meant")


def same_code(old: str, new: str) -> bool:
    """Say whether two texts differ in nothing but comments and white space."""
    return old == new or _NOISE.sub(_kept, old) == _NOISE.sub(_kept, new)


def _kept(match: re.Match[str]) -> str:
    return match[1] or " "


def _target(text: str) -> str | None:
    try:
        targets = parse(text).targets
    except PtxSyntaxError:
        return None
    return targets[0] if targets else None
