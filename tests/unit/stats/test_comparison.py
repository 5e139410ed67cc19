"""Probability of improvement and performance profiles, worked by hand."""

import numpy as np
import pytest

from ahac.stats.comparison import performance_profile, probability_of_improvement

FIRST = [np.array([1.0, 2.0]), np.array([5.0])]
SECOND = [np.array([1.0]), np.array([4.0, 6.0])]


def test_probability_of_improvement_by_hand() -> None:
    """The first task has a tie and a win of two pairs, the second a win and a loss."""
    assert probability_of_improvement(FIRST, SECOND) == pytest.approx((1.5 / 2.0 + 1.0 / 2.0) / 2.0)


def test_probabilities_of_both_directions_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    x = [rng.integers(0, 5, 6), rng.integers(0, 5, 4)]
    y = [rng.integers(0, 5, 3), rng.integers(0, 5, 8)]
    assert probability_of_improvement(x, y) + probability_of_improvement(y, x) == pytest.approx(1.0)


@pytest.mark.parametrize(("shift", "wanted"), [(0.0, 0.5), (10.0, 1.0), (-10.0, 0.0)])
def test_clear_cases(shift: float, wanted: float) -> None:
    scores = [np.array([1.0, 2.0, 3.0])]
    assert probability_of_improvement([scores[0] + shift], scores) == pytest.approx(wanted)


def test_improvement_keeps_leading_axes() -> None:
    rng = np.random.default_rng(0)
    x, y = [rng.normal(size=(6, 3)), rng.normal(size=(6, 2))], [rng.normal(size=(6, 4)), rng.normal(size=(6, 5))]
    found = probability_of_improvement(x, y)
    wanted = [probability_of_improvement([task[k] for task in x], [task[k] for task in y]) for k in range(6)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_different_tasks_are_not_compared() -> None:
    with pytest.raises(ValueError, match="got 2 and 1 tasks"):
        probability_of_improvement(FIRST, SECOND[:1])


def test_a_profile_by_hand() -> None:
    """Scores equal to a threshold are not above it; both tasks count the same."""
    scores = [np.array([1.0, 2.0, 3.0]), np.array([0.0, 4.0])]
    found = performance_profile(scores, np.array([0.0, 2.0, 3.5, 4.0]))
    np.testing.assert_allclose(found, [(1 + 1 / 2) / 2, (1 / 3 + 1 / 2) / 2, (0 + 1 / 2) / 2, 0.0])


def test_a_profile_keeps_leading_axes_and_falls() -> None:
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(5, 3)), rng.normal(size=(5, 4))]
    found = performance_profile(scores, np.linspace(-3.0, 3.0, 11))
    assert found.shape == (5, 11)
    assert (np.diff(found, axis=-1) <= 0.0).all()
