"""Aggregates over tasks, worked by hand, also of tasks with different numbers of runs."""

import numpy as np
import pytest

from ahac.stats.across_tasks import METRICS, interquartile_mean, mean, median, optimality_gap
from ahac.stats.aggregate import iqm

RAGGED = [np.array([1.0, 3.0]), np.array([0.0, 4.0, 8.0]), np.array([10.0])]
"""Tasks whose means are 2, 4 and 10."""


def test_mean_and_median_are_those_of_the_task_means() -> None:
    assert mean(RAGGED) == pytest.approx(16.0 / 3.0)
    assert median(RAGGED) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([[0.0, 8.0], [4.0]], 4.0),  # 0 and 8 have a quarter of the weight each, 4 has the middle half
        ([[4.0, 8.0], [0.0]], 2.0),  # 0 covers the lower half, of which a quarter counts; 4 the next quarter
        ([[1.0, 2.0], [3.0, 100.0]], 2.5),
        ([[5.0], [7.0]], 6.0),
    ],
)
def test_interquartile_mean_by_hand(scores: list[list[float]], wanted: float) -> None:
    assert interquartile_mean([np.array(task) for task in scores]) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("runs", [1, 2, 3, 5, 8])
def test_interquartile_mean_of_equal_numbers_of_runs_is_that_of_all_scores(runs: int) -> None:
    scores = np.random.default_rng(runs).normal(size=(3, runs))
    assert interquartile_mean(list(scores)) == pytest.approx(iqm(scores.ravel()), rel=1e-12)


def test_interquartile_mean_does_not_depend_on_the_order_of_tasks_and_runs() -> None:
    turned = [task[::-1] for task in RAGGED[::-1]]
    assert interquartile_mean(turned) == pytest.approx(float(interquartile_mean(RAGGED)), rel=1e-12)


def test_interquartile_mean_counts_tasks_equally_whatever_their_numbers_of_runs() -> None:
    repeated = [np.tile(RAGGED[0], 3), RAGGED[1], np.tile(RAGGED[2], 5)]
    assert interquartile_mean(repeated) == pytest.approx(float(interquartile_mean(RAGGED)), rel=1e-12)


def test_optimality_gap_by_hand() -> None:
    scores = [np.array([0.5, 1.5]), np.array([0.2, 0.4])]
    assert optimality_gap(scores) == pytest.approx(1.0 - (0.75 + 0.3) / 2.0)
    assert optimality_gap(scores, threshold=0.3) == pytest.approx(0.3 - (0.3 + 0.25) / 2.0)
    assert optimality_gap([np.array([0.5]), np.array([1.0, 0.0])]) == pytest.approx(0.5)


@pytest.mark.parametrize("name", METRICS)
def test_leading_axes_are_kept(name: str) -> None:
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(7, 3)), rng.normal(size=(7, 5))]
    found = METRICS[name](scores)
    assert found.shape == (7,)
    np.testing.assert_allclose(found, [METRICS[name]([task[k] for task in scores]) for k in range(7)], rtol=1e-12)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("scores", [[], [np.empty(0)], [np.ones(2), np.empty(0)]])
def test_no_tasks_and_tasks_without_runs_are_refused(name: str, scores: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="at least one run of each"):
        METRICS[name](scores)
