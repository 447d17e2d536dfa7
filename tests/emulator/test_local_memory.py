"""Local memory of threads, and addresses of the generic space."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.bodies import LANES, run


def test_each_thread_has_its_own() -> None:
    body = (
        "st.local.u32 [l], %t;\nst.local.u32 [l + 4], %block;\nld.local.v2.u32 { %a, %b }, [l];\n"
        "mad.lo.u32 %a, %b, 100, %a;\nst.global.u32 [%p], %a;\nret;"
    )
    outcome = run(".local .align 8 .u32 l[2];\n" + body, blocks=3)
    assert outcome.findings == ()
    assert np.array_equal(outcome.array.reshape(3, 32), LANES + 100 * np.arange(3)[:, None])


def test_index_that_differs_by_thread() -> None:
    outcome = run(
        ".local .b32 l[8];\nmov.u32 %c, 0;\nfill:\nmul.lo.u32 %a, %c, 4;\nmov.u32 %b, l;\n"
        "add.u32 %b, %b, %a;\nmad.lo.u32 %d, %t, 10, %c;\n"
        "st.local.u32 [%b], %d;\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %q, %c, 8;\n@%q bra fill;\n"
        "and.b32 %a, %t, 7;\nmov.u64 %e, l;\n"
        "mad.wide.u32 %e, %a, 4, %e;\nld.local.u32 %b, [%e];\nst.global.u32 [%p], %b;\nret;"
    )
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, LANES * 10 + LANES % 8)


@pytest.mark.parametrize(("offset", "kind"), [(8, "out of bounds"), (6, "misaligned"), (-4, "out of bounds")])
def test_bounds(offset: int, kind: str) -> None:
    body = f".local .u32 l[2];\n.local .u32 m[2];\nst.local.u32 [l + {offset}], 1;\nret;"
    if kind == "misaligned":
        body = body.replace(".u32 [l + 6]", ".u32 [l + 2]")
    run(body).only(kind, 3)


def test_unset_value_travels_through_local_memory() -> None:
    """Storing it is no mistake yet, nor is loading it: compilers copy padding."""
    body = (
        ".local .u32 l[2];\nsetp.lt.u32 %q, %t, 5;\n@%q mov.u32 %b, 1;\nst.local.u32 [l], %b;\n"
        "ld.local.u32 %c, [l];\n{}ret;"
    )
    assert run(body.format("")).findings == ()
    finding = run(body.format("st.global.u32 [%p], %c;\n")).only("unset register", 6)
    assert finding.thread == (5, 0, 0)
    assert run(body.format("@%q st.global.u32 [%p], %c;\n")).findings == ()


def test_bytes_that_were_never_written() -> None:
    body = ".local .align 4 .b8 l[4];\nst.local.u16 [l], 1;\nld.local.u{} %b, [l];\nadd.u32 %b, %b, 1;\nret;"
    run(body.format(32)).only("unset register", 4)
    assert run(body.format(16)).findings == ()


WINDOWS = """
    .local .u32 l;
    mul.wide.u32 %e, %t, 4;
    mov.u64 %y, s;
    add.u64 %e, %e, %y;
    cvta.shared.u64 %e, %e;
    mov.u64 %y, l;
    cvta.local.u64 %y, %y;
    rem.u32 %b, %t, 3;
    setp.eq.u32 %q, %b, 0;
    selp.b64 %e, %e, %y, %q;
    setp.eq.u32 %r, %b, 1;
    selp.b64 %e, %p, %e, %r;
