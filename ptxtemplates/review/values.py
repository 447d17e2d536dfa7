"""A comparison as JSON values, which ptxtemplates/schemas/diff-1.json describes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.review.importance import counts
from ptxtemplates.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxtemplates.review.model import (
        Cell,
        Change,
        Comparison,
        Cost,
        CostChange,
        Hunk,
        Meaning,
        TextChange,
    )

SCHEMA_VERSION: Final = 1


def values(comparison: Comparison) -> dict[str, Any]:
    """Return the report as JSON values, unchanged kernels too; whole texts are not in it.

    Parameters
    ----------
    comparison : Comparison
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "version": VERSION,
        "old": comparison.old,
        "new": comparison.new,
        "architectures": list(comparison.architectures),
        "counts": counts(comparison.changes),
        "failures": list(comparison.failures),
        "unanswered": list(comparison.unanswered),
        "kernels": [_kernel(change) for change in comparison.changes],
    }


def _kernel(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "status": change.status,
        "old_file": None if change.old is None else change.old.file,
        "new_file": None if change.new is None else change.new.file,
        "text": None if change.text is None else _text(change.text),
        "contract": [item._asdict() for item in change.contract],
        "cost": None if change.cost is None else _cost(change.cost),
        "meaning": None if change.meaning is None else _meaning(change.meaning),
    }


def _text(text: TextChange) -> dict[str, Any]:
    return {
        "kind": text.kind,
        "added": text.added,
        "removed": text.removed,
        "hunks": [_hunk(hunk) for hunk in text.hunks],
    }


def _hunk(hunk: Hunk) -> dict[str, Any]:
    return {
        "old_lines": _lines(hunk.old_lines),
        "new_lines": _lines(hunk.new_lines),
        "before": _lines(hunk.before),
        "after": _lines(hunk.after),
        "times": hunk.times,
        "places": [{"file": file, "line": line} for file, line in hunk.places],
    }


def _lines(lines: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"line": number, "text": text} for number, text in lines]


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "compared": cost.compared,
        "asked": cost.asked,
        "notes": list(cost.notes),
        "changes": [_figure(item) for item in cost.changes],
    }


def _figure(item: CostChange) -> dict[str, Any]:
    return {
        "what": item.what,
        "where": item.where,
        "before": _cell(item.before),
        "after": _cell(item.after),
    }


def _cell(value: Cell) -> Cell:
    """JSON has no infinity, and such a figure would be none to read."""
    return value if isinstance(value, str) or math.isfinite(value) else "unreadable"


def _meaning(meaning: Meaning) -> dict[str, Any]:
    return {
        "verdict": meaning.verdict,
        "reason": meaning.reason,
        "tried": list(meaning.tried),
        "largest_ulp": meaning.largest_ulp,
        "example": None if meaning.example is None else meaning.example._asdict(),
    }
