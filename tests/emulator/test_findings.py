"""Every kind of finding: a body that provokes it, and one that comes close and does not."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from ptxtemplates.emulator import KINDS, Previous, Unwritten
from tests.emulator.bodies import START, run, text

if TYPE_CHECKING:
    from collections.abc import Mapping


class Case(NamedTuple):
    """Two bodies, what `run` takes beside them, and the line of the first body that is wrong."""

    wrong: str
    right: str
    line: int = 1
    options: Mapping[str, Any] = MappingProxyType({})


WORDS = {"module": ".shared .align 16 .b8 s[256];"}

CASES: dict[str, list[Case]] = {
    "out of bounds": [
        Case("st.global.u32 [%p + 4], 1;\nret;", "st.global.u32 [%p], 1;\nret;"),
        Case("ld.global.u8 %b, [%x + 128];\nret;", "ld.global.u8 %b, [%x + 127];\nret;"),
        Case("ld.global.u32 %b, [%x - 4];\nret;", "ld.global.u32 %b, [%x + 0];\nret;"),
        Case("st.shared.u32 [s + 256], 1;\nret;", "st.shared.u32 [s + 252], 1;\nret;", options=WORDS),
        Case(
            ".local .u32 l[2];\nst.local.u32 [l + 8], 1;\nret;",
            ".local .u32 l[2];\nst.local.u32 [l + 4], 1;\nret;",
            2,
        ),
    ],
    "misaligned": [
        Case("ld.global.u32 %b, [%x + 2];\nret;", "ld.global.u16 %b, [%x + 2];\nret;"),
        Case("ld.global.v2.u32 { %a, %b }, [%x + 4];\nret;", "ld.global.v2.u32 { %a, %b }, [%x + 8];\nret;"),
        Case("st.shared.u32 [s + 1], 1;\nret;", "st.shared.u8 [s + 1], 1;\nret;", options=WORDS),
    ],
    "read-only memory": [
        Case(
            "mov.u64 %e, c;\nst.global.u32 [%e], 1;\nret;",
            "mov.u64 %e, c;\nld.const.u32 %b, [%e];\nret;",
            2,
            {"module": ".const .u32 c = 1;"},
        ),
        Case(
            "mov.u64 %e, x_ptr;\nst.global.u32 [%e], 1;\nret;",
            "mov.u64 %e, x_ptr;\nld.param.u64 %e, [%e];\nret;",
            2,
        ),
    ],
    "unwritten memory": [
        Case(
            "ld.global.u32 %b, [%p];\nret;",
            "st.global.u32 [%p], 1;\nld.global.u32 %b, [%p];\nret;",
            options={"x": Unwritten(np.zeros(32, np.uint32))},
        ),
        Case(
            "st.shared.u16 [s], 1;\nld.shared.u32 %b, [s];\nret;",
            "st.shared.u32 [s], 1;\nld.shared.u16 %b, [s];\nret;",
            2,
            {**WORDS, "threads": 1},
        ),
    ],
    "unset register": [
        Case(
            "setp.lt.u32 %q, %t, 9;\n@%q mov.u32 %b, 1;\nst.global.u32 [%p], %b;\nret;",
            "setp.lt.u32 %q, %t, 9;\n@%q mov.u32 %b, 1;\n@%q st.global.u32 [%p], %b;\nret;",
            3,
        ),
        Case("@%q st.global.u32 [%p], 1;\nret;", "setp.eq.u32 %q, %t, 0;\n@%q st.global.u32 [%p], 1;\nret;"),
        Case(
            ".local .u32 l[2];\nld.local.u32 %b, [l];\nadd.u32 %b, %b, 1;\nret;",
            ".local .u32 l[2];\nld.local.u32 %b, [l];\nst.local.u32 [l + 4], %b;\nret;",
            3,
        ),
        Case(
            "mov.u64 %e, s;\ncvta.shared.u64 %e, %e;\nst.u32 [%e], %d;\nret;",
            "mov.u64 %e, s;\ncvta.shared.u64 %e, %e;\nst.u32 [%e], %n;\nret;",
            3,
            {**WORDS, "threads": 1},
        ),
    ],
    "32-bit wrap": [
        Case(
            "mul.lo.u32 %b, %n, 65536;\nmul.wide.u32 %e, %b, 4;\nadd.u64 %e, %x, %e;\n"
            "ld.global.u32 %c, [%e];\nret;",
            "mul.lo.u32 %b, %n, 65536;\nand.b32 %b, %b, 3;\nmul.wide.u32 %e, %b, 4;\nadd.u64 %e, %x, %e;\n"
            "ld.global.u32 %c, [%e];\nret;",
            options={"n": 65536},
        ),
    ],
    "conflict between blocks": [
        Case("st.global.u32 [%x], %block;\nret;", "st.global.u32 [%p], %block;\nret;", options={"blocks": 3}),
        Case(
            "setp.eq.u32 %q, %i, 0;\nld.global.u32 %b, [%x];\n@%q st.global.u32 [%x], 1;\nret;",
            "setp.eq.u32 %q, %i, 0;\nld.global.u32 %b, [%x + 4];\n@%q st.global.u32 [%x], 1;\nret;",
            3,
            {"blocks": 3},
        ),
    ],
    "shared-memory race": [
        Case(
            "mul.lo.u32 %b, %t, 4;\nst.shared.u32 [%b], %t;\nxor.b32 %b, %b, 4;\n"
            "ld.shared.u32 %c, [%b];\nret;",
            "mul.lo.u32 %b, %t, 4;\nst.shared.u32 [%b], %t;\nld.shared.u32 %c, [%b];\nret;",
            4,
            WORDS,
        ),
        Case("st.shared.u32 [s], %t;\nret;", "st.shared.u32 [s], %n;\nret;", options=WORDS),
    ],
    "cp.async": [
        Case(
            "mov.u64 %e, s;\ncp.async.ca.shared.global [%e], [%x], 4;\nld.shared.u32 %b, [s];\nret;",
            "mov.u64 %e, s;\ncp.async.ca.shared.global [%e], [%x], 4;\ncp.async.wait_all;\n"
            "ld.shared.u32 %b, [s];\nret;",
            3,
            {**WORDS, "threads": 1},
        ),
    ],
    "griddepcontrol": [
        Case(
            f"{access};\nret;",
            f"griddepcontrol.wait;\n{access};\nret;",
            options={**WORDS, "threads": 1, "x": Previous(np.zeros(32, np.uint32))},
        )
        for access in (
            "ld.global.u32 %b, [%x]",
            "st.global.u32 [%x], 1",
            "atom.global.add.u32 %b, [%x], 1",
            "red.global.add.u32 [%x], 1",
            "cp.async.ca.shared.global [s], [%x], 4",
        )
    ],
    "shuffle": [
        Case(
            "setp.lt.u32 %q, %t, 16;\n@%q shfl.sync.bfly.b32 %b, %t, 16, 31, 0xffff;\nret;",
            "setp.lt.u32 %q, %t, 16;\n@%q shfl.sync.bfly.b32 %b, %t, 16, 15, 0xffff;\nret;",
            2,
        ),
        Case("vote.sync.any.pred %q, 1, 0xffff;\nret;", "vote.sync.any.pred %q, 1, 0xffffffff;\nret;"),
        Case(
            "shfl.sync.down.b32 %b, %t, 8, 31, -1;\nret;",
            "shfl.sync.down.b32 %b, %t, 8, 19, -1;\nret;",
            options={"threads": 20},
        ),
    ],
    "barrier": [
        Case(
            "setp.lt.u32 %q, %t, 32;\n@%q bra E;\nbar.sync 0;\nE:\nmov.u32 %b, 1;\nret;",
            "setp.lt.u32 %q, %t, 32;\n@%q ret;\nbar.sync 0;\nret;",
            3,
            {"threads": 64},
        ),
    ],
    "outside the documented range": [
        Case(
            "mov.f32 %f0, 315.0;\nsin.approx.f32 %f1, %f0;\nret;",
            "mov.f32 %f0, 314.0;\nsin.approx.f32 %f1, %f0;\nret;",
            2,
        ),
    ],
    "trap": [Case("trap;\nret;", "setp.gt.u32 %q, %t, 31;\n@%q trap;\nret;")],
    "step limit": [
        Case("A:\nbra A;", f"{'mov.u32 %b, 1;' * 92}\nret;", 2, {"step_limit": 100}),
    ],
}


@pytest.mark.parametrize(
    ("kind", "case"),
    [(kind, case) for kind, cases in CASES.items() for case in cases],
    ids=lambda value: str(value)[:40],
)
def test_kind(kind: str, case: Case) -> None:
    run(case.wrong, **case.options).only(kind, case.line)
    assert run(case.right, **case.options).findings == ()


def test_every_kind_is_provoked() -> None:
    assert set(CASES) == set(KINDS)


def test_finding_for_a_person() -> None:
    body = "st.global.u32 [%p + 64], 1;\nret;"
    finding = run(body).findings[0]
    assert finding.describe().startswith(f"k: PTX line {START + 1}: out of bounds: 4 bytes at 0x")
    assert finding.describe().endswith("; block (0, 0, 0), thread (16, 0, 0)")
    places = [("a.jinja", 10 * line) for line in range(1, text(body).count("\n") + 2)]
    assert f"({'a.jinja'}:{10 * (START + 1)})" in run(body, places=places).findings[0].describe()


def test_source_of_a_finding_is_what_loc_says() -> None:
    outcome = run(".loc 1 77 3\nst.global.u32 [%p + 4], 1;\nret;", module='.file 1 "kernel.cu"')
    assert outcome.findings[0].source == ("kernel.cu", 77)


def test_only_the_first_of_a_kind_on_a_line() -> None:
    outcome = run(
        "A:\nst.global.u32 [%p + 64], 1;\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %q, %n, 5;\n@%q bra A;\nret;",
        blocks=4,
    )
    assert len(outcome.findings) == 1
    assert outcome.findings[0].block == (3, 0, 0)
