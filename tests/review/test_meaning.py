"""What is said of edits whose effect is known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ptxtemplates.review.meaning import meaning
from ptxtemplates.review.model import VERDICTS, Side
from tests.helpers.variants import ROOT
from tests.review.edits import EDITS, ROPE, Edit

DESCRIPTIONS: dict[str, Any] = json.loads((ROOT / "snapshots.json").read_text(encoding="utf-8"))


def side(variant: str, edit: Edit | None = None) -> Side:
    text = (ROOT / "snapshots" / f"{variant}.ptx").read_text(encoding="utf-8")
    return Side(variant, text if edit is None else edit.apply(text), DESCRIPTIONS[variant], None, variant)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_the_verdict_is_right(edit: Edit) -> None:
    found = meaning(side(edit.variant), side(edit.variant, edit), ())
    assert found.verdict in edit.verdicts, found
    assert found.tried or found.verdict == "cannot tell"


def test_there_are_edits_of_every_kernel_and_verdict() -> None:
    assert len(EDITS) >= 40
    assert {edit.variant for edit in EDITS} == {
        edit.variant for edit in EDITS if edit.variant in DESCRIPTIONS
    }
    assert len({DESCRIPTIONS[edit.variant]["kernel"] for edit in EDITS}) == 4
    assert {edit.verdicts[0] for edit in EDITS} == set(VERDICTS[1:])


def test_the_example_is_the_smallest_launch() -> None:
    [edit] = [edit for edit in EDITS if edit.name == "swapped stores"]
    found = meaning(side(ROPE), side(ROPE, edit), ())
    assert found.example is not None
    assert found.example.setting == "one row"
    assert found.example.element == "out_ptr[0, 0, 4]"
    assert float(found.example.before) != float(found.example.after)
