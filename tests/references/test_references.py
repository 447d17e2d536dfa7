"""The truths against others, and the cases as data."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxtemplates.errors import UnknownKernelError
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.kernels.rope import Rope, turns
from ptxtemplates.kernels.rope import pi as machin
from ptxtemplates.references import FAMILIES, baked, cases
from ptxtemplates.references.case import MOST_ROWS, Close, Input, Sparse, Table, some_rows
from ptxtemplates.references.flash_decoding import attended, partial, reduced, scored
from ptxtemplates.references.rope import directions, first_between, pi, position_of, rotated, table
from tests.helpers.toy import toy
from tests.helpers.variants import KERNELS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from ptxtemplates.kernel import Kernel

ROPE = BatchedRope(num_heads=2, head_dim=8, theta=1e4)
SMALL: dict[str, Kernel] = {
    kernel.variant: kernel
    for kernel in (
        ROPE,
        BatchedRopeBackward(num_heads=2, head_dim=8, theta=1e4),
        FlashDecodingReduce(head_dim=8, num_heads=2, chunk_size=3),
        FlashDecodingChunk(head_dim=8, num_heads=2, num_kv_heads=1, chunk_size=3, max_seq_len=10),
    )
}


def test_pi() -> None:
    assert str(pi(60)).startswith("3.14159265358979323846264338327950288419716939937510")
    assert abs(pi(200) - machin(200)) < Decimal(10) ** -195


@pytest.mark.parametrize("theta", [5e-324, 1e-300, 0.5, 1.0, 1e4, 5e5, 1e8, 1.7e308])
@pytest.mark.parametrize("head_dim", [2, 80, 512])
def test_two_ways_to_the_table_of_turns(theta: float, head_dim: int) -> None:
    assert table(theta, head_dim) == turns(theta, head_dim)


@pytest.mark.parametrize("position", [0, 1, 40, 2**24 + 1, 2**32 - 1])
def test_angles(position: int) -> None:
    """Pair 0 turns by one radian a position, pair 2 of 8 elements by theta^(-1/2) = 1/100."""
    with localcontext(prec=80):
        turn = [float(Decimal(position) / divisor / (2 * machin(70)) % 1) for divisor in (1, 100)]
    cosine, sine = directions(ROPE, [position])
    for pair, fraction in zip((0, 2), turn, strict=True):
        assert cosine[0, pair] == pytest.approx(math.cos(2 * math.pi * fraction), abs=2e-15)
        assert sine[0, pair] == pytest.approx(math.sin(2 * math.pi * fraction), abs=2e-15)


@given(st.integers(1, 60).flatmap(lambda modulus: st.tuples(
    st.just(modulus), st.integers(0, 2 * modulus), *[st.integers(0, modulus - 1)] * 2)))  # fmt: skip
def test_the_first_multiple_between_two_residues(numbers: tuple[int, int, int, int]) -> None:
    modulus, factor, *ends = numbers
    low, high = sorted(ends)
    between = (x for x in range(modulus) if low <= factor * x % modulus <= high)
    assert first_between(factor, modulus, low, high) == next(between, None)


@pytest.mark.parametrize("variant", [name for name in KERNELS if name.startswith("batched_rope")])
def test_every_eighth_of_a_turn_is_met(variant: str) -> None:
    """By some pair, at a 32-bit position; one less and more too."""
    kernel = KERNELS[variant]
    assert isinstance(kernel, Rope)
    [case] = [case for case in cases(kernel, 0) if case.name == "eighths"]
    positions = case.buffers["positions"]
    assert isinstance(positions, Input)
    entries = table(kernel.theta, kernel.head_dim)
    met = {entry * int(position) % 2**64 >> 32 for position in positions.array for entry in entries}
    assert met >= {(eighth * 2**29 + offset) % 2**32 for eighth in range(8) for offset in (-1, 0, 1)}


def test_a_turn_that_no_position_makes() -> None:
    """2^32 positions make about 2^32 (1 - 1/e) turns."""
    [entry] = table(1e4, 2)
    positions = [position_of(entry, turn) for turn in range(1, 1000)]
    assert 550 < sum(position is not None for position in positions) < 720
    for turn, position in enumerate(positions, start=1):
        assert position is None or entry * position % 2**64 >> 32 == turn


def test_rotation_keeps_norms() -> None:
    x = np.random.default_rng(0).standard_normal((3, 2, 8))
    exact = rotated(ROPE, x, [7, 2**31, 2**32 - 1]).exact
    assert np.allclose(np.linalg.norm(exact, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-14)


@pytest.mark.parametrize("keys", [1, 3, 4, 10, 100])
def test_attention_is_softmax_and_its_parts(keys: int) -> None:
    """Directly, and by the partials of its chunks: each within the bound of the other."""
    kernel = FlashDecodingChunk(head_dim=8, num_heads=1, num_kv_heads=1, chunk_size=3, max_seq_len=100)
    rng = np.random.default_rng(keys)
    query, key, value = rng.standard_normal(8), *rng.standard_normal((2, keys, 8))
    scores = scored(kernel, query, key)
    weights = np.exp(key @ query / math.sqrt(8))
    out = attended(kernel, scores, value)
    assert np.allclose(out.exact, weights @ value / weights.sum(), rtol=1e-12, atol=1e-13)
    assert (out.bound > 0).all()
    assert out.bound.max() < 1e-4
    chunks = [slice(first, first + 3) for first in range(0, keys, 3)]
    parts = [partial(kernel, scored(kernel, query, key[chunk]), value[chunk]).exact for chunk in chunks]
    assert (np.abs(reduced(np.array(parts)).exact - out.exact) <= out.bound).all()


def test_a_score_of_minus_infinity_counts_nothing() -> None:
    kernel = FlashDecodingChunk(head_dim=8, num_heads=1, num_kv_heads=1, chunk_size=3, max_seq_len=100)
    rng = np.random.default_rng(0)
    query, key, value = rng.standard_normal(8), *rng.standard_normal((2, 3, 8))
    key[1, 2] = -np.copysign(np.inf, query[2])
    both = partial(kernel, scored(kernel, query, key[::2]), value[::2])
    exact, bound = partial(kernel, scored(kernel, query, key), value)
    assert np.allclose(exact, both.exact, rtol=1e-14)
    assert (bound >= both.bound * (1 - 1e-9)).all()
    assert (bound < 1e-5).all()


def test_rows_of_every_magnitude() -> None:
    rows = some_rows(np.random.default_rng(0), 40_000, 70_000)
    assert {0, 1, 31, 32, 33, 255, 256, 2_048, 32_768, 40_000, MOST_ROWS - 1} <= set(rows)
    assert rows == sorted(set(rows))
    assert rows[-1] < MOST_ROWS


def test_a_bound_of_far_apart_maxima_is_a_number() -> None:
    """3e38 and -3e38 are further apart than float32 reaches, and so is their distance times any error."""
    part = np.zeros((2, 10), np.float32)
    part[:, -2], part[:, -1] = (3e38, -3e38), 1
    exact, bound = reduced(part)
    assert (exact == 0).all()
    assert (bound < 1e-30).all()


@pytest.mark.parametrize("kernel", SMALL.values(), ids=SMALL)
def test_cases_are_sound_data(kernel: Kernel) -> None:
    for case in cases(kernel, 0):
        assert any(launch.kernel == kernel for launch in case.launches), case.name
        for launch in case.launches:
            assert len(launch.arguments) == len(launch.kernel.arguments)
            assert {word for word in launch.arguments if isinstance(word, str)} <= set(case.buffers)
            for block in launch.blocks or ():
                assert all(0 <= place < extent for place, extent in zip(block, launch.grid, strict=True))
        for expectation in case.expectations:
            buffer = case.buffers[expectation.buffer]
            assert not isinstance(buffer, Table)
            size = expectation.exact.size if isinstance(expectation, Close) else expectation.size
            assert expectation.at + size <= math.prod(buffer.shape), case.name
            if isinstance(expectation, Close):
                assert not np.isnan(expectation.bound[np.isfinite(expectation.exact)]).any(), case.name


def content(kernel: Kernel, seed: int) -> dict[str, bytes]:
    """Return everything that the cases of a kernel fill buffers with, in one string of bytes each."""
    result = {}
    for case in cases(kernel, seed):
        arrays = [buffer.array for buffer in case.buffers.values() if isinstance(buffer, Input)]
        for buffer in case.buffers.values():
            if isinstance(buffer, Sparse):
                arrays += [piece.array for piece in buffer.pieces]
        result[case.name] = b"".join(array.tobytes() for array in arrays)
    return result


@pytest.mark.parametrize("kernel", SMALL.values(), ids=SMALL)
def test_inputs_depend_on_the_seed_alone(kernel: Kernel) -> None:
    first, again, other = content(kernel, 1), content(kernel, 1), content(kernel, 2)
    assert first == again
    assert all(first[name] != other[name] for name in first if name != "no-chunks")


def test_every_case_is_documented() -> None:
    text = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    for kernel, family in FAMILIES.items():
        for name in family.cases:
            assert f"`{name}`" in text, f"{kernel.name}: {name}"


def test_constants_of_a_definition() -> None:
    assert baked(KERNELS["flash_decoding_reduce.d80.h32.c64"]).floats == {"log2(e)": 0x3FB8AA3B}
    assert baked(KERNELS["flash_decoding_chunk.d128.h28.c256.kv4.s32768"]).integers == {
        "2^64 / group size": 0x2492492492492493
    }


def test_a_kernel_without_cases_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownKernelError, match="toy has no cases to be verified by"):
        list(cases(toy(tmp_path), 0))
