"""The bytes that a call must move, against what one works out by hand from each kernel's description."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from ptxtemplates.bench.operands import element_of, needed_bytes, operands_of
from ptxtemplates.bench.units import Workload, units_of
from ptxtemplates.errors import UnknownKernelError
from ptxtemplates.kernel import Argument, pointer
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from tests.helpers.toy import Toy

if TYPE_CHECKING:
    from ptxtemplates.kernel import Kernel

ROPE: Final[dict[str, Any]] = {"num_heads": 3, "head_dim": 10, "theta": 1e4}
CHUNK: Final = FlashDecodingChunk(num_heads=6, num_kv_heads=2, head_dim=8, chunk_size=5, max_seq_len=1000)
REDUCE: Final = FlashDecodingReduce(num_heads=6, head_dim=8, chunk_size=5)


def workload(*kernels: Kernel, **sizes: int) -> Workload:
    return Workload(units_of(kernels)[-1], sizes)


def moved(*kernels: Kernel, **sizes: int) -> int:
    return needed_bytes(operands_of(workload(*kernels, **sizes)).values())


X: Final = 7 * 3 * 10 * 4
QUERY: Final = 7 * 6 * 8 * 4
KEYS: Final = 7 * 2 * 8 * 4  # of one position
PARTIALS: Final = 7 * 6 * (8 + 2) * 4  # of one chunk


@pytest.mark.parametrize(
    ("kernels", "sizes", "expected"),
    [
        pytest.param([BatchedRope(**ROPE)], {}, X + X + 7 * 4, id="rope"),
        pytest.param([BatchedRopeBackward(**ROPE)], {}, X + X + 7 * 4, id="backward"),
        pytest.param([REDUCE], {"max_chunks": 9}, 9 * PARTIALS + QUERY + 7 * 4, id="reduce"),
        pytest.param(
            [CHUNK],
            {"max_chunks": 9},
            QUERY + 2 * (7 * 8 + 45 * KEYS) + 9 * PARTIALS + 7 * 4,
            id="chunk: keys of 45 positions, those of a group of query heads once",
        ),
        pytest.param(
            [CHUNK, REDUCE],
            {"max_chunks": 9},
            QUERY + 2 * (7 * 8 + 45 * KEYS) + QUERY + 7 * 4,
            id="whole: no partial results, lengths once",
        ),
        pytest.param(
            [CHUNK],
            {"max_chunks": 300},
            QUERY + 2 * (7 * 8 + 1000 * KEYS) + 200 * PARTIALS + 7 * 4,
            id="chunk: no more than the longest sequence",
        ),
    ],
)
def test_bytes(kernels: list[Kernel], sizes: dict[str, int], expected: int) -> None:
    assert moved(*kernels, rows=7, **sizes) == expected


def test_elements_are_those_of_the_output() -> None:
    assert element_of(operands_of(workload(BatchedRope(**ROPE), rows=1)).values()) == "f32"
    assert element_of(operands_of(workload(CHUNK, REDUCE, rows=1, max_chunks=1)).values()) == "f32"


def test_arrays_of_a_whole() -> None:
    operands = operands_of(workload(CHUNK, REDUCE, rows=2, max_chunks=300))
    assert [name for name, operand in operands.items() if operand.between] == ["partials_ptr"]
    lengths, keys = operands["seq_lens_ptr"].contents, operands["k_ptrs_ptr"].target
    assert lengths is not None
    assert lengths.tolist() == [1000, 1000], "those of the chunks, not 300 chunks of 5"
    assert keys is not None
    assert (keys.shape, keys.used) == ((2, 1000, 8), (2, 1000, 8))


def test_a_kernel_of_ones_own() -> None:
    assert moved(Toy(width=64), rows=3) == 3 * 64 * 4, "in place: once"


@dataclass(frozen=True, kw_only=True)
class Indexed(Toy):
    """Has an index array of which nothing is known."""

    arguments: ClassVar[Any] = (*Toy.arguments, pointer("at_ptr", "u32", "rows", role="index", alignment=4))


@dataclass(frozen=True, kw_only=True)
class Factored(Toy):
    """Has a number of which nothing is known."""

    arguments: ClassVar[Any] = (*Toy.arguments, Argument(name="factor", type="f32", role="data"))


@pytest.mark.parametrize(("kernel", "argument"), [(Indexed, "at_ptr"), (Factored, "factor")])
def test_what_is_not_known_is_said(kernel: type[Toy], argument: str) -> None:
    with pytest.raises(UnknownKernelError, match=f"toy: what a typical launch passes for {argument} is not"):
        moved(kernel(width=4), rows=1)


def test_more_head_dims_do_not_matter_to_tables() -> None:
    """A table counts one pointer a row, whatever lies behind it."""
    wide = replace(CHUNK, head_dim=16, scale=1.0)
    one, other = (operands_of(workload(kernel, rows=7, max_chunks=1)) for kernel in (CHUNK, wide))
    assert one["k_ptrs_ptr"].moved == other["k_ptrs_ptr"].moved == 7
