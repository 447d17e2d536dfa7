"""Find the float32 coefficients of the rotary embedding's sine and cosine.

`scripts.check_rotation` has the evaluation order and where its error comes from: of some 6e-8 all but 1e-9 is
rounding, so the best real polynomial, rounded, is not the best float32 one. Three steps:

1. Remez's exchange fits the absolute error over an eighth of a turn, every coefficient real.
2. From the lowest power, which weighs most, each coefficient is set to a float32 next to its fitted value and
   the higher ones are fitted anew, so that they make up for its rounding. All choices near the fit are kept.
3. From the choice whose float32 evaluation errs least a local search moves the coefficients by a few ulps for
   as long as the worst error falls.

Steps 2 and 3 judge by the worst error over every float32 r in (1/16, 1/8): there r, the polynomials and the
results have their largest ulps, and no smaller r comes near the worst error. Nothing is drawn at random, so
that the same coefficients come out each time. `scripts.check_rotation` then has the last word.

The sine's leading 2 pi is not fitted: split into a float32 and a remainder, it lets the last fma take the
large term exactly, and keeps the sines of small angles good to their last bit. (A leading 6 makes the
polynomial smaller, and the worst error 5.6e-8; the cosine's is larger anyway.)

Run it from the root of the repository: ``python -m scripts.fit_rotation``, some ten seconds.
"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from scripts.check_rotation import BLOCK, Float32s, Float64s, cosine, reduced, sine, turns_to_radians

Evaluate = Callable[[Float32s, Float32s], Float32s]

TWO_PI = np.float32(2 * np.pi)
EXCHANGES = 30  # far more than it takes to settle; it may end in a cycle of equally good references
WIDTHS = (2, 2, 2, 1)  # ulps tried on either side of the fitted value, lowest power first
MOVES = ((-1, 0, 1), (-1, 0, 1), (-4, -1, 0, 1, 4), (-16, 0, 16))  # ulps, lowest power first


def neighbour(value: float, ulps: int) -> float:
    """Return the float32 that lies `ulps` further from zero than the one nearest to `value`."""

    pattern = np.float32(value).view(np.int32) + np.int32(ulps)
    return float(pattern.view(np.float32))


def minimax(basis: Float64s, target: Float64s) -> Float64s:
    """Return the coefficients whose worst absolute error over the rows is least, by Remez's exchange.

    Parameters
    ----------
    basis
        A column for each function, a row for each point, in order; any combination of the columns changes
        sign fewer times than there are columns.
    target
        What the combination is to approximate, at each point.
    """

    points, terms = basis.shape
    # start from the extremes of a Chebyshev polynomial; the points themselves are already crowded like that
    reference = np.linspace(0, points - 1, 2 * terms + 3).round().astype(np.int64)[1::2]
    signs = (-1.0) ** np.arange(terms + 1)
    for _ in range(EXCHANGES):
        system = np.column_stack([basis[reference], signs])
        scale = np.abs(system).max(axis=0)  # the powers of q differ by 2**18
        fitted = np.linalg.solve(system / scale, target[reference])[:-1] / scale[:-1]
        error = target - basis @ fitted
        turns = np.flatnonzero(np.diff(np.signbit(error))) + 1
        extremes = [
            first + int(np.abs(error[first:end]).argmax())
            for first, end in zip([0, *turns], [*turns, points], strict=True)
        ]
        while len(extremes) > terms + 1:
            del extremes[0 if abs(error[extremes[0]]) < abs(error[extremes[-1]]) else -1]
        # done when the exchange settles, or the error is down to the rounding of float64 and no longer waves
        if len(extremes) <= terms or np.array_equal(extremes, reference):
            break
        reference = np.array(extremes)
    return np.asarray(fitted, np.float64)


def roundings(basis: Float64s, target: Float64s, widths: tuple[int, ...]) -> Iterator[tuple[float, ...]]:
    """Yield float32 coefficients near the fit, one after the other rounded and the rest fitted anew."""

    if not widths:
        yield ()
        return
    fitted = float(minimax(basis, target)[0])
    for ulps in range(-widths[0], widths[0] + 1):
        coefficient = neighbour(fitted, ulps)
        for rest in roundings(basis[:, 1:], target - basis[:, 0] * coefficient, widths[1:]):
            yield (coefficient, *rest)


class Judge:
    """Worst errors of float32 evaluations over the float32 r of (1/16, 1/8).

    An r stands for all the rests that round to it. The true functions are monotonic there, so the worst of
    them are the first and the last: 16 away from 32 m = rest, or 15 where m is odd and ties go to others.

    Parameters
    ----------
    evaluate
        The function in float32.
    truth
        The same in float64, of radians.
    last
        The coefficient that is not fitted.
    """

    def __init__(self, evaluate: Evaluate, truth: Callable[[Float64s], Float64s], last: np.float32) -> None:
        self.evaluate, self.last = evaluate, last
        significand = np.arange(2**23 + 1, 2**24, dtype=np.int64)
        reach = 16 - significand % 2
        self.r = reduced(32 * significand)
        self.first = truth(turns_to_radians(32 * significand - reach))
        self.end = truth(turns_to_radians(32 * significand + reach))

    def worst(self, coefficients: tuple[float, ...], below: float = np.inf) -> float:
        """Return the worst error, or one that is not `below` the given one."""

        values = np.array([*coefficients[::-1], self.last], np.float32)
        worst = 0.0
        # the largest r first: they err most, and soon turn most candidates away
        for at in reversed(range(0, len(self.r), BLOCK)):
            block = slice(at, at + BLOCK)
            value = self.evaluate(self.r[block], values)
            for truth in (self.first, self.end):
                worst = max(worst, float(np.abs(value - truth[block]).max()))
            if worst >= below:
                break
        return worst


def best(judge: Judge, basis: Float64s, target: Float64s) -> tuple[tuple[float, ...], float]:
    """Return the coefficients, lowest power first, that `judge` likes best, and their worst error."""

    found: tuple[float, ...] = ()
    error = np.inf
    for candidate in roundings(basis, target, WIDTHS):
        worst = judge.worst(candidate, below=error)
        if worst < error:
            found, error = candidate, worst
    improved = True
    while improved:
        improved = False
        for ulps in product(*MOVES):
            moved = tuple(neighbour(value, step) for value, step in zip(found, ulps, strict=True))
            worst = judge.worst(moved, below=error)
            if worst < error:
                found, error, improved = moved, worst, True
    return found, error


def powers(r: Float64s, exponents: tuple[int, ...]) -> Float64s:
    """Return powers of `r`, a column each."""

    return np.column_stack([r**exponent for exponent in exponents])


def show(name: str, coefficients: tuple[float, ...], last: np.float32, error: float) -> None:
    """Print the float32 bit patterns, highest power first."""

    patterns = np.array([*coefficients[::-1], last], np.float32).view(np.uint32).tolist()
    print(f"{name} = ({', '.join(f'0x{pattern:08X}' for pattern in patterns)})  # worst error {error:.6e}")


def main() -> None:
    """Fit both functions and print them."""

    r: Float64s = (1 - np.cos(np.linspace(0, np.pi, 4001)))[1:] / 16  # (0, 1/8], crowded at both ends
    fits = (
        ("SINE", Judge(sine, np.sin, TWO_PI), (1, 3, 5, 7), np.sin(2 * np.pi * r) - float(TWO_PI) * r),
        ("COSINE", Judge(cosine, np.cos, np.float32(1)), (2, 4, 6, 8), np.cos(2 * np.pi * r) - 1),
    )
    for name, judge, exponents, target in fits:
        coefficients, error = best(judge, powers(r, exponents), target)
        show(name, coefficients, judge.last, error)


if __name__ == "__main__":
    main()
