"""What became of the mutants, for a person and as JSON values."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from scripts.mutation.sorting import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxtemplates.kernel import Kernel
    from scripts.mutation.sorting import Sorted

LISTED: Final = ("rounding-only", "caught late", "unexplained")
MOST_UNEXPLAINED: Final = 0.02

_STEP: Final = re.compile(r"(?<=[a-z])\d+(?=\b|_)|^\d+: ")
_OPCODE: Final = re.compile(r"\s*(?:@!?%\w+\s+)?(\S+)")


class Result(NamedTuple):
    """The mutants of a kernel.

    Attributes
    ----------
    kernel : Kernel
        Which.
    places : sequence of (str, int)
        Template line of each line of its text.
    mutants : tuple of Sorted
        What became of each.
    """

    kernel: Kernel
    places: Sequence[tuple[str, int]]
    mutants: tuple[Sorted, ...]

    @property
    def counts(self) -> Counter[str]:
        """Mutants by state."""
        return Counter(each.state for each in self.mutants)

    @property
    def assembled(self) -> int:
        """Mutants that the assembler takes."""
        return len(self.mutants) - self.counts["rejected"]


def ok(results: Sequence[Result]) -> bool:
    """Say whether each kernel has few mutants that its cases miss and nothing explains."""
    return all(
        result.counts["unexplained"] + result.counts["caught late"] <= MOST_UNEXPLAINED * result.assembled
        for result in results
    )


def lines_of(results: Sequence[Result]) -> Iterator[str]:
    """Yield a Markdown table, what caught mutants, and those that it should list."""
    yield f"| variant | mutants | {' | '.join(STATES)} |"
    yield "|---" * (2 + len(STATES)) + "|"
    for result in results:
        cells = [_cell(result, state) for state in STATES]
        yield f"| {result.kernel.variant} | {len(result.mutants)} | {' | '.join(cells)} |"
    for result in results:
        caught = Counter(each.by for each in result.mutants if each.state == "caught")
        yield ""
        yield f"{result.kernel.variant}: caught by"
        yield from (f"  {number:5}  {by}" for by, number in caught.most_common())
        for state in LISTED:
            if result.counts[state]:
                yield ""
                yield f"{result.kernel.variant}: {state}"
                yield from (f"  {line}" for line in _listed(result, state))


def _cell(result: Result, state: str) -> str:
    number = result.counts[state]
    if state == "rejected":
        return str(number)
    return f"{number} ({number / max(result.assembled, 1):.1%})"


def _listed(result: Result, state: str) -> Iterator[str]:
    """Yield the mutants of a state: those of one template line that put others in an opcode's place as one.

    So are those of other kinds that differ by the step of a loop alone.
    """
    groups: dict[tuple[str, str, str], list[Sorted]] = {}
    for each in result.mutants:
        if each.state == state:
            template, line = result.places[each.mutant.line - 1]
            kind = each.mutant.kind
            what = _opcode(each.mutant.before) if kind == "opcode" else _STEP.sub("", str(each.mutant))
            groups.setdefault((f"{template}:{line}", kind, what), []).append(each)
    for (place, kind, what), alike in groups.items():
        change = str(alike[0].mutant).partition(": ")[2]
        if kind == "opcode":
            change = f"{what} -> {', '.join(dict.fromkeys(_opcode(each.mutant.after) for each in alike))}"
        by = ", ".join(sorted({each.by for each in alike if each.by}))
        yield f"{len(alike):4}  {place}: {change}{f' [{by}]' if by else ''}"


def _opcode(lines: tuple[str, ...]) -> str:
    found = _OPCODE.match(lines[0])
    assert found is not None
    return found[1]


def values_of(results: Sequence[Result]) -> dict[str, Any]:
    """Return everything as JSON values."""
    return {
        "ok": ok(results),
        "variants": [
            {
                "variant": result.kernel.variant,
                "mutants": len(result.mutants),
                **{state: result.counts[state] for state in STATES},
                "each": [
                    {
                        "kind": mutant.kind,
                        "line": mutant.line,
                        "before": list(mutant.before),
                        "after": list(mutant.after),
                        "state": state,
                        "by": by,
                    }
                    for mutant, state, by in result.mutants
                ],
            }
            for result in results
        ],
    }
