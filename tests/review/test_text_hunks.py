"""Changed lines: where they come from, and once for all places where the same change is made."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from ptxtemplates import render
from ptxtemplates.review.hunks import edits
from ptxtemplates.review.model import Side
from ptxtemplates.review.text import text_change
from ptxtemplates.sources import BUILT_IN_TEMPLATES
from tests.helpers.toy import TEMPLATE, toy
from tests.helpers.variants import KERNELS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ptxtemplates.review.model import TextChange

CHUNK: Final = render(KERNELS["flash_decoding_chunk.d128.h32.c16.kv8.s131072"])
REDUCE: Final = render(KERNELS["flash_decoding_reduce.d128.h32.c16"])


def side(text: str, places: Sequence[tuple[str, int]] | None = None) -> Side:
    return Side("kernel", text, None, places, "kernel.ptx")


def changed(old: str, new: str, places: Sequence[tuple[str, int]] | None = None) -> TextChange:
    """Compare, and check what holds of every comparison."""
    change = text_change(side(old), side(new, places))
    assert change.added == sum(len(hunk.new_lines) * hunk.times for hunk in change.hunks)
    assert change.removed == sum(len(hunk.old_lines) * hunk.times for hunk in change.hunks)
    old_lines, new_lines = old.split("\n"), new.split("\n")
    for hunk in change.hunks:
        assert all(old_lines[number - 1] == line for number, line in hunk.old_lines)
        for lines in (hunk.new_lines, hunk.before, hunk.after):
            assert all(new_lines[number - 1] == line for number, line in lines)
    return change


def lines(change: TextChange) -> list[tuple[int, list[str], list[str]]]:
    return [
        (
            hunk.times,
            [line.strip() for _, line in hunk.old_lines],
            [line.strip() for _, line in hunk.new_lines],
        )
        for hunk in change.hunks
    ]


def test_nothing() -> None:
    assert changed(CHUNK.text, CHUNK.text) == ("same", (), 0, 0)


def test_a_line_its_template_line_and_what_is_around(tmp_path: Path) -> None:
    old = render(toy(tmp_path)).text
    folder = tmp_path / "new"
    folder.mkdir()
    template = TEMPLATE.replace("    add.rn.f32 ", "    // twice\n    add.rz.f32 ")
    new = render(toy(folder, template))
    (hunk,) = changed(old, new.text, new.places).hunks
    number = TEMPLATE.split("\n").index("    add.rn.f32    %value, %value, %value;") + 1
    assert hunk.old_lines == ((number, "    add.rn.f32    %value, %value, %value;"),)
    assert hunk.new_lines == (
        (number, "    // twice"),
        (number + 1, "    add.rz.f32    %value, %value, %value;"),
    )
    assert [line for line, _ in hunk.before] == [number - 3, number - 2, number - 1]
    assert hunk.after == (
        (number + 2, "    st.global.f32 [%x], %value;"),
        (number + 3, "    ret;"),
        (number + 4, "}"),
    )
    assert hunk.places == (("toy.ptx.jinja", number), ("toy.ptx.jinja", number + 1))
    assert hunk.times == 1


def test_lines_that_are_gone_point_at_those_around_or_at_where_they_were() -> None:
    number = next(n for n, line in enumerate(REDUCE.text.split("\n"), 1) if "min.u32      %chunks" in line)
    new_lines, new_places = REDUCE.text.split("\n"), list(REDUCE.places)
    del new_lines[number - 1], new_places[number - 1]
    new = side("\n".join(new_lines), new_places)
    (hunk,) = text_change(side(REDUCE.text), new).hunks
    assert hunk.new_lines == ()
    assert hunk.places == tuple(dict.fromkeys(REDUCE.places[line] for line in (number - 2, number)))
    (hunk,) = text_change(side(REDUCE.text, REDUCE.places), new).hunks
    assert hunk.places == (REDUCE.places[number - 1],)
    (hunk,) = text_change(side(REDUCE.text), side(new.text)).hunks
    assert hunk.places == ()


def test_context_ends_at_the_next_change() -> None:
    old = "\n".join("abcdefgh") + "\n"
    first, second = changed(old, old.replace("c", "C").replace("e", "E")).hunks
    assert [line for _, line in first.before] == ["a", "b"]
    assert [line for _, line in first.after] == ["d"]
    assert [line for _, line in second.before] == ["d"]
    assert [line for _, line in second.after] == ["f", "g", "h"]


@pytest.mark.parametrize(
    ("old", "new", "times"),
    [
        ("mul.rn.f32 %score", "mul.rn.ftz.f32 %score", 4),
        ("add.rn.f32         %score", "add.rn.ftz.f32     %score", 4 * 5),
        ("%q0_even, %k0_even;", "%q0_even, %k0_odd;", 4),
        ("selp.f32     %score", "max.f32 %score", 4),
        (" fma.rn.f32 %acc", " fma.rn.ftz.f32 %acc", 4 * 2),
        (", %k0_even;", ", %k0_even;\n            nop;", 4),
        ("            min.u32      %key", "            // keys\n            min.u32      %key", 4),
        (
            "            min.u32      %key",
            "            max.u32      %key0, %key0, 0;\n            min.u32      %key",
            4,
        ),
    ],
)
def test_the_copies_of_an_unrolled_loop_are_one(old: str, new: str, times: int) -> None:
    assert old in CHUNK.text
    found = changed(CHUNK.text, CHUNK.text.replace(old, new))
    assert [hunk.times for hunk in found.hunks] == [times]


def test_an_instruction_inserted_into_the_loop_of_a_template(tmp_path: Path) -> None:
    shutil.copytree(BUILT_IN_TEMPLATES, tmp_path, dirs_exist_ok=True)
    template = tmp_path / CHUNK.kernel.template
    text = template.read_text(encoding="utf-8")
    line = next(line for line in text.split("\n") if line.lstrip().startswith("setp.le.u32"))
    register = line.split(",")[1].strip()
    assert register.startswith("%key{{")
    inserted = f"        min.u32 {register}, {register}, 4294967295;"
    number = text.split("\n").index(line) + 2
    template.write_text(text.replace(line, f"{line}\n{inserted}"), encoding="utf-8")
    kernel_class: type[Any] = type("Edited", (type(CHUNK.kernel),), {"template_folder": tmp_path})
    new = render(kernel_class(**CHUNK.kernel.parameters))
    for places in (new.places, None):
        found = changed(CHUNK.text, new.text, places)
        assert lines(found) == [(4, [], ["min.u32 %key0, %key0, 4294967295;"])]
        assert found.hunks[0].places == (((CHUNK.kernel.template, number),) if places else ())


@pytest.mark.parametrize(
    "old_and_new",
    [
        pytest.param(
            ("mul.f32 %a0, %b0, 2;|mul.f32 %a1, %b1, 8;", "mul.f32 %a0, %b0, 4;|mul.f32 %a1, %b1, 32;"),
            id="doubled here, fourfold there",
        ),
        pytest.param(
            ("ld.f32 %a0, [%p+0];|ld.f32 %a1, [%p+256];", "ld.f32 %a0, [%p+8];|ld.f32 %a1, [%p+8];"),
            id="moved by 8 here, by -248 there",
        ),
        pytest.param(
            ("mov.f32 %a, %b;|mov.f32 %a, %c;", "mov.f32 %b, %a;|mov.f32 %d, %a;"),
            id="swapped here, another register there",
        ),
        pytest.param(
            ("add.f32 %a0, %a0, %b;|add.f32 %a1, %a1, %b;", "add.f32 %a0, %a0, %c0;|add.f32 %a1, %a0, %c1;"),
            id="another operand in one copy",
        ),
        pytest.param(("add.f32 %a0;|add.f32 %a1;", "add.f64 %a0;|add.f16 %a1;"), id="other types"),
        pytest.param(("nop;|nop;", "mov.f32 %a, 0f3F800000;|mov.f32 %a, 0f40000000;"), id="other floats"),
        pytest.param(("|", "add.u32 %a, %a, 1;|add.u32 %a, %a, 2;"), id="other numbers added"),
        pytest.param(("add.u32 %a, %a, 1;|add.u32 %a, %a, 2;", "|"), id="other numbers gone"),
        pytest.param(("mad24.lo %a;|nop;", "mad.lo %a;|nop2;"), id="opcodes with digits"),
    ],
)
def test_changes_that_look_alike_are_not_one(old_and_new: tuple[str, str]) -> None:
    old, new = (
        "".join(f"{line}\n" for line in ("first", one, "between", "both", other, "last") if line)
        for one, other in (each.split("|") for each in old_and_new)
    )
    assert [hunk.times for hunk in changed(old, new).hunks] == [1, 1]


def test_equal_changes_of_other_template_lines_are_not_one() -> None:
    old = "a\nnop;\nb\nnop;\nc\n"
    new = old.replace("nop", "ret")
    assert [hunk.times for hunk in changed(old, new).hunks] == [2]
    lines_of_template = [("t.jinja", line) for line in (1, 2, 3, 4, 5)]
    assert [hunk.times for hunk in changed(old, new, lines_of_template).hunks] == [1, 1]


def test_a_macro_that_is_called_with_other_registers_is_one_change() -> None:
    old = "a\nmul.f32 %sum, %sum, %one;\nb\nmul.f32 %maximum, %maximum, %two;\nc\n"
    new = old.replace("mul.f32", "mul.rn.f32")
    assert [hunk.times for hunk in changed(old, new).hunks] == [1, 1]
    lines_of_template = [("t.jinja", line) for line in (1, 2, 3, 2, 5)]
    (hunk,) = changed(old, new, lines_of_template).hunks
    assert (hunk.times, hunk.places) == (2, (("t.jinja", 2),))
    # the same template line, and yet another change: the operands are other ones in the second copy
    other = new.replace("%maximum, %two", "%two, %maximum")
    assert [hunk.times for hunk in changed(old, other, lines_of_template).hunks] == [1, 1]


def test_two_calls_of_a_macro_with_other_arguments_now_are_two_changes() -> None:
    lines_of_template = [("t.jinja", line) for line in (1, 9, 3, 9, 5)]
    old = "a\nadd.f32 %sum, %sum, %other;\nb\nadd.f32 %weight, %weight, %other;\nc\n"
    for new in (
        old.replace("%sum", "%maximum").replace("%weight", "%scale"),
        old.replace("%sum", "%x0").replace("%weight", "%x1"),
    ):
        assert [hunk.times for hunk in changed(old, new, lines_of_template).hunks] == [1, 1]
    numbered = old.replace("%sum", "%x0").replace("%weight", "%x2")
    assert [
        hunk.times
        for hunk in changed(numbered, numbered.replace("0", "1").replace("x2", "x5"), lines_of_template).hunks
    ] == [1, 1]
    # inserted ones as well: the first does not show the other's registers
    assert [hunk.times for hunk in changed("a\nb\nc\n", old, lines_of_template).hunks] == [1, 1]


def test_copies_that_touch_each_other_are_told_apart() -> None:
    old = (
        "start\n"
        + "".join(f"mul.f32 %a{n}, %a{n}, %b;\nadd.f32 %c{n}, %c{n}, %a{n};\n" for n in range(8))
        + "end\n"
    )
    new = old.replace("%b", "%rescale").replace("add.f32", "add.rn.f32")
    assert lines(changed(old, new)) == [
        (
            8,
            ["mul.f32 %a0, %a0, %b;", "add.f32 %c0, %c0, %a0;"],
            ["mul.f32 %a0, %a0, %rescale;", "add.rn.f32 %c0, %c0, %a0;"],
        )
    ]
    three = new.replace(", %rescale;\n", ", %rescale;\n// product\n")
    assert [(hunk.times, len(hunk.old_lines), len(hunk.new_lines)) for hunk in changed(old, three).hunks] == [
        (8, 2, 3)
    ]


def test_what_is_added_begins_where_a_block_does() -> None:
    block = "    {\n        nop;\n    }\n"
    (hunk,) = changed("a\n" + block + "b\n", "a\n" + block * 2 + "b\n").hunks
    assert [line for _, line in hunk.new_lines] == ["    {", "        nop;", "    }"]


def test_text_that_is_no_ptx_is_compared_by_lines() -> None:
    change = changed("one\n\x00two\nthree\n", "one\n\x00TWO\nthree\n")
    assert (change.kind, change.added, change.removed) == ("instructions", 1, 1)


def test_lines_end_at_line_feeds_only() -> None:
    change = changed("a\x0bb\u2028c\nd\n", "a\x0bb\u2028c\nD\n")
    assert change.hunks[0].new_lines == ((2, "D"),)
    old = "a\nb\n"
    assert text_change(side(old), side(old.replace("\n", "\r\n"))) == ("instructions", (), 0, 0)


@pytest.mark.parametrize("seed", range(60))
def test_edits_lead_from_one_text_to_the_other(seed: int) -> None:
    rng = random.Random(seed)
    alphabet = "abcdefgh"[: rng.randint(1, 8)]
    old = [rng.choice(alphabet) for _ in range(rng.randint(0, 40))]
    new = list(old)
    for _ in range(rng.randint(0, 10)):
        place = rng.randint(0, len(new))
        new[place : place + rng.randint(0, 3)] = rng.choices(alphabet, k=rng.randint(0, 3))
    found = edits(old, new)
    rebuilt, position, after = [], 0, 0
    for index, edit in enumerate(found):
        rebuilt += old[position : edit.old_start]
        assert len(rebuilt) == edit.new_start
        rebuilt += new[edit.new_start : edit.new_end]
        assert (edit.old_start > position and edit.new_start > after) or not index
        position, after = edit.old_end, edit.new_end
    assert rebuilt + old[position:] == new


def test_long_and_repetitive_texts_are_answered() -> None:
    reduce = KERNELS["flash_decoding_reduce.d256.h8.c128"]
    text = render(replace(reduce, head_dim=512)).text  # type: ignore[call-arg]  # a parameter of this family
    change = changed(text, text.replace("%value", "%v").replace("fma.rn.f32", "fma.rn.ftz.f32"))
    assert change.kind == "instructions"
    assert len(change.hunks) < 12
    many = "nop;\n" * 50_000
    assert changed(many, many + "nop;\n").added == 1
    assert changed(many, "ret;\n" * 50_000).removed == 50_000
    mixed = "".join(f"mov.b32 %r{n % 7}, {n % 11};\n" for n in range(20_000))
    assert changed(mixed, mixed.replace("11", "12").replace("%r3", "%q3")).added > 0
