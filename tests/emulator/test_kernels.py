"""The rendered kernels, executed, against float64; every case from the field that concerns them.

Bounds are derived from the arithmetic, with u = 2^-24 the unit roundoff of float32:

- RoPE: a pair (e, o) is off by at most (|e| + |o|) times 8e-8 for sine and cosine, u for the product that is
  rounded on its own, and u for the result.
- A weight exp(x - m) = 2^((x - m) log2 e) is off by a factor of 3 u |x - m| (difference, constant, product) and
  4 u (the documented 2 ulp of ex2.approx); each of the steps in which a running sum is rescaled adds 4 u and a
  rounding. A sum of n terms adds n u.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

from ptxtemplates.emulator import PointerTable, Unwritten, emulate
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.kernels.rope import pi
from ptxtemplates.rendering import render

if TYPE_CHECKING:
    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel

    Floats = npt.NDArray[np.float32]

U: Final = 2.0**-24
GUARD: Final = np.float32(-12345.0)
NAN, INFINITY = np.float32("nan"), np.float32("inf")
POSITIONS: Final = (
    0, 1, 40, 1_000, 2_000, 131_069, 131_070, 131_071, 1_048_575, 8_984_417, 2**24 + 1, 3_769_183_842, 4_294_967_295,
)  # fmt: skip


def run(kernel: Kernel, rows: int, arguments: list[Any], **more: Any) -> None:
    """Execute a kernel on its grid; no finding is allowed."""
    sizes = {"rows": rows, "max_chunks": arguments[-1] if isinstance(arguments[-1], int) else 1}
    x, y, z = (sizes[extent] if isinstance(extent, str) else extent for extent in kernel.grid)
    report = emulate(render(kernel).text, kernel.entry, (x, y, z), kernel.block, arguments, **more)
    assert report.findings == ()


def guarded(shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return a poisoned output and the larger array that it lies in, with a value on both sides to be left alone."""
    whole = np.full(int(np.prod(shape)) + 64, GUARD, np.float32)
    inner = whole[32:-32].reshape(shape)
    inner[:] = NAN
    return inner, whole


# ---- RoPE


