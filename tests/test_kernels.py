"""Parameters, names, contract and baked tables of the built-in kernels."""

from __future__ import annotations

import dataclasses
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from ptxtemplates.errors import DeclarationError, ParameterError, UnknownKernelError
from ptxtemplates.kernel import Kernel
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.kernels.rope import pi, turns
from ptxtemplates.registry import find, register, registered

ROPE: dict[str, Any] = {"num_heads": 32, "head_dim": 128, "theta": 1e4}
REDUCE: dict[str, Any] = {"num_heads": 32, "head_dim": 128, "chunk_size": 16}
CHUNK: dict[str, Any] = {**REDUCE, "num_kv_heads": 8, "max_seq_len": 4096}
VALID: list[tuple[type[Kernel], dict[str, Any]]] = [
    (BatchedRope, ROPE),
    (BatchedRopeBackward, ROPE),
    (FlashDecodingReduce, REDUCE),
    (FlashDecodingChunk, CHUNK),
]

NAN, INFINITY = float("nan"), float("inf")
BAD_INTEGERS = [0, -1, -8, 7, 1024, 2**40, 8.0, "8", None, True, NAN]
BAD_COUNTS = [0, -1, 2**40, 8.0, "8", None, True, NAN]
BAD_REALS = [0, 0.0, -1.0, NAN, INFINITY, -INFINITY, "1e4", None, True, 10**400, 2**53 + 1]
BAD_NAMES = ["", "9lives", "a b", "a-b", "a.b", "é", "%r", 7, "x" * 3 + "\n", "add", "a/../b"]
BAD_TARGETS = ["sm_70", "sm_1", "compute_90", "90", "", None, 90]
BAD: dict[str, list[Any]] = {
    "head_dim": BAD_INTEGERS,
    "num_heads": BAD_COUNTS,
    "num_kv_heads": BAD_COUNTS,
    "chunk_size": BAD_COUNTS,
    "max_seq_len": BAD_COUNTS,
    "theta": BAD_REALS,
    "scale": [value for value in BAD_REALS if value is not None],
    "entry": BAD_NAMES,
    "target": BAD_TARGETS,
}


@pytest.mark.parametrize(
    ("kernel", "field", "value"),
    [
        pytest.param(kernel, field, value, id=f"{kernel.name}-{field}-{value!r:.20}")
        for kernel, values in VALID
        for field in dataclasses.asdict(kernel(**values))
        for value in BAD[field]
    ],
)
def test_refuses_bad_value(kernel: type[Kernel], field: str, value: Any) -> None:
    values = dict(VALID)[kernel]
    with pytest.raises(ParameterError) as caught:
        kernel(**{**values, field: value})
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{kernel.name}: {field} must be ")
    assert repr(value)[:60] in str(caught.value)


@pytest.mark.parametrize("head_dim", [4, 12, 500, 520])
def test_flash_decoding_takes_multiples_of_8_up_to_512(head_dim: int) -> None:
    with pytest.raises(ParameterError, match="head_dim must be a multiple of 8 from 8 to 512"):
        FlashDecodingReduce(**{**REDUCE, "head_dim": head_dim})


def test_key_heads_divide_heads() -> None:
    with pytest.raises(ParameterError, match="num_kv_heads must divide num_heads \\(32\\), and 5 does not"):
        FlashDecodingChunk(**{**CHUNK, "num_kv_heads": 5})


@pytest.mark.parametrize(("kernel", "values"), VALID)
def test_every_limit_is_legal(kernel: type[Kernel], values: dict[str, Any]) -> None:
    for head_dim in (8, 512):
        assert kernel(**{**values, "head_dim": head_dim}).parameters["head_dim"] == head_dim


def test_one_theta_has_one_name() -> None:
    names = {BatchedRope(**{**ROPE, "theta": theta}).variant for theta in (10000, 1e4, 10000.0)}
    assert names == {"batched_rope.h32.d128.theta10000"}


@pytest.mark.parametrize(
    ("kernel", "variant"),
    [
        (BatchedRope(num_heads=1, head_dim=2, theta=0.5), "batched_rope.h1.d2.theta0.5"),
        (BatchedRope(num_heads=1, head_dim=2, theta=1e22), "batched_rope.h1.d2.theta1e22"),
        (BatchedRope(num_heads=1, head_dim=2, theta=1e-7), "batched_rope.h1.d2.theta1e-07"),
        (BatchedRope(**ROPE, target="sm_90a", entry="f"), "batched_rope.h32.d128.theta10000.entry-f.sm_90a"),
        (FlashDecodingReduce(**REDUCE), "flash_decoding_reduce.d128.h32.c16"),
        (FlashDecodingChunk(**CHUNK), "flash_decoding_chunk.d128.h32.c16.kv8.s4096"),
        (FlashDecodingChunk(**CHUNK, scale=0.25), "flash_decoding_chunk.d128.h32.c16.kv8.s4096.scale0.25"),
    ],
)
def test_variant(kernel: Kernel, variant: str) -> None:
    assert kernel.variant == variant


