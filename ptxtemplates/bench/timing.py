"""Contenders timed in turn, round by round, so that what a GPU does meanwhile meets all of them alike."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ptxtemplates.bench.contender import Contender

LEAST_ROUNDS: Final = 7
"""Fewer have no quartiles that say anything."""

MOST_ROUNDS: Final = 40

PATIENCE_MS: Final = 250.0
"""GPU time for the rounds of one subject and shape, where `LEAST_ROUNDS` do not take more."""


class Spread(NamedTuple):
    """A median, and the quartiles around it."""

    median: float
    first: float
    third: float


def spread_of(values: Sequence[float]) -> Spread:
    """Return the median and the quartiles of values, interpolated linearly between them."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    first, median, third = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, first, third)


def timed_rounds(
    contenders: Sequence[Contender], time: Callable[[Contender], float]
) -> dict[Contender, list[float]]:
    """Time contenders in turn, after one round that warms up, as often as `PATIENCE_MS` allows.

    Parameters
    ----------
    contenders : sequence of Contender
    time : callable
        Takes a contender and returns the milliseconds of one `enqueue`.

    Returns
    -------
    dict of Contender to list of float
        Microseconds of one call in each round.
    """
    # each is enqueued twice a round: once to bring the cache into a state that does not depend on the others
    taken = 2 * sum(time(contender) for contender in contenders)
    rounds = max(LEAST_ROUNDS, min(MOST_ROUNDS, int(PATIENCE_MS / taken) if taken else MOST_ROUNDS))
    times: dict[Contender, list[float]] = {contender: [] for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            times[contender].append(time(contender) * 1000 / contender.calls)
    return times
