"""The check of sine and cosine over every reduced angle, on a sample; and that it can fail."""

from __future__ import annotations

import pytest

from scripts import check_rotation


def test_sampled_angles_are_within_the_bounds() -> None:
    sine, cosine = check_rotation.worst_errors(stride=997)
    assert 0 < sine.error <= check_rotation.SINE_BOUND
    assert 0 < cosine.error <= check_rotation.COSINE_BOUND


def test_fma_rounds_once() -> None:
    assert check_rotation.fma_mistakes() == []


@pytest.mark.parametrize("name", ["SINE", "COSINE"])
@pytest.mark.parametrize("power", range(4))
def test_a_wrong_sign_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, power: int) -> None:
    coefficients = list(getattr(check_rotation, name))
    coefficients[power] ^= 0x80000000
    monkeypatch.setattr(check_rotation, name, tuple(coefficients))
    sine, cosine = check_rotation.worst_errors(stride=99_991)
    assert sine.error > check_rotation.SINE_BOUND or cosine.error > check_rotation.COSINE_BOUND
