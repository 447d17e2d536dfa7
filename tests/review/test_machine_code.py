"""When two texts count as the same machine code: never when anything differs that a GPU executes."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import pytest

from ptxtemplates.assembly import assemble
from ptxtemplates.assembly.sass import disassemble
from ptxtemplates.errors import AssemblyError, MissingExtraError
from ptxtemplates.review import assembling
from ptxtemplates.review.machine_code import code_of, machine_code
from tests.helpers.variants import KERNELS, ROOT
from tests.review.edits import DIFFER, EDITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.review.edits import Edit

ARCHITECTURES: Final = ("sm_80", "sm_90", "sm_100")
ONE_EACH: Final = {kernel.name: kernel.variant for kernel in KERNELS.values()}
ROPE: Final = ONE_EACH["batched_rope"]
THETAS: Final = ("batched_rope.h32.d128.theta10000", "batched_rope.h32.d128.theta500000")
OTHER_ENTRY: Final = """
.visible .entry other()
{
    .reg .b32 r;
    .shared .b8 s[64];
    mov.u32 r, s;
    st.shared.u32 [r], 1;
    bar.sync 0;
    ret;
}
"""

OWN: Final = """\
.version 7.0
.target sm_80
.address_size 64
.const .align 4 .u32 numbers[4] = { 1, 2, 3, 4 };
.global .align 4 .u32 table[4] = { 5, 6, 7, 8 };
.global .align 4 .u32 later[4] = { 9, 9, 9, 9 };
.global .align 8 .u64 pointers[2] = { table, later };
.func (.reg .u32 result) helper(.reg .u32 given)
{
    .pragma "noinline";
    mad.lo.u32 result, given, given, 3;
    ret;
}
.visible .entry f(.param .u64 out, .param .u32 unused)
.reqntid 64, 1, 1
{
    .reg .u32 %a<4>;
    .reg .u64 %p<4>;
    .shared .align 4 .b8 s[64];
    ld.param.u64  %p0, [out];
    mov.u32       %a0, %tid.x;
    call          (%a1), helper, (%a0);
    ld.const.u32  %a2, [numbers+4];
    add.u32       %a1, %a1, %a2;
    ld.global.u64 %p2, [pointers];
    ld.u32        %a2, [%p2];
    add.u32       %a1, %a1, %a2;
    mov.u32       %a3, s;
    st.shared.u32 [%a3], %a1;
    bar.sync      0;
    ld.shared.u32 %a1, [%a3];
    st.global.u32 [%p0], %a1;
    st.global.u32 [%p0+4], %a2;
    ret;
}
"""
"""Has what the kernels of this package do not: a call, constants, pointers to tables, shared memory."""


def snapshot(variant: str) -> str:
    return (ROOT / f"snapshots/{variant}.ptx").read_text()


def code(text: str, architecture: str, entry: str = "") -> bytes:
    found = machine_code(text, entry, architecture)
    assert isinstance(found, bytes), found
    return found


def sass(text: str, architecture: str) -> dict[str, list[tuple[int, str]]]:
    functions = disassemble(assemble(text, architecture).cubin)
    return {name: [(each.address, each.text) for each in code] for name, code in functions.items()}


# ---- the same


def _declarations_reordered(text: str) -> str:
    """Turn the lines around in every run of register declarations."""
    run = re.compile(r"(?:^[ \t]*\.reg [^\n]*\n){2,}", re.MULTILINE)
    reordered, count = run.subn(lambda match: "".join(reversed(match[0].splitlines(keepends=True))), text)
    assert count
    return reordered


SAME: Final[dict[str, Callable[[str], str]]] = {
    "comments": lambda text: "// new\n" + text.replace(";\n", "; /* said */ // so\n"),
    "no comments": lambda text: re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL),
    "registers": lambda text: re.sub(r"%(?!tid|ctaid|ntid|laneid)(\w+)", r"%zz_\1", text),
    "declarations": _declarations_reordered,
    "a newer PTX version and target": lambda text: re.sub(
        r"\.target \S+", ".target sm_80", re.sub(r"\.version \S+", ".version 7.8", text)
    ),
    "tables": lambda text: re.sub(r"\bturns\b", "zz_other", text),
    "entry": lambda text: re.sub(r"\b(batched_rope|flash_decoding)(_\w+)?\b(?=\()", "other_name", text),
}


@pytest.mark.parametrize(
    ("variant", "edit"),
    [
        (variant, edit)
        for variant in ONE_EACH.values()
        for edit in SAME
        if edit != "tables" or "rope" in variant  # the others have none
    ],
)
def test_names_and_notes_do_not_count(variant: str, edit: str) -> None:
    text = snapshot(variant)
    edited = SAME[edit](text)
    assert edited != text
    for architecture in ARCHITECTURES:
        assert code(edited, architecture) == code(text, architecture), architecture


def test_other_entries_of_a_module_do_not_count() -> None:
    for text, entry in ((snapshot(ROPE), "batched_rope"), (OWN, "f")):
        for architecture in ARCHITECTURES:
            alone = code(text, architecture, entry)
            assert code(text + OTHER_ENTRY, architecture, entry) == alone
            others = re.sub(r"(\.address_size 64\n)", rf"\1{OTHER_ENTRY}", text)
            assert code(others, architecture, entry) == alone
            assert code(others, architecture, "other") != alone


# ---- not the same


def once(before: str, after: str) -> Callable[[str], str]:
    def replace(text: str) -> str:
        assert text.count(before) == 1, before
        return text.replace(before, after)

    return replace


OF_OWN: Final[dict[str, Callable[[str], str]]] = {
    "a constant": once("{ 1, 2, 3, 4 }", "{ 1, 3, 3, 4 }"),
    "a constant that is not read": once("{ 1, 2, 3, 4 }", "{ 1, 2, 3, 5 }"),
    "another constant": once("[numbers+4]", "[numbers+8]"),
    "a table": once("{ 5, 6, 7, 8 }", "{ 5, 6, 7, 9 }"),
    "another table of equal size": once("{ table, later }", "{ later, table }"),
    "another place in a table": once("{ table, later }", "{ table, later+4 }"),
    "what a called function does": once("given, given, 3", "given, given, 4"),
    "shared memory": once("s[64]", "s[128]"),
    "swapped stores": once("[%p0+4], %a2", "[%p0+8], %a2"),
    "the block": once(".reqntid 64,", ".reqntid 128,"),
    "the most threads, not the block": once(".reqntid 64,", ".maxntid 64,"),
    "the type of a parameter": once(".u32 unused", ".u64 unused"),
    "a parameter more": once(".param .u32 unused", ".param .u32 unused, .param .u32 more"),
    "a parameter less": once(", .param .u32 unused", ""),
    "the most registers": once(".reqntid 64, 1, 1", ".reqntid 64, 1, 1\n.maxnreg 40"),
    "a name that others see": lambda text: re.sub(
        r"\btable\b",
        "tables",
        once(".global .align 4 .u32 table", ".visible .global .align 4 .u32 table")(text),
    ),
    "managed memory": once(".global .align 4 .u32 table", ".global .attribute(.managed) .align 4 .u32 table"),
    "a barrier": once("bar.sync      0;", ""),
}


@pytest.mark.parametrize("edit", OF_OWN)
def test_what_is_executed_counts(edit: str) -> None:
    edited = OF_OWN[edit](OWN)
    for architecture in ARCHITECTURES:
        assert code(edited, architecture) != code(OWN, architecture), architecture


def _next_float(match: re.Match[str]) -> str:
    return f"0f{int(match[1], 16) + 1:08X}"


def test_the_last_bit_of_every_constant_and_table_entry_counts() -> None:
    for variant in ONE_EACH.values():
        text = snapshot(variant)
        number = re.compile(r"\b0f([0-9A-Fa-f]{8})\b")
        places = [*number.finditer(text)]
        for place in {places[0].start(): places[0], places[-1].start(): places[-1]}.values():
            edited = text[: place.start()] + _next_float(place) + text[place.end() :]
            for architecture in ARCHITECTURES:
                assert code(edited, architecture) != code(text, architecture), (variant, place[0])
    entries = re.search(r"turns\[\d+\]\s*=\s*\{\s*([^,]+),", snapshot(ROPE))
    assert entries is not None
    whole = snapshot(ROPE)
    entry = re.compile(r"0x([0-9A-Fa-f]+)")
    first = next(entry.finditer(whole, entries.start()))
    other = f"0x{int(first[1], 16) ^ 1:0{len(first[1])}X}"
    edited = whole[: first.start()] + other + whole[first.end() :]
    assert sass(edited, "sm_90") == sass(whole, "sm_90")  # the code alone tells nothing
    for architecture in ARCHITECTURES:
        assert code(edited, architecture) != code(whole, architecture)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_edits(edit: Edit) -> None:
    """Those that change results are never the same, and whatever is the same has the same listing."""
    text = snapshot(edit.variant)
    edited = edit.apply(text)
    for architecture in ("sm_80", "sm_90"):
        same = code(edited, architecture) == code(text, architecture)
        assert not (same and edit.verdicts == DIFFER)
        if same:
            assert sass(edited, architecture) == sass(text, architecture)


def test_dropped_rounding_is_the_same_only_with_the_same_listing() -> None:
    for variant in ONE_EACH.values():
        text = snapshot(variant)
        edited = re.sub(r"\b(add|sub|mul)\.rn\.f32", r"\1.f32", text)
        assert edited != text
        same = code(edited, "sm_90") == code(text, "sm_90")
        assert same == (sass(edited, "sm_90") == sass(text, "sm_90"))


def test_snapshots_against_each_other() -> None:
    variants = (*ONE_EACH.values(), *THETAS, *(name for name in KERNELS if "reduce.d128" in name))
    texts = {variant: snapshot(variant) for variant in variants}
    codes = {variant: code(text, "sm_90") for variant, text in texts.items()}
    listings = {variant: sass(text, "sm_90") for variant, text in texts.items()}
    alike = []
    for first, second in combinations(texts, 2):
        if codes[first] == codes[second]:
            assert listings[first] == listings[second]
        if listings[first] == listings[second] and codes[first] != codes[second]:
            alike.append((first, second))
    assert THETAS in alike  # theta is in the tables alone


# ---- no machine code


@pytest.mark.parametrize(
    ("text", "entry", "reason"),
    [
        ("hello", "", "is no PTX: line 1: "),
        (OWN.replace("bar.sync", "foo.sync"), "f", "does not assemble for sm_80: line 30: "),
        (OWN.split(".func")[0], "", "defines no entry"),
        (OWN + OTHER_ENTRY, "", "defines 2 entries, and nothing says which is meant"),
        (OWN, "nobody", "has no entry nobody"),
        (
            OWN.replace("7.0", "7.8").replace("sm_80", "sm_90"),
            "f",
            "is for sm_90, which does not run on sm_80",
        ),
    ],
)
def test_reasons(text: str, entry: str, reason: str) -> None:
    found = machine_code(text, entry, "sm_80")
    assert isinstance(found, str)
    assert found.startswith(reason)


def test_without_an_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise MissingExtraError("ptxas is not installed: pip install 'ptxtemplates[cuda]'")

    assembling.assembled.cache_clear()
    monkeypatch.setattr(assembling, "assemble", missing)
    found = machine_code(OWN, "f", "sm_80")
    assembling.assembled.cache_clear()
    assert found == "ptxas is not installed: pip install 'ptxtemplates[cuda]'"


def test_what_is_no_cubin_is_refused() -> None:
    with pytest.raises(AssemblyError, match="this is no cubin"):
        code_of(b"hello", "f", ["f"])
