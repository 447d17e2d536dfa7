"""How much of a text is said to differ: the least that is true, and never too little."""

from __future__ import annotations

from typing import Final

import pytest

from ptxtemplates import render
from ptxtemplates.review.canonical import kind_of
from tests.helpers.variants import KERNELS

HEAD: Final = ".version 7.0\n.target sm_80\n.address_size 64\n"
TEXT: Final = """\
// a kernel
.visible .entry kernel(
    .param .u64 x_ptr,
    .param .u32 count
)
.reqntid 32, 1, 1
{
    .pragma "nounroll // not a comment";
    .reg .u32 %lane, %count, %unused;
    .reg .u64 %x;
    .reg .f32 %value, %sum;
    .reg .pred %more, %less;
    .shared .f32 buffer[32];
    mov.u32 %lane, %tid.x;
    ld.param.u32 %count, [count];
    ld.param.u64 %x, [x_ptr];
    mov.f32 %sum, 0f3F800000; /* one */
next:
    {
        .reg .f32 %value;
        ld.global.f32 %value, [%x + 16];
        add.rn.f32 %sum, %sum, %value;
    }
    ld.global.f32 %value, [%x];
    sub.rn.f32 %sum, %sum, %value;
    setp.lt.u32 %more, %lane, %count;
    setp.gt.u32 %less, %lane, %count;
    @%more bra next;
    @!%less bra done;
    bra.uni next;
done:
    st.global.v2.f32 [%x], { %sum, %value };
    ret;
}
"""
LOC: Final = ".loc 1 7 3\n    ld.global.f32 %value, [%x];"


def edited(*pairs: tuple[str, str], text: str = TEXT) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


