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
    assert found.tried or found.verdict == "cannot tell" or "the instructions are the same" in found.reason


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
    assert found.example.element == "out_ptr[0, 0, 0]"
    assert float(found.example.before) != float(found.example.after)


EXCHANGE = """\
.version 7.8
.target sm_80
.address_size 64
.visible .entry exchange(.param .u64 x_ptr, .param .u64 out_ptr)
.reqntid 64, 1, 1
{
    .reg .u64 %at, %x;
    .reg .u32 %lane, %own, %other;
    .reg .f32 %value;
    .shared .align 4 .b8 tile[256];
    mov.u32 %lane, %tid.x;
    ld.param.u64 %x, [x_ptr];
    mad.wide.u32 %at, %lane, 4, %x;
    ld.global.f32 %value, [%at];
    mul.lo.u32 %own, %lane, 4;
    st.shared.f32 [%own], %value;
    bar.sync 0;
    xor.b32 %other, %own, 252;
    ld.shared.f32 %value, [%other];
    ld.param.u64 %x, [out_ptr];
    mad.wide.u32 %at, %lane, 4, %x;
    st.global.f32 [%at], %value;
    ret;
}
"""


def exchange(text: str) -> Side:
    """Return a kernel of somebody's own, of two warps, that a block must wait in."""
    pointers = [
        {
            "name": name,
            "type": "u64",
            "role": role,
            "tensor": {"element": "f32", "shape": ["64"], "role": role},
        }
        for name, role in (("x_ptr", "data"), ("out_ptr", "output"))
    ]
    description = {
        "kernel": "exchange", "entry": "exchange", "parameters": pointers, "block": [64, 1, 1], "grid": [1, 1, 1],
        "grid_limits": {}, "shared_memory": 256, "target": "sm_80", "template_parameters": {},
    }  # fmt: skip
    return Side("exchange", text, description, None, "exchange.ptx")


@pytest.mark.parametrize(
    ("before", "after", "verdict", "reason"),
    [
        ("mul.lo.u32 %own, %lane, 4", "shl.b32 %own, %lane, 2", "same bits", "one launch"),
        ("bar.sync 0;", "", "cannot tell", "race"),
        ("252", "248", "results differ", "a result is far from what it was"),
        ("st.global.f32 [%at], %value;", "st.global.f32 [%at], %value; // so", "same bits", "comments"),
        ("mul.lo.u32 %own, %lane, 4", "mul.lo.u32 %own, %lane, 2", "cannot tell", "mistake"),
    ],
    ids=["a shift", "a removed barrier", "another lane", "a comment", "beside its place"],
)
def test_shared_memory(before: str, after: str, verdict: str, reason: str) -> None:
    found = meaning(exchange(EXCHANGE), exchange(EXCHANGE.replace(before, after)), ())
    assert found.verdict == verdict, found
    assert reason in f"{found.reason} {found.tried}"


def test_no_claim_without_a_description() -> None:
    [edit] = [edit for edit in EDITS if edit.name == "commuted factors"]
    found = meaning(side(ROPE)._replace(description=None), side(ROPE, edit), ())
    assert (found.verdict, found.tried) == ("cannot tell", ())
    assert "nothing describes the arguments" in found.reason


def test_a_description_that_makes_no_sense() -> None:
    description = {**DESCRIPTIONS[ROPE], "grid": ["columns", 1, 1]}
    found = meaning(side(ROPE), side(ROPE)._replace(description=description), ())
    assert found.verdict == "cannot tell"
    assert "no launch follows" in found.reason


def test_a_mistake_that_was_mended() -> None:
    found = meaning(exchange(EXCHANGE.replace("bar.sync 0;", "")), exchange(EXCHANGE), ())
    assert found.verdict == "cannot tell"
    assert found.reason.startswith("the old text has a mistake: "), found.reason


def test_a_text_that_cannot_be_read() -> None:
    found = meaning(exchange(EXCHANGE[:400]), exchange(EXCHANGE), ())
    assert found.verdict == "cannot tell"
    found = meaning(exchange(EXCHANGE.replace(".entry exchange", ".entry other")), exchange(EXCHANGE), ())
    assert (found.verdict, found.reason) == ("cannot tell", "the text has no entry 'exchange'")


def test_a_table_with_more_values_than_room() -> None:
    edit = Edit("", ROPE, (("turns[64]", "turns[63]"),), ())
    found = meaning(side(ROPE), side(ROPE, edit), ())
    assert found.verdict == "cannot tell"
    assert found.reason.endswith("turns has more values than its 504 bytes hold")


def test_a_coarser_grid_is_run_as_a_whole_or_not_at_all() -> None:
    description = {**DESCRIPTIONS[ROPE], "grid": [16, "rows", 1]}
    [edit] = [edit for edit in EDITS if edit.name == "commuted factors"]
    new = side(ROPE, edit)._replace(description=description)
    assert "too many to run all of them" in meaning(side(ROPE), new, ()).reason


def test_an_example_that_more_than_rounding_explains_is_looked_for() -> None:
    """The first difference is one of rounding, the important one a NaN with special data."""
    [edit] = [edit for edit in EDITS if edit.name == "a quotient for a reciprocal"]
    found = meaning(side(edit.variant), side(edit.variant, edit), ())
    assert found.reason == "by more than rounding: NaN or infinity on one side alone"
    assert found.example is not None
    assert "nan" in (found.example.before, found.example.after)
