"""On any text the parser returns a module or raises its own error, in bounded time."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptxtemplates.errors import PtxSyntaxError
from ptxtemplates.ptx import lint, parse
from tests.ptx.programs import HEADER, OLD_STYLE, kernel

SEEDS = (
    OLD_STYLE,
    kernel(
        "ts: .branchtargets A, B<2>;\nP: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
        "@!p brx.idx r, ts; A: { .reg .pred p; setp.eq.and.s32 p|_, r, 0x1FU, !q; selp.b32 r, -1, s, p; }\n"
        "call (r), rd, (s), P; mov.f32 f, 0f3F800000 /* 1 */; ld.global.v2.b32 { r, _ }, [rd+-8];\n"
        '.pragma "nounroll"; .loc 1 2 3\n bra A; mov.b64 { r, s }, rd;',
        ".global .align 8 .u64 g[2][1] = { {1}, {generic(g)+8} };\n",
    ),
)
PIECES = (
    *"{}[]();,:@!.%/*\"'<>|+-=_\n\t~?09aL$",
    "//",
    "/*",
    "*/",
    ".reg .b32 ",
    ".loc 1 2 3",
    "ts: .branchtargets A<3>;",
    "0f3F800000",
    "@p ",
    "bra A;",
    ".entry k2(",
    "9" * 5000,
    "x<99999>",
    "1e999",
    "(((",
    "{{{",
    "\u00e9",
    "\0",
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        stop = min(len(text), start + draw(st.integers(0, 30)))
        source = draw(st.integers(0, len(text)))
        piece = draw(st.one_of(st.sampled_from(PIECES), st.just(text[source : source + 40]), st.just("")))
        text = text[:start] + piece + text[stop:]
    return text


def survives(text: str) -> None:
    error: PtxSyntaxError | None = None
    try:
        module = parse(text)
    except PtxSyntaxError as raised:
        error = raised
    else:
        lint(module, text)
    assert error is None or (str(error) and 1 <= error.line <= text.count("\n") + 1)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutations_of_valid_text(text: str) -> None:
    survives(text)


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text(text: str) -> None:
    survives(text)
    survives(HEADER + text)
    survives(kernel(text))


@pytest.mark.parametrize(
    "text",
    [
        "/*" * 20000,
        "(" * 20000,
        HEADER + ".entry k(){" + "{" * 5000,
        HEADER + ".entry k(){" + "/*/" * 10000,
        kernel("mov.b32 r, " + "(" * 20000 + ";"),
        kernel("mov.b32 r, " + "-" * 20000 + "1;"),
        kernel("mov.b32 r, " + "1?2:" * 5000 + "3;"),
        kernel("mov.b32 r, " + "{" * 5000 + "}" * 5000 + ";"),
        kernel("mov.b32 " + "[r," * 5000 + ";"),
        kernel('"a' * 10000),
        kernel(".reg .b32 x<999999999999999999>; mov.b32 x5, x999999999999999998;"),
        HEADER + ".global .b32 x[] = " + "{" * 5000 + "}" * 5000 + ";",
    ],
    ids=lambda text: str(len(text)),
)
def test_deep_and_long_text(text: str) -> None:
    survives(text)
