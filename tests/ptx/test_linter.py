from __future__ import annotations

import pytest

from ptxtemplates.ptx import RULES, lint, parse
from tests.ptx.programs import BODY_LINE, HEADER, OLD_STYLE, kernel


def findings(text: str, *rules: str) -> list[tuple[str, int]]:
    return [(f.rule, f.line) for f in lint(parse(text), text) if not rules or f.rule in rules]


def in_body(body: str, *rules: str, before: str = "") -> list[tuple[str, int]]:
    """Find rules in a kernel's body; lines count from 0 at its start."""
    return [(rule, line - BODY_LINE) for rule, line in findings(kernel(body, before), *rules)]


START = (
    ".reg .b64 %rd0; ld.param.u64 %rd0, [a]; .reg .pred p, q, o; .reg .b32 x, y, n; mov.u32 n, %tid.x;"
    " setp.eq.s32 p, n, 0; setp.eq.s32 o, n, 1;\n"
)


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        pytest.param("st.global.b32 [%rd0], x;", [1], id="never-set"),
        pytest.param("mov.b32 x, 1;\nst.global.b32 [%rd0], x;", [], id="set"),
        pytest.param("st.global.b32 [%rd0], x;\nmov.b32 x, 1;", [1], id="set-later"),
        pytest.param("@p mov.b32 x, 1;\nst.global.b32 [%rd0], x;", [2], id="set-under-p"),
        pytest.param("@p mov.b32 x, 1;\n@p st.global.b32 [%rd0], x;", [], id="set-and-read-under-p"),
        pytest.param("@p mov.b32 x, 1;\n@!p st.global.b32 [%rd0], x;", [2], id="read-under-not-p"),
        pytest.param("@p mov.b32 x, 1;\n@o st.global.b32 [%rd0], x;", [2], id="read-under-another"),
        pytest.param("@p mov.b32 x, 1;\n@!p mov.b32 x, 2;\nst.global.b32 [%rd0], x;", [], id="both-values"),
        pytest.param(
            "@p mov.b32 x, 1;\n@o mov.b32 x, 2;\nst.global.b32 [%rd0], x;", [3], id="two-predicates"
        ),
        pytest.param(
            "@p mov.b32 x, 1;\nsetp.eq.s32 p, n, 5;\n@p st.global.b32 [%rd0], x;",
            [3],
            id="p-redefined-between",
        ),
        pytest.param("@p bra L;\nmov.b32 x, 1;\nL: st.global.b32 [%rd0], x;", [3], id="branch-skips-the-set"),
        pytest.param(
            "@p bra L;\nmov.b32 x, 1;\nL: @!p st.global.b32 [%rd0], x;", [], id="branch-and-guard-agree"
        ),
        pytest.param(
            "@p bra L;\nmov.b32 x, 1;\nL: @p st.global.b32 [%rd0], x;", [3], id="branch-and-guard-differ"
        ),
        pytest.param(
            "@p bra L;\nmov.b32 x, 1;\nL: @p bra M;\nst.global.b32 [%rd0], x;\nM:",
            [],
            id="two-branches-agree",
        ),
        pytest.param(
            "@p bra L;\nmov.b32 x, 1;\nL: @!p bra M;\nst.global.b32 [%rd0], x;\nM:",
            [4],
            id="two-branches-differ",
        ),
        pytest.param(
            "@p bra A;\nmov.b32 x, 1; bra B;\nA: mov.b32 x, 2;\nB: st.global.b32 [%rd0], x;",
            [],
            id="both-sides",
        ),
        pytest.param("@p mov.b32 x, 1;\n@!p ret;\nst.global.b32 [%rd0], x;", [], id="others-returned"),
        pytest.param(
            "@p mov.b32 x, 1;\n@!p bra E;\nst.global.b32 [%rd0], x;\nE:", [], id="others-branched-away"
        ),
        pytest.param(
            "@p mov.b32 x, 1;\nselp.b32 y, x, 0, p;\nst.global.b32 [%rd0], y;", [], id="selp-chooses-set"
        ),
        pytest.param(
            "@p mov.b32 x, 1;\nselp.b32 y, 0, x, p;\nst.global.b32 [%rd0], y;", [2], id="selp-chooses-unset"
        ),
        pytest.param(
            "@p mov.b32 x, 1;\nand.pred q, p, o;\n@q st.global.b32 [%rd0], x;", [], id="conjunction-implies"
        ),
        pytest.param(
            "and.pred q, p, o;\n@p mov.b32 x, 1;\n@!q bra E;\nst.global.b32 [%rd0], x;\nE:",
            [],
            id="conjunction-branch",
        ),
        pytest.param(
            "@p mov.b32 x, 1;\nor.pred q, p, o;\n@q st.global.b32 [%rd0], x;", [3], id="disjunction-does-not"
        ),
        pytest.param(
            "@!p mov.b32 x, 1;\nor.pred q, p, o;\n@!q st.global.b32 [%rd0], x;",
            [],
            id="no-disjunction-implies",
        ),
        pytest.param(
            "not.pred q, p;\n@p mov.b32 x, 1;\n@q mov.b32 x, 2;\nst.global.b32 [%rd0], x;", [], id="not"
        ),
        pytest.param(
            "@p mov.b32 x, 1;\nsetp.lt.and.s32 q, n, 9, p;\n@q st.global.b32 [%rd0], x;",
            [],
            id="setp-and-implies",
        ),
        pytest.param(
            ".reg .pred u, v; setp.lt.s32 u|v, n, 9;\n"
            "@u mov.b32 x, 1;\n@v mov.b32 x, 2;\nst.global.b32 [%rd0], x;",
            [],
            id="setp-pair",
        ),
        pytest.param(
            "@!p bra L;\nM: st.global.b32 [%rd0], n;\n@p mov.b32 x, 1;\nL:", [], id="unused-elsewhere"
        ),
        pytest.param("mov.b32 y, 0;\nL: add.s32 y, y, 1;\nsetp.lt.s32 q, y, n;\n@q bra L;", [], id="loop"),
        pytest.param("L: add.s32 y, y, 1;\nsetp.lt.s32 q, y, n;\n@q bra L;", [1], id="loop-without-start"),
        pytest.param(
            "L: @p bra S;\nadd.s32 y, x, 1;\nS: mov.b32 x, 1;\nsetp.lt.s32 q, n, 3;\n@q bra L;",
            [2],
            id="from-last-round",
        ),
        pytest.param(
            "ts: .branchtargets A, B;\nbrx.idx n, ts;\nA: mov.b32 x, 1;\nB: st.global.b32 [%rd0], x;",
            [4],
            id="brx",
        ),
        pytest.param(
            "mov.b32 x, 1; { .reg .b32 x;\nst.global.b32 [%rd0], x; }", [2], id="inner-of-same-name"
        ),
        pytest.param(
            "ld.global.v2.b32 { x, y }, [%rd0];\nst.global.v2.b32 [%rd0], { x, y };", [], id="vector"
        ),
        pytest.param("shfl.sync.idx.b32 x|q, n, 0, 31, -1;\n@q st.global.b32 [%rd0], x;", [], id="pair"),
        pytest.param("st.global.b32 [x], n;", [1], id="address"),
        pytest.param("red.global.add.u32 [%rd0], x;", [1], id="red-has-no-result"),
        pytest.param("atom.global.add.u32 x, [%rd0], n;\nst.global.b32 [%rd0], x;", [], id="atom"),
        pytest.param("bar.sync x;", [1], id="bar-has-no-result"),
        pytest.param("bar.red.popc.u32 x, 0, n, p;\nst.global.b32 [%rd0], x;", [], id="bar-red"),
        pytest.param("call (x), g, (y);\nst.global.b32 [%rd0], x;", [1], id="call"),
        pytest.param("@q mov.b32 x, 1;", [1], id="guard"),
    ],
)
def test_unset_register(body: str, lines: list[int]) -> None:
    before = ".func (.reg .b32 d) g(.reg .b32 n) { mov.b32 d, n; ret; } "
    found = in_body(START + body, "unset-register", before=before)
    assert found == [("unset-register", line) for line in lines]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("st.global.b32 [%rd0], x;", "x is read but never set: set it first"),
        ("st.global.b32 [%rd0], x;\nmov.b32 x, 1;", "x is read but set only later, at line 8"),
        ("@!p mov.b32 x, 1;\nst.global.b32 [%rd0], x;", "x is read but set at line 7 only under @!p"),
        (
            "@p bra L;\nmov.b32 x, 1;\nL: st.global.b32 [%rd0], x;",
            "x is read but not set when the branch at line 7 is taken",
        ),
        (
            "@p bra L;\nbra M;\nL: mov.b32 x, 1;\nM: @o bra N;\nmov.b32 y, 2;\nN: st.global.b32 [%rd0], x;",
            "x is read but not set when the branch at line 7 is not taken",
        ),
    ],
)
def test_unset_register_names_the_path(body: str, message: str) -> None:
    text = kernel(START + body)
    assert message in [f.message for f in lint(parse(text)) if f.rule == "unset-register"]