COMMENTS: Final = {
    "another comment": [("// a kernel", "// the kernel")],
    "a comment less": [("// a kernel\n", "")],
    "a comment more, behind an instruction": [("[x_ptr];", "[x_ptr]; // the address")],
    "within an instruction": [("%tid.x", "/* the\n   lane */ %tid.x")],
    "a comment of three lines": [("done:", "/* it\n is\n done */\ndone:")],
    "blank lines": [("done:", "\n\ndone:")],
    "a commented instruction": [("    ret;", "    // trap;\n    ret;")],
    "a marker of the other kind within": [("/* one */", "// /* one")],
    "a quote in a comment": [("/* one */", '/* " */')],
}
NAMES: Final = {
    "a register": [("%lane", "%thread")],
    "a label": [("next", "again")],
    "an unused register": [("%unused", "%idle")],
    "a register and a comment": [("%lane", "%thread"), ("// a kernel", "// the kernel")],
    "two registers of different names swapped everywhere": [
        ("%more", "%swap"), ("%less", "%more"), ("%swap", "%less"),
    ],
    "the inner register, which hid the outer one": [
        (".reg .f32 %value;\n        ld.global.f32 %value, [%x + 16];\n        add.rn.f32 %sum, %sum, %value;",
         ".reg .f32 %inner;\n        ld.global.f32 %inner, [%x + 16];\n        add.rn.f32 %sum, %sum, %inner;"),
    ],
    "a register with the name of a variable, but for its sign": [("%lane", "%buffer")],
}  # fmt: skip
LAYOUT: Final = {
    "indentation": [("    ret;", "  ret;")],
    "two instructions on a line": [("    ret;", ""), ("{ %sum, %value };", "{ %sum, %value }; ret;")],
    "order of declared registers": [("%lane, %count, %unused", "%count, %lane, %unused")],
    "order of declarations": [
        ("    .reg .u64 %x;\n", ""),
        ("    .reg .pred %more", "    .reg .u64 %x;\n    .reg .pred %more"),
    ],
    "an unused register less": [(", %unused", "")],
    "a block": [("    ret;", "    { ret; }")],
    "hexadecimal": [("[%x + 16]", "[%x + 0x10]")],
    "a decimal of the same bits": [("0f3F800000", "1.0")],
    "digits of a literal": [("0f3F800000", "0f3f800000")],
    "line ends": [("\n", "\r\n")],
    "a rename and white space": [("%lane", "%thread"), ("    ret;", "  ret;")],
    "an instruction over two lines": [("[x_ptr];", "\n        [x_ptr];")],
}
INSTRUCTIONS: Final = {
    "a string is no comment": [("nounroll // not a comment", "nounroll // no comment")],
    "the type of a register": [(".reg .f32 %value, %sum", ".reg .b32 %value, %sum")],
    "one register for another": [("sub.rn.f32 %sum, %sum, %value", "sub.rn.f32 %sum, %value, %sum")],
    "a register renamed to another one": [("%less", "%more")],
    "two registers become one": [("@!%less", "@!%more")],
    "two registers swapped in one place": [
        ("@%more bra next;\n    @!%less", "@%less bra next;\n    @!%more"),
    ],
    "a rename that captures the outer register": [
        (".reg .f32 %value;\n        ld.global.f32 %value, [%x + 16];",
         ".reg .f32 %inner;\n        ld.global.f32 %inner, [%x + 16];"),
    ],
    "a rename that the inner block captures": [("%sum", "%value"), (".f32 %value, %value;", ".f32 %value;")],
    "an inner declaration less: the outer register is meant": [("        .reg .f32 %value;\n", "")],
    "a label moved": [("done:\n", ""), ("    ret;", "done:\n    ret;")],
    "labels swapped": [("bra next", "bra swap"), ("bra done", "bra next"), ("bra swap", "bra done")],
    "a guard": [("@!%less", "@%less")],
    "a modifier": [("add.rn.f32", "add.f32")],
    "an offset": [("[%x + 16]", "[%x + 20]")],
    "one ulp": [("0f3F800000", "0f3F800001")],
    "a decimal that must be rounded": [("0f3F800000", "1.1")],
    "the sign of a literal": [("0f3F800000", "0fBF800000")],
    "an integer for a float": [("0f3F800000", "1065353216")],
    "order of instructions": [
        ("    ld.param.u32 %count, [count];\n    ld.param.u64 %x, [x_ptr];\n",
         "    ld.param.u64 %x, [x_ptr];\n    ld.param.u32 %count, [count];\n"),
    ],
    "a comment that swallows an instruction": [("    ret;", "    /* ret; */")],
    "a line comment before an instruction": [("    bra.uni next;", "    // bra.uni next;")],
    "a parameter": [("x_ptr", "y_ptr")],
    "a shared array": [("buffer[32]", "buffer[64]")],
    "the block": [(".reqntid 32", ".reqntid 64")],
    "the visibility": [(".visible ", "")],
    "a special register": [("%tid.x", "%tid.y")],
    "a pair swapped": [("{ %sum, %value }", "{ %value, %sum }")],
    "brackets": [("ld.global.f32 %value, [%x];", "ld.global.f32 %value, %x;")],
    "a debugging line": [("    ld.global.f32 %value, [%x];", f"    {LOC}")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        pytest.param(kind, pairs, id=f"{kind}: {title}")
        for kind, table in (
            ("comments", COMMENTS),
            ("names", NAMES),
            ("layout", LAYOUT),
            ("instructions", INSTRUCTIONS),
        )
        for title, pairs in table.items()
    ],
)
def test_of_an_edit(kind: str, pairs: list[tuple[str, str]]) -> None:
    old, new = HEAD + TEXT, HEAD + edited(*pairs)
    assert kind_of(old, new) == kind
    assert kind_of(new, old) == kind


def test_an_assembler_sees_no_difference_where_none_is_called_one() -> None:
    pytest.importorskip("cuda.bindings.nvjitlink", reason="no assembler here")
    from tests.helpers.assembler import assemble

    cubin = assemble(HEAD + TEXT, "sm_80").cubin
    for title, pairs in (COMMENTS | NAMES | LAYOUT).items():
        assert assemble(HEAD + edited(*pairs), "sm_80").cubin == cubin, title
    assert assemble(HEAD + edited(*INSTRUCTIONS["one ulp"]), "sm_80").cubin != cubin


