"""What the table's general test does not reach: operand shapes, other oracles, exhaustive inputs, refusals."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import struct
from collections.abc import Callable

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ptxtemplates.emulator.operations import DTYPES, UnsupportedInstruction, constant, decode, supports
from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.ptx.operands import SINK, Immediate, Negated, Pair, Vector
from tests.emulator.operations import ieee, reference_bits
from tests.emulator.operations.running import instruction, register, run

WORDS = [0, 1, 0x80000000, 0xFFFFFFFF, 0x12345678, 0xDEADBEEF, 0x0F0F0F0F, 0x7FFFFFFF]


def random_floats(seed: int, dtype: type, count: int, spread: int) -> npt.NDArray[np.floating]:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(count) * np.exp2(rng.integers(-spread, spread, count))
    return values.astype(dtype)


# fused multiply-add: against the C library, on operands whose product the third nearly cancels or barely moves


def library_fma(name: str, type_: type) -> Callable[..., float]:
    path = ctypes.util.find_library("m")
    if path is None:
        pytest.skip("no C mathematics library is found")
    function = getattr(ctypes.CDLL(path), name)
    function.argtypes, function.restype = [type_] * 3, type_
    typed: Callable[..., float] = function
    return typed


@pytest.mark.parametrize(
    ("text", "name", "c_type", "dtype", "spread"),
    [
        ("fma.rn.f32", "fmaf", ctypes.c_float, np.float32, 60),
        ("fma.rn.f64", "fma", ctypes.c_double, np.float64, 500),
    ],
)
def test_fma_against_the_c_library(text: str, name: str, c_type: type, dtype: type, spread: int) -> None:
    fma = library_fma(name, c_type)
    a, b = random_floats(1, dtype, 12_000, spread), random_floats(2, dtype, 12_000, spread)
    a[:4000], b[:4000] = random_floats(3, dtype, 4000, 10), random_floats(4, dtype, 4000, 10)
    with np.errstate(all="ignore"):
        c = a * b
        far = random_floats(5, dtype, 12_000, 60)
        c = np.select(
            [np.arange(12_000) % 4 == 0, np.arange(12_000) % 4 == 1],
            [-c, -np.nextafter(c, dtype(1))],
            c * far,
        )
    expected: npt.NDArray[np.floating] = np.array(
        [fma(x, y, z) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)], dtype
    )
    found = run(text, a, b, c)
    same = (found == expected) & (np.signbit(found) == np.signbit(expected))
    assert (same | (np.isnan(found) & np.isnan(expected))).all()


def test_fma_single_rounding_where_float64_rounds_twice() -> None:
    """The sum lies on a float32 midpoint in float64, and the rest decides."""
    a, c = np.float32(1 + 2**-12), np.float32(2.0**-60)
    product = float(a) * float(a)  # 1 + 2**-11 + 2**-24: halfway between two float32 numbers
    assert run("fma.rn.f32", [a], [a], [c])[0] == np.float32(product + 2**-24)
    assert run("fma.rn.f32", [a], [a], [-c])[0] == np.float32(1 + 2**-11)
    assert run("fma.rn.f32", [a], [a], [0.0])[0] == np.float32(1 + 2**-11)


def test_fma_single_rounding_of_a_subnormal() -> None:
    """Below 2**-126 the midpoints lie elsewhere: an odd count of 2**-149 and a half, less 2**-196."""
    a, b = np.float32((1 + 2**-23) * 2.0**-75), np.float32((1 - 2**-23) * 2.0**-75)
    c = np.float32(2.0**-127 + 2.0**-149)
    assert run("fma.rn.f32", [a], [b], [c])[0] == c


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.floats(width=64), st.floats(width=64), st.floats(width=64), st.sampled_from(["rn", "rz", "rm", "rp"])
)
@example(2.0**-600, 2.0**-474, 5e-324, "rn")
@example(1.7976931348623157e308, 2.0, -math.inf, "rn")
@example(-0.0, 1.0, -0.0, "rn")
def test_fma_double(a: float, b: float, c: float, mode: str) -> None:
    found = run(f"fma.{mode}.f64", [a], [b], [c])[0]
    assert ieee.to_bits(float(found), "f64") == ieee.to_bits(ieee.fma(a, b, c, "f64", mode), "f64")


# exhaustive


def test_widening_every_half() -> None:
    patterns = np.arange(65536, dtype=np.uint16)
    expected: npt.NDArray[np.floating] = np.array(
        [struct.unpack("<e", struct.pack("<H", p))[0] for p in patterns.tolist()], np.float32
    )
    np.testing.assert_array_equal(run("cvt.f32.f16", patterns.view(np.float16)), expected)
    widened = (patterns.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(run("cvt.f32.bf16", patterns.view(ml_dtypes.bfloat16)), widened)


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_narrowing_undoes_widening(type_: str) -> None:
    patterns = np.arange(65536, dtype=np.uint16)
    wide = run(f"cvt.f32.{type_}", patterns.view(DTYPES[type_]))
    for mode in ("rn", "rz", "rm", "rp"):
        back = run(f"cvt.{mode}.{type_}.f32", wide).view(np.uint16)
        assert (back[~np.isnan(wide)] == patterns[~np.isnan(wide)]).all()
        assert (back[np.isnan(wide)] == 0x7FFF).all()


def test_narrowing_against_struct() -> None:
    values = random_floats(7, np.float32, 20_000, 20)
    values = values[np.abs(values) < 65504]
    expected = [struct.unpack("<H", struct.pack("<e", value))[0] for value in values.tolist()]
    assert run("cvt.rn.f16.f32", values).view(np.uint16).tolist() == expected


def test_bf16_from_double_rounds_once() -> None:
    value = 1 + 2.0**-8 + 2.0**-40  # through float32 it would be a tie
    assert float(run("cvt.rn.bf16.f64", [value])[0]) == 1 + 2.0**-7


@pytest.mark.parametrize("source", ["f32", "f64"])
def test_clamping_at_the_ends_of_64_bits(source: str) -> None:
    dtype = DTYPES[source].type
    values = [
        2.0**63,
        -(2.0**63),
        2.0**64,
        float(np.nextafter(dtype(2.0**63), dtype(0))),
        -1.0,
        -0.5,
        math.nan,
    ]
    signed = [2**63 - 1, -(2**63), 2**63 - 1, int(values[3]), -1, 0, -(2**63)]
    unsigned = [2**63, 0, 2**64 - 1, int(values[3]), 0, 0, 2**63]
    assert run(f"cvt.rzi.s64.{source}", values).tolist() == signed
    assert run(f"cvt.rzi.u64.{source}", values).tolist() == unsigned


def test_approximate_division_by_large_numbers() -> None:
    large = float(np.nextafter(np.float32(2.0**126), np.float32(np.inf)))
    found = run(
        "div.approx.f32", [2.0**120, 2.0**120, -1.0, math.inf, math.inf], [2.0**126, large, large, large, 1]
    )
    assert found.tolist()[:3] == [2.0**-6, 0.0, 0.0]
    assert np.signbit(found[2])
    assert math.isnan(found[3])
    assert found[4] == math.inf


# logic


@pytest.mark.parametrize("table", range(256))
def test_every_table_of_lop3(table: int) -> None:
    a, b, c = (np.array(words, np.uint32) for words in (WORDS, WORDS[::-1], WORDS[3:] + WORDS[:3]))
    lookup = reference_bits.lop3(["b32"], table)
    rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    assert run("lop3.b32", a, b, c, [0] * 8, table=table).tolist() == [lookup(*row, 0)[0] for row in rows]


def test_lop3_by_the_isa_examples() -> None:
    a, b, c = (np.array(words, np.uint32) for words in (WORDS, WORDS[::-1], WORDS[3:] + WORDS[:3]))
    for table, expected in (
        (0x80, a & b & c),
        (0xFE, a | b | c),
        (0x40, a & b & ~c),
        (0x1A, (a & b | c) ^ a),
    ):
        assert (run("lop3.b32", a, b, c, [0] * 8, table=table) == expected).all()


def test_shifts_at_and_beyond_the_width() -> None:
    amounts = [0, 31, 32, 33, 255, 0xFFFFFFFF]
    assert run("shl.b32", [1] * 6, amounts).tolist() == [1, 1 << 31, 0, 0, 0, 0]
    assert run("shr.u32", [0x80000000] * 6, amounts).tolist() == [0x80000000, 1, 0, 0, 0, 0]
    assert run("shr.s32", [-(2**31)] * 6, amounts).tolist() == [-(2**31), -1, -1, -1, -1, -1]
    assert run("shl.b16", [3] * 4, [0, 15, 16, 65536]).tolist() == [3, 0x8000, 0, 0]


# operands


def test_setp_writes_the_complement() -> None:
    a, b, c = [1.0, math.nan, 2.0, 2.0], [2.0, 1.0, 1.0, 2.0], [True, True, True, False]
    p, q = run("setp.lt.and.f32", a, b, c, results=2)
    assert p.tolist() == [True, False, False, False]
    assert q.tolist() == [False, True, True, False]
    p, q = run("setp.geu.s32".replace("geu", "ge"), [1, -1], [0, 0], results=2)
    assert (p.tolist(), q.tolist()) == ([True, False], [False, True])


def test_setp_of_halves() -> None:
    a, b = [0x3C000000, 0x7E003C00], [0x40003C00, 0x3C003C00]  # (lower 0, upper 1), (lower 1, upper NaN)
    p, q = run("setp.lt.f16x2", a, b, results=2)
    assert (p.tolist(), q.tolist()) == ([True, False], [True, False])
    assert run("setp.eq.f16x2", a, b).tolist() == [False, True]


@pytest.mark.parametrize(("name", "expected"), [("min", [1.0, 2.0, -0.0]), ("max", [3.0, 5.0, 0.0])])
def test_three_sources(name: str, expected: list[float]) -> None:
    found = run(f"{name}.f32", [1.0, math.nan, 0.0], [2.0, 5.0, -0.0], [3.0, 2.0, -0.0])
    assert found.tolist() == expected
    assert np.signbit(found).tolist() == np.signbit(expected).tolist()
    assert np.isnan(run(f"{name}.NaN.f32", [1.0], [2.0], [math.nan]))[0]


def test_packing_and_unpacking() -> None:
    low, high = [0x89ABCDEF, 1], [0x01234567, 0x80000000]
    whole = run("mov.b64", low, high, vectors=True)
    assert whole.tolist() == [0x0123456789ABCDEF, 0x8000000000000001]
    assert [part.tolist() for part in run("mov.b64", whole, results=2, vectors=True)] == [low, high]
    quarters = run("mov.b64", whole, results=4, vectors=True)
    assert [part.tolist()[0] for part in quarters] == [0xCDEF, 0x89AB, 0x4567, 0x0123]
    assert run("mov.b64", *quarters, vectors=True).tolist() == whole.tolist()
    octets = run("mov.b32", [0x04030201], results=4, vectors=True)
    assert [part.tolist() for part in octets] == [[1], [2], [3], [4]]
    assert run("mov.b32", *octets, vectors=True).tolist() == [0x04030201]
    assert [part.tolist() for part in run("mov.b16", [0x0201], results=2, vectors=True)] == [[1], [2]]
    halves = decode(instruction("mov.b32", Vector((register(0), SINK)), register(2)))
    assert halves.result_types == ("b16", "b16")
    one = decode(instruction("mov.b32", Vector((register(0),)), register(1)))
    assert (one.source_types, one.result_types) == (("b32",), ("b32",))


def test_packed_conversion_puts_the_first_source_into_the_upper_half() -> None:
    assert run("cvt.rn.f16x2.f32", [1.0], [2.0]).tolist() == [0x3C004000]
    assert run("cvt.rn.bf16x2.f32", [1.0], [-2.0]).tolist() == [0x3F80C000]


def test_scalars_stand_for_every_lane() -> None:
    add = decode(instruction("fma.rn.f32", *(register(number) for number in range(4))))
    (found,) = add.compute(
        np.arange(3, dtype=np.float32), np.asarray(2, np.float32), np.asarray(1, np.float32)
    )
    assert found.tolist() == [1.0, 3.0, 5.0]
    negate = decode(instruction("neg.s32", register(0), register(1)))
    assert negate.compute(np.asarray(5, np.int32))[0].tolist() == [-5]


@pytest.mark.parametrize("lanes", [16_383, 16_384, 16_385, 40_000])
def test_many_lanes(lanes: int) -> None:
    a, b = np.arange(lanes, dtype=np.uint32), np.arange(lanes, dtype=np.uint32)[::-1]
    p, q = run("setp.lt.u32", a, b, results=2)
    assert (p == (a < b)).all()
    assert (q == (a >= b)).all()
    assert (
        run("mad.wide.u32", a, b, np.ones(lanes, np.uint64)) == a.astype(np.uint64) * b + np.uint64(1)
    ).all()


def test_who_computes_in_silence_can_have_it_once() -> None:
    made = instruction("div.rn.f32", *(register(number) for number in range(3)))
    one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    assert decode(made).compute(one, zero)[0].tolist() == [math.inf] * 3
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        decode(made, quiet=False).compute(one, zero)
    with np.errstate(all="ignore"):
        assert decode(made, quiet=False).compute(one, zero)[0].tolist() == [math.inf] * 3


def test_no_lanes() -> None:
    for text, sources in (
        ("fma.rn.f64", 3),
        ("fma.rn.ftz.f32", 3),
        ("fma.rp.f32", 3),
        ("max.f16", 2),
        ("div.s32", 2),
        ("prmt.b32", 3),
        ("brev.b64", 1),
    ):
        operation = decode(instruction(text, *(register(number) for number in range(sources + 1))))
        (found,) = operation.compute(*(np.zeros(0, DTYPES[type_]) for type_ in operation.source_types))
        assert found.shape == (0,)


# integers


def test_division_edges() -> None:
    low = -(2**31)
    assert run("div.s32", [low, 7, -7, 7, 5, low], [-1, -2, 2, 2, 0, 1]).tolist() == [low, -3, -3, 3, -1, low]
    assert run("rem.s32", [low, 7, -7, 7, 5, low], [-1, -2, 2, 2, 0, 3]).tolist() == [0, 1, -1, 1, -1, -2]
    assert run("div.u64", [2**64 - 1, 9], [2, 0]).tolist() == [2**63 - 1, 2**64 - 1]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
@example(-(2**63), -(2**63))
@example(-(2**63), -1)
def test_high_product(a: int, b: int) -> None:
    assert int(run("mul.hi.s64", [a], [b])[0]) == a * b >> 64
    assert int(run("mul.hi.u64", [a % 2**64], [b % 2**64])[0]) == (a % 2**64) * (b % 2**64) >> 64


# constants


@pytest.mark.parametrize(
    ("immediate", "type_", "bits"),
    [
        (Immediate(-1, "s64"), "u32", 0xFFFFFFFF),
        (Immediate(0x1FFFFFFFF, "s64"), "s32", 0xFFFFFFFF),
        (Immediate(0x3F800000, "f32"), "f32", 0x3F800000),
        (Immediate(0x3F800000, "f32"), "b32", 0x3F800000),
        (Immediate(0x3F800000, "f32"), "f64", 0x3FF0000000000000),
        (Immediate(0x3FF0000000000000, "f64"), "f32", 0x3F800000),
        (Immediate(0x3FF8000000000000, "f64"), "b64", 0x3FF8000000000000),
        (Immediate(0x3C00, "s64"), "f16", 0x3C00),
        (Immediate(0x7FC00001, "f32"), "f32", 0x7FC00001),
    ],
)
def test_constants(immediate: Immediate, type_: str, bits: int) -> None:
    found = constant(immediate, type_)
    assert found.dtype == DTYPES[type_]
    assert int(found.view(f"u{found.dtype.itemsize}")) == bits


def test_predicate_constants() -> None:
    assert [bool(constant(Immediate(value, "s64"), "pred")) for value in (0, 1, -1)] == [False, True, True]


# refusals


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("add.cc.u16", 2),
        ("add.cc.sat.s32", 2),
        ("addc.u32", 3),
        ("mad.wide.cc.u32", 3),
        ("madc.u32", 3),
        ("cvt.pack.s16.s32", 2),
        ("mad.f32", 3),
        ("fma.f32", 3),
        ("div.f32", 2),
        ("sin.f32", 1),
        ("add.sat.u32", 2),
        ("add.sat.f64", 2),
        ("add.rz.f16", 2),
        ("add.f32.f32", 2),
        ("mul.wide.s64", 2),
        ("add.rn.rz.f32", 2),
        ("setp.lt.b32", 2),
        ("setp.lo.s32", 2),
        ("setp.lt.s32.s32", 2),
        ("setp.f32", 2),
        ("cvt.f32.f64", 1),
        ("cvt.rn.f32.f32", 1),
        ("cvt.f32.s32", 1),
        ("cvt.s32.f32", 1),
        ("cvt.rn.satfinite.e4m3x2.f32", 2),
        ("cvt.rs.f16x2.f32", 3),
        ("mov.b128", 1),
        ("min.abs.f32", 2),
        ("min.xorsign.abs.f32", 3),
        ("min.f64", 3),
        ("fma.rn.oob.f16", 3),
        ("fma.rn.sat.relu.f16", 3),
        ("add.f32", 3),
        ("neg.f32", 2),
        ("tanh.approx.ftz.f32", 1),
        ("ex2.approx.bf16", 1),
        ("shf.l.b32", 3),
        ("lop3.xor.b32", 5),
        ("wgmma.fence", 1),
    ],
)
def test_refused(text: str, sources: int) -> None:
    made = instruction(text, *(register(number) for number in range(sources + 1)))
    assert not supports(made)
    with pytest.raises(UnsupportedInstruction, match=f"line 1: {text} is not emulated: ") as caught:
        decode(made)
    assert isinstance(caught.value, PtxTemplatesError)


def test_refused_for_their_operands() -> None:
    registers = [register(number) for number in range(6)]
    pair = Pair(registers[0], registers[1])
    vector = Vector((registers[0], registers[1]))
    refused = [
        instruction("setp.lt.f16", pair, *registers[2:4]),
        instruction("add.f32", pair, *registers[2:4]),
        instruction("add.f32", registers[0], registers[1], Negated("!", registers[2])),
        instruction("mov.b32", vector, vector),
        instruction("mov.b32", Vector(tuple(registers[:3])), registers[3]),
        instruction("mov.u64", vector, registers[3]),
        instruction("lop3.b32", *registers[:5]),
        instruction("lop3.b32", *registers[:4], Immediate(300, "s64")),
        instruction("lop3.b32", *registers[:2]),
        instruction("mov.u32"),
        instruction("mov.u32", registers[0]),
        instruction("setp.lt.s32"),
    ]
    for made in refused:
        assert not supports(made), made.text


def test_supported_with_negated_predicates_and_sinks() -> None:
    registers = [register(number) for number in range(6)]
    negated = Negated("!", registers[4])
    for made in (
        instruction("setp.lt.and.s32", Pair(SINK, registers[1]), *registers[2:4], negated),
        instruction("selp.b32", *registers[:3], negated),
        instruction("and.pred", registers[0], negated, registers[1]),
        instruction("add.s32", registers[0], registers[1], Immediate(-5, "s64")),
        instruction("cvt.satfinite.relu.rn.f16x2.f32", *registers[:3]),
    ):
        assert supports(made), made.text