def test_a_program_without_scopes() -> None:
    (finding,) = lint(parse(OLD_STYLE), OLD_STYLE)
    assert (finding.rule, finding.line) == ("unset-register", 30)
    assert finding.message == "%rd2 is read but not set when the branch at line 19 is taken"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (".reg .b32 x;", [("unused-register", 0)]),
        (".reg .b32 x<8>;\n.reg .b32 y<8>; mov.b32 y7, 1; st.shared.b32 [y7], 0;", [("unused-register", 0)]),
        (".reg .b32 x,\ny; mov.b32 x, 1; st.shared.b32 [x], 1;", [("unused-register", 1)]),
        (".reg .b32 x;\nmov.b32 x, 1;", [("never-read", 1)]),
        (
            ".reg .b32 x; @!p mov.b32 x, 1;\n.reg .pred p;",
            [("never-read", 0), ("undeclared-name", 0), ("unused-register", 1)],
        ),
        (".reg .b32 x, y; ld.shared.v2.b32 { x, y }, [0]; st.shared.b32 [x], 0;", []),
        (".reg .b32 x; .reg .pred p; shfl.sync.idx.b32 x|p, 1, 0, 31, -1; st.shared.b32 [x], 0;", []),
        (".reg .b32 x; atom.shared.add.u32 x, [0], 1;", []),
        (".reg .b32 x, y; mov.b64 { x, y }, 5; st.shared.b32 [y], 0;", []),
        (".reg .b32 x; ld.volatile.shared.b32 x, [0];", []),
    ],
)
def test_unused_and_never_read(body: str, expected: list[tuple[str, int]]) -> None:
    text = f"{HEADER}.entry k() {{\n\n{body}\nret; }}\n"
    assert [(rule, line - BODY_LINE) for rule, line in findings(text)] == expected


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("mov.b32 r,\n x;", [0]),
        ("mov.u32 r, %tid.x;", []),
        ("mov.u32 r, %tid.q;", [0]),
        ("mov.u32 r, %warp;", [0]),
        ("ld.global.b32 r, [x];", [0]),
        ("mov.b64 { r, x }, 5;", [0]),
        ("@x mov.b32 r, 1;", [0]),
        ("bra x;", [0]),
        ("call x, (y);", [0, 0]),
        ("call k;", []),
        ("call g;", [0]),
        ("{ .reg .b32 x; mov.b32 x, 1; }\nmov.b32 r, x;", [1]),
        ("mov.b32 r, x; .reg .b32 x;", [0]),
    ],
)
def test_undeclared_name(body: str, lines: list[int]) -> None:
    found = in_body(body, "undeclared-name")
    assert found == [("undeclared-name", line) for line in lines]


