"""Shared memory: races, reads of what nobody wrote, bounds, and how much of it a launch keeps."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.emulator.bodies import run

WORDS = ".shared .align 16 .u32 s[64];"
MINE = "mul.lo.u32 %a, %t, 4;\n"
ZERO = (
    "setp.eq.u32 %q, %t, 0;\nsetp.eq.u32 %r, %t, 1;\nsetp.eq.u32 %s, %t, 2;\n@%q st.shared.u32 [s], 0;\n"
    "bar.sync 0;\n"
)

RACES = {
    "read of a neighbour's word": MINE
    + "st.shared.u32 [%a], %t;\n{}xor.b32 %b, %a, 4;\nld.shared.u32 %c, [%b];\nret;",
    "read in another warp": MINE
    + "st.shared.u32 [%a], %t;\n{}xor.b32 %b, %a, 128;\nld.shared.u32 %c, [%b];\nret;",
    "write of what another has read": MINE
    + "st.shared.u32 [%a], %t;\nbar.sync 0;\nxor.b32 %b, %a, 4;\nld.shared.u32 %c, [%b];\n"
    "{}st.shared.u32 [%a], %c;\nret;",
    "write of what all have read": ZERO + "ld.shared.u32 %b, [s];\n{}@%r st.shared.u32 [s], 1;\nret;",
    "write of what another has written": ZERO
    + "@%r st.shared.u32 [s], 1;\n{}@%s st.shared.u32 [s], 1;\nret;",
    "atomic operation and plain read": ZERO
    + "atom.shared.add.u32 %b, [s], 1;\n{}ld.shared.u32 %c, [s];\nret;",
    "atomic operation and plain write": ZERO
    + "@%r atom.shared.add.u32 %b, [s], 1;\n{}@%q st.shared.u32 [s], 3;\nret;",
    "plain read, then an atomic operation": ZERO
    + "@%r ld.shared.u32 %b, [s];\n{}@%q atom.shared.add.u32 %b, [s], 1;\nret;",
    "plain and volatile": ZERO + "@%r ld.shared.u32 %b, [s];\n{}@%q st.volatile.shared.u32 [s], 3;\nret;",
    "plain read before a strong one": ZERO
    + "@%r ld.shared.u32 %b, [s];\n@%s ld.volatile.shared.u32 %c, [s];\n"
    "{}@%q st.volatile.shared.u32 [s], 3;\nret;",
    "bytes of one word": "st.shared.u8 [s + 64], 1;\nbar.sync 0;\ncvt.u64.u32 %e, %t;\n"
    "st.shared.u8 [%e], %t;\n{}"
    "ld.shared.u8 %b, [%e + 1];\nret;",
    "part of a vector": MINE
    + "mul.lo.u32 %b, %t, 16;\nsetp.lt.u32 %q, %t, 16;\n@%q st.shared.v4.u32 [%b], {{ 1, 2, 3, 4 }};\n"
    "{}ld.shared.u32 %c, [%a];\nret;",
}


@pytest.mark.parametrize("name", RACES)
def test_race(name: str) -> None:
    """Without a barrier it is one, with a barrier it is none."""
    body = RACES[name]
    assert run(body.format(""), threads=64, module=WORDS).kinds == ["shared-memory race"]
    assert run(body.format("bar.sync 0;\n"), threads=64, module=WORDS).findings == ()


NO_RACES = {
    "atomic operations of all": ZERO + "atom.shared.add.u32 %b, [s], 1;\nred.shared.max.u32 [s], %t;\nret;",
    "volatile accesses of all": ZERO
    + "st.volatile.shared.u32 [s], 1;\nld.volatile.shared.u32 %b, [s];\nret;",
    "bytes of one word": "cvt.u64.u32 %e, %t;\nst.shared.u8 [%e], %t;\nld.shared.u8 %b, [%e];\nret;",
    "one value from all": "st.shared.u32 [s], 7;\nret;",
    "reads of all": ZERO + "ld.shared.u32 %b, [s];\nld.shared.u32 %b, [s];\nret;",
    "its own word": MINE + "st.shared.u32 [%a], 1;\nld.shared.u32 %b, [%a];\nst.shared.u32 [%a], 2;\nret;",
    "compare-and-swap after a plain read": ZERO
    + "ld.shared.u32 %b, [s];\nagain:\nadd.u32 %c, %b, 1;\natom.shared.cas.b32 %d, [s], %b, %c;\n"
    "setp.ne.u32 %r, %d, %b;\n"
    "mov.u32 %b, %d;\n@%r bra again;\nret;",
}


@pytest.mark.parametrize("name", NO_RACES)
def test_no_race(name: str) -> None:
    assert run(NO_RACES[name], threads=64, module=WORDS).findings == ()


def test_blocks_have_memory_of_their_own() -> None:
    outcome = run(
        ZERO
        + "@%r st.shared.u32 [s], %block;\nbar.sync 0;\nld.shared.u32 %b, [s];\nst.global.u32 [%p], %b;\n"
        "ret;",
        blocks=70,
        module=WORDS,
    )
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, np.arange(70 * 32) // 32)


def test_threads_of_a_warp_need_a_barrier_of_the_warp() -> None:
    body = RACES["read of a neighbour's word"]
    assert run(body.format("bar.warp.sync -1;\n"), threads=64, module=WORDS).findings == ()
    assert run(body.format("bar.warp.sync 0xffffffff;\n"), module=WORDS).findings == ()
    other = RACES["read in another warp"].format("bar.warp.sync -1;\n")
    assert run(other, threads=64, module=WORDS).kinds == ["shared-memory race"]


@pytest.mark.parametrize(
    "exchange", ["shfl.sync.idx.b32 %d, %t, 0, 31, -1;\n", "vote.sync.any.pred %q, 1, -1;\n"]
)
def test_exchanges_order_no_memory(exchange: str) -> None:
    """Only bar.warp.sync promises it (ISA)."""
    body = RACES["read of a neighbour's word"].format(exchange)
    assert run(body, module=WORDS).kinds == ["shared-memory race"]


@pytest.mark.parametrize(("distance", "kinds"), [(16, ["shared-memory race"]), (8, [])])
def test_half_of_a_warp_meets_itself_alone(distance: int, kinds: list[str]) -> None:
    outcome = run(
        MINE + "st.shared.u32 [%a], %t;\nsetp.lt.u32 %q, %t, 16;\n@%q bar.warp.sync 0xffff;\n"
        f"xor.b32 %b, %a, {4 * distance};\n@%q ld.shared.u32 %c, [%b];\nret;",
        threads=32,
        module=WORDS,
    )
    assert outcome.kinds == kinds


def test_race_says_who_met_whom() -> None:
    finding = run(RACES["read in another warp"].format(""), threads=64, module=WORDS).findings[0]
    assert "thread 32" in finding.message or "thread 0" in finding.message
    assert finding.buffer == "s"


def test_bounds_of_variables() -> None:
    """An access past the end of one variable meets no other."""
    module = ".shared .align 8 .u32 s; .shared .u32 t;"
    assert run("st.shared.u32 [s], 1;\nst.shared.u32 [t], 2;\nret;", threads=1, module=module).findings == ()
    run("st.shared.v2.u32 [s], { 1, 2 };\nret;", threads=1, module=module).only("out of bounds", 1)
    finding = run("st.shared.u32 [s + 4], 1;\nret;", threads=1, module=module).only("out of bounds", 1)
    assert finding.buffer == "s"


def test_space_without_variables() -> None:
    run("mov.u32 %b, 0;\nst.shared.u32 [%b], 1;\nret;").only("out of bounds", 2)
    run("mov.u32 %b, 0;\nld.local.u32 %c, [%b];\nret;").only("out of bounds", 2)


@pytest.mark.parametrize(("size", "kinds"), [(256, []), (255, ["out of bounds"]), (0, ["out of bounds"])])
def test_dynamic_shared_memory(size: int, kinds: list[str]) -> None:
    outcome = run(
        MINE + "mov.u32 %b, d;\nadd.u32 %a, %a, %b;\nst.shared.u32 [%a], %t;\nst.shared.u32 [s], 7;\n"
        "ld.shared.u32 %c, [%a];\n"
        "st.global.u32 [%p], %c;\nret;",
        threads=64,
        module=".shared .u32 s; .extern .shared .align 16 .b8 d[];",
        shared_memory=size,
    )
    assert sorted(set(outcome.kinds)) == kinds
    if size == 256:
        assert outcome.array.tolist() == list(range(64))


def test_variables_of_functions_and_inner_scopes() -> None:
    outcome = run(
        "{ .shared .u32 v; st.shared.u32 [v], 3; }\n{ .shared .u32 v; st.shared.u32 [v], 4; }\n"
        "call f, ();\ncall f, ();\n"
        "ld.shared.u32 %b, [w];\nst.global.u32 [%p], %b;\nret;",
        threads=1,
        module=".shared .u32 w;"
        " .func f() { .shared .u32 v; st.shared.u32 [v], 5; st.shared.u32 [w], 6; ret; }",
    )
    assert outcome.findings == ()
    assert outcome.array[0] == 6


MEASURED = """
import resource
from tests.emulator.bodies import run

def peak(blocks):
    body = "st.shared.{kind} [s], %block;\\nld.shared.{kind} %b, [s];\\nst.global.u32 [%p], %b;\\nret;"
    assert run(body, threads=1, blocks=blocks, module=".shared .u32 s[1024];").findings == ()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

few = peak(20_000)
print((peak(40_000) - few) // 1024)
"""


@pytest.mark.parametrize("kind", ["u32", "u8"])
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux alone")
def test_memory_of_a_launch_is_bounded(kind: str) -> None:
    """Blocks of 4 KiB run in waves: 20,000 more, with 80 MiB, need no more than names and results."""
    code = MEASURED.replace("{kind}", kind)
    used = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(used) < 60
