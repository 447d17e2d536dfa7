"""What a launch is given: numbers, bytes, arrays of every kind, and what does not fit."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ptxtemplates.emulator import PointerTable, Previous, SparseArray, Unwritten, emulate
from ptxtemplates.emulator.operations import UnsupportedInstruction
from ptxtemplates.errors import EmulationError, PtxSyntaxError
from tests.emulator.bodies import START, run, text

ONE = (1, 1, 1)


def passed(type_: str, argument: Any, size: int) -> bytes:
    """Return the bytes that a kernel finds in a parameter."""
    bits = max(16, 8 * size)
    register = "" if size == 4 else f".reg .b{bits} %v;\n"
    name = "%b" if size == 4 else "%v"
    outcome = run(
        f"{register}ld.param.b{8 * size} {name}, [value];\nst.global.b{8 * size} [%x], {name};\nret;",
        threads=1,
        x=np.zeros(8, np.uint8),
        parameters=f", .param .{type_} value",
        more=(argument,),
    )
    assert outcome.findings == ()
    return bytes(outcome.array[:size])


@pytest.mark.parametrize(
    ("type_", "argument", "expected"),
    [
        ("u8", 200, np.uint8(200)),
        ("s8", -2, np.int8(-2)),
        ("s16", -2, np.int16(-2)),
        ("u32", 0xFFFFFFFF, np.uint32(0xFFFFFFFF)),
        ("s32", -1, np.int32(-1)),
        ("b32", True, np.uint32(1)),
        ("u64", (1 << 64) - 1, np.uint64((1 << 64) - 1)),
        ("s64", -(1 << 63), np.int64(-(1 << 63))),
        ("f32", 1.1, np.float32(1.1)),
        ("f64", 1.1, np.float64(1.1)),
        ("f32", np.float32(-0.0), np.float32(-0.0)),
        ("f16", np.float16(1.5), np.float16(1.5)),
        ("b16", ml_dtypes.bfloat16(1.5), ml_dtypes.bfloat16(1.5)),
        ("u32", np.int32(-5), np.int32(-5)),
        ("b64", b"12345678", np.frombuffer(b"12345678", np.uint64)[0]),
    ],
)
def test_numbers(type_: str, argument: Any, expected: Any) -> None:
    size = int(type_[1:]) // 8
    assert passed(type_, argument, size) == expected.tobytes()


@pytest.mark.parametrize("number", [1, 0, -3])
def test_whole_number_for_a_float(number: int) -> None:
    """It is that number, or it is refused: never the float that has its bits."""
    for type_, dtype in (("f32", np.float32), ("f64", np.float64)):
        try:
            found = passed(type_, number, np.dtype(dtype).itemsize)
        except EmulationError:
            continue
        assert found == dtype(number).tobytes()


@pytest.mark.parametrize(
    ("type_", "argument"),
    [
        ("f16", 1.5),
        ("u32", 1.5),
        ("f32", np.float64(1)),
        ("u32", np.uint64(1)),
        ("u32", 1 << 32),
        ("u8", 256),
        ("s32", -(1 << 31) - 1),
        ("b32", b"12345"),
        ("u32", None),
        ("u32", "1"),
        ("u64", [1, 2]),
    ],
)
def test_what_does_not_fit_its_parameter(type_: str, argument: Any) -> None:
    with pytest.raises(EmulationError, match="value"):
        passed(type_, argument, int(type_[1:]) // 8)


def test_structures_are_bytes() -> None:
    structure = np.zeros(1, [("a", "<u4"), ("pad", "<u4"), ("b", "<f8"), ("c", "<u1", 3)])
    structure["a"], structure["b"], structure["c"] = 7, 0.5, [1, 2, 3]
    content = structure.tobytes() + b"\0"
    outcome = run(
        "ld.param.u32 %a, [value];\nst.global.u32 [%x], %a;\nld.param.b64 %e, [value + 8];\n"
        "st.global.b64 [%x + 8], %e;\n"
        "ld.param.u8 %b, [value + 18];\nst.global.u32 [%x + 4], %b;\nret;",
        threads=1,
        x=np.zeros(4, np.uint32),
        parameters=f", .param .align 8 .b8 value[{len(content)}]",
        more=(content,),
    )
    assert outcome.findings == ()
    assert outcome.array[:2].tolist() == [7, 3]
    assert outcome.array[2:].view(np.float64)[0] == 0.5


def test_parameters_are_aligned_and_apart() -> None:
    outcome = run(
        ".reg .u16 %h;\nld.param.u8 %h, [a];\nst.global.u8 [%x], %h;\nld.param.u64 %e, [b];\n"
        "st.global.u64 [%x + 8], %e;\n"
        "ld.param.u16 %h, [c];\nst.global.u16 [%x + 2], %h;\nret;",
        threads=1,
        x=np.zeros(16, np.uint8),
        parameters=", .param .u8 a, .param .u64 b, .param .u16 c",
        more=(3, 1 << 40, 0x0506),
    )
    assert outcome.findings == ()
    assert outcome.array.tolist() == [3, 0, 6, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
    run("ld.param.u32 %b, [n + 4];\nret;").only("out of bounds", 1)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int64, np.bool_, np.uint8]
)
def test_arrays_of_any_type_and_shape(dtype: Any) -> None:
    array = np.ones((3, 4), dtype)
    expected = array.copy()
    expected.reshape(-1).view(np.uint8)[5] = 0
    outcome = run("st.global.u8 [%x + 5], 0;\nret;", threads=1, x=array)
    assert outcome.findings == ()
    assert array.tobytes() == expected.tobytes()


def test_one_array_twice_is_one_buffer() -> None:
    array = np.zeros(4, np.uint32)
    body = (
        "ld.param.u64 %y, [y_ptr];\nst.global.u32 [%x + 4], 7;\nld.global.u32 %b, [%y + 4];\n"
        "sub.u64 %e, %x, %y;\nst.global.u64 [%y + 8], %e;\nst.global.u32 [%y], %b;\nret;"
    )
    more: dict[str, Any] = {"threads": 1, "parameters": ", .param .u64 y_ptr"}
    assert run(body, x=array, more=(array,), **more).findings == ()
    assert array.tolist() == [7, 7, 0, 0]
    assert run(body, x=array, more=(array[:],), **more).findings == ()


def test_arrays_that_overlap_are_refused() -> None:
    array = np.zeros(8, np.uint32)
    for other in (array[1:], array[:4], array[4:].view(np.uint8)):
        with pytest.raises(EmulationError, match="y_ptr overlaps x_ptr"):
            run("ret;", x=array, parameters=", .param .u64 y_ptr", more=(other,))
    assert run("ret;", x=array[:4], parameters=", .param .u64 y_ptr", more=(array[4:],)).findings == ()


def test_sparse_arrays_overlap_nothing() -> None:
    """One has no address on this machine, whatever lies in memory behind its Python object."""
    sparse = SparseArray((1 << 34,), np.uint8)
    behind = np.ctypeslib.as_array((ctypes.c_uint8 * 16).from_address(id(sparse) + 16))
    for more in ((sparse, behind), (behind, sparse)):
        assert run("ret;", parameters=", .param .u64 p, .param .u64 q", more=more).findings == ()


def test_array_that_is_not_contiguous() -> None:
    with pytest.raises(EmulationError, match="x_ptr must be contiguous"):
        run("ret;", x=np.zeros((8, 8), np.uint32)[:, 1])


def test_array_that_must_not_be_written() -> None:
    """NumPy's own flag is respected, in a way that a person understands."""
    array = np.zeros(32, np.uint32)
    array.flags.writeable = False
    assert run("ld.global.u32 %b, [%p];\nret;", x=array).findings == ()
    run("st.global.u32 [%p], 1;\nret;", x=array).only("read-only memory", 1)
    assert not array.any()


