"""The machine: control flow, memory, shuffles, and what it reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxtemplates.emulator import Finding, PointerTable, Unwritten, emulate
from ptxtemplates.emulator.operations import UnsupportedInstruction
from ptxtemplates.errors import EmulationError, PtxSyntaxError

HEADER = """.version 7.0
.target sm_80
.address_size 64
.global .u32 table[4] = { 10, 20, 30, 40 };
.visible .entry k(.param .u64 x_ptr, .param .u32 n)
{
    .reg .u32 %t, %block, %n, %a, %b;
    .reg .u64 %x, %p;
    .reg .pred %q, %r;
    mov.u32 %t, %tid.x;
    mov.u32 %block, %ctaid.x;
    ld.param.u64 %x, [x_ptr];
    ld.param.u32 %n, [n];
    mad.lo.u32 %a, %block, 32, %t;
    mad.wide.u32 %p, %a, 4, %x;
"""
FIRST = HEADER.count("\n") + 2
"""Line of the first instruction of a body; `.reqntid` takes one line more."""


def run(body: str, n: int = 0, *, blocks: int = 1, threads: int = 32, x: Any = None, **more: Any) -> Any:
    """Run a body over an array of one u32 a thread; return the array and the findings."""
    array = np.zeros(32 * blocks, np.uint32) if x is None else x
    text = HEADER.replace("{\n    .reg", f".reqntid {threads}\n{{\n    .reg") + body + "\n}\n"
    report = emulate(text, "k", (blocks, 1, 1), (threads, 1, 1), [array, n], **more)
    return array, report.findings


LANES = np.arange(32, dtype=np.uint32)


def test_divergence_and_meeting_again() -> None:
    array, findings = run(
        "setp.lt.u32 %q, %t, 10;\n@%q bra low;\nmov.u32 %b, 7;\nbra end;\nlow:\nmov.u32 %b, 3;\nend:\n"
        "shfl.sync.bfly.b32 %n, %b, 31, 31, -1;\nadd.u32 %b, %b, %n;\nst.global.u32 [%p], %b;\nret;"
    )
    assert findings == ()
    low = LANES < 10
    assert np.array_equal(array, np.where(low, 3, 7) + np.where(low[::-1], 3, 7))


def test_loop_of_another_length_in_each_thread() -> None:
    array, findings = run(
        "mov.u32 %b, 0;\nmov.u32 %n, 0;\nnext:\nadd.u32 %n, %n, %b;\nadd.u32 %b, %b, 1;\n"
        "setp.le.u32 %q, %b, %t;\n@%q bra next;\nst.global.u32 [%p], %n;\nret;"
    )
    assert findings == ()
    assert np.array_equal(array, LANES * (LANES + 1) // 2)


def test_threads_that_return_early() -> None:
    array, findings = run("setp.gt.u32 %q, %t, 4;\n@%q ret;\nst.global.u32 [%p], 1;\nret;")
    assert findings == ()
    assert np.array_equal(array, LANES <= 4)


def test_block_that_is_no_multiple_of_a_warp() -> None:
    array, findings = run("st.global.u32 [%p], 1;\nret;", threads=20)
    assert findings == ()
    assert np.array_equal(array, LANES < 20)


def test_many_blocks_in_waves_and_some_of_them() -> None:
    array, _ = run("st.global.u32 [%p], %a;\nret;", blocks=5000)
    assert np.array_equal(array, np.arange(160_000))
    array, _ = run("st.global.u32 [%p], 1;\nret;", blocks=100, n=0, x=np.zeros(3200, np.uint32))
    assert array.sum() == 3200
    text = HEADER + "st.global.u32 [%p], 1;\nret;\n}\n"
    some = np.zeros(3200, np.uint32)
    emulate(text, "k", (100, 1, 1), (32, 1, 1), [some, 0], blocks=[(3, 0, 0), (99, 0, 0)])
    assert np.flatnonzero(some).tolist() == [*range(96, 128), *range(3168, 3200)]


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ("bfly.b32 %b, %t, 5, 31", LANES ^ 5),
        ("idx.b32 %b, %t, 3, 31", np.full(32, 3)),
        ("up.b32 %b, %t, 4, 0", np.where(LANES >= 4, LANES - 4, LANES)),
        ("down.b32 %b, %t, 4, 31", np.where(LANES + 4 <= 31, LANES + 4, LANES)),
        ("idx.b32 %b, %t, 3, 0x1807", (LANES & 24) | 3),
        ("down.b32 %b, %t, 4, 0x1807", np.where((LANES & 7) + 4 <= 7, LANES + 4, LANES)),
    ],
)
def test_shuffles(operands: str, expected: Any) -> None:
    array, findings = run(f"shfl.sync.{operands}, -1;\nst.global.u32 [%p], %b;\nret;")
    assert findings == ()
    assert np.array_equal(array, expected)


def test_shuffle_tells_whether_the_lane_was_in_range() -> None:
    array, _ = run(
        "shfl.sync.up.b32 %b|%q, %t, 4, 0, -1;\nselp.u32 %b, 1, 0, %q;\nst.global.u32 [%p], %b;\nret;"
    )
    assert np.array_equal(array, LANES >= 4)


def test_module_variables_and_pointer_tables() -> None:
    array, findings = run(
        "and.b32 %b, %t, 3;\nmov.u64 %x, table;\nmad.wide.u32 %x, %b, 4, %x;\nld.global.u32 %b, [%x];\n"
        "st.global.u32 [%p], %b;\nret;"
    )
    assert findings == ()
    assert np.array_equal(array, (LANES & 3) * 10 + 10)
    text = HEADER + (
        "mad.wide.u32 %x, %block, 8, %x;\nld.global.u64 %x, [%x];\nmad.wide.u32 %x, %t, 4, %x;\n"
        "st.global.u32 [%x], %block;\nret;\n}\n"
    )
    arrays = [np.full(32, 99, np.uint32) for _ in range(3)]
    assert emulate(text, "k", (3, 1, 1), (32, 1, 1), [PointerTable(arrays), 0]).findings == ()
    assert [set(each.tolist()) for each in arrays] == [{0}, {1}, {2}]


def only(findings: tuple[Finding, ...], kind: str, line: int) -> Finding:
    assert [(finding.kind, finding.line) for finding in findings] == [(kind, line)]
    return findings[0]


def test_constants_and_signs() -> None:
    array, findings = run(
        "{\n.reg .f32 %f;\n.reg .s8 %h;\n.reg .s64 %w;\nmov.f32 %f, 0f3FC00000;\nadd.f32 %f, %f, 1.5;\n"
        "cvt.rzi.s32.f32 %a, %f;\nmov.u32 %b, 0xfe;\ncvt.s16.s8 %b, %b;\nadd.u32 %a, %a, %b;\n"
        "st.global.u32 [%p], 0x80;\nld.global.s8 %b, [%p];\nadd.u32 %a, %a, %b;\n"
        "st.global.u32 [%p], %a;\n}\nret;"
    )
    assert findings == ()
    assert array.view(np.int32)[0] == 3 - 2 - 128


def test_out_of_bounds_is_reported_with_the_nearest_buffer() -> None:
    _, findings = run("st.global.u32 [%p + 64], 1;\nret;")
    finding = only(findings, "out of bounds", FIRST)
    assert (finding.block, finding.thread) == ((0, 0, 0), (16, 0, 0))
    assert "128 bytes behind the start of x_ptr (128 bytes)" in finding.message


def test_offsets_cut_to_32_bits_meet_nothing() -> None:
    _, findings = run("cvt.u32.u64 %b, %p;\ncvt.u64.u32 %p, %b;\nst.global.u32 [%p], 1;\nret;")
    only(findings, "out of bounds", FIRST + 2)


def test_misaligned_access() -> None:
    _, findings = run("st.global.u32 [%p + 2], 1;\nret;")
    assert {finding.kind for finding in findings} == {"misaligned", "out of bounds"}
    _, findings = run(
        "ld.global.v2.u32 { %a, %b }, [%p];\nadd.u32 %a, %a, %b;\nret;", x=np.zeros(64, np.uint32)
    )
    assert only(findings, "misaligned", FIRST).thread == (1, 0, 0)


def test_register_that_some_threads_have_not_set() -> None:
    _, findings = run("setp.lt.u32 %q, %t, 9;\n@%q mov.u32 %b, 1;\nst.global.u32 [%p], %b;\nret;")
    finding = only(findings, "unset register", FIRST + 2)
    assert finding.thread == (9, 0, 0)
    assert "%b" in finding.message
    _, findings = run("setp.lt.u32 %q, %t, 9;\n@%q mov.u32 %b, 1;\n@%q st.global.u32 [%p], %b;\nret;")
    assert findings == ()
    _, findings = run("st.global.u32 [%p], %b;\nret;")
    only(findings, "unset register", FIRST)


def test_memory_that_nobody_wrote() -> None:
    text = HEADER + "ld.global.u32 %b, [%p];\nst.global.u32 [%p], %b;\nret;\n}\n"
    array = np.zeros(32, np.uint32)
    report = emulate(text, "k", (1, 1, 1), (32, 1, 1), [Unwritten(array), 0])
    only(report.findings, "unwritten memory", FIRST - 1)
    text = HEADER + "st.global.u32 [%p], 5;\nld.global.u32 %b, [%p];\nst.global.u32 [%p], %b;\nret;\n}\n"
    assert emulate(text, "k", (1, 1, 1), (32, 1, 1), [Unwritten(array), 0]).findings == ()


def test_shuffle_from_a_lane_that_is_not_there() -> None:
    body = "mov.u32 %b, 0;\nsetp.lt.u32 %q, %t, 16;\n@%q shfl.sync.bfly.b32 %b, %t, 16, 31, -1;\nst.global.u32 [%p], %b;\nret;"
    only(run(body)[1], "shuffle", FIRST + 2)
    body = "shfl.sync.bfly.b32 %b, %t, 1, 31, 0xffff;\nst.global.u32 [%p], %b;\nret;"
    only(run(body)[1], "shuffle", FIRST)


def test_loop_that_never_ends() -> None:
    with pytest.raises(EmulationError, match=rf"line {FIRST}: still running after 1000 steps"):
        run("next:\nbra next;".replace("next:\n", "next: "), step_limit=1000)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("bar.sync 0;\nret;", "bar.sync"),
        ("atom.global.add.u32 %b, [%p], 1;\nret;", "atom.global.add.u32"),
        ("ld.shared.u32 %b, [%a];\nret;", "only global memory"),
        ("shfl.bfly.b32 %b, %a, 1, 31;\nret;", "only shfl.sync"),
    ],
)
def test_what_is_not_known_is_refused_before_anything_runs(body: str, part: str) -> None:
    array = np.zeros(32, np.uint32)
    with pytest.raises(UnsupportedInstruction, match=part):
        run("st.global.u32 [%p], 1;\n" + body, x=array)
    assert not array.any()


def test_arguments_that_do_not_fit() -> None:
    text = HEADER + "ret;\n}\n"
    with pytest.raises(EmulationError, match="k has 2 parameters, not 1"):
        emulate(text, "k", (1, 1, 1), (32, 1, 1), [0])
    with pytest.raises(EmulationError, match="no entry 'other'"):
        emulate(text, "other", (1, 1, 1), (32, 1, 1), [])
    with pytest.raises(EmulationError, match=r"requires a block of \(64,\), not \(32, 1, 1\)"):
        emulate(
            text.replace("{\n    .reg", ".reqntid 64\n{\n    .reg", 1), "k", (1, 1, 1), (32, 1, 1), [0, 0]
        )
    with pytest.raises(PtxSyntaxError):
        emulate("hello", "k", (1, 1, 1), (32, 1, 1), [])
