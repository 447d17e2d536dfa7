"""Check the sine and cosine of the rotary embedding over every reduced angle.

The kernel keeps angles in turns. What is left after the quadrant is taken off is `rest`, a 32-bit integer in
[-2**29, 2**29) that stands for rest / 2**32 of a turn, an eighth of a turn either way. With every operation
rounded once, to nearest even, in float32::

    r = float32(rest) * 2**-32          q = r * r
    sine   = fma(r, HI, (((s3 q + s2) q + s1) q + lo) * r)       SINE   = s3, s2, s1, lo, HI
    cosine = (((c3 q + c2) q + c1) q + c0) q + 1                 COSINE = c3, c2, c1, c0, 1

HI is 2 pi rounded and lo about what the rounding lost, so that the large term of the sine enters the last
fma unrounded.

What error to expect
--------------------
Call the sine's polynomial P(q) and the cosine's C(q), so that sine = HI r + P r and cosine = C q + 1. Add up,
at each r, half an ulp of every intermediate result times what it does to the final one, to first order
(products of two roundings stay below 1e-14). Both sums are largest just below r = 1/8; in units of 1e-8:

===============================  ==============  =====  ===============  ======
half an ulp of                   times           sine   times            cosine
===============================  ==============  =====  ===============  ======
the result: 2**-25               1               2.98   1                2.98
r: 2**-28                        2 pi cos        1.66   2 pi sin         1.66
q: 2**-31                        r dP/dq         0.23   d(C q)/dq        0.83
P: 2**-25, C: 2**-20             r               0.38   q                1.49
P r: 2**-28                      1               0.38
s1 + ..., c1 + ...: 2**-19       q r             0.38   q q              0.05
s2 + ..., c2 + ...: 2**-18       q q r           0.02   q q q            0.01
the polynomial's own error                       0.10                    0.02
===============================  ==============  =====  ===============  ======
sum                                              6.13                    7.04
===============================  ==============  =====  ===============  ======

No angle meets every worst case at once, and the coefficients are chosen so that what the polynomials are off
by leans against the roundings: this script measures what is left.

The angle that enters is itself cut to 32 bits (less than 2**-32 turn) from a product whose factor was rounded
to 64 bits (a position below 2**32 times 2**-65 turn): 2 pi (2**-32 + 2**-33) = 2.2e-9 more, for a total
within the 8e-8 that the kernel promises.

Run it from the root of the repository: ``python -m scripts.check_rotation``.
"""

import argparse
import os
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from itertools import repeat
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ptxtemplates.kernels.rope import COSINE, SINE

Float32s: TypeAlias = npt.NDArray[np.float32]
Float64s: TypeAlias = npt.NDArray[np.float64]
Int64s: TypeAlias = npt.NDArray[np.int64]

SINE_BOUND = 5.9e-8
COSINE_BOUND = 6.9e-8
ANGLE_BOUND = 2.2e-9
CONTRACT = 8e-8

EIGHTH = 2**29
BLOCK = 2**13  # values at a time: the temporaries stay in a core's cache, and in memory NumPy has at hand
SPAN = 2**9  # blocks in one task


class Worst(NamedTuple):
    """The largest error seen, and the rest that has it."""

    error: float
    rest: int


def float32_of_bits(patterns: Sequence[int]) -> Float32s:
    """Return the float32 values of bit patterns."""

    return np.array(patterns, np.uint32).view(np.float32)


def fma(a: Float32s | np.float32, b: Float32s | np.float32, c: Float32s | np.float32) -> Float32s:
    """Return `a * b + c` of finite float32 operands, rounded once, as `fma.rn.f32` does.

    A product of two float32 is exact in float64. The sum is not, and rounding it twice (to float64, then to
    float32) can differ from rounding it once. Rounding it to odd first cannot: a float64 that is not the
    exact sum gets a last bit of 1, so that, with 29 bits to spare, it is neither a float32 nor halfway
    between two unless the exact sum is.
    """

    product = np.multiply(a, b, dtype=np.float64)
    total = np.atleast_1d(product + c)
    # Knuth's two-sum: `lost` is exactly what the rounding of `total` lost (nothing over- or underflows here)
    added = total - product
    lost = (product - (total - added)) + (c - added)
    # an even `total` that is inexact moves to its odd neighbour on the side of the exact sum: up in magnitude
    # when `lost` has its sign; the order of the bit patterns is the order of the magnitudes
    pattern = total.view(np.int64)
    outward = ((lost.view(np.int64) ^ pattern) >> 63) | 1
    inexact_and_even = (lost != 0) & ((pattern & 1) == 0)
    pattern += outward * inexact_and_even
    return total.astype(np.float32)


