"""Shuffles, votes, matches and reductions of a warp, against Python integers lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.emulator.bodies import LANES, run
from tests.emulator.scalar import WARP, meet, shuffle_source

BLOCKS = (1, 31, 32, 33, 40, 96)
ROUNDS = 5
"""Random inputs of each instruction and block."""


def lanes_of(threads: int, mask: int, first: int) -> list[int]:
    """Return the lanes of the warp of a thread that exist and that a mask names."""
    return [lane for lane in range(min(WARP, threads - first)) if mask >> lane & 1]


def random_masks(rng: np.random.Generator, threads: int) -> Any:
    """Part the threads of each warp in two, and give each the mask of its part."""
    part = rng.integers(0, 1 << 32, -(-threads // WARP), dtype=np.uint32)
    thread = np.arange(threads)
    mine = part[thread // WARP]
    return np.where(mine >> (thread % WARP).astype(np.uint32) & 1 == 1, mine, ~mine).astype(np.uint32)


def exchanged(opcode: str, threads: int, values: Any, masks: Any) -> list[int]:
    """Return what each thread gets."""
    expected = []
    for thread in range(threads):
        first, lane = thread - thread % WARP, thread % WARP
        given = {
            other: (int(values[first + other]),) for other in lanes_of(threads, int(masks[thread]), first)
        }
        expected.append(meet(opcode, given, lane) % (1 << 32))
    return expected


VOTES = ("all.pred", "any.pred", "uni.pred", "ballot.b32")
OPCODES = (
    *(f"vote.sync.{mode}" for mode in VOTES),
    *(f"match.{mode}.sync.b32" for mode in ("any", "all")),
    *(f"redux.sync.{name}.{kind}" for name in ("add", "min", "max") for kind in ("u32", "s32")),
    *(f"redux.sync.{name}.b32" for name in ("and", "or", "xor")),
)


@pytest.mark.parametrize("opcode", OPCODES)
@pytest.mark.parametrize("threads", BLOCKS)
def test_exchange(opcode: str, threads: int) -> None:
    """Two parts of each warp execute it at two places."""
    rng = np.random.default_rng(threads)
    result, before, after = (
        ("%r", "", "selp.u32 %b, 1, 0, %r;") if opcode.endswith("pred") else ("%b", "", "")
    )
    source = "%c"
    if opcode.startswith("vote"):
        source, before = "%s", "setp.ne.u32 %s, %c, 0;"
    body = f"""
        ld.param.u64 %y, [y_ptr];
        mad.wide.u32 %e, %i, 8, %y;
        ld.global.v2.u32 {{ %c, %d }}, [%e];
        {before}
        and.b32 %a, %d, 1;
        setp.eq.u32 %q, %a, 1;
        @%q bra with_lane_0;
        {opcode} {result}, {source}, %d;
        bra end;
    with_lane_0:
        {opcode} {result}, {source}, %d;
    end:
        {after}
        st.global.u32 [%p], %b;
        ret;"""
    for _ in range(ROUNDS):
        masks = random_masks(rng, threads)
        choices = np.array([0, 1, 1, 0xFFFFFFFF, 0x80000000], np.uint32)
        values = (
            rng.choice(choices, threads)
            if rng.random() < 0.7
            else rng.integers(0, 1 << 32, threads, np.uint32)
        )
        if rng.random() < 0.2:
            values[:] = values[0]
        given = np.stack([values, masks], axis=1)
        outcome = run(
            "ld.param.u64 %y, [y_ptr];" + body,
            threads=threads,
            parameters=", .param .u64 y_ptr",
            more=(given,),
        )
        assert outcome.findings == ()
        assert outcome.array.tolist() == exchanged(opcode, threads, values, masks)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffle(mode: str) -> None:
    """Any lane operand and any clamp and segments, all lanes taking part: value and predicate."""
    rng = np.random.default_rng(1)
    body = f"""
        ld.param.u64 %y, [y_ptr];
        mad.wide.u32 %e, %i, 8, %y;
        ld.global.v2.u32 {{ %c, %d }}, [%e];
        mad.lo.u32 %a, %t, 7, 3;
        shfl.sync.{mode}.b32 %b|%q, %a, %c, %d, -1;
        shl.b32 %b, %b, 1;
        @%q or.b32 %b, %b, 1;
        st.global.u32 [%p], %b;
        ret;"""
    for number in range(30):
        given = rng.integers(0, 1 << 32, (64, 2), np.uint32)
        if number % 3 == 0:
            given[:, 1] = rng.choice([0, 31, 0x1C1F, 0x1F00, 0x0F0F, 0x1E01])
        if number % 3 == 1:
            given[:] = given[0]
        outcome = run(body, threads=64, parameters=", .param .u64 y_ptr", more=(given,))
        assert outcome.findings == ()
        expected = []
        for thread in range(64):
            b, c = given[thread].tolist()
            lane, valid = shuffle_source(mode, thread % WARP, b, c)
            expected.append(((thread - thread % WARP + lane) * 7 + 3) * 2 + valid)
        assert outcome.array.tolist() == expected


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
def test_shuffle_as_kernels_use_it(operands: str, expected: Any) -> None:
    """Constant operands, written as CUDA's functions with and without a width are."""
    outcome = run(f"shfl.sync.{operands}, -1;\nst.global.u32 [%p], %b;\nret;")
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, expected)


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("shfl.sync.bfly.b32 %b, %t, 16, 31, -1;", ["shuffle"]),
        ("shfl.sync.bfly.b32 %b, %t, 4, 31, -1;", []),
        ("shfl.sync.idx.b32 %b, %t, 7, 31, -1;", []),
        ("shfl.sync.idx.b32 %b, %t, 8, 31, -1;", ["shuffle"]),
    ],
)
def test_lanes_that_do_not_exist(source: str, kinds: list[str]) -> None:
    """Of the second warp of 40 threads, lanes 8 and up are not there."""
    assert run(f"setp.lt.u32 %q, %t, 32;\n@%q ret;\n{source}\nret;", threads=40).kinds == kinds


