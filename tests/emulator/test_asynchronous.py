"""Asynchronous copies: when they are there, for whom, and what may touch them before."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.bodies import LANES, run

WORDS = ".shared .align 16 .u32 s[256];"
COPY = "mul.wide.u32 %e, %t, 4;\ncp.async.ca.shared.global [%e], [%p], 4;\n"
USE = "ld.shared.u32 %b, [%e];\nadd.u32 %b, %b, 1;\nst.global.u32 [%p], %b;\nret;"


@pytest.mark.parametrize(
    ("wait", "done"),
    [
        ("cp.async.wait_all;\n", True),
        ("cp.async.commit_group;\ncp.async.wait_group 0;\n", True),
        ("cp.async.commit_group;\ncp.async.wait_group 1;\n", False),
        ("cp.async.commit_group;\ncp.async.commit_group;\ncp.async.wait_group 1;\n", True),
        ("cp.async.wait_group 0;\n", False),
        ("cp.async.commit_group;\n", False),
        ("", False),
    ],
)
def test_waits(wait: str, done: bool) -> None:
    """A group that was not closed is not waited for; an empty group counts as one."""
    outcome = run(COPY + wait + USE, x=LANES.copy(), module=WORDS)
    if done:
        assert outcome.findings == ()
        assert np.array_equal(outcome.array, LANES + 1)
    else:
        assert outcome.kinds == ["cp.async"]


@pytest.mark.parametrize(("allowed", "late"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_latest_groups_may_be_missing(allowed: int, late: int) -> None:
    """Three groups; of each the copy is used."""
    body = "mul.wide.u32 %e, %t, 4;\n"
    for group in range(3):
        body += f"cp.async.ca.shared.global [%e + {128 * group}], [%p], 4;\ncp.async.commit_group;\n"
    body += f"cp.async.wait_group {allowed};\n"
    for group in range(3):
        body += f"ld.shared.u32 %b, [%e + {128 * group}];\n"
    assert run(body + "ret;", module=WORDS).kinds == ["cp.async"] * late


def test_each_thread_waits_for_its_own() -> None:
    """What another thread copied is there behind a barrier."""
    neighbour = COPY + "cp.async.wait_all;\n{}xor.b64 %e, %e, 4;\n" + USE
    outcome = run(neighbour.format("bar.sync 0;\n"), x=LANES.copy(), module=WORDS)
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, (LANES ^ 1) + 1)
    assert run(neighbour.format(""), module=WORDS).kinds == ["shared-memory race"]


def test_thread_that_does_not_wait() -> None:
    body = COPY + "setp.lt.u32 %q, %t, 7;\n@!%q cp.async.wait_all;\n"
    finding = run(body + USE, module=WORDS).only("cp.async", 5)
    assert finding.thread == (0, 0, 0)
    assert run(body + "@%q cp.async.wait_all;\n" + USE, module=WORDS).findings == ()


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("given", [None, 0, 1, 3, 4, 6, 15, 16])
def test_bytes_that_are_copied(size: int, given: int | None) -> None:
    """Those behind a shorter source are zero, and are not read."""
    if given is not None and given > size:
        return
    source = np.frombuffer(bytes(range(1, 33)), np.uint8).copy()
    count = size if given is None else given
    # the source ends where the copied bytes do
    array = np.concatenate([np.zeros(16, np.uint8), source[:count]])
    outcome = run(
        "mov.u64 %e, s;\n"
        f"cp.async.ca.shared.global [%e], [%x + 16], {size}{'' if given is None else f', {given}'};\n"
        "cp.async.wait_all;\n"
        "ld.param.u64 %y, [y_ptr];\n"
        + "".join(
            f"ld.shared.u8 %b, [s + {byte}];\nst.global.u8 [%y + {byte}], %b;\n" for byte in range(size)
        )
        + "ret;",
        threads=1,
        x=array,
        module=WORDS,
        parameters=", .param .u64 y_ptr",
        more=(target := np.full(16, 99, np.uint8),),
    )
    assert outcome.findings == ()
    assert target.tolist() == [*range(1, count + 1), *[0] * (size - count), *[99] * (16 - size)]


def test_copy_that_a_predicate_turns_to_zeros() -> None:
    body = (
        "setp.lt.u32 %q, %t, 16;\nmul.wide.u32 %e, %t, 4;\ncp.async.ca.shared.global [%e], [%p], 4, %q;\n"
        "cp.async.wait_all;\n" + USE
    )
    outcome = run(body, x=LANES + 100, module=WORDS)
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, np.where(LANES < 16, 1, LANES + 101))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("cp.async.ca.shared.global [s + 1024], [%x], 4;\ncp.async.wait_all;\nret;", "out of bounds"),
        ("cp.async.ca.shared.global [s], [%x + 128], 4;\ncp.async.wait_all;\nret;", "out of bounds"),
        ("cp.async.cg.shared.global [s + 8], [%x], 16;\ncp.async.wait_all;\nret;", "misaligned"),
        ("cp.async.cg.shared.global [s], [%x + 8], 16;\ncp.async.wait_all;\nret;", "misaligned"),
        ("cp.async.ca.shared.global [s], [%x], 4;\nst.shared.u32 [s], 1;\nret;", "cp.async"),
        (
            "cp.async.ca.shared.global [s], [%x], 4;\ncp.async.ca.shared.global [s], [%x + 4], 4;\nret;",
            "cp.async",
        ),
    ],
)
def test_wrong_copies(body: str, kind: str) -> None:
    assert run(body, threads=1, module=WORDS, x=np.zeros(32, np.uint32)).kinds == [kind]


def test_copies_of_one_place_by_two_threads() -> None:
    body = (
        "and.b32 %a, %t, 15;\nmul.wide.u32 %e, %a, 4;\ncp.async.ca.shared.global [%e], [%p], 4;\n"
        "cp.async.wait_all;\nret;"
    )
    outcome = run(body, x=LANES.copy(), module=WORDS)
    assert outcome.kinds
    assert set(outcome.kinds) <= {"shared-memory race", "cp.async"}


def test_copies_that_nobody_waits_for() -> None:
    """The kernel may end without them."""
    assert run(COPY + "ret;", module=WORDS).findings == ()