def reduced(rest: Int64s) -> Float32s:
    """Return `rest` in turns, as `cvt.rn.f32.s32` and an exact `mul.rn.f32` give it."""

    return rest.astype(np.int32).astype(np.float32) * np.float32(2.0**-32)


def sine(r: Float32s, coefficients: Float32s) -> Float32s:
    """Return the kernel's sine of `r` turns."""

    s3, s2, s1, low, high = coefficients
    q = r * r
    short = fma(fma(fma(q, s3, s2), q, s1), q, low)
    return fma(r, high, short * r)


def cosine(r: Float32s, coefficients: Float32s) -> Float32s:
    """Return the kernel's cosine of `r` turns."""

    c3, c2, c1, c0, one = coefficients
    q = r * r
    return fma(fma(fma(fma(q, c3, c2), q, c1), q, c0), q, one)


def turns_to_radians(rest: Int64s) -> Float64s:
    """Return the angle that `rest`, an integer, stands for.

    float64 is enough to judge by: the factor and the product are off by 2**-53 of themselves each, less than
    2e-16 in an angle below pi / 4, and NumPy's sine and cosine by a few ulps of 2**-53, so the truth is good
    to 1e-15, a ten-millionth of the errors measured.
    """

    return rest.astype(np.float64) * (2 * np.pi / 2.0**32)


def worst_of(approximate: Float32s, truth: Float64s, rest: Int64s) -> Worst:
    """Return the largest difference of two arrays, and the rest it is at."""

    errors = np.abs(approximate.astype(np.float64) - truth)
    at = int(errors.argmax())
    return Worst(float(errors[at]), int(rest[at]))


def worst_in(start: int, stop: int, stride: int) -> tuple[Worst, Worst]:
    """Return the worst errors of the sine and the cosine over `range(start, stop, stride)`."""

    sine_coefficients, cosine_coefficients = float32_of_bits(SINE), float32_of_bits(COSINE)
    worst_sine = worst_cosine = Worst(-1.0, start)
    for block in range(start, stop, BLOCK * stride):
        rest = np.arange(block, min(block + BLOCK * stride, stop), stride, dtype=np.int64)
        r, angle = reduced(rest), turns_to_radians(rest)
        worst_sine = max(worst_sine, worst_of(sine(r, sine_coefficients), np.sin(angle), rest))
        worst_cosine = max(worst_cosine, worst_of(cosine(r, cosine_coefficients), np.cos(angle), rest))
    return worst_sine, worst_cosine


def worst_errors(stride: int = 1, *, both_signs: bool = False, jobs: int = 1) -> tuple[Worst, Worst]:
    """Return the worst errors of the sine and the cosine over every `stride`-th rest.

    Half of the rests tell for all of them. Rounding to nearest even has no preferred sign: -rest converts to
    -r, which has the same q, hence the same polynomials and the same cosine, and every operation of the sine
    that involves r returns exactly the opposite; so do the true sine and cosine. Only -2**29 has no positive
    partner in int32 arithmetic on turns, but 2**29 converts like it, exactly, to 1/8, and stands in for it.
    So rests 0 to 2**29, both included, give every error there is.

    Parameters
    ----------
    stride
        Distance between the rests evaluated; 1 evaluates all of them.
    both_signs
        Evaluate [-2**29, 2**29) without that argument.
    jobs
        Processes to use. None is started for one job or when a single task holds all the work.

    Returns
    -------
    tuple[Worst, Worst]
        Of the sine and of the cosine.
    """

    first, end = (-EIGHTH, EIGHTH) if both_signs else (0, EIGHTH + 1)
    starts = range(first, end, SPAN * BLOCK * stride)
    stops = [min(start + SPAN * BLOCK * stride, end) for start in starts]
    if jobs == 1 or len(starts) == 1:
        found = [worst_in(start, stop, stride) for start, stop in zip(starts, stops, strict=True)]
    else:
        with ProcessPoolExecutor(jobs) as pool:
            found = list(pool.map(worst_in, starts, stops, repeat(stride)))
    sines, cosines = zip(*found, strict=True)
    return max(sines), max(cosines)


def rounded_to_float32(exact: Fraction) -> float:
    """Return the nearest float32, ties to even, by integer arithmetic alone; `fma` is held against it."""

    if exact == 0:
        return 0.0
    exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    if abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    ulp = Fraction(2) ** (max(exponent, -126) - 23)
    nearest = round(exact / ulp) * ulp  # round() of a Fraction takes ties to even
    if abs(nearest) >= 2**128:
        return float("inf") if nearest > 0 else float("-inf")
    return float(nearest)


