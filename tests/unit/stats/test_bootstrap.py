"""Stratified bootstrap intervals and bands of curves."""

import numpy as np
import pytest

from ahac.stats.across_tasks import interquartile_mean, mean
from ahac.stats.aggregate import bootstrap_interval
from ahac.stats.bootstrap import curve_band, resample_runs, stratified_interval
from ahac.stats.comparison import performance_profile, probability_of_improvement


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_runs_are_drawn_within_their_task() -> None:
    first, second = resample_runs([np.array([1.0, 2.0]), np.array([5.0, 6.0, 7.0])], rng(), resamples=50)
    assert (first.shape, second.shape) == ((50, 2), (50, 3))
    assert set(first.ravel()) == {1.0, 2.0}
    assert set(second.ravel()) == {5.0, 6.0, 7.0}
    assert any(len(set(sample)) == 1 for sample in first), "with replacement"


def test_differences_between_tasks_add_no_uncertainty() -> None:
    low, high = stratified_interval(mean, [np.zeros(3), np.full(3, 100.0)], rng=rng())
    assert (low, high) == (50.0, 50.0)


def test_the_interval_of_two_runs_by_hand() -> None:
    """The mean of two draws from 0 and 1 is 0 or 1 with probability 1/4 each, so that 2.5 % of each side are there."""
    low, high = stratified_interval(mean, [np.array([0.0, 1.0])], rng=rng())
    assert (low, high) == (0.0, 1.0)
    low, high = stratified_interval(mean, [np.array([0.0, 1.0])], rng=rng(), confidence=0.4)
    assert (low, high) == (0.5, 0.5)


def test_the_interval_of_the_mean_is_that_of_normal_theory() -> None:
    """The variance of the mean over two tasks is a quarter of the sum of those of the task means."""
    scores = [rng(1).normal(0.0, 1.0, 300), rng(2).normal(50.0, 2.0, 400)]
    low, high = stratified_interval(mean, scores, rng=rng())
    error = 0.5 * np.sqrt(scores[0].var() / 300 + scores[1].var() / 400)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_samples_are_drawn_independently() -> None:
    """An algorithm compared with itself: draws that went together would give 1/2 only."""
    scores = [np.arange(8.0)]
    low, high = stratified_interval(probability_of_improvement, scores, scores, rng=rng())
    assert low < 0.35
    assert high > 0.65


def test_a_statistic_may_have_several_values() -> None:
    scores = [np.array([1.0, 2.0, 3.0])]
    low, high = stratified_interval(lambda drawn: performance_profile(drawn, np.array([0.0, 2.5])), scores, rng=rng())
    assert low.tolist() == [1.0, 0.0]
    assert (high[0], high[1] > 0.5) == (1.0, True)


def test_single_runs_have_no_interval() -> None:
    assert np.isnan(stratified_interval(mean, [np.ones(1), np.ones(1)], rng=rng())).all()
    assert np.isfinite(stratified_interval(mean, [np.ones(1), np.ones(2)], rng=rng())).all()


def test_an_interval_depends_on_its_generator_alone() -> None:
    scores = [rng(1).normal(size=6)]
    assert stratified_interval(mean, scores, rng=rng(3)) == stratified_interval(mean, scores, rng=rng(3))
    assert stratified_interval(mean, scores, rng=rng(3)) != stratified_interval(mean, scores, rng=rng(4))


def test_a_band_is_an_interval_at_each_point() -> None:
    curves = rng(5).normal(10.0, 3.0, (9, 4))
    low, high = curve_band(curves, rng(), resamples=4000)
    wanted = np.array([bootstrap_interval(point, rng(), resamples=4000) for point in curves.T])
    width = wanted[:, 1] - wanted[:, 0]
    np.testing.assert_allclose((low - wanted[:, 0]) / width, 0.0, atol=0.08)
    np.testing.assert_allclose((high - wanted[:, 1]) / width, 0.0, atol=0.08)
    middle = interquartile_mean([curves.T])
    assert ((low < middle) & (middle < high)).all()


def test_all_points_of_a_band_have_the_same_bootstrap_samples() -> None:
    curves = rng(6).normal(size=5)[:, None] + np.array([0.0, 7.0])
    low, high = curve_band(curves, rng())
    assert low[1] - low[0] == pytest.approx(7.0)
    assert high[1] - high[0] == pytest.approx(7.0)


def test_a_single_curve_has_no_band() -> None:
    assert np.isnan(curve_band(np.ones((1, 3)), rng())).all()
