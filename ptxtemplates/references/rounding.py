"""Bounds of rounded arithmetic, from which those of the kernels are put together.

u = 2^-24 is the unit roundoff of float32: a rounded operation returns (1 + d) times its exact result, |d| <=
u, where that is a normal number, and is off by at most 2^-150 where it is not.

A quantity that is a product of its exact value and factors (1 + d_i)^+-1 is off by a factor between e^-t and
e^t with t = sum |d_i| / (1 - |d_i|). Bounds are added up as such exponents; a final expm1 makes a relative
error of them. `U` includes the 1 / (1 - u).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Float64s = npt.NDArray[np.float64]

U: Final = 2.0**-24 * (1 + 2.0**-23)
"""Exponent of one rounded operation."""

EX2: Final = 5 * U
"""Exponent of ex2.approx.f32: 2 ulp (ISA), each at most 2 u, from the correctly rounded result. 2^0 is
exactly 1, and 2^-inf exactly 0 (ISA, table of special values)."""

TINY: Final = 2.0**-149
"""The smallest positive float32: the spacing below the smallest normal number."""

TINY_EX2: Final = 2.5 * TINY
"""Absolute error of a result of ex2.approx.f32 below the smallest normal number: 2 ulp and a rounding."""


FLOAT64: Final = 1 + 2.0**-20
"""Covers what float64 loses in exact values, and products of two errors where they are not spelt out."""


def exponential_error(distance: Float64s, error: Float64s | float, factors: int = 1) -> Float64s:
    """Bound the error of exp(-distance), computed as ex2(fl(fl(a - b) log2 e)) and used in further products.

    The difference, the constant and the product are rounded: the exponent is off by a factor, which shifts it
    by at most 3 u distance. Written so that nothing overflows where exp(-distance) is 0.

    Parameters
    ----------
    distance : numpy.ndarray of float64
        Not negative.
    error : numpy.ndarray of float64
        Exponent of everything else that the factor goes through, `EX2` included.
    factors : int
        How many exponentials it is the product of; their distances add up to `distance`.

    Returns
    -------
    numpy.ndarray of float64
        Largest absolute difference from exp(-distance), results below the normal numbers included.
    """
    upper = np.exp(-distance * (1 - 3 * U) + error)
    return np.asarray(upper - np.exp(-distance) + factors * TINY_EX2)
