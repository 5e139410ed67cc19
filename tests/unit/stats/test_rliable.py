"""Our statistics against numbers that rliable computed; rliable.json says how they were made."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ahac.stats.across_tasks import METRICS, interquartile_mean
from ahac.stats.bootstrap import stratified_interval
from ahac.stats.comparison import performance_profile, probability_of_improvement

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("rliable.json").read_text(encoding="utf-8"))
SCORES = {name: [np.array(task) for task in tasks] for name, tasks in RECORDED["scores"].items()}
"""Scores of algorithms: for each task those of its runs."""
INTERVAL_TOLERANCE = 0.1
"""Ends of intervals differ by the random draws: at most by this part of the width."""


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("algorithm", SCORES)
def test_aggregates_are_those_of_rliable(name: str, algorithm: str) -> None:
    wanted = RECORDED["aggregates"][algorithm][name]
    assert METRICS[name](SCORES[algorithm]) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("algorithm", SCORES)
def test_intervals_of_aggregates_are_those_of_rliable(name: str, algorithm: str) -> None:
    found = stratified_interval(METRICS[name], SCORES[algorithm], rng=np.random.default_rng(0), resamples=20_000)
    check_interval(found, RECORDED["aggregate_intervals"][algorithm][name])


def test_probabilities_of_improvement_are_those_of_rliable() -> None:
    for pair, wanted in RECORDED["improvement"].items():
        first, second = (SCORES[name] for name in pair.split(","))
        assert probability_of_improvement(first, second) == pytest.approx(wanted["value"], rel=1e-9)
        found = stratified_interval(
            probability_of_improvement, first, second, rng=np.random.default_rng(0), resamples=20_000
        )
        check_interval(found, wanted["interval"])


@pytest.mark.parametrize("algorithm", SCORES)
def test_profiles_are_those_of_rliable(algorithm: str) -> None:
    found = performance_profile(SCORES[algorithm], np.array(RECORDED["thresholds"]))
    np.testing.assert_allclose(found, RECORDED["profiles"][algorithm], rtol=1e-9)


def test_rliable_drops_whole_runs_where_quarters_are_not_whole() -> None:
    """rliable keeps all but the lowest and highest n // 4 runs; we also drop a part of the next ones."""
    scores = [np.array(task) for task in RECORDED["odd"]["scores"]]
    ordered = np.sort(np.concatenate(scores))
    cut = len(ordered) // 4
    assert len(ordered) % 4 != 0
    assert RECORDED["odd"]["interquartile mean"] == pytest.approx(ordered[cut:-cut].mean(), rel=1e-9)
    narrower = ordered[cut + 1 : -cut - 1].mean()
    low, high = sorted([RECORDED["odd"]["interquartile mean"], narrower])
    assert low < interquartile_mean(scores) < high


def check_interval(found: tuple[np.ndarray, np.ndarray], wanted: list[float]) -> None:
    width = wanted[1] - wanted[0]
    assert np.abs(np.array(found) - wanted).max() < INTERVAL_TOLERANCE * width
