"""The truth of rotary embeddings: angles in integer turns, rotations in float64, and bounds."""

from __future__ import annotations

from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ptxtemplates.references.rounding import FLOAT64, TINY, U

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from ptxtemplates.kernels.rope import Rope

    Float64s = npt.NDArray[np.float64]

TRIGONOMETRIC: Final = 8e-8
"""What the kernel promises of cosine and sine, at every 32-bit position."""

_FRACTION_BITS: Final = 192


class Rotation(NamedTuple):
    """A rotation of pairs: results in float64, and for each the largest allowed error."""

    exact: Float64s
    bound: Float64s


def turns(theta: float, head_dim: int, bits: int, rounding: str = ROUND_FLOOR) -> list[int]:
    """Return theta^(-2i / head_dim) / (2 pi) * 2^bits, rounded, for each pair i.

    Each entry on its own, by exp and ln of `decimal`, which are correctly rounded, with 100 digits behind
    the point.
    """
    base = Decimal(theta)
    digits = 120 + bits // 3 + max(0, -base.adjusted())
    with localcontext(Context(prec=digits, Emin=-999_999, Emax=999_999)):
        factor = Decimal(2**bits) / (2 * pi(digits))
        logarithm = base.ln()
        entries = [factor * (logarithm * (-2 * pair) / head_dim).exp() for pair in range(head_dim // 2)]
        return [int(entry.to_integral_value(rounding)) for entry in entries]


def table(theta: float, head_dim: int) -> tuple[int, ...]:
    """Return the kernel's table: 0.64 fixed point, rounded to nearest even, whole turns dropped."""
    return tuple(entry % 2**64 for entry in turns(theta, head_dim, 64, ROUND_HALF_EVEN))


def position_of(entry: int, turn: int) -> int | None:
    """Return the first 32-bit position at which the kernel turns by `turn` / 2^32; None if there is none.

    The kernel uses the upper 32 bits of entry * position mod 2^64.
    """
    position = first_between(entry, 2**64, turn << 32, (turn << 32) + 2**32 - 1)
    return position if position is not None and position < 2**32 else None


def first_between(factor: int, modulus: int, low: int, high: int) -> int | None:
    """Return the least x >= 0 with low <= factor x mod modulus <= high, by Euclid's algorithm."""
    if low == 0:
        return 0
    factor %= modulus
    if factor == 0:
        return None
    if 2 * factor > modulus:
        return first_between(modulus - factor, modulus, modulus - high, modulus - low)
    first = -(-low // factor)
    if first * factor <= high:
        return first
    # no multiple lies between: factor x - modulus y does for the least y with modulus y mod factor between
    wraps = first_between(modulus % factor, factor, -high % factor, -low % factor)
    return None if wraps is None else -(-(low + modulus * wraps) // factor)


@cache
def pi(digits: int) -> Decimal:
    """Return pi by the arithmetic-geometric mean (Gauss, Legendre): each step doubles the digits."""
    with localcontext(Context(prec=digits + 10)):
        a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25"), 1
        for _ in range(digits.bit_length()):
            mean = (a + b) / 2
            b = (a * b).sqrt()
            t -= p * (a - mean) ** 2
            a, p = mean, 2 * p
        return (a + b) ** 2 / (4 * t)


@cache
def _fractions(theta: float, head_dim: int) -> tuple[int, ...]:
    return tuple(turns(theta, head_dim, _FRACTION_BITS))


def directions(kernel: Rope, positions: Iterable[int]) -> tuple[Float64s, Float64s]:
    """Return cosine and sine [positions, pairs] of the angles: negative ones for the backward kernel.

    The fraction of a turn is exact to 2^-160, and 2^-53 of a turn once it is a float64.
    """
    fractions = _fractions(kernel.theta, kernel.head_dim)
    mask, scale = (1 << _FRACTION_BITS) - 1, 2.0**-64
    parts = [
        [float(((entry * int(position)) & mask) >> (_FRACTION_BITS - 64)) * scale for entry in fractions]
        for position in positions
    ]
    angle = np.array(parts) * (2 * np.pi)
    return np.cos(angle), (-np.sin(angle) if kernel.backward else np.sin(angle))


def rotated(kernel: Rope, x: npt.NDArray[np.floating], positions: Iterable[int]) -> Rotation:
    """Rotate x [rows, heads, head_dim].

    The kernel computes e c - o s as fma(e, c, -fl(o s)), with cosine and sine off by at most D =
    `TRIGONOMETRIC` each. The bound of the result is D (|e| + |o|) for those, u |o s| for the product, u times
    the result for the last rounding, and 2^-149 for two that may be subnormal; o c + e s likewise.
    """
    cosine, sine = (part[:, None, :] for part in directions(kernel, positions))
    even, odd = x[..., 0::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    exact, bound = np.empty(x.shape), np.empty(x.shape)
    with np.errstate(invalid="ignore"):  # infinity times zero is NaN, as it should be
        exact[..., 0::2] = even * cosine - odd * sine
        exact[..., 1::2] = odd * cosine + even * sine
        trigonometric = TRIGONOMETRIC * (np.abs(even) + np.abs(odd))
        bound[..., 0::2] = trigonometric + U * np.abs(odd * sine)
        bound[..., 1::2] = trigonometric + U * np.abs(even * sine)
        bound = FLOAT64 * (bound + U * np.abs(exact)) + TINY
    return Rotation(exact, bound)


def rotated_back(kernel: Rope, forward: Rotation, positions: Iterable[int]) -> Float64s:
    """Return the bound of what `kernel` makes of a rotation that was computed with an error of its own.

    That error is rotated too: |cos| and |sin| of it arrive at each element, and change what the second
    rotation's own bound is made of.
    """
    cosine, sine = (np.abs(part)[:, None, :] for part in directions(kernel, positions))
    even, odd = forward.bound[..., 0::2], forward.bound[..., 1::2]
    bound = rotated(kernel, forward.exact, positions).bound
    bound[..., 0::2] += even * cosine + odd * sine
    bound[..., 1::2] += odd * cosine + even * sine
    return FLOAT64 * bound