def test_undeclared_name_in_an_initializer() -> None:
    assert findings(HEADER + ".global .u64 p = missing;\n.global .u64 q = p;") == [("undeclared-name", 4)]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (".reg .b32 x;\n.reg .f32 x;", [1]),
        (".reg .b32 x1;\n.reg .f32 x<2>;", [1]),
        (".reg .f32 x<2>;\n.reg .b32 x1;", [1]),
        (".reg .f32 x<2>;\n.reg .b32 x<3>;", [1]),
        (".reg .b32 x; { .reg .f32 x; }", []),
        ("{ .reg .f32 x; } { .reg .f32 x; } .reg .b32 x;", []),
        ("L:\nL: @p bra L;", [1]),
        ("L: { L: @p bra L; }", []),
        (".reg .b32 x;\nx:", [1]),
        (".reg .b32 a;", [0]),
        ("{ .reg .b32 a; }", []),
        (".shared .b32 x;\n.local .b32 x;", [1]),
    ],
)
def test_duplicate_name(body: str, lines: list[int]) -> None:
    assert in_body(body, "duplicate-name") == [("duplicate-name", line) for line in lines]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (".global .u32 a;\n.global .u32 a;", [5]),
        (".extern .global .u32 a;\n.global .u32 a;", []),
        (".func f;\n.func f { ret; }", []),
        (".func f { ret; }\n.func f { ret; }", [5]),
        (".func f { ret; }\n.func f;", []),
        (".global .u32 f;\n.func f { ret; }", [5]),
    ],
)
def test_duplicate_name_in_a_module(text: str, lines: list[int]) -> None:
    assert findings(HEADER + text) == [("duplicate-name", line) for line in lines]


