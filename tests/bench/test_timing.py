"""Rounds, medians and quartiles, with times set by hand."""

from __future__ import annotations

import pytest

from ptxtemplates.bench.contender import Contender
from ptxtemplates.bench.timing import LEAST_ROUNDS, MOST_ROUNDS, Spread, spread_of, timed_rounds


@pytest.mark.parametrize(
    ("values", "spread"),
    [
        ([3.0], Spread(3, 3, 3)),
        ([1.0, 2.0], Spread(1.5, 1.25, 1.75)),
        ([5.0, 1.0, 4.0, 2.0, 3.0], Spread(3, 2, 4)),
        ([1.0, 2.0, 3.0, 100.0], Spread(2.5, 1.75, 27.25)),
    ],
)
def test_spread(values: list[float], spread: Spread) -> None:
    assert spread_of(values) == spread


def contender(name: str, calls: int) -> Contender:
    return Contender(name, "f32", 1, calls, lambda: None)


@pytest.mark.parametrize(
    ("milliseconds", "rounds"),
    [(0.001, MOST_ROUNDS), (5.0, 12), (100.0, LEAST_ROUNDS), (0.0, MOST_ROUNDS)],
    ids=["quick", "as long as there is patience: 250 ms, twice 5 + 5 a round", "slow", "no time at all"],
)
def test_rounds_in_turn(milliseconds: float, rounds: int) -> None:
    one, other = contender("one", 1), contender("other", 10)
    order: list[str] = []

    def time(each: Contender) -> float:
        order.append(each.name)
        return milliseconds

    times = timed_rounds([one, other], time)
    assert order == ["one", "other"] * (1 + rounds), "a round to warm up, then in turn"
    assert times == {
        one: pytest.approx([milliseconds * 1000] * rounds),
        other: pytest.approx([milliseconds * 100] * rounds),
    }
