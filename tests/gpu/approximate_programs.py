"""Programs of approximate instructions, and the edges of the bounds that the ISA documents for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.operations import BOUNDS, DTYPES
from tests.emulator.operations.running import guessed
from tests.emulator.operations.test_accuracy import key_of
from tests.emulator.operations.test_table import edges
from tests.gpu.instruction_programs import InstructionProgram, groups, program_of, seed_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from ptxtemplates.emulator.operations import Operation
    from tests.gpu.instruction_programs import Words

    Floats = npt.NDArray[Any]

NEAR: Final = (0.01, 1.0, 8.0, 200.0)
"""Scales of numbers where the functions matter."""

OF_EACH_EXPONENT: Final = 16


class Bounds(NamedTuple):
    """The edges of the bound for rows of operands, and the correctly rounded results; of one type."""

    low: Floats
    high: Floats
    rounded: Floats


def approximate_spellings() -> dict[str, str]:
    """Return the lowest target of each approximate instruction that has a documented bound."""
    return {
        text: target
        for (_, target), texts in groups(approximate=True).items()
        for text in texts
        if BOUNDS[key_of(text)].text != "none"
    }


def approximate_program(spelling: str) -> InstructionProgram:
    """Return a program of one instruction."""
    operation, _ = guessed(spelling)
    return program_of(
        approximate_spellings()[spelling],
        [(spelling, operation)],
        lambda types: _operands(spelling, operation, types),
    )


def bounds_of(program: InstructionProgram) -> Bounds:
    """Compute the edges with the emulator's tables of bounds."""
    [result] = program.results
    operation, _ = guessed(result.spelling)
    sources = [
        program.columns[place].astype(f"u{DTYPES[type_].itemsize}").view(DTYPES[type_])
        for place, type_ in zip(result.sources, operation.source_types, strict=True)
    ]
    assert operation.worst is not None
    with np.errstate(all="ignore"):
        [inner] = operation.worst(lambda *values: np.zeros(values[0].shape, np.bool_))(*sources)
        [outer] = operation.worst(lambda *values: np.ones(values[0].shape, np.bool_))(*sources)
    [rounded] = operation.compute(*sources)
    first, second, middle = (typed(_words(each), result.type) for each in (inner, outer, rounded))
    # of what is given in ulp, the edges lie towards zero and away from it
    with np.errstate(invalid="ignore"):
        swapped = first > second
    return Bounds(np.where(swapped, second, first), np.where(swapped, first, second), middle)


def typed(words: Words, type_: str) -> Floats:
    """Return the numbers that words hold; both halves of a packed type one after the other."""
    halves = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}
    if type_ in halves:
        whole = words if type_ == "f32x2" else words.astype(np.uint32)
        return whole.view(DTYPES[halves[type_]])
    if type_ not in ("f16", "bf16", "f32", "f64"):
        return words
    return words.astype(f"u{DTYPES[type_].itemsize}").view(DTYPES[type_])


def beyond(got: Floats, bounds: Bounds) -> npt.NDArray[np.bool_]:
    """Say which results are outside; those without a bound must be the documented ones, with their sign."""
    with np.errstate(invalid="ignore"):
        inside = (got >= bounds.low) & (got <= bounds.high)
    special = (got == 0) & (bounds.low == 0) & (bounds.high == 0)
    inside &= ~special | (np.signbit(got) == np.signbit(bounds.rounded))
    outside: npt.NDArray[np.bool_] = ~(inside | (np.isnan(got) & np.isnan(bounds.rounded)))
    return outside


def share(got: Floats, bounds: Bounds) -> float:
    """Return how far the furthest result goes from the correctly rounded one towards the edge: 1 is at it."""
    with np.errstate(all="ignore"):
        low, high, middle, number = (each.astype(np.float64) for each in (*bounds, got))
        edge = np.where(number < middle, low, high)
        used = (number - middle) / (edge - middle)
    return float(used[np.isfinite(used)].max(initial=0.0))


def _words(values: Floats) -> Words:
    return values.view(f"u{values.dtype.itemsize}").astype(np.uint64)


def _operands(spelling: str, operation: Operation, types: tuple[str, ...]) -> list[Words]:
    rng = seed_of(spelling)
    columns = [_column(type_, rng) for type_ in types]
    columns = [rng.permutation(column) if number else column for number, column in enumerate(columns)]
    if operation.outside is not None:
        # where the ISA promises nothing
        values = [column.astype(np.uint32).view(np.float32) for column in columns]
        with np.errstate(invalid="ignore"):
            outside = operation.outside(*values)
        columns = [np.where(outside, 0, column) for column in columns]
    return columns


def _column(type_: str, rng: np.random.Generator) -> Words:
    """Return every number of 16 bits; of 32, edges, some of each exponent, and some where functions matter."""
    if DTYPES[type_].itemsize == 2:
        return np.arange(1 << 16, dtype=np.uint64)
    if type_ != "f32":
        every = np.arange(1 << 16, dtype=np.uint64)
        return every | rng.permutation(every) << np.uint64(16)
    tops = np.repeat(np.arange(1 << 9, dtype=np.uint64) << np.uint64(23), OF_EACH_EXPONENT)
    exponents = tops | rng.integers(0, 1 << 23, tops.size, np.uint64)
    near = (rng.choice(NEAR, 1 << 13) * rng.standard_normal(1 << 13)).astype(np.float32)
    return np.concatenate([np.array(edges("f32", 0), np.uint64), exponents, _words(near)])
