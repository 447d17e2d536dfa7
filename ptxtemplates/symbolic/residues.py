"""Exact arithmetic on float32 numbers and what is made of them: residues modulo two primes, in one number.

Sums, differences, products and quotients that are equal over the real numbers, whatever the data, are equal
here; other ones are not, but by a chance of about one in 2^60 (the lemma of Schwartz and Zippel), since every
element of data has a residue at random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Numbers = npt.NDArray[np.uint64]

PRIMES: Final = (np.uint64(2147483629), np.uint64(2147483587))
"""The two largest below 2^31 - 1, which itself is useless: modulo that, 2^31 is 1."""

MARK: Final = np.uint64(1 << 63)
"""Of a number that is a pair of residues; the bit below it is 0."""

_WIDTH: Final = np.uint64(31)
_LOW: Final = np.uint64(2**31 - 1)
_EXPONENTS: Final = range(-1200, 1200)
_POWERS: Final = [
    np.array([pow(2, exponent, int(prime)) for exponent in _EXPONENTS], np.uint64) for prime in PRIMES
]


def pair(high: Numbers, low: Numbers) -> Numbers:
    """Put residues together."""
    return MARK | (high << _WIDTH) | low


def is_pair(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Say which numbers are pairs of residues."""
    found: npt.NDArray[np.bool_] = numbers >> np.uint64(62) == np.uint64(2)
    return found


def of_terms(numbers: Numbers) -> Numbers:
    """Return pairs as they are, and for every other term one that is its own."""
    pairs = is_pair(numbers)
    if pairs.all():
        return numbers
    return np.where(pairs, numbers, pair((numbers >> np.uint64(32)) % PRIMES[0], numbers % PRIMES[1]))


def of_floats(values: npt.NDArray[np.float32]) -> Numbers:
    """Return finite numbers exactly; what NaN and infinities give means nothing."""
    fraction, exponent = np.frexp(np.where(np.isfinite(values), values, np.float32(0)).astype(np.float64))
    mantissa = np.ldexp(np.abs(fraction), 24).astype(np.uint64)
    places = exponent - 24 - _EXPONENTS.start
    parts = []
    for prime, powers in zip(PRIMES, _POWERS, strict=True):
        part = mantissa * powers[places] % prime
        parts.append(np.where(fraction < 0, (prime - part) % prime, part))
    return pair(*parts)


def _by_prime(function: Callable[..., Numbers]) -> Callable[..., Numbers]:
    """Do something modulo each prime."""

    def both(*numbers: Numbers) -> Numbers:
        high = [number >> _WIDTH & _LOW for number in numbers]
        low = [number & _LOW for number in numbers]
        return pair(function(PRIMES[0], *high), function(PRIMES[1], *low))

    return both


def _inverse(prime: np.uint64, a: Numbers) -> Numbers:
    """Return 1 / a, which is a^(p - 2)."""
    power, result, exponent = a, np.ones_like(a), int(prime) - 2
    while exponent:
        if exponent & 1:
            result = result * power % prime
        power = power * power % prime
        exponent >>= 1
    return result


added = _by_prime(lambda prime, a, b: (a + b) % prime)
subtracted = _by_prime(lambda prime, a, b: (a + prime - b) % prime)
multiplied = _by_prime(lambda prime, a, b: a * b % prime)
fused = _by_prime(lambda prime, a, b, c: (a * b + c) % prime)
negated = _by_prime(lambda prime, a: (prime - a) % prime)
inverse = _by_prime(_inverse)
divided = _by_prime(lambda prime, a, b: a * _inverse(prime, b) % prime)
