"""Which threads run what: branches, loops, calls, ends, and waiting for other threads."""

from __future__ import annotations

import numpy as np
import pytest

from ptxtemplates.emulator import emulate
from ptxtemplates.emulator.operations import UnsupportedInstruction
from tests.emulator.bodies import LANES, START, run, text


def test_divergence_and_meeting_again() -> None:
    outcome = run(
        "setp.lt.u32 %q, %t, 10;\n@%q bra low;\nmov.u32 %b, 7;\nbra end;\nlow:\nmov.u32 %b, 3;\nend:\n"
        "shfl.sync.bfly.b32 %n, %b, 31, 31, -1;\nadd.u32 %b, %b, %n;\nst.global.u32 [%p], %b;\nret;"
    )
    assert outcome.findings == ()
    low = LANES < 10
    assert np.array_equal(outcome.array, np.where(low, 3, 7) + np.where(low[::-1], 3, 7))


def test_loop_of_another_length_in_each_thread() -> None:
    outcome = run(
        "mov.u32 %b, 0;\nmov.u32 %n, 0;\nnext:\nadd.u32 %n, %n, %b;\nadd.u32 %b, %b, 1;\n"
        "setp.le.u32 %q, %b, %t;\n@%q bra next;\nst.global.u32 [%p], %n;\nret;"
    )
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, LANES * (LANES + 1) // 2)


def test_threads_that_return_early() -> None:
    outcome = run("setp.gt.u32 %q, %t, 4;\n@%q ret;\nst.global.u32 [%p], 1;\nret;")
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, LANES <= 4)


@pytest.mark.parametrize("threads", [1, 20, 33, 1024])
def test_blocks_of_any_size(threads: int) -> None:
    outcome = run("st.global.u32 [%p], %i;\nret;", threads=threads, blocks=2)
    assert outcome.findings == ()
    assert outcome.array.tolist() == list(range(2 * threads))


def test_threads_are_numbered_x_first() -> None:
    block = (3, 5, 7)
    outcome = run(
        "mov.u32 %a, %tid.z;\nmov.u32 %b, %ntid.y;\nmov.u32 %c, %tid.y;\nmad.lo.u32 %a, %a, %b, %c;\n"
        "mov.u32 %b, %ntid.x;\nmad.lo.u32 %a, %a, %b, %t;\nmov.u32 %b, %laneid;\nmov.u32 %c, %warpid;\n"
        "mad.lo.u32 %b, %c, 32, %b;\nmad.wide.u32 %p, %a, 4, %x;\nst.global.u32 [%p], %b;\nret;",
        threads=block,
    )
    assert outcome.findings == ()
    assert outcome.array.tolist() == list(range(105))


def test_lane_masks_and_extents() -> None:
    names = ("lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge", "nwarpid", "nctaid.x")
    reads = "".join(
        f"mov.u32 %b, %{name};\nst.global.u32 [%e + {4 * number}], %b;\n" for number, name in enumerate(names)
    )
    outcome = run(f"mad.wide.u32 %e, %t, 28, %x;\n{reads}ret;", threads=40, x=np.zeros((40, 7), np.uint32))
    assert outcome.findings == ()
    for thread in range(40):
        lane = thread % 32
        eq, below = 1 << lane, (1 << lane) - 1
        every = (1 << 32) - 1
        assert outcome.array[thread].tolist() == [
            eq,
            below,
            below | eq,
            every - (below | eq),
            every - below,
            2,
            1,
        ]


def test_many_blocks_in_waves_and_some_of_them() -> None:
    assert np.array_equal(run("st.global.u32 [%p], %i;\nret;", blocks=5000).array, np.arange(160_000))
    some = np.zeros(3200, np.uint32)
    ptx = text("st.global.u32 [%p], 1;\nret;")
    emulate(ptx, "k", (100, 1, 1), (32, 1, 1), [some, 0], blocks=[(3, 0, 0), (99, 0, 0)])
    assert np.flatnonzero(some).tolist() == [*range(96, 128), *range(3168, 3200)]


def test_grid_of_three_extents() -> None:
    ptx = text(
        "mov.u32 %a, %ctaid.z;\nmov.u32 %b, %nctaid.y;\nmov.u32 %c, %ctaid.y;\nmad.lo.u32 %a, %a, %b, %c;\n"
        "mov.u32 %b, %nctaid.x;\nmad.lo.u32 %a, %a, %b, %block;\nmad.wide.u32 %p, %a, 4, %x;\n"
        "st.global.u32 [%p], %a;\nret;"
    )
    array = np.zeros(24, np.uint32)
    assert emulate(ptx, "k", (2, 3, 4), (1, 1, 1), [array, 0]).findings == ()
    assert array.tolist() == list(range(24))


