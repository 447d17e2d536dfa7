"""Functions of the mathematical library, within the errors of the CUDA C++ Programming Guide.

Its tables ("Mathematical Functions") count ulp from the correctly rounded result, itself half an ulp off.
Libraries of hosts have other errors, so these kernels run on the GPU's side only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tests.emulator.compiled.checking import Bounded, Case

if TYPE_CHECKING:
    from tests.emulator.compiled.checking import Arguments, Expected

THREADS: Final = 128

FLOATS: Final = (
    (np.exp, 2), (lambda x: np.log(abs(x)), 1), (lambda x: np.sin(_scaled(x, 1e4)), 2),
    (lambda x: np.cos(_scaled(x, 1e4)), 2), (np.tanh, 2), (np.exp2, 2), (lambda x: np.log2(abs(x)), 1),
    (np.cbrt, 1), (lambda x: np.log1p(abs(x)), 1), (np.expm1, 1),
)  # fmt: skip
"""Each column's function, and its error in ulp."""

DOUBLES: Final = (
    (np.exp, 1), (lambda x: np.log(abs(x)), 1), (lambda x: np.sin(_scaled(x, 1e8)), 2),
    (lambda x: np.cos(_scaled(x, 1e8)), 2), (np.tanh, 1), (np.cbrt, 1),
)  # fmt: skip


def _scaled(x: Any, factor: float) -> Any:
    """Return the product that the kernel forms in its own precision."""
    narrow = np.float32 if x.dtype == np.float64 else np.float64
    return (x.astype(narrow) * narrow(factor)).astype(x.dtype)


def _arguments(kind: Any, columns: int) -> Any:
    def make(rng: np.random.Generator) -> Arguments:
        x = rng.uniform(-80, 80, THREADS) * 10.0 ** rng.integers(-4, 1, THREADS)
        return [x.astype(kind), np.zeros((THREADS, columns), kind)]

    return make


def _expected(functions: Any, wide: Any) -> Any:
    def expected(arguments: Arguments) -> Expected:
        x, y = arguments
        truth = np.stack([function(x.astype(wide)) for function, _ in functions], axis=1)
        ulps = np.array([ulps + 0.5 for _, ulps in functions])
        return {1: Bounded(truth, np.spacing(np.abs(truth).astype(y.dtype)).astype(wide) * ulps)}

    return expected


CASES: Final = {
    "float_library": Case((4, 1, 1), (32, 1, 1), _arguments(np.float32, 10), _expected(FLOATS, np.float64)),
    "double_library": Case(
        (4, 1, 1), (32, 1, 1), _arguments(np.float64, 6), _expected(DOUBLES, np.longdouble)
    ),
}
