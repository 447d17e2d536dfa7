"""The report as JSON: what the schema says, and every field in the document."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxtemplates.review.model import VERDICTS, CostChange
from ptxtemplates.review.values import values
from scripts.schema_fields import table
from tests.helpers.variants import ROOT
from tests.review.comparisons import HOSTILE, changed, comparison, every_kind, hostile, hunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxtemplates.review.model import Comparison

SCHEMA: Final = json.loads((ROOT / "ptxtemplates" / "schemas" / "diff-1.json").read_text(encoding="utf-8"))
VALIDATOR: Final = jsonschema.Draft202012Validator(SCHEMA)


def read_back(found: Comparison) -> Any:
    report = json.loads(json.dumps(values(found), allow_nan=False))
    VALIDATOR.validate(report)
    return report


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object that a schema describes."""
    if isinstance(node, dict):
        if "properties" in node and node.get("type") == "object":
            yield node
        for each in node.values():
            yield from objects(each)
    elif isinstance(node, list):
        for each in node:
            yield from objects(each)


def test_the_schema_is_one_and_leaves_nothing_open() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    found = list(objects(SCHEMA))
    assert len(found) == 12
    for each in found:
        assert each["additionalProperties"] is False
        assert set(each["required"]) == set(each["properties"])


def test_what_a_report_says() -> None:
    report = read_back(every_kind())
    assert {name: value for name, value in report.items() if name not in ("kernels", "version")} == {
        "schema_version": 1,
        "old": "main (1a2b3c4)",
        "new": "working tree",
        "architectures": ["sm_80", "sm_90"],
        "counts": {
            "results differ": 1,
            "cannot tell": 1,
            "removed": 1,
            "same over the reals": 1,
            "same bits": 1,
            "identical machine code": 1,
            "added": 1,
            "unchanged": 1,
        },
        "failures": ["d.wrong: results differ"],
        "unanswered": [],
    }
    kernels = {kernel["name"]: kernel for kernel in report["kernels"]}
    assert list(kernels) == [change.name for change in every_kind().changes]
    assert kernels["d.wrong"] == {
        "name": "d.wrong",
        "status": "changed",
        "old_file": "d.wrong.ptx",
        "new_file": "d.wrong.ptx",
        "text": {
            "kind": "instructions",
            "added": 4,
            "removed": 4,
            "hunks": [
                {
                    "old_lines": [{"line": 10, "text": "    mul.rn.f32 %y, %x, 2;"}],
                    "new_lines": [{"line": 10, "text": "    mul.f32 %y, %x, 2;"}],
                    "before": [{"line": 9, "text": "    // around"}],
                    "after": [{"line": 11, "text": "    // around"}],
                    "times": 4,
                    "places": [{"file": "scale.ptx.jinja", "line": 7}],
                }
            ],
        },
        "contract": [
            {
                "what": "block",
                "before": "(32, 1, 1)",
                "after": "(64, 1, 1)",
                "breaking": True,
                "why": "a launch passes the block",
            }
        ],
        "cost": {
            "compared": 20,
            "asked": 24,
            "notes": ["sm_75: the assembler does not know it"],
            "changes": [],
        },
        "meaning": {
            "verdict": "results differ",
            "reason": "hashes are equal",
            "tried": ["one row: rows 1"],
            "largest_ulp": 9000,
            "example": {
                "setting": "rows 1",
                "seed": 0,
                "element": "y[0, 3]",
                "before": "0.25",
                "after": "-1.5",
            },
        },
    }
    nothing: dict[str, Any] = {"text": None, "contract": [], "cost": None, "meaning": None}
    assert kernels["g.removed"] == {
        "name": "g.removed", "status": "removed", "old_file": "g.removed.ptx", "new_file": None, **nothing
    }  # fmt: skip
    assert kernels["f.added"] == {
        "name": "f.added", "status": "added", "old_file": None, "new_file": "f.added.ptx", **nothing
    }  # fmt: skip
    assert kernels["h.unchanged"]["status"] == "unchanged"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (18, 18),
        (0, 0),
        (0.5, 0.5),
        ("n/a", "n/a"),
        ("unreadable", "unreadable"),
        (math.inf, "unreadable"),
        (math.nan, "unreadable"),
    ],
)
def test_a_cell_is_a_number_or_says_why_not(given: Any, read: Any) -> None:
    report = read_back(comparison(changed("a", moved=(CostChange("registers", "sm_90", given, 7),))))
    assert report["kernels"][0]["cost"]["changes"] == [
        {"what": "registers", "where": "sm_90", "before": read, "after": 7}
    ]


@pytest.mark.parametrize("word", ["", "0", "none", "NA"])
def test_the_schema_takes_no_other_word_for_a_cell(word: Any) -> None:
    report = values(comparison(changed("a", moved=(CostChange("registers", "sm_90", word, 7),))))
    assert not VALIDATOR.is_valid(report)


def test_verdicts_are_those_of_the_schema() -> None:
    assert SCHEMA["$defs"]["meaning"]["properties"]["verdict"]["enum"] == list(VERDICTS)
    for verdict in VERDICTS:
        read_back(comparison(changed("a", verdict)))


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_come_back_as_they_were(text: str) -> None:
    report = read_back(hostile(text))
    [first, *_] = report["kernels"]
    assert first["name"] == first["meaning"]["reason"] == report["old"] == text
    assert first["text"]["hunks"][0]["new_lines"][0]["text"] == text * 2


@given(st.lists(st.text(st.characters()), max_size=3), st.integers(1, 9))
def test_any_lines_are_valid(lines: list[str], times: int) -> None:
    read_back(comparison(changed("a", "same bits", [hunk(lines, [], times=times)])))


def test_the_document_has_every_field() -> None:
    text = (ROOT / "docs" / "diff-reports.md").read_text(encoding="utf-8")
    _, _, region = text.partition("<!-- generated: python -m scripts.generate_docs -->\n")
    assert region.partition("<!-- end -->")[0].strip() == table("diff-1.json").strip()