"""
"""%e: a generic address of shared, global or local memory, by thread."""
WORDS = ".shared .u32 s[32]; .const .u32 c[2] = { 5, 6 };"


def test_generic_addresses_of_three_spaces_at_once() -> None:
    outcome = run(WINDOWS + "st.u32 [%e], %t;\nld.u32 %c, [%e];\nst.global.u32 [%p], %c;\nret;", module=WORDS)
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, LANES)


@pytest.mark.parametrize("count", [False, True])
def test_one_generic_address_of_local_memory(count: bool) -> None:
    """It is the same number in all threads, and another place in each."""
    body = (
        ".local .u32 l[2];\nmov.u64 %e, l;\ncvta.local.u64 %e, %e;\nst.u32 [%e + 4], %t;\n"
        "ld.u32 %b, [%e + 4];\nst.u32 [%e], 7;\nld.u32 %c, [%e];\nadd.u32 %b, %b, %c;\n"
        "st.global.u32 [%p], %b;\nret;"
    )
    outcome = run(body, count=count, blocks=2)
    assert outcome.findings == ()
    assert np.array_equal(outcome.array.reshape(2, 32), np.stack([LANES + 7] * 2))


def test_one_generic_address_of_shared_memory() -> None:
    outcome = run(
        "mov.u64 %e, s;\ncvta.shared.u64 %e, %e;\nsetp.eq.u32 %q, %t, 0;\n@%q st.u32 [%e], %block;\n"
        "bar.sync 0;\nld.u32 %b, [%e];\n"
        "cvta.to.shared.u64 %y, %e;\nld.shared.u32 %c, [%y];\nadd.u32 %b, %b, %c;\n"
        "st.global.u32 [%p], %b;\nret;",
        module=WORDS,
        blocks=3,
    )
    assert outcome.findings == ()
    assert outcome.array[::32].tolist() == [0, 2, 4]


def test_generic_accesses_are_checked_as_those_of_their_space() -> None:
    race = "mov.u64 %e, s;\ncvta.shared.u64 %e, %e;\nst.u32 [%e], %t;\nret;"
    run(race, module=WORDS).only("shared-memory race", 3)
    run(race.replace("%t;\nret", "1;\nld.u32 %b, [%e + 4];\nret"), module=WORDS, threads=1).only(
        "unwritten memory", 4
    )
    run("mov.u64 %e, c;\ncvta.const.u64 %e, %e;\nst.u32 [%e], 1;\nret;", module=WORDS).only(
        "read-only memory", 3
    )
    run("mov.u64 %e, s;\ncvta.shared.u64 %e, %e;\nst.u32 [%e + 126], 1;\nret;", module=WORDS, threads=1).only(
        "out of bounds", 3
    )
    run("mov.u64 %e, s;\ncvta.shared.u64 %e, %e;\nst.u32 [%e + 2], 1;\nret;", module=WORDS, threads=1).only(
        "misaligned", 3
    )


def test_spaces_of_generic_addresses() -> None:
    """`isspacep`, for an address of each space."""
    spaces = ("global", "shared", "local", "const")
    sources = {
        "global": "mov.u64 %e, %x;",
        "shared": "mov.u64 %e, s; cvta.shared.u64 %e, %e;",
        "local": "mov.u64 %e, l; cvta.local.u64 %e, %e;",
        "const": "mov.u64 %e, c; cvta.const.u64 %e, %e;",
    }
    body = ".local .u32 l;\n"
    for row, source in enumerate(sources.values()):
        body += source + "\n"
        for column, space in enumerate(spaces):
            body += (
                f"isspacep.{space} %q, %e;\nselp.u32 %b, 1, 0, %q;\n"
                f"st.global.u32 [%x + {16 * row + 4 * column}], %b;\n"
            )
    outcome = run(body + "ret;", threads=1, x=np.zeros((4, 4), np.uint32), module=WORDS)
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, np.eye(4))


def test_addresses_of_32_bits() -> None:
    """Shared and local addresses fit registers of 32 bits, as compilers keep them."""
    outcome = run(
        ".local .u32 l;\nmov.u32 %a, s;\nshl.b32 %b, %t, 2;\nadd.u32 %a, %a, %b;\n"
        "st.shared.u32 [%a], %t;\nld.shared.u32 %c, [%a];\n"
        "mov.u32 %a, l;\nst.local.u32 [%a], %c;\nld.local.u32 %d, [%a];\nst.global.u32 [%p], %d;\nret;",
        module=WORDS,
    )
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, LANES)