def angles(theta: float, head_dim: int, position: int) -> npt.NDArray[np.float64]:
    """Return the angle of each pair, reduced to one turn before float64 has to hold it."""
    with localcontext(prec=80):
        turn = [
            (Decimal(theta).ln() * (-2 * i) / head_dim).exp() * position / (2 * pi(70))
            for i in range(head_dim // 2)
        ]
        return np.array([float(value % 1) for value in turn]) * (2 * np.pi)


def rotated(
    x: Floats, theta: float, positions: Any, sign: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the rotation in float64, and the bound of each element."""
    exact, bound = np.empty(x.shape), np.empty(x.shape)
    for row, position in enumerate(positions):
        angle = angles(theta, x.shape[-1], int(position))
        even, odd = (x[row, :, part::2].astype(np.float64) for part in (0, 1))
        cosine, sine = np.cos(angle), sign * np.sin(angle)
        exact[row, :, 0::2] = even * cosine - odd * sine
        exact[row, :, 1::2] = even * sine + odd * cosine
        bound[row, :, 0::2] = bound[row, :, 1::2] = (np.abs(even) + np.abs(odd)) * (8e-8 + 2 * U)
    return exact, bound


def rope(kernel: Kernel, x: Floats, positions: Any) -> Floats:
    out, whole = guarded(x.shape)
    before = x.copy()
    run(kernel, len(positions), [x, Unwritten(out), np.array(positions, np.uint32)])
    assert np.array_equal(x, before, equal_nan=True)
    assert (whole[:32] == GUARD).all()
    assert (whole[-32:] == GUARD).all()
    return out


@pytest.mark.parametrize("theta", [0.5, 1e4, 5e5, 1e8])
@pytest.mark.parametrize(("kernel", "sign"), [(BatchedRope, 1), (BatchedRopeBackward, -1)])
def test_rope_at_every_listed_position(
    kernel: type[BatchedRope] | type[BatchedRopeBackward], sign: int, theta: float
) -> None:
    x = np.random.default_rng(1).standard_normal((len(POSITIONS), 3, 64)).astype(np.float32)
    out = rope(kernel(num_heads=3, head_dim=64, theta=theta), x, POSITIONS)
    exact, bound = rotated(x, theta, POSITIONS, sign)
    assert (np.abs(out - exact) <= bound).all()
    assert np.array_equal(out[0], x[0])  # position 0


@pytest.mark.parametrize("head_dim", [2, 64, 80, 96, 112, 128, 192, 256, 512])
def test_rope_of_every_head_size(head_dim: int) -> None:
    rng = np.random.default_rng(head_dim)
    positions = rng.integers(0, 2**32, 5)
    x = rng.standard_normal((5, 1, head_dim)).astype(np.float32)
    forward = BatchedRope(num_heads=1, head_dim=head_dim, theta=1e4)
    out = rope(forward, x, positions)
    exact, bound = rotated(x, 1e4, positions, 1)
    assert (np.abs(out - exact) <= bound).all()
    norms = np.linalg.norm(x.astype(np.float64), axis=-1), np.linalg.norm(out.astype(np.float64), axis=-1)
    assert np.allclose(*norms, rtol=2 * (8e-8 + 2 * U) * np.sqrt(2))
    back = rope(BatchedRopeBackward(num_heads=1, head_dim=head_dim, theta=1e4), out, positions)
    assert (np.abs(back - x) <= 4 * bound).all()


def test_rope_in_place_equals_out_of_place() -> None:
    kernel = BatchedRope(num_heads=2, head_dim=64, theta=1e4)
    x = np.random.default_rng(2).standard_normal((4, 2, 64)).astype(np.float32)
    positions = np.array([5, 6, 7, 8], np.uint32)
    expected = rope(kernel, x, positions)
    text, array = render(kernel).text, x.copy()
    report = emulate(text, kernel.entry, (2, 4, 1), (32, 1, 1), [array, array, positions])
    assert report.findings == ()
    assert array.tobytes() == expected.tobytes()


def test_rope_special_values_spoil_their_pair_alone() -> None:
    kernel = BatchedRope(num_heads=1, head_dim=64, theta=1e4)
    x = np.random.default_rng(3).standard_normal((1, 1, 64)).astype(np.float32)
    plain = rope(kernel, x.copy(), [7])
    x[0, 0, 6], x[0, 0, 21] = NAN, INFINITY
    out = rope(kernel, x, [7])
    spoiled = np.isin(np.arange(64) // 2, (3, 10))
    assert np.array_equal(out[0, 0, ~spoiled], plain[0, 0, ~spoiled])
    assert not np.isfinite(out[0, 0, spoiled]).all()


def test_rope_rows_do_not_depend_on_the_batch() -> None:
    kernel = BatchedRope(num_heads=2, head_dim=64, theta=1e4)
    x = np.random.default_rng(4).standard_normal((1, 2, 64)).astype(np.float32)
    alone = rope(kernel, x, [77])
    batch = rope(kernel, np.repeat(x, 9, axis=0), [77] * 9)
    assert all(row.tobytes() == alone[0].tobytes() for row in batch)


def test_rope_beyond_4_gib() -> None:
    """Row 32,768 of 128 heads x 256 starts at byte 2^32; the last legal row too. Pages nobody touches cost nothing."""
    kernel = BatchedRope(num_heads=128, head_dim=256, theta=1e4)
    rows = 65_535
    x = np.zeros((rows, 128, 256), np.float32)
    out = np.zeros((rows, 128, 256), np.float32)
    positions = np.zeros(rows, np.uint32)
    for row in (0, 32_768, rows - 1):
        x[row, 127] = np.random.default_rng(row).standard_normal(256)
        positions[row] = row + 3
    text = render(kernel).text
    some = [(127, row, 0) for row in (0, 32_768, rows - 1)]
    report = emulate(text, kernel.entry, (128, rows, 1), kernel.block, [x, out, positions], blocks=some)
    assert report.findings == ()
    for row in (0, 32_768, rows - 1):
        exact, bound = rotated(x[row : row + 1, 127:], 1e4, [row + 3], 1)
        assert (np.abs(out[row, 127] - exact[0, 0]) <= bound[0, 0]).all()
        assert np.abs(out[row, 127]).max() > 0.1


# ---- reduce


def partials(rng: np.random.Generator, rows: int, heads: int, chunks: int, head_dim: int) -> Floats:
    result = rng.standard_normal((rows, heads, chunks, head_dim + 2)).astype(np.float32) * np.float32(3)
    result[..., -1] = rng.uniform(1, 16, result.shape[:-1])
    return result


def reduced(part: Floats, counts: list[int]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the reduction in float64, and the bound of each element."""
    head_dim = part.shape[-1] - 2
    exact, bound = np.zeros((*part.shape[:2], head_dim)), np.zeros((*part.shape[:2], head_dim))
    for row, count in enumerate(counts):
        for head in range(part.shape[1]):
            used = part[row, head, :count].astype(np.float64)
            used = used[used[:, head_dim] != -np.inf]
            if not len(used):
                continue
            distance = used[:, head_dim].max() - used[:, head_dim]
            weight = np.exp(-distance)
            tiles = -(-count // 32)
            error = weight * (3 * U * distance + (4 + count + 6 * tiles) * U)
            total = (weight * used[:, head_dim + 1]).sum()
            values = np.abs(used[:, :head_dim])
            exact[row, head] = (weight[:, None] * used[:, :head_dim]).sum(0) / total
            numerator = (error[:, None] * values).sum(0)
            denominator = (error * used[:, head_dim + 1]).sum() / total
            bound[row, head] = 1.01 * (numerator / total + np.abs(exact[row, head]) * (denominator + 8 * U))
    return exact, bound + 1e-37


def reduce_(part: Floats, lengths: list[int], chunk_size: int, max_chunks: int | None = None) -> Floats:
    rows, heads, chunks, width = part.shape
    out, whole = guarded((rows, heads, width - 2))
    kernel = FlashDecodingReduce(head_dim=width - 2, num_heads=heads, chunk_size=chunk_size)
    limit = chunks if max_chunks is None else max_chunks
    run(kernel, rows, [part, Unwritten(out), np.array(lengths, np.uint32), limit])
    assert (whole[:32] == GUARD).all()
    assert (whole[-32:] == GUARD).all()
    return out


@pytest.mark.parametrize("head_dim", [8, 64, 72, 80, 128, 504, 512])
@pytest.mark.parametrize("chunks", [1, 7, 8, 9, 31, 32, 33, 85])
def test_reduce(head_dim: int, chunks: int) -> None:
    rng = np.random.default_rng(1000 * head_dim + chunks)
    part = partials(rng, 2, 1, chunks, head_dim)
    counts = [chunks, max(1, chunks - 1)]
    part[1, :, counts[1] :] = NAN  # slots beyond a row's chunks must not count
    out = reduce_(part, [count * 16 - 3 for count in counts], 16)
    exact, bound = reduced(part, counts)
    assert (np.abs(out - exact) <= bound).all()


@pytest.mark.parametrize("chunk_size", [1, 3, 16, 48, 256, 65_536])
def test_reduce_of_every_chunk_size(chunk_size: int) -> None:
    part = partials(np.random.default_rng(chunk_size), 1, 1, 6, 8)
    for length in {
        1,
        chunk_size - 1,
        chunk_size,
        chunk_size + 1,
        5 * chunk_size,
        6 * chunk_size,
        0xFFFFFFF8,
        0xFFFFFFFF,
    }:
        count = min(-(-length // chunk_size), 6)
        exact, bound = reduced(part, [count])
        assert (np.abs(reduce_(part, [length], chunk_size) - exact) <= bound).all()


@pytest.mark.parametrize("heads", [65, 96, 200])
def test_reduce_of_many_heads(heads: int) -> None:
    part = partials(np.random.default_rng(heads), 1, heads, 3, 8)
    exact, bound = reduced(part, [3])
    assert (np.abs(reduce_(part, [48], 16) - exact) <= bound).all()


def test_reduce_empty_rows_are_written_with_zeros() -> None:
    part = partials(np.random.default_rng(5), 3, 2, 4, 64)
    part[1] = NAN
    part[1, :, :, 64:] = (-INFINITY, 0)
    out = reduce_(part, [0, 64, 64], 16)
    assert (out[:2] == 0).all()
    assert np.isfinite(out[2]).all()
    assert (reduce_(part, [64, 64, 64], 16, max_chunks=0) == 0).all()


@pytest.mark.parametrize("level", [-6e4, -1e30, -3e38, 3e38])
def test_reduce_any_finite_maximum_is_ordinary(level: float) -> None:
    part = partials(np.random.default_rng(6), 1, 2, 5, 64)
    part[..., 64] = np.float32(level)
    exact, bound = reduced(part, [5])
    assert (np.abs(reduce_(part, [80], 16) - exact) <= bound).all()


def test_reduce_two_chunks_of_unequal_mass() -> None:
    part = partials(np.random.default_rng(7), 1, 1, 2, 64)
    part[0, 0, :, 64] = (0, -1)
    exact, bound = reduced(part, [2])
    assert (np.abs(reduce_(part, [32], 16) - exact) <= bound).all()


@pytest.mark.parametrize(("element", "value"), [(64, NAN), (65, NAN), (64, INFINITY)])
def test_reduce_nan_in_a_chunk_spoils_its_row_and_head_alone(element: int, value: np.float32) -> None:
    part = partials(np.random.default_rng(8), 2, 2, 40, 64)
    plain = reduce_(part, [640, 640], 16)
    part[1, 0, 35, element] = value
    out = reduce_(part, [640, 640], 16)
    assert np.isnan(out[1, 0]).all()
    kept = [(0, 0), (0, 1), (1, 1)]
    assert all(out[index].tobytes() == plain[index].tobytes() for index in kept)


def test_reduce_nan_value_spoils_its_element_alone() -> None:
    part = partials(np.random.default_rng(9), 1, 1, 40, 64)
    plain = reduce_(part, [640], 16)
    part[0, 0, 3, 5] = NAN
    out = reduce_(part, [640], 16)
    assert np.flatnonzero(np.isnan(out)).tolist() == [5]
    assert np.array_equal(np.delete(out, 5), np.delete(plain, 5))


def test_reduce_empty_chunks_among_others_count_nothing() -> None:
    part = partials(np.random.default_rng(10), 1, 1, 40, 64)
    part[0, 0, :33] = NAN
    part[0, 0, :33, 64:] = (-INFINITY, 0)
    exact, bound = reduced(part, [40])
    assert (np.abs(reduce_(part, [640], 16) - exact) <= bound).all()


def test_reduce_rows_do_not_depend_on_the_batch() -> None:
    part = partials(np.random.default_rng(11), 1, 3, 37, 80)
    alone = reduce_(part, [37 * 16], 16)
    batch = reduce_(np.repeat(part, 7, axis=0), [37 * 16] * 7, 16)
    assert all(row.tobytes() == alone[0].tobytes() for row in batch)


# ---- chunk, and chunk then reduce


class Decoding(NamedTuple):
    """Sizes of one step of decoding: room for keys in each row, rows of some lengths, chunks in the partials."""

    head_dim: int
    heads: int
    kv_heads: int
    chunk_size: int
    room: int
    lengths: list[int]
    chunks: int


def attention(
    sizes: Decoding, spread: float
) -> tuple[Floats, Floats, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Run both kernels; return output, partials, attention in float64 and its bound."""
    head_dim, heads, kv_heads, chunk_size, room, lengths, chunks = sizes
    rng = np.random.default_rng(head_dim * heads + chunk_size)
    rows = len(lengths)
    query = (rng.standard_normal((rows, heads, head_dim)) * spread).astype(np.float32)
    keys = [rng.standard_normal((kv_heads, room, head_dim)).astype(np.float32) for _ in lengths]
    values = [rng.standard_normal((kv_heads, room, head_dim)).astype(np.float32) for _ in lengths]
    for key, value, length in zip(keys, values, lengths, strict=True):
        key[:, length:], value[:, length:] = NAN, INFINITY
    part = np.full((rows, heads, chunks, head_dim + 2), NAN, np.float32)
    out, _ = guarded((rows, heads, head_dim))
    seq_lens = np.array(lengths, np.uint32)
    chunk = FlashDecodingChunk(
        head_dim=head_dim, num_heads=heads, num_kv_heads=kv_heads, chunk_size=chunk_size, max_seq_len=room
    )
    run(chunk, rows, [query, PointerTable(keys), PointerTable(values), part, seq_lens, chunks])
    reduce = FlashDecodingReduce(head_dim=head_dim, num_heads=heads, chunk_size=chunk_size)
    run(reduce, rows, [part, Unwritten(out), seq_lens, chunks])
    exact, bound = np.zeros(out.shape), np.zeros(out.shape)
    for row in range(rows):
        used = min(lengths[row], room, chunks * chunk_size)
        for head in range(heads) if used else ():
            kv_head = head * kv_heads // heads
            exact_key, exact_value = (
                array[row][kv_head, :used].astype(np.float64) for array in (keys, values)
            )
            scores = exact_key @ query[row, head].astype(np.float64) * head_dim**-0.5
            magnitudes = np.abs(exact_key) @ np.abs(query[row, head]).astype(np.float64) * head_dim**-0.5
            probabilities = np.exp(scores - scores.max())
            probabilities /= probabilities.sum()
            exact[row, head] = probabilities @ exact_value
            slots = -(-head_dim // 64)
            of_score = (2 * slots + 7) * U * magnitudes + 2 * U * np.abs(scores)
            steps = -(-chunk_size // 4) + -(-chunks // 32)
            of_weight = (
                2 * of_score.max() + of_score + 6 * U * (scores.max() - scores) + (16 + 6 * steps + used) * U
            )
            relative = (probabilities * of_weight).sum()
            bound[row, head] = 1.01 * (
                (probabilities * of_weight) @ np.abs(exact_value) + np.abs(exact[row, head]) * relative
            )
    return out, part, exact, bound + 8 * U * np.abs(exact)


@pytest.mark.parametrize(
    "sizes",
    [
        Decoding(64, 8, 2, 16, 100, [0, 1, 15, 16, 17, 100, 140, 40], 7),
        Decoding(8, 3, 3, 5, 23, [23, 20, 3], 5),
        Decoding(80, 4, 1, 16, 70, [40, 20], 3),
        Decoding(128, 8, 1, 3, 120, [120, 99, 1], 40),
        Decoding(72, 7, 1, 1, 50, [50, 35], 50),
        Decoding(256, 2, 1, 64, 130, [130, 64, 63], 2),
        Decoding(512, 1, 1, 2, 40, [33], 20),
        Decoding(16, 32, 1, 128, 300, [300, 129], 3),
    ],
)
@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_chunk_and_reduce(sizes: Decoding, spread: float) -> None:
    out, part, exact, bound = attention(sizes, spread)
    assert (np.abs(out - exact) <= bound).all()
    for row, length in enumerate(sizes.lengths):
        for chunk in range(-(-min(length, sizes.room) // sizes.chunk_size), sizes.chunks):  # empty ones
            assert (part[row, :, chunk, sizes.head_dim] == -INFINITY).all()
            assert (part[row, :, chunk, sizes.head_dim + 1] == 0).all()


@pytest.mark.parametrize("level", [1e4, -1e4])
def test_chunk_scores_far_from_zero_do_not_overflow(level: float) -> None:
    head_dim, keys = 64, np.zeros((1, 20, 64), np.float32)
    keys[0, :, 0] = level + np.arange(20)
    query = np.zeros((1, 1, 64), np.float32)
    query[0, 0, 0] = head_dim**0.5
    values = np.random.default_rng(12).standard_normal((1, 20, 64)).astype(np.float32)
    part = np.full((1, 1, 2, 66), NAN, np.float32)
    kernel = FlashDecodingChunk(head_dim=64, num_heads=1, num_kv_heads=1, chunk_size=16, max_seq_len=20)
    run(kernel, 1, [query, PointerTable([keys]), PointerTable([values]), part, np.array([20], np.uint32), 2])
    assert np.isfinite(part).all()
    assert np.allclose(part[0, 0, :, 64], [level + 15, level + 19], rtol=4 * U)
    exact = np.exp(np.arange(16) - 15.0) @ values[0, :16].astype(np.float64)
    assert np.allclose(part[0, 0, 0, :64], exact, rtol=0, atol=1e-3 + abs(level) * 30 * U)


def test_chunk_nan_key_spoils_its_heads_alone() -> None:
    rng = np.random.default_rng(13)
    query = rng.standard_normal((1, 4, 64)).astype(np.float32)
    keys, values = (rng.standard_normal((2, 20, 64)).astype(np.float32) for _ in range(2))
    keys[1, 5, 3] = NAN
    part, out = np.full((1, 4, 2, 66), NAN, np.float32), np.full((1, 4, 64), NAN, np.float32)
    chunk = FlashDecodingChunk(head_dim=64, num_heads=4, num_kv_heads=2, chunk_size=16, max_seq_len=20)
    run(chunk, 1, [query, PointerTable([keys]), PointerTable([values]), part, np.array([20], np.uint32), 2])
    run(
        FlashDecodingReduce(head_dim=64, num_heads=4, chunk_size=16),
        1,
        [part, out, np.array([20], np.uint32), 2],
    )
    assert np.isfinite(out[0, :2]).all()
    assert np.isnan(out[0, 2:]).all()