LACKING = [
    "add.f32 f, f, f;",
    "add.ftz.sat.f32 f, f, f;",
    "sub.f64 f, f, f;",
    "mul.f16x2 r, r, r;",
    "mul.bf16 r, r, r;",
    "add.f32x2 rd, rd, rd;",
    "add.f32.f16 f, f, f;",
    "fma.f32 f, f, f, f;",
    "mad.f32 f, f, f, f;",
    "div.f32 f, f, f;",
    "rcp.ftz.f32 f, f;",
    "sqrt.f32 f, f;",
    "cvt.f32.s32 f, r;",
    "cvt.sat.f32.u32 f, r;",
    "cvt.s32.f32 r, f;",
    "cvt.rn.s32.f32 r, f;",
    "cvt.f16.f32 r, f;",
    "cvt.f32.f64 f, rd;",
    "cvt.satfinite.e4m3x2.f32 r, f, f;",
    "cvt.tf32.f32 r, f;",
]
PRESENT = [
    "add.rn.f32 f, f, f;",
    "fma.rz.ftz.f32 f, f, f, f;",
    "add.s32 r, r, r;",
    "mad.lo.s32 r, r, r, r;",
    "mul.wide.u32 rd, r, r;",
    "div.approx.f32 f, f, f;",
    "div.full.ftz.f32 f, f, f;",
    "div.u32 r, r, r;",
    "rcp.approx.ftz.f64 f, f;",
    "sqrt.rn.f32 f, f;",
    "rsqrt.approx.f32 f, f;",
    "max.f32 f, f, f;",
    "neg.f32 f, f;",
    "cvt.f32.f16 f, r;",
    "cvt.f64.f32 rd, f;",
    "cvt.sat.f32.f32 f, f;",
    "cvt.rni.f32.f32 f, f;",
    "cvt.rzi.ftz.s32.f32 r, f;",
    "cvt.rn.f16x2.f32 r, f, f;",
    "cvt.rn.bf16.f32 r, f;",
    "cvt.rna.tf32.f32 r, f;",
    "cvt.u64.u32 rd, r;",
    "cvt.sat.u8.s32 r, r;",
    "cvt.pack.sat.s8.s32.b32 r, r, r, r;",
    "cvt.rn.satfinite.e4m3x2.f32 r, f, f;",
    "fma.rn.bf16 r, r, r, r;",
]


