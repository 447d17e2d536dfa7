"""Verdicts as text for people and as JSON values; ptxtemplates/schemas/verify-1.json describes the latter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxtemplates.references.place import Observation
    from ptxtemplates.verification.outcomes import Mismatch, Outcome, Verdict

SCHEMA_VERSION: Final = 1


class Conditions(NamedTuple):
    """Under which the cases ran: where, on which device if that is one, and as in `Emulator`."""

    place: str
    accuracy: str
    seed: int
    device: str | None = None


def lines_of(verdicts: Sequence[Verdict], conditions: Conditions) -> Iterator[str]:
    """Yield a line for each variant, details where something is wrong, and a summary."""
    width = max(len(verdict.variant) for verdict in verdicts)
    for verdict in verdicts:
        state = "ok    " if verdict.ok else "FAILED"
        yield f"{state}  {verdict.variant:{width}}  {_figures(verdict)}"
        yield from (f"    {line}" for line in _details(verdict))
    yield _summary(verdicts, conditions)


def _figures(verdict: Verdict) -> str:
    findings = sum(len(outcome.findings) for outcome in verdict.outcomes)
    skipped = sum(bool(outcome.skipped) for outcome in verdict.outcomes)
    left_out = f" ({skipped} skipped)" if skipped else ""
    return (
        f"{len(verdict.outcomes)} cases{left_out}, worst error {_ratio(verdict.worst)} of its bound, "
        f"{_count(findings, 'finding')}, {verdict.seconds:.1f} s"
    )


def _details(verdict: Verdict) -> Iterator[str]:
    yield from (f"constants: {line}" for line in verdict.constants)
    if verdict.absent:
        yield f"not in the text, so not compared: {', '.join(verdict.absent)}"
    for outcome in verdict.outcomes:
        if outcome.error:
            yield f"{outcome.case}: did not run: {outcome.error}"
        if outcome.skipped:
            yield f"{outcome.case}: skipped: {outcome.skipped}"
        yield from (f"{outcome.case}: {_mismatch(mismatch)}" for mismatch in outcome.mismatches)
        yield from (f"{outcome.case}: {_finding(finding)}" for finding in outcome.findings)


def _mismatch(mismatch: Mismatch) -> str:
    element = f"{mismatch.buffer}[{', '.join(map(str, mismatch.element))}]"
    expected = f"{mismatch.expected:.9g}"
    if mismatch.bound > 0:
        expected += f" +- {mismatch.bound:.3g}"
    more = f"; {mismatch.wrong} elements are wrong" if mismatch.wrong > 1 else ""
    return f"{element} is {mismatch.got:.9g}, must be {expected}{more}"


def _finding(finding: Observation) -> str:
    # a GPU tells neither the line nor the thread
    where, who = "on the device", ""
    if finding.line:
        source = "" if finding.source is None else f"{finding.source[0]}:{finding.source[1]}, "
        where = f"{source}PTX line {finding.line}"
    if finding.block:
        who = f"; block {_place(finding.block)}, thread {_place(finding.thread)}"
    return f"{finding.kind}: {finding.kernel}, {where}: {finding.message}{who}"


def _place(place: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, place))})"


def _ratio(ratio: float) -> str:
    # rounded down: what is within its bound does not look as if it were at it
    return f"{math.floor(ratio * 100) / 100:.2f}" if ratio < 100 else f"{ratio:.3g}"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _summary(verdicts: Sequence[Verdict], conditions: Conditions) -> str:
    failed = [verdict for verdict in verdicts if not verdict.ok]
    runs = sum(not outcome.skipped for verdict in verdicts for outcome in verdict.outcomes)
    where = f"{conditions.place}, {conditions.accuracy} accuracy, seed {conditions.seed}"
    if conditions.device is not None:
        where = f"{conditions.device}, seed {conditions.seed}"
    if failed:
        return f"{len(failed)} of {_count(len(verdicts), 'variant')} failed ({where})"
    what = f"{_count(len(verdicts), 'variant')}, {_count(runs, 'case')}"
    if conditions.accuracy == "worst" and conditions.device is None:
        return f"{what}: no bound was exceeded in {runs} adversarial runs ({where})"
    return f"{what}: every result within its bound, no findings ({where})"


def values_of(verdicts: Sequence[Verdict], conditions: Conditions) -> dict[str, Any]:
    """Return the report as JSON values. Numbers that JSON lacks are the strings nan, inf and -inf."""
    return {
        "schema_version": SCHEMA_VERSION,
        **conditions._asdict(),
        "ok": all(verdict.ok for verdict in verdicts),
        "kernels": [
            {
                "variant": verdict.variant,
                "ok": verdict.ok,
                "worst": _number(verdict.worst),
                "seconds": round(verdict.seconds, 3),
                "constants": list(verdict.constants),
                "absent": list(verdict.absent),
                "cases": [_case(outcome) for outcome in verdict.outcomes],
            }
            for verdict in verdicts
        ],
    }


def _case(outcome: Outcome) -> dict[str, Any]:
    place = outcome.worst_at
    return {
        "case": outcome.case,
        "ok": outcome.ok,
        "worst": _number(outcome.worst),
        "worst_at": None if place is None else {"buffer": place[0], "element": list(place[1])},
        "seconds": round(outcome.seconds, 3),
        "error": outcome.error or None,
        "skipped": outcome.skipped or None,
        "mismatches": [
            {
                "buffer": mismatch.buffer,
                "element": list(mismatch.element),
                "got": _number(mismatch.got),
                "expected": _number(mismatch.expected),
                "bound": _number(mismatch.bound),
                "wrong": mismatch.wrong,
            }
            for mismatch in outcome.mismatches
        ],
        "findings": [
            {
                **finding._asdict(),
                "source": None
                if finding.source is None
                else {"file": finding.source[0], "line": finding.source[1]},
                "block": list(finding.block),
                "thread": list(finding.thread),
            }
            for finding in outcome.findings
        ],
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