def test_branch_to_one_of_several_places() -> None:
    body = (
        "and.b32 %a, %t, 3;\nsetp.lt.u32 %q, %t, 30;\nplaces: .branchtargets A, B, A;\nmov.u32 %b, 9;\n"
        "@%q brx.idx %a, places;\nmov.u32 %b, 8;\n"
        "bra end;\nA:\nmov.u32 %b, 1;\nbra end;\nB:\nmov.u32 %b, 2;\nend:\nst.global.u32 [%p], %b;\nret;"
    )
    outcome = run(body)
    outcome.only("out of bounds", 5)
    assert outcome.array.tolist() == [(1, 2, 1, 8)[lane % 4] if lane < 30 else 8 for lane in range(32)]
    assert run(body.replace("%t, 3;", "%t, 1;", 1)).findings == ()


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("st.global.u32 [%p], 1;", 1),
        ("st.global.u32 [%p], 1;\nbra end;\nend:", 1),
        ("setp.lt.u32 %q, %t, 40;\n@%q bra end;\nst.global.u32 [%p], 1;\nend:", 0),
        ("", 0),
    ],
)
def test_end_of_the_body_ends_the_thread(body: str, value: int) -> None:
    outcome = run(body)
    assert outcome.findings == ()
    assert set(outcome.array.tolist()) == {value}


def test_kernel_without_instructions() -> None:
    ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n}\n"
    assert emulate(ptx, "k", (2, 1, 1), (32, 1, 1), []).findings == ()


def test_labels_and_registers_of_inner_scopes() -> None:
    outcome = run(
        "mov.u32 %a, 0;\n{ again: add.u32 %a, %a, 1; setp.lt.u32 %q, %a, 3; @%q bra again; }\n"
        "{ .reg .u32 %a; mov.u32 %a, 100; again: add.u32 %a, %a, 1; setp.lt.u32 %q, %a, 105; @%q bra again;\n"
        "  { .reg .pred %a; setp.eq.u32 %a, %t, 0; @%a st.global.u32 [%x + 4], 7; }\n"
        "  st.global.u32 [%x + 8], %a; }\n"
        "st.global.u32 [%x], %a;\nret;",
        threads=1,
        x=np.zeros(3, np.uint32),
    )
    assert outcome.findings == ()
    assert outcome.array.tolist() == [3, 7, 105]


def test_text_with_crlf_and_comments() -> None:
    ptx = text("/* two\nlines */ st.global.u32 [%p], // first\n    %t; /* ; */ ret;").replace("\n", "\r\n")
    array = np.zeros(32, np.uint32)
    assert emulate(ptx, "k", (1, 1, 1), (32, 1, 1), [array, 0]).findings == ()
    assert np.array_equal(array, LANES)


FUNCTIONS = (
    ".func (.param .u32 r) f(.param .u32 x) { .local .u32 l; .reg .u32 %v; ld.param.u32 %v, [x]; "
    "st.local.u32 [l], %v;"
    " add.u32 %v, %v, 1; ld.local.u32 %v, [l]; add.u32 %v, %v, 10; st.param.u32 [r], %v; ret; }"
    " .func (.reg .u32 %r) g(.reg .u32 %v) { .local .u32 l; .reg .pred %q; setp.lt.u32 %q, %v, 12; "
    "st.local.u32 [l], %v;"
    " mov.u32 %r, 0; @%q ret; ld.local.u32 %r, [l]; add.u32 %r, %r, %v; }"
    " .func h(.reg .u32 %v) { .reg .pred %q; setp.lt.u32 %q, %v, 5; @%q exit; ret; }"
)


def test_calls() -> None:
    """Functions whose registers, variables and labels have the names of the caller's; early returns."""
    outcome = run(
        "{ .param .u32 o; .param .u32 i; st.param.u32 [i], %t; call.uni (o), f, (i); "
        "ld.param.u32 %b, [o]; }\n"
        "setp.lt.u32 %q, %t, 30;\nmov.u32 %c, 5;\n@%q call (%c), g, (%b);\nadd.u32 %b, %b, %c;\n"
        "st.global.u32 [%p], %b;\nret;",
        module=FUNCTIONS,
    )
    assert outcome.findings == ()
    expected = [t + 10 + (5 if t >= 30 else 0 if t + 10 < 12 else 2 * (t + 10)) for t in range(32)]
    assert outcome.array.tolist() == expected


def test_exit_within_a_function() -> None:
    outcome = run("call h, (%t);\nst.global.u32 [%p], 1;\nret;", module=FUNCTIONS)
    assert np.array_equal(outcome.array, LANES >= 5)