@pytest.mark.parametrize(
    ("pairs", "kind"),
    [
        ([(".loc 1 7 3", ".loc 1 8 3")], "instructions"),
        ([(".loc 1 7 3", ".loc 1 7 4")], "instructions"),
        ([(".loc 1 7 3", ".loc  1  7  3")], "layout"),
        ([('"a.cu"', '"b.cu"')], "instructions"),
        ([("%value", "%loaded")], "names"),
    ],
)
def test_of_debugging_lines(pairs: list[tuple[str, str]], kind: str) -> None:
    text = HEAD + edited(("    ld.global.f32 %value, [%x];", f"    {LOC}")) + '.file 1 "a.cu"\n'
    assert kind_of(text, edited(*pairs, text=text)) == kind


def test_of_module_scope() -> None:
    table = ".const .f32 table[2] = {0f3F800000, 0f40000000};\n"
    text = HEAD + table + ".visible .entry f()\n{\n    ret;\n}\n"
    assert kind_of(text, text.replace("0f40000000", "0f40000001")) == "instructions"
    assert kind_of(text, text.replace("table", "values")) == "instructions"
    assert kind_of(text, text.replace(", 0f4", ",\n    0f4")) == "layout"
    assert kind_of(text, text.replace("ret", "trap")) == "instructions"
    other = ".visible .entry g()\n{\n    trap;\n}\n"
    first, second = text + other, HEAD + table + other + ".visible .entry f()\n{\n    ret;\n}\n"
    assert kind_of(first, second) == "instructions"


def test_registers_of_a_range() -> None:
    text = HEAD + (
        ".visible .entry f()\n{\n    .reg .b32 %r<4>;\n    mov.b32 %r1, 1;\n    mov.b32 %r2, 2;\n"
        "    add.s32 %r3, %r1, %r2;\n    ret;\n}\n"
    )
    assert kind_of(text, text.replace("%r", "%a")) == "names"
    assert kind_of(text, text.replace("<4>", "<9>")) == "layout"
    assert kind_of(text, text.replace("%r2", "%r0")) == "names"
    assert kind_of(text, text.replace("%r1", "%r2")) == "instructions"
    assert kind_of(text, text.replace("%r1, %r2;", "%r2, %r1;")) == "instructions"
    renumbered = text.replace("%r1", "%t").replace("%r2", "%r1").replace("%t", "%r2")
    assert kind_of(text, renumbered) == "names"


def test_labels_of_two_blocks_of_one_name() -> None:
    block = "    {\n    again:\n        bra again;\n    }\n"
    text = HEAD + ".visible .entry f()\n{\n" + block * 2 + "    ret;\n}\n"
    assert kind_of(text, text.replace("again", "once_more")) == "names"
    assert kind_of(text, text.replace("again", "first", 2)) == "names"
    moved = text.replace("    again:\n        bra again;", "        bra again;\n    again:", 1)
    assert kind_of(text, moved) == "instructions"


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "no PTX",
        HEAD + TEXT[:-40],
        HEAD + TEXT.replace("/* one */", "/* one"),
        HEAD + TEXT.replace('"nounroll', "'nounroll"),
        "\x00\xff",
    ],
)
def test_what_does_not_parse_is_never_called_less_than_changed(broken: str) -> None:
    assert kind_of(broken, HEAD + TEXT) == "instructions"
    assert kind_of(HEAD + TEXT, broken) == "instructions"
    assert kind_of(broken, broken + " ") == "instructions"
    assert kind_of(broken, broken) == "same"


def test_names_that_nothing_declares_mean_nothing_known() -> None:
    undeclared = HEAD + TEXT.replace(", %unused", "").replace("bra.uni next", "mov.u32 %unused, 1")
    assert kind_of(undeclared, undeclared.replace("%unused", "%idle")) == "instructions"


@pytest.mark.parametrize(
    "kernel", {each.name: each for each in KERNELS.values()}.values(), ids=lambda k: k.name
)
def test_every_kernel(kernel: object) -> None:
    text = render(kernel).text  # type: ignore[arg-type]  # pytest's parameters have no types
    assert kind_of(text, text.replace("//", "// note:")) == "comments"
    assert kind_of(text, text.replace("%row", "%batch")) == "names"
    assert kind_of(text, text.replace("    ", "  ")) == "layout"
    assert kind_of(text, text.replace(".rn", "")) == "instructions"
