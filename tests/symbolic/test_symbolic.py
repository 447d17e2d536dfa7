"""Kernels with symbolic data: when two texts have the same terms, and what cannot be followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from ptxtemplates.symbolic import Data, Fixed, RealTerms, Terms, UndecidedError, run
from ptxtemplates.symbolic.residues import PRIMES, of_floats

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER: Final = """\
.version 7.8
.target sm_80
.address_size 64
.global .align 4 .b32 table[4] = { 1, 2, 3, 4 };
.visible .entry kernel(.param .u64 in, .param .u64 out, .param .u64 lengths)
.reqntid 64, 1, 1
{
    .reg .u64 %in, %out, %at, %wide, %wide2;
    .reg .b32 %n<8>, %lane, %length;
    .reg .f32 %a, %b, %c, %d, %e;
    .reg .pred %p, %q;
    .reg .b16 %h<4>;
    .shared .align 4 .b8 tile[256];
    mov.u32 %lane, %tid.x;
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    ld.param.u64 %wide, [lengths];
    ld.global.u32 %length, [%wide];
    mad.wide.u32 %at, %lane, 16, %in;
    ld.global.v4.f32 { %a, %b, %c, %d }, [%at];
    mad.wide.u32 %out, %lane, 4, %out;
"""
FOOTER: Final = "\n    st.global.f32 [%out], %e;\n    ret;\n}\n"

BUFFERS: Final = (
    Data("in", 1024, "f32"),
    Data("out", 256, "f32"),
    Fixed("lengths", np.array([5], np.uint32)),
)


def contents(body: str, domain: Terms, arguments: Sequence[Data | Fixed | int] = BUFFERS) -> list[list[int]]:
    regions = run(HEADER + body + FOOTER, "kernel", (1, 1, 1), (64, 1, 1), arguments, domain)
    out = regions["out"]
    return [domain.contents(out, page).tolist() for page in out.pages.numbers()]


def same(first: str, second: str, kind: type[Terms] = Terms) -> bool:
    return contents(first, kind("old")) == contents(second, kind("new"))


SAME: Final = {
    "registers": ("add.rn.f32 %e, %a, %b;", "mov.f32 %c, %a; add.rn.f32 %e, %c, %b;"),
    "commuted": ("fma.rn.f32 %e, %a, %b, %c;", "fma.rn.f32 %e, %b, %a, %c;"),
    "gathered maxima": (
        "max.f32 %e, %a, %b; max.f32 %e, %e, %c; max.f32 %e, %e, %d;",
        "max.f32 %a, %a, %d; max.f32 %b, %b, %c; max.f32 %e, %a, %b;",
    ),
    "a selection the other way round": (
        "setp.lt.f32 %p, %a, %b; selp.f32 %e, %c, %d, %p;",
        "setp.geu.f32 %p, %a, %b; selp.f32 %e, %d, %c, %p;",
    ),
    "a guard for a selection": (
        "setp.gt.f32 %p, %a, %b; mov.f32 %e, %d; @%p mov.f32 %e, %c;",
        "setp.lt.f32 %p, %b, %a; selp.f32 %e, %c, %d, %p;",
    ),
    "both ways alike": ("mov.f32 %e, %c;", "setp.lt.f32 %p, %a, %b; selp.f32 %e, %c, %c, %p;"),
    "packed and taken apart": (
        "mov.f32 %e, %b;",
        "mov.b64 %wide, { %a, %b }; shr.u32 %n0, %lane, 31; mov.b64 { %n1, %n2 }, %wide; mov.b32 %e, %n2;",
    ),
    "halves of halves": (
        "mov.f32 %e, %a;",
        "mov.b32 %n0, %a; mov.b32 { %h0, %h1 }, %n0; mov.b32 %n1, { %h0, %h1 }; mov.b32 %e, %n1;",
    ),
    "through shared memory": (
        "mov.f32 %e, %a;",
        "shl.b32 %n0, %lane, 2; st.shared.f32 [%n0], %a; bar.sync 0; ld.shared.f32 %e, [%n0];",
    ),
    "two exchanges that undo each other": (
        "mov.f32 %e, %a;",
        "mov.b32 %n0, %a; shfl.sync.bfly.b32 %n1, %n0, 3, 31, -1; shfl.sync.bfly.b32 %e, %n1, 3, 31, -1;",
    ),
    "a loop and what it amounts to": (
        "mov.f32 %e, %a; mov.u32 %n0, 0; again: add.rn.f32 %e, %e, %b; add.u32 %n0, %n0, 1; setp.lt.u32 %p, %n0, 3; @%p bra again;",
        "add.rn.f32 %e, %a, %b; add.rn.f32 %e, %e, %b; add.rn.f32 %e, %e, %b;",
    ),
    "lengths that are known": ("mov.f32 %e, %a;", "setp.lt.u32 %p, %length, 6; selp.f32 %e, %a, %b, %p;"),
    "between lanes of a warp": (
        "mov.f32 %e, %a; mov.b32 %n0, %a; shfl.sync.bfly.b32 %n1, %n0, 1, 31, -1; mov.b32 %e, %n1;",
        "shl.b32 %n0, %lane, 2; st.shared.f32 [%n0], %a; bar.warp.sync -1; xor.b32 %n0, %n0, 4; ld.shared.f32 %e, [%n0];",
    ),
    "through memory of the GPU and a barrier": (
        "mov.f32 %e, %a; shl.b32 %n0, %lane, 2; xor.b32 %n1, %n0, 128; st.shared.f32 [%n0], %a; bar.sync 0; ld.shared.f32 %e, [%n1];",
        "st.global.f32 [%out], %a; bar.sync 0; xor.b32 %n0, %lane, 32; ld.param.u64 %wide, [out]; mad.wide.u32 %wide, %n0, 4, %wide; ld.global.f32 %e, [%wide]; bar.sync 0;",
    ),
    "one value of all lanes": (
        "ld.global.f32 %e, [%in];",
        "ld.global.f32 %e, [%in]; mov.u32 %n0, 0; st.shared.f32 [%n0], %e; bar.sync 0; ld.shared.f32 %e, [%n0];",
    ),
    "lanes that come late": (
        "setp.lt.u32 %p, %lane, 16; @%p bra there; mov.f32 %a, %b; there: mov.b32 %n0, %a; shfl.sync.bfly.b32 %n1, %n0, 16, 31, -1; mov.b32 %e, %n1;",
        "setp.lt.u32 %p, %lane, 16; @%p bra there; bra late; there: mov.b32 %n0, %a; shfl.sync.bfly.b32 %n1, %n0, 16, 31, -1; mov.b32 %e, %n1; bra last; late: mov.f32 %a, %b; bra there; last:",
    ),
    "a known vote": (
        "mov.f32 %e, %a;",
        "setp.lt.u32 %p, %lane, 64; vote.sync.all.pred %q, %p, -1; selp.f32 %e, %a, %b, %q;",
    ),
    "a vote of which lanes there are": (
        "mov.u32 %n0, 0xFFFF0000; mov.b32 %e, %n0;",
        "and.b32 %n1, %lane, 31; setp.ge.u32 %p, %n1, 16; vote.sync.ballot.b32 %n0, %p, -1; mov.b32 %e, %n0;",
    ),
    "a vector over its own address": (
        "mad.wide.u32 %at, %lane, 16, %in; ld.global.v2.f32 { %a, %e }, [%at];",
        "mad.wide.u32 %at, %lane, 16, %in; ld.global.v2.b64 { %at, %wide }, [%at]; mov.b64 { %a, %e }, %at;",
    ),
    "a comparison for equality of any sign": (
        "mov.b32 %n0, %a; mov.b32 %n1, %b; setp.eq.s32 %p, %n0, %n1; selp.f32 %e, %c, %d, %p;",
        "mov.b32 %n0, %a; mov.b32 %n1, %b; setp.ne.u32 %p, %n1, %n0; selp.f32 %e, %d, %c, %p;",
    ),
    "three at once": (
        "max.f32 %e, %a, %b; max.f32 %e, %e, %c;", "max.f32 %e, %c, %a; max.f32 %e, %b, %e;"
    ),
    "a sum of 64 bits with a carry": (
        "mov.b32 %n0, %a; mov.b32 %n1, %b; add.cc.u32 %n2, %n0, %n1; addc.u32 %n3, %n0, 0; mov.b32 %e, %n3;",
        "mov.b32 %n4, %a; mov.b32 %n1, %b; add.cc.u32 %n2, %n1, %n4; addc.u32 %n3, 0, %n4; mov.b32 %e, %n3;",
    ),
    "a table by another way": (
        "mov.u64 %wide, table; ld.global.u32 %n0, [%wide + 8]; mov.b32 %e, %n0;",
        "mov.u64 %wide, table; add.u64 %wide, %wide, 8; ld.global.u32 %n0, [%wide]; mov.b32 %e, %n0;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_same_terms(name: str) -> None:
    assert same(*SAME[name])
    assert same(*SAME[name], RealTerms)


REALLY_SAME: Final = {
    "another order of a sum": (
        "add.rn.f32 %e, %a, %b; add.rn.f32 %e, %e, %c;",
        "add.rn.f32 %e, %b, %c; add.rn.f32 %e, %a, %e;",
    ),
    "a product distributed": (
        "add.rn.f32 %e, %a, %b; mul.rn.f32 %e, %e, %c;",
        "mul.rn.f32 %e, %a, %c; fma.rn.f32 %e, %b, %c, %e;",
    ),
    "a sign turned by its bit": (
        "neg.f32 %e, %a; add.rn.f32 %e, %e, %b;",
        "mov.b32 %n0, %a; xor.b32 %n0, %n0, 0x80000000; mov.b32 %e, %n0; add.rn.f32 %e, %b, %e;",
    ),
    "a quotient": ("div.rn.f32 %e, %a, %b;", "rcp.approx.f32 %e, %b; mul.rn.f32 %e, %a, %e;"),
    "a factor of a power of two": (
        "mul.rn.f32 %e, %a, 0f2F800000;", "mul.rn.f32 %e, %a, 0f37800000; mul.rn.f32 %e, %e, 0f37800000;"
    ),
    "no rounding at all": ("add.rn.f32 %e, %a, %b;", "add.f32 %e, %a, %b;"),
    "another root": ("sqrt.rn.f32 %e, %a;", "sqrt.approx.ftz.f32 %e, %a;"),
}  # fmt: skip


@pytest.mark.parametrize("name", REALLY_SAME)
def test_same_real_numbers_and_other_terms(name: str) -> None:
    assert not same(*REALLY_SAME[name])
    assert same(*REALLY_SAME[name], RealTerms)


OTHER: Final = {
    "an operand": ("sub.rn.f32 %e, %a, %b;", "sub.rn.f32 %e, %b, %a;"),
    "a constant": ("mul.rn.f32 %e, %a, 0f3F800000;", "mul.rn.f32 %e, %a, 0f3F800001;"),
    "a constant by 2^31": ("mul.rn.f32 %e, %a, 0f3F800000;", "mul.rn.f32 %e, %a, 0f4F000000;"),
    "a sign": ("mov.f32 %e, %a;", "neg.f32 %e, %a;"),
    "NaN": ("max.f32 %e, %a, %b;", "max.NaN.f32 %e, %a, %b;"),
    "the kind of maximum": (
        "max.f32 %e, %a, %b; max.f32 %e, %e, %c;",
        "max.f32 %e, %a, %b; mov.b32 %n0, %e; mov.b32 %n1, %c; max.s32 %n0, %n0, %n1; mov.b32 %e, %n0;",
    ),
    "a minimum": ("max.f32 %e, %a, %b;", "min.f32 %e, %a, %b;"),
    "an ordered comparison": (
        "setp.lt.f32 %p, %a, %b; selp.f32 %e, %c, %d, %p;",
        "setp.ltu.f32 %p, %a, %b; selp.f32 %e, %c, %d, %p;",
    ),
    "one lane": ("mov.f32 %e, %a;", "mov.f32 %e, %a; setp.eq.u32 %p, %lane, 37; @%p mov.f32 %e, %b;"),
    "one byte": ("mov.f32 %e, %a;", "mov.b32 %n0, %a; and.b32 %n0, %n0, -256; mov.b32 %e, %n0;"),
    "a neighbour": (
        "mov.f32 %e, %a;",
        "mov.b32 %n0, %a; shfl.sync.down.b32 %n1, %n0, 1, 31, -1; mov.b32 %e, %n1;",
    ),
    "a stored ballot's upper bytes": (
        "setp.gt.f32 %p, %a, %b; vote.sync.ballot.b32 %n0, %p, -1; mov.b32 %e, %n0;",
        "setp.gt.f32 %p, %a, %b; vote.sync.ballot.b32 %n0, %p, -1; and.b32 %n0, %n0, 255; mov.b32 %e, %n0;",
    ),
    "the upper half's comparison": (
        "mov.b32 %n0, %a; mov.b32 %n1, %b; setp.lt.f16x2 %p|%q, %n0, %n1; selp.f32 %e, %c, %d, %q;",
        "mov.b32 %n0, %a; mov.b32 %n1, %b; setp.lt.f16x2 %p|%q, %n0, %n1; selp.f32 %e, %d, %c, %p;",
    ),
    "a maximum for a minimum among others": (
        "max.f32 %a, %a, %b; min.f32 %b, %b, %c; max.f32 %e, %a, %b;",
        "max.f32 %a, %a, %b; min.f32 %b, %b, %c; min.f32 %e, %a, %b;",
    ),
    "a shift of data": ("mov.b32 %n0, %a; shr.s32 %n0, %n0, 3; mov.b32 %e, %n0;",
                        "mov.b32 %n0, %a; shr.u32 %n0, %n0, 3; mov.b32 %e, %n0;"),
    "nothing stored": ("mov.f32 %e, %a;", "mov.f32 %e, %a; setp.gt.u32 %p, %lane, 9; @%p bra over; st.global.f32 [%out], %b; over:"),
    "what is not set": ("mov.f32 %e, 0f00000000;", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in OTHER if name != "nothing stored"])
def test_other_terms(name: str) -> None:
    assert not same(*OTHER[name])
    assert not same(*OTHER[name], RealTerms)


def test_a_later_store_counts() -> None:
    assert same(*OTHER["nothing stored"]), "it is stored over"


def test_what_may_be_contracted_equals_nothing_in_another_text() -> None:
    assert not same("add.f32 %e, %a, %b;", "add.f32 %e, %a, %b;")
    assert same("add.f32 %e, %a, %b;", "add.f32 %e, %a, %b;", RealTerms)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("setp.lt.f32 %p, %a, %b; @%p bra over; mov.f32 %a, %b; over: mov.f32 %e, %a;", "which way it goes"),
        ("mov.b32 %n0, %a; mad.wide.u32 %wide, %n0, 4, %in; ld.global.f32 %e, [%wide];", "depends on data"),
        ("mov.b32 %n0, %a; shfl.sync.idx.b32 %n1, %n0, %n0, 31, -1; mov.b32 %e, %n1;", "which lanes"),
        ("red.global.add.f32 [%out], %a; mov.f32 %e, %a;", "red.global.add.f32"),
        ("mov.u32 %n0, %clock; mov.b32 %e, %n0;", "which no launch fixes"),
        ("again: add.u32 %n0, %lane, 1; bra again;", "still running after"),
        ("setp.eq.u32 %p, %lane, 0; @%p bra over; bar.sync 0; bra last; over: bar.sync 1, 32; last: mov.f32 %e, %a;",
         "a part of the block"),
        ("mov.u32 %n0, %smid; mov.b32 %e, %n0;", "%smid, which no launch fixes"),
        ("griddepcontrol.wait; mov.f32 %e, %a;", "griddepcontrol"),
        ("mov.u64 %wide, table; setp.eq.u32 %p, %lane, 9; @%p st.global.f32 [%wide], %a; mov.f32 %e, %a;", "outlives the launch"),
        # whoever comes last, or first
        ("st.global.f32 [%in], %a; mov.f32 %e, %a;", "different values of several threads"),
        ("setp.gt.f32 %p, %a, %b; @%p st.global.f32 [%in], %a; mov.f32 %e, %a;", "different values of several threads"),
        ("shl.b32 %n0, %lane, 2; st.shared.f32 [%n0], %a; xor.b32 %n0, %n0, 128; ld.shared.f32 %e, [%n0];", "races"),
        ("setp.gt.f32 %p, %a, %b; shl.b32 %n0, %lane, 2; @%p st.shared.f32 [%n0], %a; xor.b32 %n0, %n0, 4; ld.shared.f32 %e, [%n0];", "races"),
        ("shl.b32 %n0, %lane, 2; ld.shared.f32 %e, [%n0]; xor.b32 %n0, %n0, 4; st.shared.f32 [%n0], %a;", "races"),
        ("st.global.f32 [%out], %a; xor.b32 %n0, %lane, 32; ld.param.u64 %wide, [out]; mad.wide.u32 %wide, %n0, 4, %wide; ld.global.f32 %e, [%wide];", "races"),
        ("st.global.f32 [%out], %a; setp.eq.u32 %p, %lane, 63; @%p bra over; st.global.f32 [%out + 4], %b; over: mov.f32 %e, %a;", "races"),
        ("add.u64 %at, %in, 1024; ld.global.f32 %e, [%at];", "belongs to no buffer"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed(body: str, reason: str) -> None:
    with pytest.raises(UndecidedError, match=reason):
        contents(body, Terms("old"))


def test_in_place_is_one_buffer() -> None:
    alias = (Data("in", 1024, "f32"), Data("in", 1024, "f32"), BUFFERS[2])

    def first_page(body: str, program: str) -> list[int]:
        domain = Terms(program)
        regions = run(HEADER + body + FOOTER, "kernel", (1, 1, 1), (64, 1, 1), alias, domain)
        return [int(number) for number in domain.contents(regions["in"], 0)]

    early = "ld.global.f32 %e, [%in + 128]; bar.sync 0;"
    late = "bar.sync 0; st.global.f32 [%out], %a; bar.sync 0; ld.global.f32 %e, [%in + 128]; bar.sync 0;"
    assert first_page(early, "old") == first_page(early, "new")
    assert first_page(early, "old") != first_page(late, "new"), "lane 32 has written there by then"
    assert same(early, late), "apart from each other it makes no difference"


def test_residues_are_exact() -> None:
    for number in map(int, PRIMES):
        assert all(number % divisor for divisor in range(3, 46342, 2)), "prime"
        assert pow(2, (number - 1) // 2, number) == number - 1, "2 generates more than half of the residues"
    values = np.array([1.5, -0.0, 2.0**-149, 2.0**127, -3.0, 0.1], np.float32)
    high, low = (
        (of_floats(values) >> np.uint64(31)) & np.uint64(2**31 - 1),
        of_floats(values) & np.uint64(2**31 - 1),
    )
    for parts, prime in zip((high, low), map(int, PRIMES), strict=True):
        for part, value in zip(parts, values, strict=True):
            mantissa, divisor = float(value).as_integer_ratio()
            assert int(part) == mantissa * pow(divisor, -1, prime) % prime