def test_memory_of_a_function_is_new_in_each_call() -> None:
    function = (
        ".func f(.reg .u32 %w) { .local .u32 l; .reg .u32 %v; .reg .pred %z; setp.eq.u32 %z, %w, 1;"
        " @%z st.local.u32 [l], 1; ld.local.u32 %v, [l]; add.u32 %v, %v, 1; ret; }"
    )
    assert run("call f, (1);\nret;", module=function).findings == ()
    assert run("call f, (1);\ncall f, (0);\nret;", module=function).kinds == ["unset register"]


def test_step_limit_to_the_step() -> None:
    body = "mov.u32 %b, 1;\nret;"
    steps = run(body).report.steps
    assert run(body, step_limit=steps).findings == ()
    finding = run(body, step_limit=steps - 1).only("step limit", 2)
    assert f"still running after {steps - 1} steps" in finding.message
    assert finding.line == START + 2


def test_loop_that_never_ends() -> None:
    run("next: bra next;", step_limit=1000).only("step limit", 1)
    run("setp.eq.u32 %q, %t, 7;\nnext:\n@%q bra next;\nret;", step_limit=1000).only("step limit", 3)


def test_trap_ends_the_kernel() -> None:
    outcome = run("trap;\nst.global.u32 [%p], 1;\nret;")
    outcome.only("trap", 1)
    assert not outcome.array.any()


CHAIN = """
    setp.ne.u32 %q, %t, 0;
    @%q bra meet;
    setp.eq.u32 %q, %block, 0;
    @%q bra meet;
    sub.u32 %b, %block, 1;
    mad.wide.u32 %e, %b, 4, %x;
spin:
    ld.acquire.gpu.global.u32 %c, [%e];
    setp.eq.u32 %q, %c, 0;
    @%q bra spin;
meet:
    {meet};
    setp.ne.u32 %q, %t, 0;
    @%q ret;
    mad.wide.u32 %e, %block, 4, %x;
    st.release.gpu.global.u32 [%e], 1;
    ret;"""


@pytest.mark.parametrize(
    "meet", ["bar.sync 0", "bar.warp.sync -1", "barrier.sync 1, 32", "shfl.sync.idx.b32 %d, %t, 0, 31, -1"]
)
def test_thread_waits_for_another_block_and_its_own_for_it(meet: str) -> None:
    """A chained scan: one thread spins on the block before, the others wait for that thread."""
    outcome = run(CHAIN.format(meet=meet), blocks=6, step_limit=50_000)
    assert outcome.findings == ()
    assert outcome.array[:6].tolist() == [1] * 6


def test_warp_waits_for_another_behind_its_barrier() -> None:
    outcome = run(
        "setp.eq.u32 %q, %t, 0;\n@%q st.shared.u32 [s], 0;\nbar.sync 0;\nsetp.lt.u32 %q, %t, 32;\n"
        "@%q bra spin;\n"
        "bar.sync 1, 64;\nsetp.eq.u32 %q, %t, 64;\n@%q st.volatile.shared.u32 [s], 1;\nret;\nspin:\n"
        "ld.volatile.shared.u32 %b, [s];\nsetp.eq.u32 %q, %b, 0;\n@%q bra spin;\nst.global.u32 [%p], 1;\n"
        "ret;",
        threads=96,
        module=".shared .u32 s;",
        step_limit=20_000,
    )
    assert outcome.findings == ()
    assert outcome.array.sum() == 32


def test_spinning_threads_before_those_they_wait_for() -> None:
    """The loop lies before the store, and after it."""
    loop = "spin:\nld.volatile.global.u32 %b, [%x];\nsetp.eq.u32 %r, %b, 0;\n@%r bra spin;\nret;\n"
    store = "st.volatile.global.u32 [%x], 1;\nret;\n"
    for body in (f"@%q bra give;\n{loop}give:\n{store}", f"@!%q bra spin;\n{store}{loop}"):
        for thread in (0, 31, 32):
            outcome = run(f"setp.eq.u32 %q, %t, {thread};\n" + body, threads=64, step_limit=20_000)
            assert outcome.findings == ()


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 { %a }, [%x], 16;\nret;", "wmma"),
        ("shfl.bfly.b32 %b, %a, 1, 31;\nret;", "shfl"),
        ("call (%b), nothing, (%a);\nret;", "call"),
        ("mov.u32 %b, %envreg3;\nret;", "envreg3"),
        ("mov.u32 %b, %tid;\nret;", "tid"),
    ],
)
def test_what_is_not_known_is_refused_before_anything_runs(body: str, part: str) -> None:
    array = np.zeros(32, np.uint32)
    with pytest.raises(UnsupportedInstruction, match=part):
        run("st.global.u32 [%p], 1;\n" + body, x=array)
    assert not array.any()


def test_recursion_is_refused() -> None:
    with pytest.raises(UnsupportedInstruction, match="recursion"):
        run("call f, (%t);\nret;", module=".func f(.reg .u32 %v) { call f, (%v); ret; }")
