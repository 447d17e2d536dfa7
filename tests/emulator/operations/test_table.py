"""Every spelling of every form against a reference in Python integers and rational numbers."""

from __future__ import annotations

import zlib
from itertools import islice, product

import numpy as np
import pytest

from ptxtemplates.emulator.operations import DTYPES, TABLE
from tests.emulator.operations.lanes import PACKED
from tests.emulator.operations.reference import REFERENCES
from tests.emulator.operations.running import guessed, spellings

FLOAT_BITS = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}


def float_edges(type_: str) -> list[int]:
    """Bit patterns: zeros, the smallest and largest subnormal and normal numbers, 1 and its neighbours, inf, NaN."""
    fraction, exponent = FLOAT_BITS[type_]
    one = ((1 << (exponent - 1)) - 1) << fraction
    top = ((1 << exponent) - 1) << fraction
    half_unit = one - (fraction + 1 << fraction)
    positive = [
        0,
        1,
        (1 << fraction) - 1,
        1 << fraction,
        half_unit,
        one - 1,
        one,
        one + 1,
        one + (3 << fraction - 1),
    ]
    positive += [
        one + (fraction << fraction) if fraction < 50 else one + (9 << fraction),
        top - 1,
        top,
        top | 1,
    ]
    positive += [top | 1 << (fraction - 1), one + (1 << fraction - 1), half_unit + 1]
    return [pattern | sign << (fraction + exponent) for pattern in positive for sign in (0, 1)]


def edges(type_: str, place: int) -> list[int]:
    if type_ == "pred":
        return [0, 1]
    if type_ in FLOAT_BITS:
        return float_edges(type_)
    if type_ in PACKED:
        halves = float_edges(PACKED[type_])
        return [low | high << 16 for low, high in zip(halves, halves[7:] + halves[:7], strict=True)]
    bits = 8 * DTYPES[type_].itemsize
    near = [
        0,
        1,
        2,
        3,
        7,
        15,
        16,
        17,
        31,
        32,
        33,
        63,
        64,
        127,
        128,
        255,
        256,
        0x8000,
        0x7FFF,
        0xFFFF,
        0x80000000,
    ]
    near += [
        0x7FFFFFFF,
        0xFFFFFF80,
        0x12345678,
        0x123456789ABCDEF0,
        0x00800000,
        0x007FFFFF,
        0x1000001,
        0x1000003,
    ]
    near += [(1 << bits) - 1, (1 << bits) - 2, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << (bits - 1)) + 1]
    near += [0x20000000000001, 0x20000000000003, 0x7FFFFFFFFFFFFC00, 0x7FFFFFFFFFFFFE00, 0x8000008000000001]
    return list(dict.fromkeys(pattern & ((1 << bits) - 1) for pattern in near))


def patterns(text: str, types: tuple[str, ...], count: int) -> list[list[int]]:
    """Combinations of edges, then random bits near and far: for each source, its patterns."""
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    columns = [edges(type_, place) for place, type_ in enumerate(types)]
    rows = list(islice(product(*columns), 40_000))
    if len(rows) > count:
        rows = [rows[index] for index in rng.choice(len(rows), count, replace=False)]
    for _ in range(count // 2):
        rows.append(tuple(_random(rng, type_) for type_ in types))
    return [list(column) for column in zip(*rows, strict=True)]


def _random(rng: np.random.Generator, type_: str) -> int:
    if type_ == "pred":
        return int(rng.integers(2))
    bits = 8 * DTYPES[type_].itemsize
    anything = int.from_bytes(rng.bytes(bits // 8), "little")
    if type_ in FLOAT_BITS and rng.random() < 0.8:
        # exponents near that of one, so that roundings meet
        fraction, exponent = FLOAT_BITS[type_]
        near = (
            (1 << (exponent - 1)) - 1 + int(rng.integers(-30, 30) if exponent > 5 else rng.integers(-12, 12))
        ) << fraction
        return near | anything & ((1 << fraction) - 1) | (anything >> (bits - 1)) << (bits - 1)
    if type_[0] in "bus" and rng.random() < 0.5:
        return anything >> int(rng.integers(bits))
    return anything


COUNTS = {"set": 40, "setp": 60, "cvt": 120, "slct": 80}
SLOW = ("sin", "cos", "lg2", "ex2", "tanh", "rsqrt")


def test_every_opcode_has_a_reference() -> None:
    assert set(TABLE) == set(REFERENCES)


def test_every_form_has_a_spelling() -> None:
    for opcode, forms in TABLE.items():
        for form in forms:
            for modifiers in form.spellings():
                first = next(each for each in forms if each.match(tuple(modifiers.split("."))) is not None)
                assert first is form, f"{opcode}.{modifiers} is two forms"


@pytest.mark.parametrize("opcode", sorted(TABLE))
def test_against_the_reference(opcode: str) -> None:
    for text in spellings(opcode):
        operation, _ = guessed(text)
        # the carry flag comes last
        source_types = operation.source_types + ("pred",) * operation.reads_carry
        result_types = operation.result_types + ("pred",) * operation.writes_carry
        columns = patterns(text, source_types, COUNTS.get(opcode, 100 if opcode in SLOW else 240))
        arrays = [
            np.array(column, np.bool_ if type_ == "pred" else f"u{DTYPES[type_].itemsize}").view(
                DTYPES[type_]
            )
            for column, type_ in zip(columns, source_types, strict=True)
        ]
        before = [array.tobytes() for array in arrays]
        results = operation.compute(*arrays)
        assert [array.tobytes() for array in arrays] == before, f"{text} writes to its sources"
        assert len(results) == len(result_types), text
        reference = REFERENCES[opcode](text.split(".")[1:])
        expected = [reference(*row) for row in zip(*columns, strict=True)]
        for place, (result, type_) in enumerate(zip(results, result_types, strict=True)):
            assert result.dtype == DTYPES[type_], text
            assert result.shape == arrays[0].shape, text
            found = [
                int(each)
                for each in (result if type_ == "pred" else result.view(f"u{result.dtype.itemsize}"))
            ]
            for row, actual, wanted in zip(zip(*columns, strict=True), found, expected, strict=True):
                if text == "rsqrt.approx.f64":  # two roundings in float64, and no bound in the ISA
                    assert abs(actual - wanted[place]) <= 2, [hex(source) for source in row]
                    continue
                assert actual == wanted[place], (
                    f"{text} of {[hex(source) for source in row]} is {wanted[place]:#x}, not {actual:#x}"
                )
