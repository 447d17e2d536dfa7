"""Barriers of a block: who must come, who waits, what they reduce."""

from __future__ import annotations

import pytest

from tests.emulator.bodies import run

WORD = ".shared .u32 s;"


@pytest.mark.parametrize(("operation", "kind"), [("popc", "u32"), ("and", "pred"), ("or", "pred")])
@pytest.mark.parametrize("limit", [0, 1, 40, 64])
@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize("opcode", ["bar.red", "bar.cta.red", "barrier.red.aligned"])
def test_reduction(operation: str, kind: str, limit: int, opposite: bool, opcode: str) -> None:
    name, *rest = opcode.replace(".aligned", "").split(".")
    spelled = ".".join([name, *rest, operation, *(["aligned"] if opcode.endswith("aligned") else []), kind])
    result = "%b" if kind == "u32" else "%r"
    outcome = run(
        f"setp.lt.u32 %q, %t, {limit};\n{spelled} {result}, 0, {'!' if opposite else ''}%q;\n"
        + ("" if kind == "u32" else "selp.u32 %b, 1, 0, %r;\n")
        + "st.global.u32 [%p], %b;\nret;",
        threads=64,
        blocks=2,
    )
    yes = 64 - limit if opposite else limit
    expected = {"popc": yes, "and": int(yes == 64), "or": int(yes > 0)}[operation]
    assert outcome.findings == ()
    assert set(outcome.array.tolist()) == {expected}


def test_reduction_of_each_block() -> None:
    outcome = run(
        "add.u32 %a, %block, 3;\nsetp.lt.u32 %q, %t, %a;\nbar.red.popc.u32 %b, 1, %q;\n"
        "st.global.u32 [%p], %b;\nret;",
        blocks=3,
    )
    assert outcome.array[::32].tolist() == [3, 4, 5]


def test_reduction_at_two_places() -> None:
    """Without .aligned, threads may come from anywhere: the predicates of all are combined."""
    outcome = run(
        "setp.lt.u32 %q, %t, 32;\nsetp.ge.u32 %r, %t, 8;\n@%q bra low;\nbarrier.red.popc.u32 %b, 0, %r;\n"
        "bra end;\nlow:\n"
        "barrier.red.popc.u32 %b, 0, %r;\nend:\nst.global.u32 [%p], %b;\nret;",
        threads=64,
    )
    assert outcome.findings == ()
    assert set(outcome.array.tolist()) == {56}


def test_reduction_of_those_that_have_not_ended() -> None:
    outcome = run(
        "setp.ge.u32 %q, %t, 40;\n@%q ret;\nbar.red.popc.u32 %b, 0, !%q;\nst.global.u32 [%p], %b;\nret;",
        threads=64,
    )
    assert outcome.findings == ()
    assert outcome.array.tolist() == [40] * 40 + [0] * 24


def test_reduction_of_a_counted_barrier() -> None:
    outcome = run(
        "setp.lt.u32 %q, %t, 64;\n@!%q ret;\nbar.red.popc.u32 %b, 3, 64, %q;\nst.global.u32 [%p], %b;\nret;",
        threads=128,
    )
    assert outcome.findings == ()
    assert set(outcome.array[:64].tolist()) == {64}


def test_same_barrier_reached_at_different_times() -> None:
    """Out of line, as compilers lay rare code out: all threads execute one barrier, once each."""
    for half in (16, 32):
        outcome = run(
            f"setp.ge.u32 %q, %t, {half};\n@%q bra rare;\nmeet:\nbar.sync 0;\nst.global.u32 [%p], 1;\nret;\n"
            "rare:\nmov.u32 %b, 1;\nbra meet;",
            threads=2 * half,
        )
        assert outcome.findings == ()
        assert outcome.array.all()


@pytest.mark.parametrize("rounds", [5, 600, 3000])
def test_threads_that_end_while_others_wait(rounds: int) -> None:
    """An early end is one, however long it takes: the others go on without those threads."""
    outcome = run(
        "setp.lt.u32 %q, %t, 32;\n@!%q bra meet;\nround:\nadd.u32 %b, %n, 1;\nmov.u32 %n, %b;\n"
        f"setp.lt.u32 %r, %b, {rounds};\n@%r bra round;\nsetp.lt.u32 %r, %t, 8;\n@%r ret;\nmeet:\nbar.sync 0;\n"
        "st.global.u32 [%p], 1;\nret;",
        threads=64,
    )
    assert outcome.findings == ()
    assert outcome.array.tolist() == [0] * 8 + [1] * 56


def test_barrier_in_a_loop_orders_each_round() -> None:
    """Ping-pong through one word: without either barrier it is a race."""
    body = (
        "mov.u32 %c, 0;\nround:\nrem.u32 %a, %c, 64;\nsetp.eq.u32 %q, %t, %a;\n"
        "@%q st.shared.u32 [s], %c;\n{}\nld.shared.u32 %b, [s];\n"
        "{}\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %r, %c, 5;\n@%r bra round;\nst.global.u32 [%p], %b;\nret;"
    )
    outcome = run(body.format("bar.sync 0;", "bar.sync 0;"), threads=64, module=WORD)
    assert outcome.findings == ()
    assert set(outcome.array.tolist()) == {4}
    for pair in (("bar.sync 0;", ""), ("", "bar.sync 0;")):
        assert set(run(body.format(*pair), threads=64, module=WORD).kinds) >= {"shared-memory race"}


