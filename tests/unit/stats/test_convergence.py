"""Flat and rising learning curves."""

import math

import numpy as np

from ahac.stats.convergence import last_tenth_change

STEPS = np.arange(1.0, 101.0)


def test_a_ramp_at_the_end_is_measured() -> None:
    returns = np.where(STEPS > 90.0, 210.0, 200.0)
    assert math.isclose(last_tenth_change(STEPS, returns[None]), 0.05)
    assert math.isclose(last_tenth_change(STEPS, -returns[None]), -0.05)


def test_only_the_last_two_tenths_count() -> None:
    assert last_tenth_change(STEPS, np.where(STEPS > 80.0, 5.0, -1e6)[None]) == 0.0


def test_one_bad_run_of_eight_does_not_count() -> None:
    returns = np.full((8, 100), 10.0)
    returns[3] = STEPS
    assert last_tenth_change(STEPS, returns) == 0.0


def test_curves_without_enough_points_have_no_change() -> None:
    assert math.isnan(last_tenth_change(np.empty(0), np.empty((2, 0))))
    assert math.isnan(last_tenth_change(np.array([10.0]), np.ones((1, 1))))
    assert math.isnan(last_tenth_change(STEPS, np.zeros((1, 100))))