def fma_operands(seed: int = 1) -> list[tuple[float, float, float]]:
    """Return finite float32 triples, random or nasty: sums that nearly cancel, are nearly halfway, ..."""

    source = random.Random(seed)

    def finite() -> float:
        while True:
            value = float(float32_of_bits([source.getrandbits(32)])[0])
            if abs(value) < float("inf"):
                return value

    def near_one() -> float:
        return source.choice((-1, 1)) * source.randrange(2**23, 2**24) * 2.0**-23

    specials = [0.0, 1.0, 1 + 2.0**-23, 1 - 2.0**-24, 1.5, 2.0**-24, 2.0**64, 2.0**127, 2.0**128 - 2.0**104]
    specials += [2.0**-126, 2.0**-149, 2.0**-126 - 2.0**-149]
    specials += [-special for special in specials]
    triples = [(a, b, c) for a in specials for b in specials for c in specials]
    triples += [(finite(), finite(), finite()) for _ in range(10_000)]
    for _ in range(10_000):
        a, b = near_one(), near_one()
        # comparable magnitudes, at any distance that makes the product's bits end near a rounding boundary
        triples.append((a, b, near_one() * 2.0 ** source.randrange(-60, 60)))
        # cancellation that leaves the product's low bits
        triples.append((a, b, -rounded_to_float32(Fraction(a) * Fraction(b))))
        # a product exactly halfway between two float32, and something tiny to decide: float64 would lose it
        halfway = 1 + 2.0**-23 * source.randrange(2**11)
        tiny = source.choice((-1, 0, 1)) * 2.0 ** source.randrange(-149, -40)
        triples.append((source.choice((-1, 1)) * halfway, 1 + 0.5 ** source.randrange(1, 24), tiny))
        # (1 + x) (1 - x) = 1 - x**2 puts the sum a few ulps of float64 from halfway, on either side
        i, even = source.randrange(1024), 2.0**24 + 2 * source.randrange(16)
        triples.append((1 + i * 2.0**-23, 1 - i * 2.0**-23, source.choice((-1, 1)) * even))
        # results at the edge of the subnormal numbers
        triples.append((a * 2.0**-63, b * 2.0**-64, source.randrange(-(2**24), 2**24) * 2.0**-149))
    return triples


def fma_mistakes(seed: int = 1) -> list[tuple[float, float, float]]:
    """Return operands for which `fma` differs from exact arithmetic rounded once; none is expected."""

    triples = fma_operands(seed)
    a, b, c = np.array(triples, np.float64).T.astype(np.float32)
    with np.errstate(over="ignore"):  # overflow to infinity is among what is compared
        results = fma(a, b, c)
    mistakes = []
    for triple, result in zip(triples, results, strict=True):
        exact = Fraction(triple[0]) * Fraction(triple[1]) + Fraction(triple[2])
        if float(result) != rounded_to_float32(exact):
            mistakes.append(triple)
    return mistakes


def main() -> int:
    """Check what the command line asks for, print it, and say by the exit status whether it held."""

    parser = argparse.ArgumentParser(description="Worst errors of the rotary embedding's sine and cosine.")
    parser.add_argument("--stride", type=int, default=1, help="evaluate every N-th rest only (default: all)")
    parser.add_argument("--all", action="store_true", help="evaluate negative rests too, not by symmetry")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    parser.add_argument("--self-test", action="store_true", help="hold fma against exact arithmetic instead")
    arguments = parser.parse_args()
    if arguments.stride < 1 or arguments.jobs < 1:
        parser.error("--stride and --jobs take a positive number")

    if arguments.self_test:
        mistakes = fma_mistakes()
        print(f"fma: {len(mistakes)} mistakes", *mistakes[:10], sep="\n  ")
        return int(bool(mistakes))

    held = True
    found = worst_errors(arguments.stride, both_signs=arguments.all, jobs=arguments.jobs)
    for name, worst, bound in zip(("sine", "cosine"), found, (SINE_BOUND, COSINE_BOUND), strict=True):
        within = worst.error <= bound and bound + ANGLE_BOUND <= CONTRACT
        held = held and within
        print(f"{name:6}: worst error {worst.error:.6e} at rest {worst.rest}, bound {bound:.1e}", end="")
        print("" if within else ": ABOVE")
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