def test_barrier_in_a_function() -> None:
    outcome = run(
        "setp.eq.u32 %q, %t, 0;\n@%q st.shared.u32 [s], 5;\ncall f, ();\nld.shared.u32 %b, [s];\n"
        "call f, ();\n"
        "@%q st.shared.u32 [s], 6;\nst.global.u32 [%p], %b;\nret;",
        threads=64,
        module=WORD + " .func f() { bar.sync 0; ret; }",
    )
    assert outcome.findings == ()
    assert set(outcome.array.tolist()) == {5}


@pytest.mark.parametrize(
    "body",
    [
        "@%q bra other;\nbar.sync 0;\nret;\nother:\nmov.u32 %b, 1;\nret;",
        "@%q bra other;\nbar.sync 0;\nret;\nother:\nbar.sync 0;\nret;",
        "@%q bra other;\nbar.sync 1;\nret;\nother:\nbar.sync 2;\nret;",
        (
            "selp.u32 %b, 1, 2, %q;\nround:\nbar.sync 0;\nsub.u32 %b, %b, 1;\nsetp.ne.u32 %r, %b, 0;\n"
            "@%r bra round;\nret;"
        ),
        "@%q bra other;\nbar.sync 0, 96;\nret;\nother:\nmov.u32 %b, 1;\nret;",
        "selp.u32 %b, 1, 2, %q;\nbar.sync %b;\nret;",
    ],
)
@pytest.mark.parametrize("half", [16, 32])
def test_threads_that_do_not_meet(body: str, half: int) -> None:
    """Threads pass by, meet elsewhere, wait at another barrier, or go round more often."""
    if half == 16 and "96" in body:
        body = body.replace("96", "64")
    outcome = run(f"setp.lt.u32 %q, %t, {half};\n" + body, threads=2 * half)
    assert outcome.kinds
    assert set(outcome.kinds) == {"barrier"}


def test_one_block_of_many_hangs() -> None:
    """The others end, with their results."""
    outcome = run(
        "setp.eq.u32 %q, %block, 1;\nsetp.lt.and.u32 %r, %t, 32, %q;\n@%r bra other;\nbar.sync 0;\n"
        "st.global.u32 [%p], 1;\nret;\n"
        "other:\nbar.sync 1;\nret;",
        threads=64,
        blocks=3,
    )
    assert set(outcome.kinds) == {"barrier"}
    assert {finding.block for finding in outcome.findings} == {(1, 0, 0)}
    assert outcome.array.reshape(3, 64)[[0, 2]].all()


PRODUCER_CONSUMER = """
    setp.lt.u32 %q, %t, 32;
    @%q bra produce;
    bar.sync 0, 64;
    ld.shared.u32 %b, [s];
    bar.arrive 1, 64;
    {consume}
    st.global.u32 [%p], %b;
    ret;
produce:
    setp.eq.u32 %r, %t, 0;
    @%r st.shared.u32 [s], 5;
    bar.arrive 0, 64;
    {produce}
    @%r st.shared.u32 [s], 6;
    ret;"""


def test_producer_and_consumer() -> None:
    """The ISA's example: one warp announces what the other waits for, with barriers of two names."""
    outcome = run(PRODUCER_CONSUMER.format(produce="bar.sync 1, 64;", consume=""), threads=64, module=WORD)
    assert outcome.findings == ()
    assert outcome.array.tolist() == [0] * 32 + [5] * 32


def test_producer_that_does_not_wait() -> None:
    outcome = run(PRODUCER_CONSUMER.format(produce="", consume=""), threads=64, module=WORD)
    assert outcome.kinds == ["shared-memory race"]


def test_warps_of_a_counted_barrier_are_ordered_and_no_others() -> None:
    body = (
        "shr.u32 %a, %t, 6;\nadd.u32 %b, %a, 1;\nshl.b32 %a, %a, 2;\nand.b32 %c, %t, 63;\n"
        "setp.eq.u32 %q, %c, 0;\n"
        "@%q st.shared.u32 [%a], %t;\nbar.sync %b, 64;\n{}ld.shared.u32 %c, [%a];\n"
        "st.global.u32 [%p], %c;\nret;"
    )
    module = ".shared .u32 s[2];"
    outcome = run(body.format(""), threads=128, module=module)
    assert outcome.findings == ()
    assert outcome.array.tolist() == [0] * 64 + [64] * 64
    assert run(body.format("xor.b32 %a, %a, 4;\n"), threads=128, module=module).kinds == [
        "shared-memory race"
    ]


def test_broadcast_read_before_a_counted_barrier() -> None:
    """All of two warps read a word; behind their barrier one thread writes it."""
    body = (
        "setp.ge.u32 %r, %t, 64;\n@%r ret;\nsetp.eq.u32 %q, %t, 0;\n@%q st.shared.u32 [s], 1;\n"
        "bar.sync 1, 64;\nld.shared.u32 %b, [s];\n"
        "{}@%q st.shared.u32 [s], 2;\nst.global.u32 [%p], %b;\nret;"
    )
    outcome = run(body.format("bar.sync 1, 64;\n"), threads=96, module=WORD)
    assert outcome.findings == ()
    assert set(outcome.array[:64].tolist()) == {1}
    assert run(body.format(""), threads=96, module=WORD).kinds == ["shared-memory race"]


@pytest.mark.parametrize("barrier", ["bar.sync 16", "bar.sync 0, 33", "bar.sync %n"])
def test_operands_that_no_barrier_has(barrier: str) -> None:
    """Barriers are numbered 0 to 15, and counts are multiples of the warp size."""
    assert run(f"{barrier};\nret;", n=77, threads=64).kinds == ["barrier"]
