"""What a launch executes and how it accesses memory, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxtemplates.emulator import Counts
from tests.emulator.bodies import START, run

PROLOGUE = 7
"""Instructions before a body."""


def counted(body: str, **options: Any) -> Counts:
    outcome = run(body, count=True, **options)
    assert outcome.findings == ()
    assert outcome.report.counts is not None
    return outcome.report.counts


def line_of(counts: Counts, line: int) -> Any:
    """Return what the one instruction on a line of the body did."""
    [found] = [each for each in counts.lines if each.line == START + line]
    return found


def test_instructions_of_threads_and_warps() -> None:
    counts = counted(
        "setp.lt.u32 %q, %t, 33;\n@%q add.u32 %b, %t, 1;\n@!%q bra end;\nmov.u32 %c, 1;\nend:\nret;",
        threads=80,
        blocks=3,
    )
    # three warps a block, of which the last has half its threads; 33 threads take the guarded path
    assert [line_of(counts, 1).warps, line_of(counts, 1).threads] == [9, 240]
    assert [line_of(counts, 2).warps, line_of(counts, 2).threads] == [6, 99]
    assert [line_of(counts, 3).warps, line_of(counts, 3).threads] == [6, 141]
    assert [line_of(counts, 4).warps, line_of(counts, 4).threads] == [6, 99]
    # the end is reached together, or by two groups of a warp apart
    assert line_of(counts, 6).threads == 240
    assert counts.threads == 240 * (PROLOGUE + 2) + 99 + 141 + 99
    assert counts.threads == sum(counts.classes.values())
    assert line_of(counts, 3).divergent == counts.divergent_branches == 3


@pytest.mark.parametrize(
    ("predicate", "divergent"),
    [
        ("setp.lt.u32 %q, %t, 64", 0),
        ("setp.lt.u32 %q, %t, 70", 1),
        ("setp.lt.u32 %q, %t, 0", 0),
        ("and.b32 %a, %t, 1;\nsetp.eq.u32 %q, %a, 0", 3),
    ],
)
def test_divergence(predicate: str, divergent: int) -> None:
    counts = counted(f"{predicate};\n@%q bra low;\nmov.u32 %b, 1;\nlow:\nret;", threads=96)
    assert counts.divergent_branches == divergent


def test_divergence_of_a_branch_to_several_places() -> None:
    body = (
        "and.b32 %a, %t, {};\nplaces: .branchtargets A, B;\nbrx.idx %a, places;\nA:\nmov.u32 %b, 1;\nB:\nret;"
    )
    assert counted(body.format(1), threads=64).divergent_branches == 2
    assert counted(body.format(0), threads=64).divergent_branches == 0


def test_loop_parts_once_for_each_round_in_which_some_leave() -> None:
    """Threads leave a loop of 1 to 4 rounds: in rounds 1, 2 and 3 some leave and some stay."""
    counts = counted(
        "and.b32 %a, %t, 3;\nnext:\nsetp.ne.u32 %q, %a, 0;\nsub.u32 %a, %a, 1;\n@%q bra next;\nret;", blocks=2
    )
    assert line_of(counts, 5).divergent == 2 * 3
    assert line_of(counts, 5).threads == 2 * 8 * (3 + 2 + 1)
    assert counts.active_lanes < 32


ACCESSES: dict[str, tuple[str, int, int, int]] = {
    # address of thread t, bytes, sectors and ideal sectors of a warp
    "coalesced": ("mad.wide.u32 %e, %t, 4, %x", 4, 4, 4),
    "one word": ("add.u64 %e, %x, 64", 4, 1, 1),
    "every other word": ("mad.wide.u32 %e, %t, 8, %x", 4, 8, 4),
    "a sector each": ("mad.wide.u32 %e, %t, 32, %x", 4, 32, 4),
    "4 KiB apart": ("mad.wide.u32 %e, %t, 4096, %x", 4, 32, 4),
    "begins within a sector": ("mad.wide.u32 %e, %t, 4, %x;\nadd.u64 %e, %e, 16", 4, 5, 4),
    "pairs of threads share": ("shr.u32 %a, %t, 1;\nmad.wide.u32 %e, %a, 4, %x", 4, 2, 2),
    "backwards": ("xor.b32 %a, %t, 31;\nmad.wide.u32 %e, %a, 4, %x", 4, 4, 4),
    "16 bytes each": ("mad.wide.u32 %e, %t, 16, %x", 16, 16, 16),
    "8 bytes each": ("mad.wide.u32 %e, %t, 8, %x", 8, 8, 8),
    "bytes": ("cvt.u64.u32 %e, %t;\nadd.u64 %e, %x, %e", 1, 1, 1),
    "bytes across a sector": ("cvt.u64.u32 %e, %t;\nadd.u64 %e, %x, %e;\nadd.u64 %e, %e, 31", 1, 2, 1),
}
SPELLED = {1: "u8 %b", 4: "u32 %b", 8: "v2.u32 { %a, %b }", 16: "v4.u32 { %a, %b, %c, %d }"}


@pytest.mark.parametrize("name", ACCESSES)
@pytest.mark.parametrize("generic", [False, True])
def test_sectors(name: str, generic: bool) -> None:
    address, size, sectors, ideal = ACCESSES[name]
    kind, _, registers = SPELLED[size].partition(" ")
    space = "" if generic else ".global"
    array = np.zeros(1 << 18, np.uint8)
    counts = counted(f"{address};\nld{space}.{kind} {registers}, [%e];\nret;", x=array, threads=64, blocks=1)
    line = line_of(counts, address.count("\n") + 2)
    # both warps access alike; those of the second begin where the first end
    assert (line.requests, line.stores, line.space) == (2, False, "global")
    assert (line.sectors, line.ideal_sectors) == (2 * sectors, 2 * ideal)


def test_stores_and_totals() -> None:
    counts = counted(
        "ld.global.u32 %b, [%p];\nst.global.u32 [%x], 1;\nsetp.lt.u32 %q, %t, 4;\n"
        "@%q st.global.u32 [%p], %b;\nret;"
    )
    assert counts.total("sectors", space="global", stores=True) == 1 + 1
    assert line_of(counts, 1).sectors == line_of(counts, 1).ideal_sectors == 4
    assert line_of(counts, 1).bytes == 128
    assert line_of(counts, 2).bytes == 4
    assert line_of(counts, 4).bytes == 16
    assert line_of(counts, 2).stores


def test_access_of_no_thread_counts_nothing() -> None:
    counts = counted("setp.gt.u32 %q, %t, 99;\n@%q ld.global.u32 %b, [%p];\nret;")
    assert (line_of(counts, 2).requests, line_of(counts, 2).sectors, line_of(counts, 2).threads) == (0, 0, 0)


BANKS: dict[str, tuple[str, int, int, int]] = {
    # word offset of thread t, bytes, passes and ideal passes of a warp
    "one after the other": ("mul.lo.u32 %a, %t, 4", 4, 1, 1),
    "every other word": ("mul.lo.u32 %a, %t, 8", 4, 2, 1),
    "every fourth word": ("mul.lo.u32 %a, %t, 16", 4, 4, 1),
    "a column of 32 words": ("mul.lo.u32 %a, %t, 128", 4, 32, 1),
    "a column of 33 words": ("mul.lo.u32 %a, %t, 132", 4, 1, 1),
    "one word for all": ("mov.u32 %a, 128", 4, 1, 1),
    "two words of one bank": ("and.b32 %a, %t, 1;\nmul.lo.u32 %a, %a, 128", 4, 2, 1),
    "halves of words": ("mul.lo.u32 %a, %t, 2", 2, 1, 1),
    "odd stride": ("mul.lo.u32 %a, %t, 12", 4, 1, 1),
    "8 bytes each": ("mul.lo.u32 %a, %t, 8", 8, 2, 2),
    "16 bytes each": ("mul.lo.u32 %a, %t, 16", 16, 4, 4),
    "16 bytes, 32 apart": ("mul.lo.u32 %a, %t, 32", 16, 8, 4),
}


@pytest.mark.parametrize("name", BANKS)
@pytest.mark.parametrize("stores", [False, True])
def test_banks(name: str, stores: bool) -> None:
    address, size, passes, ideal = BANKS[name]
    kind = {2: "u16", 4: "u32", 8: "v2.u32", 16: "v4.u32"}[size]
    registers = {2: "%b", 4: "%b", 8: "{ %b, %b }", 16: "{ %b, %b, %b, %b }"}[size]
    access = f"st.shared.{kind} [%a], {registers}" if stores else f"ld.shared.{kind} {registers}, [%a]"
    if not stores:
        registers = {8: "{ %b, %c }", 16: "{ %b, %c, %d, %n }"}.get(size, registers)
        access = f"ld.shared.{kind} {registers}, [%a]"
    fill = (
        "mov.u32 %b, 7;\nfill:\nshl.b32 %c, %n, 7;\nmad.lo.u32 %c, %t, 4, %c;\nst.shared.u32 [%c], %b;\n"
        "add.u32 %n, %n, 1;\n"
        "setp.lt.u32 %q, %n, 40;\n@%q bra fill;\nbar.sync 0;\n"
    )
    body = f"{fill}{address};\n{access};\nret;"
    outcome = run(body, module=".shared .align 16 .b8 s[8192];", count=True)
    counts = outcome.report.counts
    assert counts is not None
    line = line_of(counts, body.split("\n").index(f"{access};") + 1)
    assert (line.requests, line.space, line.stores) == (1, "shared", stores)
    assert (line.passes, line.ideal_passes) == (passes, ideal)
    assert line.sectors == 0


def test_generic_access_counts_where_it_goes() -> None:
    """To shared memory, with two words of each bank, by the threads that are not sent elsewhere."""
    body = (
        "mul.wide.u32 %e, %t, 8;\nadd.u64 %e, %e, s;\ncvta.shared.u64 %e, %e;\nst.u32 [%e], %t;\n"
        "setp.lt.u32 %q, %t, 16;\nselp.b64 %e, %e, %p, %q;\nld.u32 %b, [%e];\nret;"
    )
    counts = counted(body, module=".shared .align 16 .b8 s[256];")
    line = line_of(counts, 4)
    assert (line.space, line.passes, line.ideal_passes, line.sectors) == ("shared", 2, 1, 0)
    line = line_of(counts, 7)
    # sixteen words of shared memory 8 bytes apart, and 64 bytes of global memory
    assert (line.passes, line.ideal_passes, line.sectors, line.ideal_sectors) == (1, 1, 2, 2)


def test_asynchronous_copy_counts_once() -> None:
    """A request of 512 bytes, moved once: 16 sectors of global memory, 4 passes of shared memory."""
    counts = counted(
        "mul.wide.u32 %e, %t, 16;\nadd.u64 %y, %x, %e;\ncp.async.cg.shared.global [%e], [%y], 16;\n"
        "cp.async.wait_all;\nret;",
        module=".shared .align 16 .b8 s[512];",
        x=np.zeros(128, np.uint32),
    )
    line = line_of(counts, 3)
    assert (line.requests, line.bytes) == (1, 512)
    assert (line.sectors, line.ideal_sectors, line.passes, line.ideal_passes) == (16, 16, 4, 4)


def test_classes() -> None:
    counts = counted(
        "add.u32 %b, %t, 1;\nmov.u32 %c, 2;\nand.b32 %d, %b, %c;\ncvt.rn.f32.u32 %f0, %b;\n"
        "add.f32 %f0, %f0, %f0;\n"
        "ex2.approx.f32 %f1, %f0;\nsetp.eq.u32 %q, %b, 1;\nshfl.sync.idx.b32 %b, %b, 0, 31, -1;\n"
        "bar.sync 0;\n"
        "atom.global.add.u32 %b, [%x], 1;\nst.global.u32 [%p + 128], %d;\nret;",
        x=np.zeros(64, np.uint32),
    )
    expected = {
        "integer": 1 + 2,  # of the prologue: mad.lo, mad.wide
        "move": 1 + 3,
        "load": 2,
        "logic": 1,
        "conversion": 1,
        "floating point": 1,
        "special function": 1,
        "comparison": 1,
        "warp": 1,
        "synchronisation": 1,
        "atomic": 1,
        "store": 1,
        "control": 1,
    }
    assert counts.classes == {name: 32 * number for name, number in expected.items()}


def test_counts_do_not_change_results() -> None:
    body = "ld.global.u32 %b, [%x];\nmad.lo.u32 %b, %b, %i, 3;\nst.global.u32 [%p + 4], %b;\nret;"
    arrays = [np.full(97, 5, np.uint32) for _ in range(2)]
    for array, count in zip(arrays, (False, True), strict=True):
        assert run(body, x=array, blocks=3, count=count).findings == ()
    assert np.array_equal(arrays[0], arrays[1])
    assert run(body, blocks=1, x=np.zeros(97, np.uint32)).report.counts is None
