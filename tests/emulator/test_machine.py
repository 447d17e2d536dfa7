"""Registers: what is kept in them, between types and for threads that agree or do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.emulator.bodies import LANES, run


def test_constants_and_signs() -> None:
    outcome = run(
        "{\n.reg .f32 %f;\n.reg .s8 %h;\n.reg .s64 %w;\nmov.f32 %f, 0f3FC00000;\nadd.f32 %f, %f, 1.5;\n"
        "cvt.rzi.s32.f32 %a, %f;\nmov.u32 %b, 0xfe;\ncvt.s16.s8 %b, %b;\nadd.u32 %a, %a, %b;\n"
        "st.global.u32 [%p], 0x80;\nld.global.s8 %b, [%p];\nadd.u32 %a, %a, %b;\n"
        "st.global.u32 [%p], %a;\n}\nret;"
    )
    assert outcome.findings == ()
    assert outcome.array.view(np.int32)[0] == 3 - 2 - 128


@pytest.mark.parametrize("guard", ["", "@%q ", "@!%q "])
@pytest.mark.parametrize("source", ["7", "%n", "%t", "%block", "%i"])
@pytest.mark.parametrize("before", ["9", "%t", "%block", "%i"])
def test_values_that_agree_or_do_not(guard: str, source: str, before: str) -> None:
    """One number for all blocks, for each thread, for each block, or for each thread of each block."""
    outcome = run(
        f"setp.lt.u32 %q, %i, 70;\nmov.u32 %b, {before};\n{guard}mov.u32 %b, {source};\n"
        "mad.lo.u32 %b, %b, 3, %block;\n"
        "st.global.u32 [%p], %b;\nret;",
        blocks=4,
        n=5,
    )
    assert outcome.findings == ()
    block, thread = np.divmod(np.arange(128), 32)
    values: dict[str, Any] = {"7": 7, "9": 9, "%n": 5, "%t": thread, "%block": block, "%i": np.arange(128)}
    taken: Any = {"": True, "@%q ": np.arange(128) < 70, "@!%q ": np.arange(128) >= 70}[guard]
    assert np.array_equal(outcome.array, np.where(taken, values[source], values[before]) * 3 + block)


def test_parts_of_registers() -> None:
    outcome = run(
        ".reg .u16 %h, %g;\n.reg .b8 %c8;\nmov.b64 %e, { %t, 0x11223344 };\nmov.b64 { _, %a }, %e;\n"
        "mov.b32 { %h, %g }, %a;\n"
        "mov.b32 %b, { %g, %h };\nshr.u64 %e, %e, 28;\ncvt.u32.u64 %c, %e;\nadd.u32 %b, %b, %c;\n"
        "st.global.u32 [%p], %b;\nret;"
    )
    assert outcome.findings == ()
    assert np.array_equal(
        outcome.array,
        np.uint32(0x33441122) + ((np.uint64(0x1122334400000000) + LANES) >> 28).astype(np.uint32),
    )


def test_predicates() -> None:
    outcome = run(
        "setp.lt.u32 %q|%r, %t, 9;\nsetp.eq.and.u32 %s, %t, 3, %q;\nselp.u32 %a, 1, 0, %q;\n"
        "@%r add.u32 %a, %a, 2;\n"
        "@%s add.u32 %a, %a, 4;\nnot.pred %q, %q;\n@!%q add.u32 %a, %a, 8;\nst.global.u32 [%p], %a;\nret;"
    )
    assert outcome.findings == ()
    assert outcome.array.tolist() == [2 if t >= 9 else 13 if t == 3 else 9 for t in range(32)]


def test_carry_is_each_threads_own() -> None:
    outcome = run(
        "shl.b32 %a, %t, 31;\nadd.cc.u32 %b, %a, %a;\naddc.u32 %c, 0, 0;\nst.global.u32 [%p], %c;\nret;"
    )
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, LANES & 1)
