"""Blocks of one launch that meet in global memory, and what orders them."""

from __future__ import annotations

import numpy as np
import pytest

from ptxtemplates.emulator import PointerTable, SparseArray, emulate
from tests.emulator.bodies import run

CONFLICT = ["conflict between blocks"]
FIRST = "setp.eq.u32 %q, %i, 0;\nsetp.eq.u32 %r, %block, 1;\nsetp.ne.u32 %s, %t, 0;\n@%s ret;\n"
"""%q: the first thread of all; %r: that of block 1."""

CONFLICTS = {
    "stores of different values": "st.global.u32 [%x], %block;\nret;",
    "stores, by the same threads of each block": "mad.wide.u32 %e, %t, 4, %x;\nst.global.u32 [%e], %i;\nret;",
    "a store and a load": FIRST + "@%q st.global.u32 [%x], 1;\n@%r ld.global.u32 %b, [%x];\nret;",
    "a load and a store": FIRST + "@%r ld.global.u32 %b, [%x];\n@%q st.global.u32 [%x], 1;\nret;",
    "a load of all and a store": FIRST + "ld.global.u32 %b, [%x];\n@%q st.global.u32 [%x], %b;\nret;",
    "a load of all warps and a store": "mad.wide.u32 %e, %t, 4, %x;\nld.global.u32 %b, [%e];\n"
    "setp.eq.u32 %r, %block, 2;\n"
    "@%r st.global.u32 [%e], %b;\nret;",
    "an atomic operation and a plain store": FIRST
    + "@%q st.global.u32 [%x], 1;\n@%r atom.global.add.u32 %b, [%x], 1;\nret;",
    "an atomic operation and a plain load": FIRST
    + "@%q atom.global.add.u32 %b, [%x], 1;\n@%r ld.global.u32 %b, [%x];\nret;",
    "halves of one access": FIRST
    + "@%q st.global.v2.u32 [%x], { 1, 2 };\n@%r ld.global.u32 %b, [%x + 4];\nret;",
    "stores in one instruction, behind fences": "fence.acq_rel.gpu;\n"
    "atom.global.add.u32 %b, [%x + 64], 1;\nst.global.u32 [%x], %block;\nret;",
    "a fence of one block alone": FIRST
    + "@%q st.global.u32 [%x], 1;\n@%q fence.acq_rel.gpu;\n@%r ld.global.u32 %b, [%x];\nret;",
    "generic addresses": FIRST + "@%q st.u32 [%x], 1;\n@%r ld.u32 %b, [%x];\nret;",
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_conflict(name: str) -> None:
    outcome = run(CONFLICTS[name], blocks=3)
    assert set(outcome.kinds) == set(CONFLICT)
    assert run(CONFLICTS[name], blocks=1).findings == ()


@pytest.mark.parametrize("name", CONFLICTS)
def test_conflict_shows_while_counting_too(name: str) -> None:
    """Nothing is found with counts alone, or without them alone."""
    with_counts, without = (run(CONFLICTS[name], blocks=3, count=count).findings for count in (True, False))
    assert [finding.line for finding in with_counts] == [finding.line for finding in without]


NO_CONFLICTS = {
    "words of their own": "ld.global.u32 %b, [%p];\nst.global.u32 [%p], %b;\nret;",
    "bytes of one word": "cvt.u64.u32 %e, %i;\nadd.u64 %e, %x, %e;\nst.global.u8 [%e], %t;\nret;",
    "atomic operations": "atom.global.add.u32 %b, [%x], 1;\nred.global.max.u32 [%x + 4], %t;\nret;",
    "loads": "ld.global.u32 %b, [%x];\nret;",
    "relaxed accesses": "st.relaxed.gpu.global.u32 [%x], %block;\nld.relaxed.gpu.global.u32 %b, [%x];\nret;",
    "volatile accesses": "st.volatile.global.u32 [%x], %block;\nld.volatile.global.u32 %b, [%x];\nret;",
}


@pytest.mark.parametrize("name", NO_CONFLICTS)
def test_no_conflict(name: str) -> None:
    assert run(NO_CONFLICTS[name], blocks=3).findings == ()


MESSAGE = """
    setp.ne.u32 %q, %t, 0;
    @%q ret;
    setp.eq.u32 %q, %block, 0;
    @%q bra give;
spin:
    ld.{acquire}.gpu.global.u32 %b, [%x + 4];
    setp.eq.u32 %q, %b, 0;
    @%q bra spin;
    {behind}
    ld.global.u32 %c, [%x];
    st.global.u32 [%x + 8], %c;
    ret;
give:
    st.global.u32 [%x], 42;
    {before}
    st.{release}.global.u32 [%x + 4], 1;
    ret;"""


@pytest.mark.parametrize(
    ("acquire", "behind", "before", "release"),
    [
        ("acquire", "", "", "release.gpu"),
        ("acquire", "", "", "release.sys"),
        ("relaxed", "fence.acq_rel.gpu;", "fence.acq_rel.gpu;", "relaxed.gpu"),
        ("relaxed", "membar.gl;", "membar.gl;", "relaxed.gpu"),
    ],
)
def test_message(acquire: str, behind: str, before: str, release: str) -> None:
    """One block fills a word and sets a flag that another waits for."""
    body = MESSAGE.format(acquire=acquire, behind=behind, before=before, release=release)
    outcome = run(body, blocks=2, step_limit=5000)
    assert outcome.findings == ()
    assert outcome.array[2] == 42


@pytest.mark.parametrize(
    ("before", "release"),
    [
        ("", "relaxed.gpu"),
        ("", "volatile"),
        ("fence.acq_rel.cta;", "relaxed.gpu"),
        ("membar.cta;", "volatile"),
        ("", "release.cta"),
    ],
)
def test_message_without_a_release(before: str, release: str) -> None:
    """Nothing, or nothing wide enough, keeps the flag behind the word."""
    body = MESSAGE.format(acquire="acquire", behind="", before=before, release=release)
    assert set(run(body, blocks=2, step_limit=5000).kinds) == set(CONFLICT)


def test_last_block_sums() -> None:
    """Blocks leave partial results; the one that counts last reads them all."""
    body = """
        add.u32 %b, %i, 1;
        {redux}
        setp.ne.u32 %q, %t, 0;
        @%q ret;
        mad.wide.u32 %e, %block, 4, %x;
        st.global.u32 [%e], %b;
        {fence}
        atom.global.inc.u32 %c, [%x + 64], 3;
        setp.ne.u32 %q, %c, 3;
        @%q ret;
        {fence}
        ld.global.v4.u32 {{ %a, %b, %c, %d }}, [%x];
        add.u32 %a, %a, %b;
        add.u32 %a, %a, %c;
        add.u32 %a, %a, %d;
        st.global.u32 [%x + 68], %a;
        ret;"""
    redux = "redux.sync.add.u32 %b, %b, -1;"
    outcome = run(body.format(redux=redux, fence="membar.gl;"), blocks=4)
    assert outcome.findings == ()
    assert outcome.array[17] == 128 * 129 // 2
    assert set(run(body.format(redux=redux, fence=""), blocks=4).kinds) == set(CONFLICT)


POINTERS = {
    "a parameter in memory": (
        "{ .param .u64 P; st.param.u64 [P], %x; call f, (P); }\nret;",
        (
            ".func f(.param .u64 P) { .reg .u64 %z; .reg .u32 %v; mov.u32 %v, %ctaid.x; "
            "ld.param.u64 %z, [P]; st.global.u32 [%z], %v; ret; }"
        ),
    ),
    "a register parameter": (
        "call f, (%x);\nret;",
        ".func f(.reg .u64 %z) { .reg .u32 %v; mov.u32 %v, %ctaid.x; st.global.u32 [%z], %v; ret; }",
    ),
    "local memory": (
        ".local .u64 l;\nst.local.u64 [l], %x;\nld.local.u64 %e, [l];\nst.global.u32 [%e], %block;\nret;",
        "",
    ),
    "two parameters at once": ("ld.param.v2.u64 { %y, %e }, [y_ptr];\nst.global.u32 [%e], %block;\nret;", ""),
    "part of a variable": ("mov.u64 %e, v + 4;\nst.global.u32 [%e], %block;\nret;", ".global .u32 v[4];"),
    "a shuffle": (
        (
            "mov.b64 { %a, %b }, %x;\nshfl.sync.idx.b32 %a, %a, 0, 31, -1;\n"
            "shfl.sync.idx.b32 %b, %b, 0, 31, -1;\nmov.b64 %e, { %a, %b };\n"
            "st.global.u32 [%e], %block;\nret;"
        ),
        "",
    ),
}


@pytest.mark.parametrize("name", POINTERS)
def test_pointers_that_come_from_afar(name: str) -> None:
    """Only buffers that stores may reach are watched: whatever way the pointer takes."""
    body, module = POINTERS[name]
    y, z = (np.zeros(8, np.uint32) for _ in range(2))
    parameters = ", .param .align 16 .u64 y_ptr, .param .u64 z_ptr"
    assert run(body, blocks=3, module=module, parameters=parameters, more=(y, z)).kinds == CONFLICT


def test_one_array_for_two_parameters() -> None:
    """In place: what is stored through one parameter is loaded through the other."""
    ptx = """.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .reg .u64 %x, %y;
    .reg .u32 %a, %b;
    ld.param.u64 %x, [x];
    ld.param.u64 %y, [y];
    mov.u32 %a, %ctaid.x;
    xor.b32 %b, %a, 1;
    mad.wide.u32 %x, %a, 4, %x;
    mad.wide.u32 %y, %b, 4, %y;
    ld.global.u32 %a, [%x];
    st.global.u32 [%y], %a;
    ret;
}
"""
    one, other = np.zeros(2, np.uint32), np.zeros(2, np.uint32)
    findings = emulate(ptx, "k", (2, 1, 1), (1, 1, 1), [one, one]).findings
    assert [finding.kind for finding in findings] == CONFLICT
    assert emulate(ptx, "k", (2, 1, 1), (1, 1, 1), [one, other]).findings == ()


def test_buffers_of_a_table() -> None:
    body = "mad.wide.u32 %e, {}, 8, %x;\nld.global.u64 %e, [%e];\nst.global.u32 [%e], %block;\nret;"
    arrays = [np.zeros(4, np.uint32) for _ in range(3)]
    assert run(body.format("%block"), blocks=3, threads=1, x=PointerTable(arrays)).findings == ()
    assert [each[0] for each in arrays] == [0, 1, 2]
    assert run(body.format("%n"), blocks=3, threads=1, x=PointerTable(arrays)).kinds == CONFLICT


@pytest.mark.parametrize("kind", ["u8", "u32"])
def test_sparse_arrays(kind: str) -> None:
    """Terabytes, of which each block touches a little."""
    sparse = SparseArray((1 << 40,), np.uint8)
    body = "mul.wide.u32 %e, {}, 1610612736;\nadd.u64 %e, %x, %e;\nst.global." + kind + " [%e], %block;\nret;"
    assert run(body.format("%block"), blocks=100, threads=1, x=sparse).findings == ()
    assert sparse[1610612736 * 99] == 99
    assert run(body.format("%n"), blocks=3, threads=1, x=SparseArray((1 << 40,), np.uint8)).kinds == CONFLICT


def test_waves_meet_too() -> None:
    """The first block and one that runs much later."""
    body = (
        "setp.eq.u32 %q, %block, 0;\nsetp.eq.u32 %r, %block, 299;\n@%q st.global.u32 [%x], 1;\n"
        "@%r ld.global.u32 %b, [%x];\nret;"
    )
    finding = run(body, blocks=300, threads=1024).only("conflict between blocks", 4)
    assert finding.block == (299, 0, 0)
    assert "(0, 0, 0)" in finding.message
