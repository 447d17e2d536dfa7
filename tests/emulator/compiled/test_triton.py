"""Kernels in Triton: compiled for a GPU that need not be here, emulated, and compared with NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ptxtemplates.ptx.parser import parse
from tests.emulator.compiled.cases.reductions import U, softmax_truth
from tests.emulator.compiled.checking import Bounded, Case, check_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.emulator.compiled.checking import Arguments, Expected

WARPS: Final = 4


class Source(NamedTuple):
    """What Triton must know of the arguments: types, and values that it compiles in."""

    types: str
    constants: Mapping[str, int]


def _rows(rng: np.random.Generator) -> Any:
    return rng.standard_normal((3, 200)).astype(np.float32)


def _rms_arguments(rng: np.random.Generator) -> Arguments:
    x = _rows(rng).astype(bfloat16)
    return [x, _rows(rng)[0], np.zeros_like(x), np.int32(200), np.float32(1e-5)]


def _rms_norm(arguments: Arguments) -> Expected:
    x = arguments[0].astype(np.float64)
    truth = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * arguments[1]
    # a square, 8 sums, div.full (2 ulp: 5 u), the sum with epsilon: half of 15 u after the root; sqrt.approx
    # 2 u, div.full, two products; then half an ulp of bfloat16
    return {2: Bounded(truth, np.abs(truth) * (2.0**-8 + (7.5 + 2 + 5 + 2) * U) * 1.001)}


def _rope_arguments(rng: np.random.Generator) -> Arguments:
    angles = rng.uniform(-9, 9, (3, 64))
    x = rng.standard_normal((3, 2, 128)).astype(np.float32)
    return [x, *(f(angles).astype(np.float32) for f in (np.cos, np.sin)), np.zeros_like(x), np.int32(2)]


def _rope(arguments: Arguments) -> Expected:
    x, c, s = arguments[:3]
    first, second, c, s = x[..., :64], x[..., 64:], c[:, None], s[:, None]
    return {3: np.concatenate([first * c - second * s, first * s + second * c], axis=-1)}


def _tile(rng: np.random.Generator, rows: int, columns: int) -> Any:
    return rng.integers(-50, 50, (rows, columns)).astype(np.float32)


KERNELS: Final[dict[str, tuple[Source, Case]]] = {
    "vector_add": (
        Source("*fp32 *fp32 *fp32 i32", {"BLOCK": 256}),
        Case(
            (3, 1, 1),
            (32 * WARPS, 1, 1),
            lambda rng: [
                *rng.standard_normal((2, 700)).astype(np.float32),
                np.zeros(700, np.float32),
                np.int32(700),
            ],
            lambda a: {2: a[0] + a[1]},
        ),
    ),
    "softmax": (
        Source("*fp32 *fp32 i32", {"BLOCK": 256}),
        Case(
            (3, 1, 1),
            (32 * WARPS, 1, 1),
            lambda rng: [_rows(rng), np.zeros((3, 200), np.float32), np.int32(200)],
            # ex2.approx (2 ulp: 5 u) of a product with a rounded constant, div.full (the same)
            lambda a: {1: softmax_truth(a[0], 0, exp=5, argument=3, division=5)},
        ),
    ),
    "rms_norm": (
        Source("*bf16 *fp32 *bf16 i32 fp32", {"BLOCK": 256}),
        Case((3, 1, 1), (32 * WARPS, 1, 1), _rms_arguments, _rms_norm),
    ),
    "rope": (
        Source("*fp32 *fp32 *fp32 *fp32 i32", {"HALF": 64}),
        Case((3, 2, 1), (32 * WARPS, 1, 1), _rope_arguments, _rope),
    ),
    "sums_of_rows": (
        Source("*fp32 *fp32", {"ROWS": 32, "COLUMNS": 64}),
        Case(
            (1, 1, 1),
            (32 * WARPS, 1, 1),
            lambda rng: [_tile(rng, 32, 64), np.zeros(32, np.float32)],
            lambda a: {1: a[0].sum(axis=1)},
        ),
    ),
    "largest_of_columns": (
        Source("*fp32 *fp32", {"ROWS": 32, "COLUMNS": 64}),
        Case(
            (1, 1, 1),
            (32 * WARPS, 1, 1),
            lambda rng: [_tile(rng, 32, 64), np.zeros(64, np.float32)],
            lambda a: {1: a[0].max(axis=0)},
        ),
    ),
    "running_sum": (
        Source("*i32 *i32 *i32", {"BLOCK": 256}),
        Case(
            (2, 1, 1),
            (32 * WARPS, 1, 1),
            lambda rng: [
                rng.integers(-99, 99, 512).astype(np.int32),
                np.zeros(512, np.int32),
                np.ones(1, np.int32),
            ],
            lambda a: {1: np.cumsum(a[0].reshape(2, 256), axis=1).ravel(), 2: 1 + a[0].sum(keepdims=True)},
        ),
    ),
    "transpose": (
        Source("*fp32 *fp32", {"ROWS": 32, "COLUMNS": 64}),
        Case(
            (1, 1, 1),
            (32 * WARPS, 1, 1),
            lambda rng: [_tile(rng, 32, 64), np.zeros((64, 32), np.float32)],
            lambda a: {1: a[0].T},
        ),
    ),
}


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("kernel", KERNELS)
def test_emulator_agrees_with_numpy(
    kernel: str, architecture: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = pytest.importorskip("triton", reason="no triton here: its kernels cannot be compiled")
    target = pytest.importorskip("triton.backends.compiler").GPUTarget("cuda", architecture, 32)

    from tests.emulator.compiled import triton_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    source, case = KERNELS[kernel]
    function = getattr(triton_kernels, kernel)
    types = dict(zip(function.arg_names, source.types.split(), strict=False))
    # as a launch from Python has it: pointers are multiples of 16 bytes
    aligned = {
        (place,): [["tt.divisibility", 16]] for place, kind in enumerate(types.values()) if kind[0] == "*"
    }
    compiled = triton.compile(
        triton.compiler.ASTSource(
            fn=function,
            signature=types | dict.fromkeys(source.constants, "constexpr"),
            constexprs=source.constants,
            attrs=aligned,
        ),
        target=target,
        options={"num_warps": WARPS, "enable_fp_fusion": False},
    )
    text = compiled.asm["ptx"]
    # behind the kernel's own parameters come pointers to scratch memory, which these kernels do not have
    scratch = len(parse(text).function(kernel).parameters) - len(types)
    check_numpy(
        text,
        kernel,
        case._replace(
            arguments=lambda rng: [*case.arguments(rng), *[np.int64(0)] * scratch],
            shared=compiled.metadata.shared,
        ),
    )
