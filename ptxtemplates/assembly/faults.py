"""The assembler's complaints beside the source lines that they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ptxtemplates.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    SourceOf = Callable[[str], Sequence[str] | None]
    """Gives the lines of a file that ``.file`` or a place names; None if it cannot be read."""

SHOWN: Final = 3
"""How many faults an error names, as for the faults that rendering finds."""

AROUND: Final = 2
"""Lines shown before and after the line at fault."""


def located(
    error: AssemblyError,
    text: str,
    places: Sequence[tuple[str, int]] | None,
    source_of: SourceOf,
    *,
    name: str,
) -> AssemblyError:
    """Return the error with its places in the message and the lines around them as its excerpt.

    Parameters and wording are those of `explain`.
    """
    message, _, excerpt = explain(error, text, places, source_of, name=name).partition("\n")
    return AssemblyError(message, faults=error.faults, excerpt=excerpt)


def explain(
    error: AssemblyError,
    text: str,
    places: Sequence[tuple[str, int]] | None,
    source_of: SourceOf,
    *,
    name: str,
) -> str:
    """Say what the assembler refuses, and show the source lines around it.

    Parameters
    ----------
    error : AssemblyError
        What `assemble` raised.
    text : str
        The PTX that was assembled.
    places : sequence of (str, int), optional
        Template and line of each line of the text; None for a text that was not rendered.
    source_of : callable
        Gives the lines of a template.
    name : str
        What the text is called, such as ``variant.ptx``.

    Returns
    -------
    str
        First ``template:line: name:line: message``, then lines with an excerpt, indented; no final newline.
        Of an error that has no line, the first alone.
    """
    if not error.faults:
        return f"{name}: {error}"
    messages: list[str] = []
    excerpts: dict[tuple[str, int], list[str]] = {}
    own: Sequence[str] = text.split("\n")
    for line, message in error.faults[:SHOWN]:
        if line is None or line > len(own):
            messages.append(f"{name}: {message}")
            continue
        if places is None:
            place, source, where = (name, line), own, f"{name}:{line}"
        else:
            place = places[line - 1]
            source, where = source_of(place[0]) or [], f"{place[0]}:{place[1]}: {name}:{line}"
        messages.append(f"{where}: {message}")
        excerpts.setdefault(place, _excerpt(source, place[1]))
    others = f"; and {len(error.faults) - SHOWN} more" if len(error.faults) > SHOWN else ""
    parts = ["; ".join(messages) + others]
    for (file, _), excerpt in excerpts.items():
        parts += [f"  {file}", *excerpt] if excerpt else []
    return "\n".join(parts)


def _excerpt(source: Sequence[str], marked: int) -> list[str]:
    first, last = max(marked - AROUND, 1), min(marked + AROUND, len(source))
    width = len(str(last))
    return [
        f"  {'>' if number == marked else ' '} {number:>{width}} | {source[number - 1]}".rstrip()
        for number in range(first, last + 1)
    ]
