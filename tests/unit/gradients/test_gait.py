"""Periods of synthetic gaits."""

import math

import numpy as np
import pytest

from ahac.gradients.gait import gait_period, phase_means

RNG = np.random.default_rng(0)


def trot(period: float, steps: int = 300) -> np.ndarray:
    """Return contacts of four feet, each on the ground for half a period, in diagonal pairs."""
    phase = np.arange(steps)[:, None] / period + np.array([0.0, 0.5, 0.5, 0.0])
    return phase % 1.0 < 0.5


@pytest.mark.parametrize("period", [12.0, 20.9, 28.0, 43.3])
def test_the_period_of_a_trot(period: float) -> None:
    assert gait_period(trot(period)) == pytest.approx(period, abs=0.3)


def test_occasional_stumbles_do_not_matter() -> None:
    contact = trot(28.0)
    stumbling = np.where(RNG.random(contact.shape) < 0.1, ~contact, contact)
    assert gait_period(stumbling) == pytest.approx(28.0, abs=0.5)


def test_irregular_strides_give_the_mean_period() -> None:
    starts = np.cumsum(RNG.integers(33, 40, 12))
    contact = np.zeros(400, bool)
    for begin in starts[starts < 390]:
        contact[begin : begin + 3] = contact[begin + 5 : begin + 8] = True
    worlds = np.stack([np.roll(contact, 11 * k) for k in range(4)], axis=1)
    assert gait_period(worlds) == pytest.approx(np.diff(starts[starts < 390]).mean(), abs=2.0)


def test_feet_that_strike_twice_per_period_give_the_whole_period() -> None:
    phase = np.arange(300) / 36.0 % 1.0
    contact = (phase < 0.08) | ((phase > 0.16) & (phase < 0.26))
    assert gait_period(contact) == pytest.approx(36.0, abs=0.3)


@pytest.mark.parametrize(
    "contact",
    [np.ones((200, 4), bool), np.zeros((200, 4), bool), RNG.random((400, 4)) < 0.5, trot(28.0, 6), np.zeros((200, 0))],
    ids=["standing", "flying", "random", "too short", "no feet"],
)
def test_contacts_that_do_not_repeat_have_no_period(contact: np.ndarray) -> None:
    assert math.isnan(gait_period(contact))


def test_means_by_phase() -> None:
    values = np.tile([1.0, 2.0, 3.0, 4.0], 5)
    assert phase_means(values, 4.0, bins=4).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert phase_means(values[:, None], 4.0, bins=2)[:, 0].tolist() == [1.5, 3.5]
    assert np.isnan(phase_means(values[:1], 4.0, bins=2)[1])