@pytest.mark.parametrize(("body", "count"), [*((b, 1) for b in LACKING), *((b, 0) for b in PRESENT)])
def test_missing_rounding(body: str, count: int) -> None:
    assert in_body(body, "missing-rounding") == [("missing-rounding", 0)] * count


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (".reg .b64 x; .reg .u32 y; cvt.u64.u32 x, x;", 1),
        (".reg .b64 x; .reg .u32 y; cvt.u64.u32 x, y;", 0),
        (".reg .b64 x; .reg .u32 y; cvt.u32.u64 y, x;", 0),
        (".reg .b32 x; .reg .f32 y; cvt.rn.f32.u16 y, x;", 1),
        (".reg .b16 x; .reg .b32 y; cvt.s32.s8 y, x;", 0),
        (".reg .b32 x; .reg .b32 y; cvt.s32.s8 y, x;", 0),
        (".reg .f32 x; .reg .b32 y; cvt.rn.f16x2.f32 y, x, x;", 0),
        (".reg .b32 x; cvt.u32.u32 x, 5;", 0),
    ],
)
def test_wide_source(body: str, count: int) -> None:
    assert in_body(body, "wide-source") == [("wide-source", 0)] * count


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (".entry k() { }", [4]),
        (".entry k() { .reg .b32 r; mov.b32 r, 1;\n}", [5]),
        (".entry k() { ret; }", []),
        (".entry k() { exit; }", []),
        (".entry k() { trap; }", []),
        (".entry k() { L: bra L; }", []),
        (".func f { .reg .pred p;\n@p ret; }", [5]),
        (".func f { .reg .pred p; @p bra L; ret; L:\n}", [5]),
        (".func f { .reg .pred p; @p bra L; ret; L: ret; }", []),
        (".func die() .noreturn { exit; }\n.func f { call die; }", []),
        (".func die() { ret; }\n.func f { call die; }", [5]),
    ],
)
def test_falls_off_end(text: str, lines: list[int]) -> None:
    assert findings(HEADER + text, "falls-off-end") == [("falls-off-end", line) for line in lines]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("ret;\nmov.b32 r, 1;\nmov.b32 r, 2;\nL: @p bra L;", [1]),
        ("bra L;\nmov.b32 r, 1;\nL: mov.b32 r, 2; bra M;\nmov.b32 r, 1;\nM:", [1, 3]),
        ("@p ret;\nmov.b32 r, 1;", []),
        ("bra L;\nL:", []),
        ("bra L;\nM: ret;\nL: bra M;", [3]),
    ],
)
def test_unreachable(body: str, lines: list[int]) -> None:
    assert in_body(body, "unreachable") == [("unreachable", line) for line in lines]


def test_non_ascii() -> None:
    text = kernel("// caf\u00e9\r\n// tab\t\x7f")
    found = [f for f in lint(parse(text), text) if f.rule == "non-ascii"]
    assert [(f.line - BODY_LINE, f.message) for f in found] == [
        (0, r"character '\xe9' in column 7: PTX is ASCII text"),
        (1, r"character '\x7f' in column 8: PTX is ASCII text"),
    ]
    assert not [f for f in lint(parse(text)) if f.rule == "non-ascii"]


def test_findings_give_the_source_line() -> None:
    text = (
        HEADER
        + '.file 1 "a.cu"\n.entry k() { .reg .f32 f; mov.f32 f, 1.0; .loc 1 7 3\nadd.f32 f, f, f; ret; }'
    )
    (finding,) = lint(parse(text))
    assert finding == ("missing-rounding", "add.f32 lacks a rounding modifier such as .rn", 6, ("a.cu", 7))


def test_rules_are_a_table_for_documentation() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.id == rule.id.lower()
        assert rule.description.endswith(".")
        assert (rule.of_function or rule.of_module) is not None


def test_result_register_unset_on_a_path() -> None:
    text = (
        ".version 7.0\n.target sm_80\n.address_size 64\n.func (.reg .b32 r) f (.reg .b32 a)\n{\n"
        ".reg .pred q;\nsetp.eq.u32 q, a, 0;\n@q mov.u32 r, a;\nret;\n}\n"
    )
    assert [(finding.rule, finding.line) for finding in lint(parse(text))] == [("unset-register", 9)]
    assert lint(parse(text.replace("@q mov.u32 r, a;", "mov.u32 r, a; @q mov.u32 r, 1;"))) == []


def test_crlf_is_no_finding() -> None:
    text = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f()\n{\nret;\n}\n".replace(
        "\n", "\r\n"
    )
    assert lint(parse(text), text) == []
    assert [finding.rule for finding in lint(parse(text), text.replace("ret;", "ret;\r"))] == ["non-ascii"]
