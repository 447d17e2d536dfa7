"""Which line stands beside which, what is marked and folded, and the colours of a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxtemplates.review.page.colours import coloured, html_of
from ptxtemplates.review.page.listing import short_names
from ptxtemplates.review.page.rows import CONTEXT, Row, lines_of, marks, pairs, rows_of, runs_of
from tests.helpers.variants import ROOT

LINES = st.lists(st.sampled_from(["a b c", "a b d", "x", "", "  }", "ret;"]), max_size=12)


@given(LINES, LINES)
def test_every_line_stands_once_and_in_order(old: list[str], new: list[str]) -> None:
    rows = rows_of(old, new)
    assert [row.old for row in rows if row.old] == [*range(1, len(old) + 1)]
    assert [row.new for row in rows if row.new] == [*range(1, len(new) + 1)]
    for row in rows:
        assert row.old or row.new
        if row.same:
            assert row.old
            assert row.new
            assert old[row.old - 1] == new[row.new - 1]
    runs = runs_of(rows)
    assert [row for run in runs for row in run.rows] == rows
    assert all(row.same for run in runs if run.folded for row in run.rows)


def test_like_stands_beside_like() -> None:
    old = ["mul.rn.f32 %a, %b, %c;", "add.u32 %d, %e, 1;"]
    new = ["ld.global.f32 %x, [%y];", "mul.f32 %a, %b, %c;", "add.u32 %d, %e, 2;", "ret;"]
    assert pairs(old, new) == [(0, 1), (1, 2)]
    assert rows_of(old, new) == [
        Row(None, 1, False),
        Row(1, 2, False),
        Row(2, 3, False),
        Row(None, 4, False),
    ]


def test_lines_with_nothing_in_common_stand_below_each_other() -> None:
    assert rows_of(["ret;"], ["mul.f32 %a, %b, %c;"]) == [Row(1, None, False), Row(None, 1, False)]


@pytest.mark.parametrize(
    ("old", "new", "gone", "came"),
    [
        ("mul.rn.f32 %a, %b;", "mul.f32 %a, %b;", [".rn"], []),
        ("add.u32 %a, %b, 1;", "add.u32 %a, %bc, 12;", ["%b", "1"], ["%bc", "12"]),
        # the space that lines up columns is no change of its own, unless there is no other
        ("mul.rn.f32  %a, %b;", "mul.f32     %a, %b;", [".rn"], []),
        ("mov.u32  %a, %b;", "mov.u32 %a, %b;", ["  "], [" "]),
        ("ret;", "mul.f32 %a, %b, %c;", [], []),
        ("a " * 500, "a " * 499 + "b ", [], []),
    ],
)
def test_marks(old: str, new: str, gone: list[str], came: list[str]) -> None:
    marked_old, marked_new = marks(old, new)
    assert [old[start:end] for start, end in marked_old] == gone
    assert [new[start:end] for start, end in marked_new] == came


def test_folds_keep_lines_around_changes() -> None:
    old = [str(number) for number in range(100)]
    new = [*old[:50], "new", *old[51:]]
    runs = runs_of(rows_of(old, new))
    assert [run.folded for run in runs] == [True, False, True]
    assert [len(run.rows) for run in runs] == [50 - CONTEXT, 2 + 2 * CONTEXT, 49 - CONTEXT]
    # a fold of three lines would take as much room as they do
    new = [*old[:50], "new", *old[51 : 51 + 2 * CONTEXT + 3], "newer", *old[52 + 2 * CONTEXT + 3 :]]
    assert [run.folded for run in runs_of(rows_of(old, new))] == [True, False, True]


def test_the_newline_at_the_end_begins_no_line() -> None:
    assert lines_of("a\n\nb\n") == lines_of("a\n\nb") == ["a", "", "b"]


@given(st.text(st.sampled_from('ab.%0f/*\n\r\t {};:@"\x0c\u2028é')))
def test_colours_change_no_character(text: str) -> None:
    lines = ["".join(piece for _, piece in line) for line in coloured(text)]
    assert lines == lines_of(text)


@pytest.mark.parametrize("name", ["flash_decoding_reduce.d128.h32.c16", "batched_rope.h32.d128.theta10000"])
def test_kernels_are_coloured_whole(name: str) -> None:
    text = (ROOT / "snapshots" / f"{name}.ptx").read_text()
    assert ["".join(piece for _, piece in line) for line in coloured(text)] == lines_of(text)


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        (
            "    @%p ld.global.nc.v2.f32 { %a, %b }, [%c + 8];",
            [("k", "ld"), ("t", ".global.nc.v2.f32 "), ("m", "8")],
        ),
        (
            "mov.f32 %x, 0f3F800000 /* 1 */;",
            [("k", "mov"), ("t", ".f32 "), ("m", "0f3F800000 "), ("c", "/* 1 */")],
        ),
        # names that begin like opcodes are names
        ("ld.param.u32 %max, [max_chunks];", [("k", "ld"), ("t", ".param.u32 ")]),
        ("next_tile:", [("l", "next_tile")]),
        ("    @%more bra next_tile; // up", [("k", "bra "), ("c", "// up")]),
        (".reg .pred %tid_small;", [("d", ".reg "), ("t", ".pred ")]),
        (
            "cp.async.bulk.shared::cluster.global [%a];",
            [("k", "cp"), ("t", ".async.bulk.shared::cluster.global ")],
        ),
        ("/* never closed", [("c", "/* never closed")]),
        ("ret;", [("k", "ret")]),
        ("mov.u32 %x, %tid.x;", [("k", "mov"), ("t", ".u32 ")]),
    ],
)
def test_colours(line: str, pieces: list[tuple[str, str]]) -> None:
    [found] = coloured(line)
    assert [piece for piece in found if piece[0]] == pieces


def test_marks_cut_colours_and_are_escaped() -> None:
    [pieces] = coloured("mul.rn.f32 %a<b;")
    assert html_of(pieces, ((3, 6), (12, 15))) == (
        "<span class=k>mul</span><mark><span class=t>.rn</span></mark><span class=t>.f32 </span>"
        "%<mark>a&lt;b</mark>;"
    )
    assert html_of([("", "a\tb\u202e")]) == "a\tb\\u202e"


def test_templates_with_one_name_keep_their_folders() -> None:
    names = short_names(
        ["macros/rotate.jinja", "batched_rope.ptx.jinja", "more/rotate.jinja", "batched_rope.ptx.jinja"]
    )
    assert names == {
        "batched_rope.ptx.jinja": "batched_rope",
        "macros/rotate.jinja": "macros/rotate.jinja",
        "more/rotate.jinja": "more/rotate.jinja",
    }
