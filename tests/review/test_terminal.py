"""The report at a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxtemplates.review.model import Change, Comparison, Cost, CostChange
from ptxtemplates.review.terminal import lines
from tests.review.comparisons import (
    HIGHER,
    HOSTILE,
    changed,
    comparison,
    every_kind,
    hostile,
    hunk,
    unchanged,
)

COLOUR = re.compile(r"\x1b\[[0-9;]+m")


def report(found: Comparison, width: int = 100) -> str:
    return "\n".join(lines(found, width=width))


def test_a_whole_report() -> None:
    edit = hunk(["    mul.rn.f32 %y, %x, 2;"], ["    mul.f32 %y, %x, 2;"], times=4)
    spills = CostChange("spill stores", "sm_90", 0, 1_024)
    old = CostChange("registers", "sm_80", 18, "unreadable")
    wrong = changed("scale.w64", "same over the reals", [edit], moved=(HIGHER, spills, old), largest_ulp=2)
    assert report(comparison(wrong, unchanged("scale.w8"))) == (
        """\
same over the reals  scale.w64
  meaning
    why: hashes are equal
    tried: one row
    largest difference: 2 ulp
  cost
    registers     sm_90  18 ->         19  +1 (+5.6%)
    spill stores  sm_90   0 ->      1,024  +1,024
    registers     sm_80  18 -> unreadable
    compared 20 of 24 figures; sm_75: the assembler does not know it
  text: instructions, directives or tables; lines +4 -4
    @@  scale.ptx.jinja:7  x4
     9       // around
    10 -     mul.rn.f32 %y, %x, 2;
    10 +     mul.f32 %y, %x, 2;
    11       // around

main (1a2b3c4) -> working tree: 2 kernels: same over the reals 1, unchanged 1"""
    )


def test_kernels_come_by_importance_and_unchanged_ones_not_at_all() -> None:
    text = report(every_kind())
    found = re.findall(r"^\S.*?  ([a-h]\.\w+)", text, re.MULTILINE)
    assert found == ["d.wrong", "g.removed", "e.unknown", "c.rounding", "b.same", "a.comments", "f.added"]
    assert "h.unchanged" not in text
    assert text.splitlines()[-2:] == [
        "not allowed: d.wrong: results differ",
        (
            "main (1a2b3c4) -> working tree: 8 kernels: results differ 1, cannot tell 1, removed 1, "
            "same over the reals 1, same bits 1, identical machine code 1, added 1, unchanged 1; "
            "2 kernels can break callers; 1 not allowed"
        ),
    ]


def test_what_breaks_callers_is_marked() -> None:
    text = report(every_kind())
    assert "results differ  d.wrong  can break callers\n" in text
    assert "  contract\n    breaking  block: (32, 1, 1) -> (64, 1, 1) (a launch passes the block)\n" in text
    assert "    example: rows 1, seed 0: y[0, 3] was 0.25, is -1.5\n" in text


def test_variants_that_changed_alike_are_shown_once() -> None:
    changes = [
        changed(
            f"v{size}", "same bits", [hunk([f"    add %x, %x, {size};"], [f"    add %x, %x, {size + 8};"])]
        )
        for size in range(100, 120)
    ]
    text = report(comparison(*changes))
    assert text.count("@@") == 1
    assert "same bits  v100\n  the same change in 19 more kernels:\n" in text
    assert "    v119 (119 for 100, 127 for 108)\n" in text
    assert text.endswith("20 kernels: same bits 20")


def test_what_differs_in_a_group_is_said_of_whom() -> None:
    edit = hunk(["a"], ["b"])
    text = report(
        comparison(
            changed("v1", "same bits", [edit], moved=(HIGHER,)),
            changed("v2", "same bits", [edit], tried=("three rows: rows 3", "three rows: rows 3, in place")),
            changed("v3", "same bits", [edit]),
        )
    )
    assert "  meaning of v1, v3\n    why: hashes are equal\n    tried: one row\n" in text
    assert "  meaning of v2\n    why: hashes are equal\n    tried: three rows\n" in text
    assert "  cost of v1\n    registers" in text
    assert "  cost of v2, v3\n    nothing moved; compared 20 of 24 figures" in text


def test_nothing_compared_is_not_nothing_moved() -> None:
    change = changed("a")._replace(cost=Cost((), 0, 24, ("no assembler",)))
    text = report(comparison(change))
    assert "    compared 0 of 24 figures; no assembler\n" in text
    assert "nothing moved" not in text


def test_occupancy_is_a_share() -> None:
    moved = (
        CostChange("occupancy", "sm_90", 0.5, 0.4375),
        CostChange("sectors over ideal", "emulator", 1.5, 1.25),
    )
    text = report(comparison(changed("a", moved=moved)))
    assert "    occupancy           sm_90     50% -> 43.8%  -6.25 points\n" in text
    assert "    sectors over ideal  emulator  1.5 ->  1.25  -0.25 (-16.7%)\n" in text


def test_sentences_are_wrapped_and_lines_of_ptx_are_not() -> None:
    code = f"    // {'x' * 200}"
    change = changed("a", "same bits", [hunk([], [code])], tried=tuple(f"setting {n}" for n in range(40)))
    found = list(lines(comparison(change), width=60))
    assert f"    10 + {code}" in found
    others = [line for line in found[:-1] if code not in line]
    assert max(map(len, others)) <= 60
    assert " ".join(" ".join(others).split()).count("setting ") == 40


def test_nothing_to_compare() -> None:
    assert report(comparison()) == "main (1a2b3c4) -> working tree: 0 kernels"


def test_a_change_without_a_look_is_named() -> None:
    text = report(comparison(Change("a", "changed", None, None)))
    assert text.startswith("cannot tell  a\n")


def test_colour_says_nothing_that_words_do_not() -> None:
    found = list(lines(every_kind(), colour=True))
    assert any("\x1b[1;31mresults differ\x1b[0m" in line for line in found)
    assert any("\x1b[32m+     mul.f32 %y, %x, 2;\x1b[0m" in line for line in found)
    assert [COLOUR.sub("", line) for line in found] == list(lines(every_kind()))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("colour", [False, True])
def test_no_text_moves_the_cursor(text: str, colour: bool) -> None:
    for line in lines(hostile(text), colour=colour):
        shown = COLOUR.sub("", line) if colour else line
        assert shown.replace("\t", "").isprintable(), line


def test_an_escape_is_written_out() -> None:
    text = report(comparison(changed("a", "same bits", [hunk([], ["// \x1b[2Jgone\r\u202e\ttab"])])))
    assert r"10 + // \x1b[2Jgone\r\u202e" + "\ttab" in text


@given(st.text(st.characters()))
def test_any_text_is_shown_on_its_line(text: str) -> None:
    assert all(line.replace("\t", "").isprintable() for line in lines(hostile(text)))