def test_number_for_a_pointer() -> None:
    """Null, which a kernel may test."""
    body = "setp.eq.u64 %q, %x, 0;\n@%q ret;\nst.global.u32 [%x], 1;\nret;"
    assert run(body, x=0).findings == ()
    assert run(body, x=8).kinds == ["out of bounds"]


def test_tables_of_pointers() -> None:
    body = (
        "mad.wide.u32 %e, %block, 8, %x;\nld.global.u64 %e, [%e];\nmad.wide.u32 %e, %t, 4, %e;\n{}\n"
        "st.global.u32 [%e], %block;\nld.global.u32 %b, [%e];\nret;"
    )
    arrays = [np.full(32, 99, np.uint32) for _ in range(3)]
    assert run(body.format(""), blocks=3, x=PointerTable(arrays)).findings == ()
    assert [set(each.tolist()) for each in arrays] == [{0}, {1}, {2}]
    same = PointerTable([arrays[0], arrays[1], arrays[1]])
    assert run(body.format(""), blocks=3, x=same).kinds[0] == "conflict between blocks"


def test_tables_of_arrays_with_properties() -> None:
    sparse = SparseArray((1 << 20, 4), np.uint32, fill=3, written=False)
    table = PointerTable(
        [Unwritten(np.zeros(4, np.uint32)), Previous(np.zeros(4, np.uint32)), sparse, np.zeros(4, np.uint32)]
    )
    body = (
        "mad.wide.u32 %e, %n, 8, %x;\nld.global.u64 %e, [%e];\nld.global.u32 %b, [%e];\n"
        "st.global.u32 [%e], %b;\nret;"
    )
    expected = [["unwritten memory"], ["griddepcontrol"] * 2, ["unwritten memory"], []]
    for index, kinds in enumerate(expected):
        outcome = run(body, n=index, threads=1, x=table)
        assert outcome.kinds == kinds
        for finding in outcome.findings:
            assert finding.buffer == f"x_ptr[{index}]"


