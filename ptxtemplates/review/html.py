"""A comparison as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ptxtemplates.errors import MissingExtraError
from ptxtemplates.review import wording
from ptxtemplates.review.groups import grouped
from ptxtemplates.review.importance import breaks, counts, ordered, outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ptxtemplates.review.model import Change, Comparison, Side
    from ptxtemplates.review.page.machine import MachineCode

FOLDER: Final = Path(__file__).resolve().parent / "page"
"""Of the page's template, style sheet and script."""

MOST_LINES: Final = 50_000
"""PTX lines of both texts that are shown whole, most important kernels first: a page of some 10 MB."""


class Kernel(NamedTuple):
    """A kernel as the page's template takes it.

    Attributes
    ----------
    change : Change
    outcome : str
        Verdict, or what became of it.
    anchor : str
        Of its part of the page.
    failures : tuple of str
        What the policy objects to in it.
    breaking : int
        Contract changes that break callers.
    unfolded : bool
        Whether its part is open at first.
    like : Kernel or None
        Name of one further up that changed alike, but for some numbers.
    sides : bool
        Whether its texts are shown whole.
    """

    change: Change
    outcome: str
    anchor: str
    failures: tuple[str, ...]
    breaking: int
    unfolded: bool
    like: str | None
    sides: bool


def check() -> None:
    """Raise `MissingExtraError` if no page can be made: before minutes are spent on comparing."""
    if importlib.util.find_spec("pygments") is None:
        raise MissingExtraError("an HTML page needs Pygments: pip install 'ptxtemplates[review]'")


def page(comparison: Comparison) -> str:
    """Return a comparison as an HTML page.

    The same comparison gives the same page: it tells neither time nor machine. Machine instructions are made
    for the first of the architectures, where NVIDIA's programs are installed; else the page says why not.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
        To be written as UTF-8.

    Raises
    ------
    MissingExtraError
        If Pygments is not installed.
    """
    check()
    from ptxtemplates.review.page.listing import hunk_rows, short_names, side_by_side

    kernels = _kernels(comparison)
    style, script = ((FOLDER / name).read_text(encoding="utf-8").strip() for name in ("page.css", "page.js"))
    environment = Environment(
        loader=FileSystemLoader(FOLDER, encoding="utf-8"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html.jinja").render(
        comparison=comparison,
        counts=counts(comparison.changes),
        kernels=[kernel for kernel in kernels if kernel.change.status != "unchanged"],
        unchanged=sorted(kernel.change.name for kernel in kernels if kernel.change.status == "unchanged"),
        anchor_of={kernel.change.name: kernel.anchor for kernel in kernels},
        codes=_codes(kernels, comparison.architectures),
        words=wording,
        hunk_rows=hunk_rows,
        side_by_side=side_by_side,
        short_names=short_names,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        Markup=Markup,
    )


def _finalize(value: Any) -> Any:
    """Write out what cannot be seen in any text that comes from a comparison."""
    return wording.visible(value) if type(value) is str else value


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _kernels(comparison: Comparison) -> list[Kernel]:
    """Return all kernels: those that the policy objects to first, then by importance."""
    failures = {
        change.name: tuple(
            text.removeprefix(f"{change.name}: ")
            for text in comparison.failures + comparison.unanswered
            if text.startswith(f"{change.name}: ")
        )
        for change in comparison.changes
    }
    first = {
        change.name: group.first.name for group in grouped(comparison.changes) for change in group.changes[1:]
    }
    anchors = _anchors(change.name for change in comparison.changes)
    found: list[Kernel] = []
    lines = 0
    for change in sorted(ordered(comparison.changes), key=lambda change: not failures[change.name]):
        told = outcome(change)
        if change.status == "changed":
            lines += sum(side.text.count("\n") for side in (change.old, change.new) if side is not None)
        important = bool(failures[change.name]) or told in ("results differ", "cannot tell") or breaks(change)
        found.append(
            Kernel(
                change,
                told,
                anchors[change.name],
                failures[change.name],
                sum(item.breaking for item in change.contract),
                important and change.status == "changed" and change.name not in first,
                first.get(change.name),
                change.status == "changed" and lines <= MOST_LINES,
            )
        )
    return found


def _anchors(names: Iterable[str]) -> dict[str, str]:
    """Return an anchor for each name that no other one has, and that needs no escaping."""
    anchors: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = "".join(
            letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in name
        )
        anchor, number = f"kernel-{plain}", 2
        while anchor in taken:
            anchor, number = f"kernel-{plain}--{number}", number + 1
        taken.add(anchor)
        anchors[name] = anchor
    return anchors


def _codes(
    kernels: Sequence[Kernel], architectures: Sequence[str]
) -> Mapping[tuple[str, str], MachineCode | str]:
    """Return the machine code of both texts of each kernel that is shown whole, by name and side."""
    from ptxtemplates.review.page.machine import machine_codes

    sides: dict[tuple[str, str], Side] = {}
    for kernel in kernels:
        if kernel.sides:
            for which, side in (("old", kernel.change.old), ("new", kernel.change.new)):
                assert side is not None
                sides[kernel.change.name, which] = side
    if not architectures:
        return dict.fromkeys(sides, "no architecture was asked for")
    made = machine_codes([side.text for side in sides.values()], architectures[0])
    return dict(zip(sides, made, strict=True))
