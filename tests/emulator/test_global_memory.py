"""Global memory: what an access moves, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxtemplates.emulator import Unwritten
from tests.emulator.bodies import LANES, START, run


def test_out_of_bounds_is_reported_with_the_nearest_buffer() -> None:
    finding = run("st.global.u32 [%p + 64], 1;\nret;").only("out of bounds", 1)
    assert (finding.block, finding.thread, finding.buffer) == ((0, 0, 0), (16, 0, 0), "x_ptr")
    assert "0 bytes behind the end of x_ptr (128 bytes)" in finding.message
    finding = run("ld.global.u32 %b, [%x - 8];\nret;").only("out of bounds", 1)
    assert "8 bytes before the start of x_ptr (128 bytes)" in finding.message
    assert f"{finding.address:#x}" in finding.message
    assert finding.line == START + 1


def test_only_the_wrong_threads_are_stopped() -> None:
    outcome = run("st.global.u32 [%p + 64], 1;\nret;")
    assert np.array_equal(outcome.array, LANES >= 16)
    outcome = run(
        "mov.u32 %b, 7;\nld.global.u32 %b, [%p + 64];\nst.global.u32 [%p], %b;\nret;", x=LANES + 100
    )
    outcome.only("out of bounds", 2)
    assert outcome.array.tolist() == [*range(116, 132), *[0] * 16]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_last_bytes_of_a_buffer(size: int) -> None:
    """Each width up to the very end, and one byte further."""
    opcode = f"st.global.b{8 * size}"
    register = f".reg .b{max(16, 8 * size)} %v;\nmov.b{max(16, 8 * size)} %v, 1;\n"
    assert run(f"{register}{opcode} [%x + {24 - size}], %v;\nret;", x=np.zeros(24, np.uint8)).findings == ()
    assert run(f"{register}{opcode} [%x + 24], %v;\nret;", x=np.zeros(24, np.uint8)).kinds == [
        "out of bounds"
    ]


def test_access_that_reaches_over_the_end() -> None:
    array = np.zeros(6, np.uint8)
    run("st.global.u32 [%x + 4], -1;\nret;", x=array).only("out of bounds", 1)
    assert not array.any()
    array = np.zeros(6, np.uint32)
    run("st.global.v4.u32 [%x + 16], { 1, 2, 3, 4 };\nret;", x=array).only("out of bounds", 1)
    assert not array.any()


@pytest.mark.parametrize(
    "address",
    [
        "0",
        "4",
        "4294967296",
        "8589934588",
        "-4",
        "-16",
        "0x7ffffffffffffffc",
        "0x8000000000000000",
        "140000000000",
    ],
)
@pytest.mark.parametrize(
    "opcode", ["ld.global.u32 %b, [%e]", "st.global.u32 [%e], 1", "ld.u32 %b, [%e]", "st.u32 [%e], 1"]
)
@pytest.mark.parametrize("offset", [0, -4, 16])
def test_wild_pointers(opcode: str, address: str, offset: int) -> None:
    """Near 0, near 2^64, in the windows of other spaces, far from everything: always a finding."""
    body = f"mov.u64 %e, {address};\n{opcode.replace('%e', f'%e + {offset}')};\nret;"
    run(body).only("out of bounds", 2)


def test_offsets_of_all_sizes() -> None:
    outcome = run(
        "add.u64 %e, %x, 8;\nst.global.u32 [%e-4], 1;\nst.global.u32 [%e+-8], 2;\n"
        "st.global.u32 [%e + 0], 3;\n"
        "sub.u64 %e, %x, 2147483644;\nst.global.u32 [%e + 2147483656], 4;\nret;",
        threads=1,
        x=np.zeros(4, np.uint32),
    )
    assert outcome.findings == ()
    assert outcome.array.tolist() == [2, 1, 3, 4]


def test_array_without_elements() -> None:
    for body in ("ld.global.u8 %b, [%x];\nret;", "st.global.u8 [%x], 1;\nret;"):
        run(body, x=np.zeros(0, np.uint32)).only("out of bounds", 1)
    outcome = run(
        "ret;",
        x=np.zeros(0, np.uint32),
        parameters=", .param .u64 y_ptr",
        more=(np.zeros((3, 0), np.float32),),
    )
    assert outcome.findings == ()


def test_misaligned_access_does_nothing() -> None:
    outcome = run("st.global.u32 [%p + 2], 1;\nret;")
    assert set(outcome.kinds) == {"misaligned", "out of bounds"}
    assert not outcome.array.any()
    finding = run("ld.global.v2.u32 { %a, %b }, [%p];\nret;", x=np.zeros(64, np.uint32)).only("misaligned", 1)
    assert finding.thread == (1, 0, 0)


def test_offset_cut_to_32_bits_meets_nothing() -> None:
    outcome = run("cvt.u32.u64 %b, %p;\ncvt.u64.u32 %e, %b;\nst.global.u32 [%e], 1;\nret;")
    assert set(outcome.kinds) == {"32-bit wrap", "out of bounds"}
    assert not outcome.array.any()


@pytest.mark.parametrize(
    ("load", "register", "expected"),
    [
        ("s8", "u64", 0xFFFFFFFFFFFFFF80),
        ("u8", "u64", 0x80),
        ("b8", "u64", 0x80),
        ("s8", "u16", 0xFF80),
        ("s16", "b32", 0xFFFFFF80),
        ("u16", "b32", 0xFF80),
        ("b16", "s64", 0xFF80),
        ("s32", "b64", 0xFFFFFFFFF0F0FF80),
        ("f32", "b64", 0xF0F0FF80),
    ],
)
def test_loads_into_wider_registers(load: str, register: str, expected: int) -> None:
    """Signed types are filled with the sign, others with zeros (ISA, "Operand Size Exceeding ...")."""
    size = int(register[1:])
    array = np.array([0xF0F0FF80, 0, 0, 0], np.uint32)
    run(
        f".reg .{register} %v;\nld.global.{load} %v, [%x];\nst.global.b{size} [%x + 8], %v;\nret;",
        threads=1,
        x=array,
    )
    assert int(array[2:].view(np.uint64)[0]) == expected


def test_stores_of_wider_registers_are_cut() -> None:
    array = np.zeros(4, np.uint32)
    outcome = run(
        "mov.u64 %e, 0x1122334455667788;\nst.global.u8 [%x], %e;\nst.global.u16 [%x + 2], %e;\n"
        "st.global.b32 [%x + 4], %e;\n"
        "st.global.s8 [%x + 8], -1;\nret;",
        threads=1,
        x=array,
    )
    assert outcome.findings == ()
    assert array.tolist() == [0x77880088, 0x55667788, 0xFF, 0]


def test_vectors_of_mixed_registers_and_sinks() -> None:
    array = np.arange(16, dtype=np.uint32)
    outcome = run(
        ".reg .b32 %w;\n.reg .s32 %v;\nld.global.v4.b32 { %a, _, %w, %f0 }, [%x + 16];\n"
        "ld.global.v4.u32 { _, _, _, %v }, [%x];\n"
        "st.global.v4.b32 [%x + 32], { %f0, %w, 77, %v };\nst.global.v2.b32 [%x + 48], { %a, %a };\nret;",
        threads=1,
        x=array,
    )
    assert outcome.findings == ()
    assert array[8:].tolist() == [7, 6, 77, 3, 4, 4, 14, 15]


@pytest.mark.parametrize("width", ["v8.b32", "v4.b64"])
def test_256_bits_at_once(width: str) -> None:
    count, bits = int(width[1]), int(width[4:])
    names = ", ".join(f"%w{number}" for number in range(count))
    array = np.arange(64, dtype=np.uint32)
    body = (
        f".reg .b{bits} %w<8>;\nmad.wide.u32 %e, %t, 32, %x;\nld.global.{width} {{ {names} }}, [%e];\n"
        f"st.global.{width} [%e + 64], {{ {names} }};\nret;"
    )
    assert run(body, threads=2, x=array).findings == ()
    assert np.array_equal(array[16:32], np.arange(16))
    assert set(run(body.replace("%t, 32", "%t, 16"), threads=2, x=array).kinds) == {"misaligned"}


@pytest.mark.parametrize("hints", ["", ".ca", ".cg", ".cs", ".L1::no_allocate", ".L1::evict_last.L2::128B"])
@pytest.mark.parametrize("kind", ["", ".nc", ".volatile", ".relaxed.gpu"])
def test_hints_change_nothing(hints: str, kind: str) -> None:
    if kind in (".volatile", ".relaxed.gpu"):
        opcode = f"ld{kind}.global.u32"
    else:
        opcode = f"ld.global{kind}{hints}.u32"
    outcome = run(
        f"{opcode} %b, [%p];\nadd.u32 %b, %b, 1;\nst.global.u32 [%p], %b;\nret;", x=LANES.copy(), blocks=1
    )
    assert np.array_equal(outcome.array, LANES + 1)


def test_load_that_promises_that_nobody_writes() -> None:
    """`ld.global.nc` of what the kernel itself wrote."""
    outcome = run("st.global.u32 [%p], 1;\nld.global.nc.u32 %b, [%p];\nret;")
    outcome.only("read-only memory", 2)


def test_threads_that_store_to_one_place_at_once() -> None:
    """One of them wins."""
    outcome = run("st.global.u32 [%x], %t;\nret;")
    assert outcome.array[0] in LANES
    assert not outcome.array[1:].any()


def test_guarded_access_does_not_look_at_other_threads() -> None:
    outcome = run(
        "setp.lt.u32 %q, %t, 16;\n@%q st.global.u32 [%p + 64], 1;\n@!%q ld.global.u32 %b, [%p - 64];\nret;"
    )
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, LANES >= 16)


def test_register_that_some_threads_have_not_set() -> None:
    body = "setp.lt.u32 %q, %t, 9;\n@%q mov.u32 %b, 1;\n{}st.global.u32 [%p], %b;\nret;"
    finding = run(body.format("")).only("unset register", 3)
    assert finding.thread == (9, 0, 0)
    assert "%b" in finding.message
    assert run(body.format("@%q ")).findings == ()
    assert run(body.format("@!%q mov.u32 %b, 2;\n")).findings == ()
    run("st.global.u32 [%p], %b;\nret;").only("unset register", 1)


@pytest.mark.parametrize("guard", ["@%q", "@!%q"])
def test_guard_that_is_not_set(guard: str) -> None:
    run(f"{guard} st.global.u32 [%p], 1;\nret;").only("unset register", 1)


def test_unwritten_bytes() -> None:
    """A read of four bytes of which some threads wrote two."""
    array: Any = np.zeros(32, np.uint32)
    body = (
        "setp.ne.u32 %q, %t, 5;\nst.global.u16 [%p], %t;\n@%q st.global.u16 [%p + 2], %t;\n"
        "ld.global.u{} %b, [%p];\nret;"
    )
    finding = run(body.format(32), x=Unwritten(array)).only("unwritten memory", 4)
    assert finding.thread == (5, 0, 0)
    assert run(body.format(16), x=Unwritten(np.zeros(32, np.uint32))).findings == ()


def test_module_variables() -> None:
    module = (
        ".global .align 4 .u32 table[4] = { 10, 20, 30, 40 }; .const .f32 half = 0.5; "
        ".global .s8 small[3] = { -1, 2 };"
        " .global .u64 pointer = table; .global .b32 left[2]; .global .f64 wide = 0.5; "
        ".global .u32 grid[2][3] = { { 1, 2 }, { 3 } };"
    )
    outcome = run(
        "and.b32 %b, %t, 3;\nmov.u64 %e, table;\nmad.wide.u32 %e, %b, 4, %e;\nld.global.u32 %b, [%e];\n"
        "ld.const.f32 %f0, [half];\n"
        "cvt.rzi.u32.f32 %c, %f0;\nadd.f32 %f0, %f0, %f0;\ncvt.rzi.u32.f32 %c, %f0;\nadd.u32 %b, %b, %c;\n"
        "ld.global.s8 %c, [small];\nadd.u32 %b, %b, %c;\nld.global.s8 %c, [small + 2];\nadd.u32 %b, %b, %c;\n"
        "ld.global.u64 %y, [pointer];\nld.u32 %c, [%y + 8];\nadd.u32 %b, %b, %c;\n"
        "ld.global.u32 %c, [left + 4];\nadd.u32 %b, %b, %c;\n"
        "ld.global.u32 %c, [grid + 12];\nadd.u32 %b, %b, %c;\nld.global.u32 %c, [wide + 4];\n"
        "shr.u32 %c, %c, 20;\nadd.u32 %b, %b, %c;\n"
        "st.global.u32 [%p], %b;\nret;",
        module=module,
    )
    assert outcome.findings == ()
    assert np.array_equal(outcome.array, (LANES & 3) * 10 + 10 + 1 - 1 + 0 + 30 + 0 + 3 + 0x3FE)


def test_module_variables_begin_anew_in_each_launch() -> None:
    body = "ld.global.u32 %b, [v];\nst.global.u32 [%p], %b;\nst.global.u32 [v], 9;\nret;"
    for _ in range(2):
        outcome = run(body, threads=1, module=".global .u32 v = 4;")
        assert outcome.array.tolist() == [4]
    run("st.global.u32 [v + 4], 1;\nret;", module=".global .u32 v; .global .u32 w;").only("out of bounds", 1)
