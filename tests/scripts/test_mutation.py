"""Mutants of rendered kernels: that each is what it says, and that `verify` notices a sample of them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.assembly import toolchain
from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.kernels import BatchedRope
from ptxtemplates.ptx import parse
from ptxtemplates.rendering import render
from scripts.mutation import sorting
from scripts.mutation.mutators import MUTATORS, Mutant, drawn, mutants
from scripts.mutation.report import Result, lines_of, ok, values_of
from scripts.mutation.sites import sites_of
from scripts.mutation.sorting import STATES, Sorted, Sorter, sort
from scripts.mutation.variants import VARIANTS

if TYPE_CHECKING:
    from ptxtemplates.kernel import Kernel

SAMPLE = 10
INPUTS = 10**5
SMALL = BatchedRope(num_heads=1, head_dim=4, theta=1e4)
HEADER = ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry f(.param .u64 x)\n{\n"
TEXT = (
    HEADER
    + """\
    .reg .pred %p, %q;
    .reg .u32 %a, %b;
    .reg .f32 %x, %y;
    .reg .u64 %at;
    mov.u32 %a, %tid.x;
again:
    {
        .reg .f32 %inner;
        @%p add.rn.f32 %x, %y, 0f3F800000 /* 1 */;
    }
    ld.param.u64 %at, [x];
    ld.global.v2.f32 { %x, %y }, [%at + 8];
    setp.lt.u32 %q, %a, 7;    // a comment
    @%q bra again;
    bar.sync 0;
    ret;
}
"""
)


def changes_of(line: str, kind: str) -> set[str]:
    """Return what the line of `TEXT` that holds `line` becomes, blanks made one."""
    return {
        " ".join(" ".join(mutant.after).split())
        for mutant in mutants(TEXT, "f")
        if mutant.kind == kind and line in mutant.before[0]
    }


@pytest.mark.parametrize(
    ("line", "kind", "changes"),
    [
        ("add.rn", "opcode", {f"@%p {opcode} %x, %y, 0f3F800000;" for opcode in
                              ("mul.rn.f32", "sub.rn.f32", "add.rz.f32", "add.rm.f32", "add.rp.f32", "add.rn.ftz.f32")}),
        ("add.rn", "float", {f"@%p add.rn.f32 %x, %y, {word};" for word in ("0f3F8020C5", "0f3F7FBE77", "0fBF800000")}),
        ("add.rn", "guard", {f"{guard}add.rn.f32 %x, %y, 0f3F800000;" for guard in ("@!%p ", "", "@%q ")}),
        ("add.rn", "swap", {"@%p add.rn.f32 %x, 0f3F800000, %y;"}),
        ("add.rn", "deletion", {""}),
        ("setp", "integer", {"setp.lt.u32 %q, %a, 8;", "setp.lt.u32 %q, %a, 6;"}),
        ("setp", "opcode", {f"setp.{each} %q, %a, 7;" for each in
                            ("eq.u32", "ne.u32", "le.u32", "gt.u32", "ge.u32", "lt.s32")}),
        ("mov.u32", "operand", {"mov.u32 %b, %tid.x;", "mov.u32 %a, %tid.y;", "mov.u32 %a, %ctaid.x;"}),
        ("v2", "offset", {f"ld.global.v2.f32 {{ %x, %y }}, [%at + {offset}];" for offset in (12, 4, 16)}),
        ("v2", "swap", {"ld.global.v2.f32 { %y, %x }, [%at + 8];"}),
        ("bar", "deletion", {""}),
        ("bar", "order", {"ret; bar.sync 0;"}),
    ],
)  # fmt: skip
def test_a_line_has_these_mutants(line: str, kind: str, changes: set[str]) -> None:
    assert changes_of(line, kind) == changes


def test_registers_of_an_inner_block_are_not_offered_outside() -> None:
    outside = [site for site in sites_of(TEXT, "f") if "add" not in site.opcode]
    assert outside
    assert all("%inner" not in site.registers for site in outside)


def test_instructions_that_share_a_line_are_refused() -> None:
    with pytest.raises(ValueError, match="a line of its own"):
        sites_of(HEADER + "bar.sync 0; ret;\n}\n", "f")


@pytest.mark.parametrize("kernel", VARIANTS, ids=lambda kernel: kernel.variant)
def test_every_mutant_changes_one_place_and_every_instruction_has_some(kernel: Kernel) -> None:
    text = render(kernel).text
    every = mutants(text, kernel.entry)
    lines = text.split("\n")
    for mutant in every:
        changed = [
            number
            for number, (was, now) in enumerate(
                zip(lines, mutant.text(text).split("\n"), strict=True), start=1
            )
            if was != now
        ]
        assert changed
        assert set(changed) <= {mutant.line, mutant.line + len(mutant.after) - 1}
    deleted = {mutant.line for mutant in every if mutant.kind == "deletion"}
    assert deleted == {instruction.line for instruction in parse(text).function(kernel.entry).instructions}
    assert {mutant.kind for mutant in every} >= {*MUTATORS, "order", "directive"} - {"target"}


def test_mutants_and_samples_depend_on_the_seed_alone() -> None:
    text = render(SMALL).text
    every = mutants(text, SMALL.entry, 1)
    assert every == mutants(text, SMALL.entry, 1)
    assert every != mutants(text, SMALL.entry, 2)
    assert drawn(every, 1, 5) == drawn(every, 1, 5) != drawn(every, 2, 5)
    assert len(drawn(every, 1, 5)) == 5
    assert drawn(every, 1, None) == drawn(every, 1, 10**6) == every


def some(*states: str) -> Result:
    text = render(SMALL)
    every = mutants(text.text, SMALL.entry)
    found = (Sorted(mutant, state, "why") for mutant, state in zip(every, states, strict=False))
    return Result(SMALL, text.places, tuple(found))


def test_one_mutant_in_fifty_may_go_unexplained() -> None:
    assert ok([some(*["caught"] * 49, "unexplained")])
    assert ok([some(*["caught"] * 49, "caught late")])
    assert not ok([some(*["caught"] * 48, "unexplained")])
    assert not ok([some(*["caught"] * 49, "unexplained", "caught late")])
    assert not ok([some(*["caught"] * 48, *["rejected"] * 10, "unexplained")])


def test_the_report_counts_and_lists() -> None:
    result = some("caught", "rejected", "rounding-only")
    table, listed = "\n".join(lines_of([result])).split("\n\n", maxsplit=1)
    assert re.search(r"\| batched_rope\.h1\.d4\.theta10000 \| 3 \| 1 \| 0 \(0\.0%\) \| 1 \(50\.0%\)", table)
    assert listed.count("[why]") == 1
    [variant] = values_of([result])["variants"]
    assert {state: variant[state] for state in STATES if variant[state]} == Counter(
        {"caught": 1, "rejected": 1, "rounding-only": 1}
    )
    assert variant["each"][2]["state"] == "rounding-only"


def test_the_report_lists_the_opcodes_of_a_line_together() -> None:
    text = render(SMALL)
    found = tuple(
        Sorted(mutant, "rounding-only")
        for mutant in mutants(text.text, SMALL.entry)
        if mutant.kind in ("opcode", "deletion") and "cvt.rn.f32" in mutant.before[0]
    )
    listed = [line for line in lines_of([Result(SMALL, text.places, found)]) if "cvt.rn.f32.s32" in line]
    assert [line.partition(": ")[2] for line in listed] == [
        "cvt.rn.f32.s32 -> cvt.rz.f32.s32, cvt.rm.f32.s32, cvt.rp.f32.s32, cvt.rn.f32.u32",
        "cvt.rn.f32.s32 %r, %rest; -> (deleted)",
    ]


@pytest.fixture(scope="module")
def assembler() -> str:
    try:
        return toolchain()
    except PtxTemplatesError as error:
        pytest.skip(str(error))


def mutant_of(kernel: Kernel, change: str) -> Mutant:
    """Return the mutant that reads ``line: before -> after``, whatever the line."""
    every = mutants(render(kernel).text, kernel.entry)
    return next(mutant for mutant in every if str(mutant).partition(": ")[2] == change)


NEGATION = "neg.f32 %cross, %cross; -> (deleted)"


@pytest.mark.parametrize(
    ("change", "state", "by"),
    [
        (".global .align 8 .u64 turns[40] = { -> .global .align 9 .u64 turns[40] = {", "rejected", ""),
        ("mul.rn.f32 %cross, %odd, %sine; -> mul.rn.f32 %cross, %sine, %odd;", "identical", ""),
        (NEGATION, "caught", "mismatch"),
        ("mov.u32 %row, %ctaid.y; -> (deleted)", "caught", "finding unset register"),
        (".reqntid 40, 1, 1 -> .reqntid 41, 1, 1", "caught", "error"),
        ("0x28be60db9391054a, -> 0x28be60db9391054b,", "caught", "constants"),
        ("setp.ne.u32 %swap, %bit, 0; -> setp.gt.u32 %swap, %bit, 0;", "equivalent", ""),
        ("mul.rn.f32 %square, %r, %r; -> mul.rz.f32 %square, %r, %r;", "rounding-only", ""),
    ],
)
def test_a_mutant_is_sorted(assembler: str, change: str, state: str, by: str) -> None:
    found = sort(VARIANTS[0], mutant_of(VARIANTS[0], change), INPUTS)
    assert (found.state, by in found.by) == (state, True), found


def test_what_the_cases_miss_is_caught_late(assembler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "cases", lambda *_: [])
    found = Sorter(SMALL, INPUTS).sort(mutant_of(SMALL, NEGATION))
    assert found.state == "caught late"
    assert "mismatch" in found.by


def test_a_mutant_that_breaks_the_emulator_is_unexplained(
    assembler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorter = Sorter(SMALL)
    monkeypatch.setattr(sorting, "run_cases", lambda *_: iter([None]))
    found = sorter.sort(mutant_of(SMALL, NEGATION))
    assert found.state == "unexplained"
    assert found.by.startswith("AttributeError: ")


def test_a_kernel_that_fails_itself_has_no_mutants(assembler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "strict", lambda *_: ("a constant is wrong",))
    with pytest.raises(RuntimeError, match="itself fails: constants"):
        Sorter(SMALL)


@pytest.mark.parametrize("kernel", VARIANTS, ids=lambda kernel: kernel.variant)
def test_a_sample_of_mutants_is_caught_or_sorted(kernel: Kernel, assembler: str) -> None:
    """Of one in a hundred, by a tenth of the inputs; docs/mutation.md has them all, by all inputs."""
    every = mutants(render(kernel).text, kernel.entry)
    found = [sort(kernel, mutant, INPUTS) for mutant in drawn(every, 0, SAMPLE)]
    assert [each for each in found if each.state == "unexplained"] == []
    assert sum(each.state == "caught late" for each in found) <= 1, found
    assert any(each.state == "caught" for each in found)