def test_default_given_explicitly_is_the_same_variant() -> None:
    plain = FlashDecodingChunk(**CHUNK)
    said = FlashDecodingChunk(**CHUNK, scale=128**-0.5, entry="flash_decoding_chunk", target="sm_75")
    assert said == plain
    assert said.variant == plain.variant


def test_scale_is_the_nearest_float() -> None:
    for head_dim in range(8, 513, 8):
        scale = FlashDecodingChunk(**{**CHUNK, "head_dim": head_dim}).scale
        with localcontext(prec=60):
            assert scale == float(1 / Decimal(head_dim).sqrt())


@pytest.mark.parametrize(
    ("kernel", "values", "arguments", "block", "grid"),
    [
        (
            FlashDecodingReduce,
            REDUCE,
            [
                ("partials_ptr", "u64", 0),
                ("output_ptr", "u64", 8),
                ("seq_lens_ptr", "u64", 16),
                ("max_chunks", "u32", 24),
            ],
            [32, 1, 1],
            [32, "rows", 1],
        ),
        (
            FlashDecodingChunk,
            CHUNK,
            [
                ("q_ptr", "u64", 0),
                ("k_ptrs_ptr", "u64", 8),
                ("v_ptrs_ptr", "u64", 16),
                ("partials_ptr", "u64", 24),
                ("seq_lens_ptr", "u64", 32),
                ("max_chunks", "u32", 40),
            ],
            [32, 1, 1],
            [32, "rows", "max_chunks"],
        ),
        *(
            (
                kernel,
                ROPE,
                [("x_ptr", "u64", 0), ("out_ptr", "u64", 8), ("positions_ptr", "u64", 16)],
                [64, 1, 1],
                [32, "rows", 1],
            )
            for kernel in (BatchedRope, BatchedRopeBackward)
        ),
    ],
)
def test_contract(
    kernel: type[Kernel],
    values: dict[str, Any],
    arguments: list[tuple[str, str, int]],
    block: list[int],
    grid: list[int | str],
) -> None:
    contract = kernel(**values).contract()
    assert [(item["name"], item["type"], item["offset"]) for item in contract["parameters"]] == arguments
    assert contract["entry"] == kernel.name
    assert (contract["block"], contract["grid"], contract["shared_memory"]) == (block, grid, 0)
    assert all(limit == 65_535 for limit in contract["grid_limits"].values())


@pytest.mark.parametrize("theta", [1e4, 5e5, 1e6, 1e8, 0.5, 1.0, 1e-5, 5e-324, 1e300, 1.5])
@pytest.mark.parametrize("head_dim", [2, 80, 512])
def test_turns_are_the_nearest(theta: float, head_dim: int) -> None:
    """Each entry against its own power, at a precision far beyond the table's and with another pi."""
    with localcontext(prec=500):
        for pair, entry in enumerate(turns(theta, head_dim)):
            exact = (Decimal(theta).ln() * (-2 * pair) / head_dim).exp() / (2 * _pi_by_chudnovsky()) * 2**64
            distance = (exact - entry) % 2**64
            assert min(distance, 2**64 - distance) <= Decimal("0.5000001")


@cache
@cache
def _pi_by_chudnovsky() -> Decimal:
    """Ramanujan-Chudnovsky series: not the formula that the kernel uses."""
    total, term = Fraction(0), Fraction(1)
    for k in range(40):
        total += term * (13_591_409 + 545_140_134 * k)
        term *= Fraction(-24 * (6 * k + 1) * (2 * k + 1) * (6 * k + 5), (k + 1) ** 3 * 640_320**3)
    return Decimal(426_880) * Decimal(10_005).sqrt() / (Decimal(total.numerator) / Decimal(total.denominator))


def test_pi() -> None:
    assert str(pi(50)) == "3.1415926535897932384626433832795028841971693993751"
    with localcontext(prec=500):
        assert abs(pi(480) - _pi_by_chudnovsky()) < Decimal(10) ** -478


def test_unknown_kernel_names_the_nearest() -> None:
    with pytest.raises(
        UnknownKernelError, match="no kernel is named 'batched_rop'; did you mean 'batched_rope'\\?"
    ):
        find("batched_rop")


def test_registry_is_sorted_and_complete() -> None:
    built_in = [name for name in registered() if name in {kernel.name for kernel, _ in VALID}]
    assert built_in == sorted(kernel.name for kernel, _ in VALID)


def test_two_kernels_of_one_name_are_refused() -> None:
    other: type[Kernel] = dataclasses.make_dataclass(
        "Other", [], bases=(BatchedRope,), frozen=True, kw_only=True
    )
    with pytest.raises(
        DeclarationError, match="two kernels are named 'batched_rope', .*; choose another name"
    ):
        register(other)
    assert register(BatchedRope) is BatchedRope