def test_match_of_64_bits_and_of_pairs() -> None:
    outcome = run(
        "shr.u32 %a, %t, 3;\nmov.b64 %e, { 0, %a };\nmatch.any.sync.b64 %b, %e, -1;\n"
        "st.global.u32 [%p], %b;\nret;"
    )
    assert outcome.array.tolist() == [0xFF << 8 * (lane // 8) for lane in range(32)]
    outcome = run(
        "match.all.sync.b32 _|%q, %block, -1;\nmatch.all.sync.b32 %b|_, %t, -1;\n"
        "match.all.sync.b32 %c|%r, 7, -1;\n"
        "selp.u32 %a, 16, 0, %q;\nadd.u32 %a, %a, %b;\n@%r add.u32 %a, %a, 1;\nsub.u32 %a, %a, %c;\n"
        "st.global.u32 [%p], %a;\nret;"
    )
    assert outcome.findings == ()
    assert set(outcome.array.tolist()) == {18}


def test_redux_of_floats() -> None:
    """NaN is passed over, or wins if it is asked for; -0 is less than +0."""
    body = "ld.global.f32 %f0, [%p];\nredux.sync.{}.f32 %f1, %f0, -1;\nst.global.f32 [%p], %f1;\nret;"
    values = np.linspace(-3, 2, 32, dtype=np.float32)
    values[5] = np.nan
    for name, expected in (("min", -3), ("max", 2), ("max.abs", 3)):
        assert set(run(body.format(name), x=values.copy()).array.tolist()) == {expected}
    assert np.isnan(run(body.format("max.NaN"), x=values.copy()).array).all()
    assert np.isnan(run(body.format("min"), x=np.full(32, np.nan, np.float32)).array).all()
    zeros = np.where(LANES == 7, -0.0, 0.0).astype(np.float32)
    assert np.signbit(run(body.format("min"), x=zeros).array).all()


def test_activemask_is_of_those_that_run_it() -> None:
    outcome = run(
        "setp.lt.u32 %q, %t, 9;\nmov.u32 %b, 7;\n@%q activemask.b32 %b;\nst.global.u32 [%p], %b;\nret;",
        threads=40,
    )
    assert outcome.array.tolist() == [0x1FF] * 9 + [7] * 31
    outcome = run("activemask.b32 %b;\nst.global.u32 [%p], %b;\nret;", threads=40)
    assert outcome.array.tolist() == [0xFFFFFFFF] * 32 + [0xFF] * 8


def test_elect_takes_one_lane_of_the_mask() -> None:
    outcome = run(
        "setp.gt.u32 %q, %t, 7;\nvote.sync.ballot.b32 %c, %q, -1;\n@!%q ret;\nelect.sync %b|%r, %c;\n"
        "@%r add.u32 %b, %b, 100;\nst.global.u32 [%p], %b;\nret;",
        threads=32,
    )
    leaders = np.flatnonzero(outcome.array >= 100)
    assert leaders.size == 1
    assert outcome.array[8:].tolist() == [leaders[0] + 100 * (lane == leaders[0]) for lane in range(8, 32)]


def test_lanes_wait_for_those_that_come_later() -> None:
    """The lower half goes round before it comes to the instruction; then all exchange."""
    outcome = run(
        "setp.lt.u32 %q, %t, 16;\n@%q bra round;\ncome:\nshfl.sync.bfly.b32 %b, %t, 16, 31, -1;\n"
        "st.global.u32 [%p], %b;\nret;\nround:\nadd.u32 %n, %n, 1;\nbra come;"
    )
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, LANES ^ 16)


def test_warps_do_not_wait_for_each_other() -> None:
    """Lane 0 of the second warp waits, in a loop, for what the first does behind its shuffle."""
    outcome = run(
        "setp.ne.u32 %q, %t, 32;\n@%q bra meet;\nspin:\nld.volatile.global.u32 %c, [%x + 256];\n"
        "setp.eq.u32 %r, %c, 0;\n"
        "@%r bra spin;\nmeet:\nshfl.sync.idx.b32 %b, %t, 0, 31, -1;\nsetp.eq.u32 %q, %t, 0;\n"
        "@%q st.volatile.global.u32 [%x + 256], 1;\nst.global.u32 [%p], %b;\nret;",
        threads=64,
        x=np.zeros(65, np.uint32),
        step_limit=20_000,
    )
    assert outcome.findings == ()
    assert outcome.array.tolist() == [0] * 32 + [32] * 32 + [1]


def test_halves_of_a_warp_at_two_places() -> None:
    body = (
        "setp.lt.u32 %q, %t, 16;\n@%q bra low;\nshfl.sync.bfly.b32 %b, %t, 1, 31, {};\nbra end;\nlow:\n"
        "shfl.sync.bfly.b32 %b, %t, 1, 31, {};\nend:\nst.global.u32 [%p], %b;\nret;"
    )
    outcome = run(body.format(0xFFFF0000, 0xFFFF))
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, LANES ^ 1)
    assert set(run(body.format(-1, -1)).kinds) == {"shuffle"}


def test_half_of_a_warp_at_a_barrier() -> None:
    """Neither half can go on: that is said at once."""
    outcome = run(
        "setp.lt.u32 %q, %t, 16;\n@%q bra low;\nshfl.sync.bfly.b32 %b, %t, 1, 31, -1;\nbar.sync 0;\n"
        "ret;\nlow:\n"
        "bar.sync 0;\nshfl.sync.bfly.b32 %b, %t, 1, 31, -1;\nret;",
        step_limit=1000,
    )
    assert outcome.kinds
    assert set(outcome.kinds) <= {"shuffle", "barrier"}