def test_previous_results_and_the_wait() -> None:
    body = (
        "setp.lt.u32 %q, %t, 4;\n@%q griddepcontrol.wait;\n{}ld.global.u32 %b, [%p];\n"
        "st.global.u32 [%p], %b;\ngriddepcontrol.launch_dependents;\nret;"
    )
    outcome = run(body.format(""), x=Previous(np.zeros(32, np.uint32)))
    assert set(outcome.kinds) == {"griddepcontrol"}
    assert outcome.findings[0].thread == (4, 0, 0)
    assert run(body.format("griddepcontrol.wait;\n"), x=Previous(np.zeros(32, np.uint32))).findings == ()
    assert run(body.format(""), x=np.zeros(32, np.uint32)).findings == ()


def test_sparse_array() -> None:
    sparse = SparseArray((1 << 30, 8), np.uint32, fill=5)
    body = (
        "cvt.u64.u32 %e, %t;\nmul.lo.u64 %e, %e, 1000000000;\nadd.u64 %e, %x, %e;\n"
        "ld.global.u32 %b, [%e + 8];\nadd.u32 %b, %b, %t;\nst.global.u32 [%e + 8], %b;\nret;"
    )
    assert run(body, x=sparse).findings == ()
    assert sparse.nbytes == 1 << 35
    assert sparse.pool.nbytes < 1 << 23
    for lane in range(32):
        row = sparse[lane * 1_000_000_000 // 32]
        assert row[2] == 5 + lane
        assert row.sum() == 40 + lane
    sparse[7] = range(8)
    assert sparse[7, 3] == 3
    run(
        "st.global.u32 [%x], 1;\nmov.u64 %e, 34359738368;\nadd.u64 %e, %x, %e;\nst.global.u32 [%e], 1;\nret;",
        threads=1,
        x=sparse,
    ).only("out of bounds", 4)
    with pytest.raises(IndexError):
        sparse[1 << 30]


def test_sparse_array_that_nobody_wrote() -> None:
    sparse = SparseArray((1 << 30,), np.uint32, written=False)
    body = "mad.wide.u32 %e, %n, 4, %x;\nld.global.u32 %b, [%e];\nret;"
    sparse[1 << 29] = 1
    assert run(body, n=1 << 29, x=sparse).findings == ()
    run(body, n=(1 << 29) + 1, x=sparse).only("unwritten memory", 2)
    assert (
        run(
            "mad.wide.u32 %e, %n, 4, %x;\nst.global.u32 [%e], 1;\nld.global.u32 %b, [%e];\nret;",
            n=5,
            x=sparse,
        ).findings
        == ()
    )


def test_approximate_results_depend_on_the_seed_alone() -> None:
    body = "ld.global.f32 %f0, [%p];\nex2.approx.f32 %f1, %f0;\nst.global.f32 [%p], %f1;\nret;"
    values = np.linspace(-3, 3, 32).astype(np.float32)

    def result(**options: Any) -> Any:
        return run(body, x=values.copy(), **options).array

    exact = result()
    worst = [result(accuracy="worst", seed=seed) for seed in (0, 0, 1)]
    assert np.array_equal(worst[0], worst[1])
    assert not np.array_equal(worst[0], worst[2])
    assert not np.array_equal(worst[0], exact)
    assert np.array_equal(exact, result(seed=5))
    assert np.allclose(worst[0], exact, rtol=1e-6)


def test_launches_that_are_refused() -> None:
    ptx = text("ret;")
    with pytest.raises(EmulationError, match="k has 2 parameters, not 1"):
        emulate(ptx, "k", ONE, (32, 1, 1), [0])
    with pytest.raises(EmulationError, match="no entry 'other'"):
        emulate(ptx, "other", ONE, (32, 1, 1), [])
    with pytest.raises(EmulationError, match=r"requires a block of \(64,\), not \(32, 1, 1\)"):
        emulate(ptx.replace("n)\n{", "n) .reqntid 64\n{"), "k", ONE, (32, 1, 1), [0, 0])
    with pytest.raises(EmulationError, match="1024"):
        emulate(ptx, "k", ONE, (1025, 1, 1), [0, 0])
    with pytest.raises(EmulationError, match=r"allows a block of \(16, 16\)"):
        emulate(ptx.replace("n)\n{", "n) .maxntid 16, 16\n{"), "k", ONE, (257, 1, 1), [0, 0])
    with pytest.raises(EmulationError, match="grid"):
        emulate(ptx, "k", (0, 1, 1), (32, 1, 1), [0, 0])
    with pytest.raises(EmulationError, match="not in the grid"):
        emulate(ptx, "k", ONE, (32, 1, 1), [0, 0], blocks=[(0, 1, 0)])
    with pytest.raises(PtxSyntaxError):
        emulate("hello", "k", ONE, (32, 1, 1), [])
    function = text("ret;", module=".func f() { ret; }")
    with pytest.raises(EmulationError, match="f is no entry"):
        emulate(function, "f", ONE, ONE, [])


def test_accuracy_that_does_not_exist() -> None:
    with pytest.raises(EmulationError, match="wurst"):
        run("ret;", accuracy="wurst")


def test_kernel_without_parameters() -> None:
    ptx = (
        ".version 7.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry k() { .reg .u64 %p; mov.u64 %p, 64; st.global.u32 [%p], 1; ret; }"
    )
    assert [finding.kind for finding in emulate(ptx, "k", ONE, ONE, []).findings] == ["out of bounds"]


def test_refusal_names_the_line() -> None:
    with pytest.raises(UnsupportedInstruction, match=f"line {START + 2}: tex"):
        run("mov.u32 %a, 1;\ntex.2d.v4.f32.f32 { %f0, %f1, %f2, %f3 }, [%x, { %f0, %f1 }];\nret;")
