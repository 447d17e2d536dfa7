"""Approximate results at the edges of the documented bounds, against 60 digits of the exact ones."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ptxtemplates.emulator.operations import BOUNDS, DTYPES, TABLE, Worst, decode
from tests.emulator.operations import ieee
from tests.emulator.operations.lanes import PACKED
from tests.emulator.operations.running import guessed, instruction, register, spellings

SEEDS = range(20)
Error = Callable[[Fraction, float], Fraction]


def power(exponent: str) -> Fraction:
    with localcontext() as context:
        context.prec = 60
        return Fraction(*(Decimal(2) ** Decimal(exponent)).as_integer_ratio())


def relative(exponent: str) -> Error:
    return lambda exact, _: abs(exact) * power(exponent)


def circular(exact: Fraction, a: float) -> Fraction:
    return power("-20.5") if abs(a) <= 6.2831 else power("-14.7")


def logarithm(exact: Fraction, a: float) -> Fraction:
    return power("-22") * (1 if 0.5 < a < 2 else abs(exact))


# the ISA's numbers: a largest absolute error, or ulp
STATED: dict[str, tuple[str, Error | int]] = {
    "sin.approx.f32": ("f32", circular),
    "cos.approx.f32": ("f32", circular),
    "lg2.approx.f32": ("f32", logarithm),
    "ex2.approx.f32": ("f32", 2),
    "ex2.approx.f16": ("f16", relative("-9.9")),
    "ex2.approx.ftz.bf16": ("bf16", relative("-7")),
    "tanh.approx.f32": ("f32", relative("-11")),
    "tanh.approx.f16": ("f16", lambda exact, a: power("-10.987")),
    "tanh.approx.bf16": ("bf16", lambda exact, a: power("-8")),
    "rsqrt.approx.f32": ("f32", relative("-22.9")),
    "rcp.approx.f32": ("f32", 1),
    "sqrt.approx.f32": ("f32", relative("-23")),
    "div.approx.f32": ("f32", 2),
    "div.full.f32": ("f32", 2),
}


def bits_of(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.view(f"u{values.dtype.itemsize}")


def computed(text: str, sources: list[npt.NDArray[Any]], seed: int | None, line: int = 1) -> npt.NDArray[Any]:
    made = instruction(text, *(register(number) for number in range(len(sources) + 1)))._replace(line=line)
    (result,) = decode(made, None if seed is None else Worst(seed)).compute(*sources)
    return result


def operands(text: str, type_: str, lanes: int) -> list[npt.NDArray[Any]]:
    """Random bit patterns, and numbers near those where the functions matter."""
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    dtype = DTYPES[type_]

    def column() -> npt.NDArray[Any]:
        near = rng.choice([0.01, 1.0, 8.0, 200.0], lanes) * rng.standard_normal(lanes)
        anything = rng.integers(0, 1 << 8 * dtype.itemsize, lanes, dtype=f"u{dtype.itemsize}").view(dtype)
        whole = [0.25, 0.5, 1, 2, 3, 4, 16, 17, -1, -2, -120, -126, -149, 127, 128, 1e-3, 2**-14, 6.25, 6.5]
        values = np.concatenate([near.astype(dtype), anything, np.array(whole, dtype)])
        return np.abs(values) if text.startswith(("lg2", "sqrt", "rsqrt")) else values

    return [column() for _ in range(2 if text.startswith("div") else 1)]


def exactly(name: str, *values: float) -> Fraction | None:
    """Return the exact result, to 60 digits; None where it is a special value."""
    if any(value == 0 or not math.isfinite(value) for value in values):
        return None
    if name == "div":
        return Fraction(values[0]) / Fraction(values[1])
    (a,) = values
    if name == "rcp":
        return 1 / Fraction(a)
    if name == "tanh" and abs(a) > 50:
        return Fraction(math.copysign(1, a)) * (1 - Fraction(1, 10**40))
    if name == "ex2" and (a == int(a) or abs(a) > 2000):
        return Fraction(2) ** max(min(int(a), 2000), -2000)
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(a).sqrt() if name == "sqrt" else ieee._decimal(name, Decimal(a))
        return Fraction(*exact.as_integer_ratio())


def ordinal(value: float, type_: str) -> int:
    """Number the values of a type in their order, both zeros 0."""
    bits = ieee.to_bits(value, type_)
    sign = 1 << (31 if type_ == "f32" else 15)
    return -(bits ^ sign) if bits & sign else bits


def numbered(place: int, type_: str) -> float:
    return ieee.from_bits(abs(place), type_) * (-1 if place < 0 else 1)


def unbounded(text: str, *values: float) -> bool:
    """Operands for which the result is defined, or nothing is said of it."""
    if text == "div.approx.f32":
        return not 2.0**-126 <= abs(values[1]) <= 2.0**126
    if text in ("tanh.approx.f32", "ex2.approx.ftz.bf16"):
        return abs(values[0]) < 2.0**-126
    return text[:3] in ("sin", "cos") and abs(values[0]) > 100 * math.pi


@pytest.mark.parametrize("text", STATED)
def test_results_lie_at_both_edges_of_the_bound_and_not_beyond(text: str) -> None:
    type_, stated = STATED[text]
    name = text.split(".")[0]
    sources = operands(text, type_, 120)
    nearest = computed(text, sources, None)
    outcomes = [computed(text, sources, seed) for seed in SEEDS]
    tested = 0
    patterns = zip(*(bits_of(source).tolist() for source in sources), strict=True)
    for lane, row in enumerate(patterns):
        values = [ieee.from_bits(pattern, type_) for pattern in row]
        found = {ieee.from_bits(int(bits_of(outcome)[lane]), type_) for outcome in outcomes}
        rounded = ieee.from_bits(int(bits_of(nearest)[lane]), type_)
        exact = exactly(name, *values)
        if exact is None or unbounded(text, *values) or not math.isfinite(rounded):
            assert all(bits_of(outcome)[lane] == bits_of(nearest)[lane] for outcome in outcomes), values
            continue
        if "ftz" in text and abs(exact) < Fraction(2) ** -125:
            continue  # flushed
        low, high = min(found), max(found)
        assert len(found) <= 2
        assert low <= rounded <= high, values
        outer = [numbered(ordinal(low, type_) - 1, type_), numbered(ordinal(high, type_) + 1, type_)]
        tested += low < high
        if isinstance(stated, int):
            # steps from the rounded result, not across zero or to infinity
            steps = [abs(ordinal(edge, type_) - ordinal(rounded, type_)) for edge in (low, high)]
            for edge, step, beyond in zip((low, high), steps, outer, strict=True):
                assert step == stated or (step < stated and (edge == 0 or math.isinf(beyond))), values
            continue
        error = stated(exact, values[0])
        for edge, beyond in zip((low, high), outer, strict=True):
            distance = abs(Fraction(edge) - exact)
            # among subnormal numbers, the nearest may already be too far
            assert distance <= error or edge == rounded, (values, edge)
            # float64 cannot tell numbers closer to the limit than this
            limit = error - (abs(exact) + error) * Fraction(1, 2**50)
            farther = math.isinf(beyond) or abs(Fraction(beyond) - exact) > limit
            assert farther, (values, edge, beyond)
    assert tested > 60


def approximate_spellings() -> Iterator[str]:
    for opcode in TABLE:
        for text in spellings(opcode):
            if {"approx", "full"} & set(text.split(".")):
                yield text


def key_of(text: str) -> tuple[str, str, str]:
    opcode, *modifiers = text.split(".")
    type_ = PACKED.get(modifiers[-1], modifiers[-1])
    qualifiers = [part for part in modifiers[:-1] if part != "ftz" or type_ == "f64"]
    return opcode, type_, ".".join(qualifiers)


def test_every_approximate_instruction_has_an_entry() -> None:
    assert {key_of(text) for text in approximate_spellings()} == set(BOUNDS)
    assert {text for text in approximate_spellings() if BOUNDS[key_of(text)].text == "none"} == {
        "rsqrt.approx.f64",
        "rsqrt.approx.ftz.f64",
        "rcp.approx.ftz.f64",
    }


@pytest.mark.parametrize("opcode", sorted(TABLE))
def test_nothing_else_has_another_accuracy(opcode: str) -> None:
    approximate = {text for text in approximate_spellings() if BOUNDS[key_of(text)].text != "none"}
    for text in spellings(opcode):
        operation, _ = guessed(text)
        assert (operation.worst is not None) == (text in approximate), text


def test_flushed_after_the_error() -> None:
    a = np.linspace(-128, -124, 4001, dtype=np.float32)
    plain = np.stack([computed("ex2.approx.f32", [a], seed) for seed in SEEDS])
    flushed = np.stack([computed("ex2.approx.ftz.f32", [a], seed) for seed in SEEDS])
    plain[plain < 2.0**-126] = 0
    assert (flushed.min(axis=0) == plain.min(axis=0)).all()
    assert (flushed.max(axis=0) == plain.max(axis=0)).all()


@pytest.mark.parametrize("text", ["ex2.approx.f16x2", "tanh.approx.bf16x2"])
def test_packed_halves_are_single_ones(text: str) -> None:
    half = PACKED[text.split(".")[-1]]
    rng = np.random.default_rng(5)
    low, high = (rng.standard_normal(2000).astype(DTYPES[half]) for _ in range(2))
    whole = bits_of(low).astype(np.uint32) | bits_of(high).astype(np.uint32) << np.uint32(16)
    packed = np.stack([computed(text, [whole], seed) for seed in SEEDS])
    for place, source in enumerate((low, high)):
        single = np.stack([computed(text.removesuffix("x2"), [source], seed) for seed in SEEDS])
        halves = (packed >> np.uint32(16 * place)).astype(np.uint16).view(DTYPES[half]).astype(np.float32)
        assert (halves.min(axis=0) == single.astype(np.float32).min(axis=0)).all()
        assert (halves.max(axis=0) == single.astype(np.float32).max(axis=0)).all()


@pytest.mark.parametrize("text", ["ex2.approx.f32", "cos.approx.f32", "div.full.f32"])
def test_the_choice_is_a_function_of_seed_instruction_and_operands(text: str) -> None:
    rng = np.random.default_rng(6)
    # more lanes than are computed at once
    sources = [rng.standard_normal(40_000).astype(np.float32) for _ in range(2 if "div" in text else 1)]
    found = computed(text, sources, 3)
    assert (found == computed(text, sources, 3)).all()
    pieces = [
        computed(text, [source[start : start + 777] for source in sources], 3)
        for start in range(0, 40_000, 777)
    ]
    assert (np.concatenate(pieces) == found).all()
    assert (computed(text, [source[::-1] for source in sources], 3)[::-1] == found).all()
    up = found > computed(text, sources, None)
    for other in (computed(text, sources, 4), computed(text, sources, 3, line=2)):
        changed = (other > computed(text, sources, None)) != up
        # half of the lanes: four deviations of a fair coin are 0.01
        assert abs(changed.mean() - 0.5) < 0.02
    assert abs(up.mean() - 0.5) < 0.02


def test_equal_divisors_do_not_make_equal_choices() -> None:
    a = np.arange(1, 4001, dtype=np.float32)
    three = np.full(4000, 3, np.float32)
    for sources in ([a, three], [three, a]):
        up = computed("div.full.f32", sources, 0) > computed("div.full.f32", sources, None)
        assert abs(up.mean() - 0.5) < 0.04


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("accuracy", [None, Worst(0)])
def test_angles_without_a_bound_are_outside(name: str, accuracy: Worst | None) -> None:
    operation = decode(instruction(f"{name}.approx.f32", register(0), register(1)), accuracy)
    assert operation.outside is not None
    a = np.array(
        [0, 6, -314.15924, 314.15924, 314.15927, -315, 3e38, math.inf, -math.inf, math.nan], np.float32
    )
    assert operation.outside(a).tolist() == [False] * 4 + [True] * 3 + [False] * 3


def test_nothing_else_is_outside() -> None:
    for text in approximate_spellings():
        operation, _ = guessed(text)
        assert (operation.outside is not None) == text.startswith(("sin", "cos")), text
