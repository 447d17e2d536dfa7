"""How far the results of approximate instructions may lie from the exact ones, and the numbers at the edges.

The bounds are those of the ISA's sections on the instructions. Three points that it leaves open are read so:

- An error in ulp counts float numbers from the correctly rounded result, as the section on `ex2` says, on
  either side of it.
- A bound holds whatever the result may become within it: sine, cosine and tanh exceed 1, absolute bounds
  reach across zero.
- Results of zero and infinite operands, which the tables of special values list, are exact; so is what
  overflows. Nothing finite becomes infinite. A result with no number of its type inside its bound, as among
  the subnormal ones, is correctly rounded.

With ``.ftz``, subnormal results are flushed afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ptxtemplates.emulator.operations.rounding import narrow
from ptxtemplates.emulator.operations.values import Array


class Bound(NamedTuple):
    """What the ISA says of an instruction's error; neither `error` nor `ulp` where it says nothing.

    Attributes
    ----------
    text : str
        For a reader; ``none`` where nothing is said.
    error : callable, optional
        Takes exact results and sources, both float64, and returns the largest absolute error.
    ulp : int
        The largest error in units in the last place, where it is given so; else 0.
    domain : callable, optional
        Takes the sources and says where the bound holds; elsewhere results are rounded correctly.
    """

    text: str
    error: Callable[[Array, Array], Array] | None = None
    ulp: int = 0
    domain: Callable[..., Array] | None = None


def _relative(exponent: float) -> Bound:
    return Bound(f"rel 2^{exponent:g}", lambda exact, _: np.abs(exact) * 2.0**exponent)


def _absolute(exponent: float) -> Bound:
    return Bound(f"abs 2^{exponent:g}", lambda exact, _: np.full(exact.shape, 2.0**exponent))


def beyond(a: Array) -> Array:
    """Say where sine and cosine have no bound: finite and outside [-100 pi, 100 pi]."""
    # in float64: 100 pi rounded to float32 is above it
    outside: Array = (np.abs(a.astype(np.float64)) > 100 * math.pi) & np.isfinite(a)
    return outside


_CIRCULAR = Bound(
    "abs 2^-20.5 on [-2 pi, 2 pi], 2^-14.7 on [-100 pi, 100 pi], none beyond",
    lambda _, a: np.where(np.abs(a) <= 2 * math.pi, 2.0**-20.5, 2.0**-14.7),
    domain=lambda a: ~beyond(a),
)
_LOGARITHM = Bound(
    "abs 2^-22 on (0.5, 2), rel 2^-22 elsewhere",
    lambda exact, a: np.where((a > 0.5) & (a < 2), 2.0**-22, np.abs(exact) * 2.0**-22),
)
_TANGENT = Bound(
    "rel 2^-11; of a subnormal operand, the operand",
    lambda exact, _: np.abs(exact) * 2.0**-11,
    domain=lambda a: np.abs(a) >= np.float32(2.0**-126),
)
_QUOTIENT = Bound(
    "2 ulp for divisors of magnitude 2^-126 to 2^126; zero above, or NaN of an infinite dividend",
    ulp=2,
    domain=lambda _, b: (np.abs(b) >= np.float32(2.0**-126)) & (np.abs(b) <= np.float32(2.0**126)),
)
_NONE = Bound("none")

BOUNDS: dict[tuple[str, str, str], Bound] = {
    ("sin", "f32", "approx"): _CIRCULAR,
    ("cos", "f32", "approx"): _CIRCULAR,
    ("lg2", "f32", "approx"): _LOGARITHM,
    ("ex2", "f32", "approx"): Bound("2 ulp", ulp=2),
    ("ex2", "f16", "approx"): _relative(-9.9),
    ("ex2", "bf16", "approx"): _relative(-7),
    ("tanh", "f32", "approx"): _TANGENT,
    ("tanh", "f16", "approx"): _absolute(-10.987),
    ("tanh", "bf16", "approx"): _absolute(-8),
    ("rsqrt", "f32", "approx"): _relative(-22.9),
    ("rsqrt", "f64", "approx"): _NONE,
    ("rsqrt", "f64", "approx.ftz"): _NONE,
    ("rcp", "f32", "approx"): Bound("1 ulp", ulp=1),
    ("rcp", "f64", "approx.ftz"): _NONE,
    ("sqrt", "f32", "approx"): _relative(-23),
    ("div", "f32", "approx"): _QUOTIENT,
    ("div", "f32", "full"): Bound("2 ulp", ulp=2),
}
"""Documented errors by opcode, element type and qualifiers; with and without ``.ftz`` they are the same."""

# NumPy's float64 results are within four units in the last place
_DOUBT = 2.0**-50


def edges(error: Array, type_: str, rounded: Array, exact: Array, certain: Array) -> tuple[Array, Array]:
    """Return the lowest and highest numbers of a type that differ from exact results by an error at most.

    Parameters
    ----------
    error : array of float64
    type_ : str
        ``f16``, ``bf16`` or ``f32``.
    rounded : array
        Correctly rounded results.
    exact : array of float64
        Results before they were rounded to the type.
    certain : array of bool
        Where float64 holds the true result. Elsewhere a number that is closer to the limit than float64 can
        tell counts as outside.

    Returns
    -------
    low, high : array
        Of the type; `rounded` where no number is inside, or where that is infinite or NaN.
    """
    reach = error - np.where(certain, 0.0, (np.abs(exact) + error) * _DOUBT)
    low, high = narrow(exact - reach, type_, "rp"), narrow(exact + reach, type_, "rm")
    finite = np.isfinite(rounded)
    low = np.where(finite & (low < rounded), low, rounded)
    return low, np.where(finite & (high > rounded), high, rounded)


def ulp_edges(count: int, rounded: Array) -> tuple[Array, Array]:
    """Return float32 numbers `count` steps towards zero and away from it, to zero or the largest at most."""
    bits = rounded.view(np.uint32)
    sign = bits & np.uint32(0x80000000)
    size = bits ^ sign
    step = np.uint32(count)
    inner = np.maximum(size, step) - step
    outer = np.minimum(size + step, _LARGEST)
    finite = size <= _LARGEST
    towards, away = (np.where(finite, each | sign, bits).view(np.float32) for each in (inner, outer))
    return towards, away


_LARGEST = np.uint32(0x7F7FFFFF)
