"""The interquartile mean by hand, and properties of bootstrap intervals."""

import numpy as np
import pytest

from ahac.stats.aggregate import bootstrap_interval, iqm

SCORES = np.random.default_rng(0).normal(10.0, 3.0, 40)


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([7.0], 7.0),
        ([1.0, 3.0], 2.0),
        ([0.0, 3.0, 90.0], (0.25 * 0.0 + 3.0 + 0.25 * 90.0) / 1.5),
        ([-1e6, 2.0, 4.0, 1e6], 3.0),
        ([0.0, 1.0, 2.0, 4.0, 1e6], (0.75 * 1.0 + 2.0 + 0.75 * 4.0) / 2.5),
        ([0.0, 0.0, 3.0, 4.0, 5.0, 8.0, 99.0, 99.0], 5.0),
    ],
)
def test_iqm_by_hand(scores: list[float], wanted: float) -> None:
    assert iqm(np.array(scores)) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("n", [4, 8, 12, 40])
def test_iqm_is_the_trimmed_mean_where_quarters_are_whole(n: int) -> None:
    scores = np.random.default_rng(n).normal(size=n)
    assert iqm(scores) == pytest.approx(np.sort(scores)[n // 4 : -(n // 4)].mean(), rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 9, 101])
def test_iqm_is_the_trimmed_mean_of_every_score_counted_four_times(n: int) -> None:
    scores = np.random.default_rng(n).normal(size=n)
    repeated = np.sort(np.repeat(scores, 4))
    assert iqm(scores) == pytest.approx(repeated[n : 3 * n].mean(), rel=1e-12, abs=1e-12)


def test_iqm_does_not_depend_on_the_order() -> None:
    assert iqm(np.random.default_rng(1).permutation(SCORES)) == iqm(SCORES)


def test_iqm_leaves_its_scores_as_they_were() -> None:
    scores = np.array([3.0, 1.0, 2.0])
    iqm(scores)
    assert scores.tolist() == [3.0, 1.0, 2.0]


def test_iqm_takes_whole_and_single_precision_numbers() -> None:
    assert iqm(np.array([1, 2, 4, 9])) == 3.0
    assert iqm(np.array([1, 2, 4, 9], dtype=np.float32)) == 3.0


def test_iqm_shifts_and_scales_with_its_scores() -> None:
    assert iqm(2.0 * SCORES + 5.0) == pytest.approx(2.0 * iqm(SCORES) + 5.0, rel=1e-12)


def test_iqm_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="of no scores"):
        iqm(np.array([]))


def test_an_interval_is_ordered_and_holds_the_statistic() -> None:
    low, high = bootstrap_interval(SCORES, np.random.default_rng(0))
    assert SCORES.min() < low < iqm(SCORES) < high < SCORES.max()


def test_an_interval_of_constant_scores_is_a_point() -> None:
    assert bootstrap_interval(np.full(10, 2.5), np.random.default_rng(0)) == (2.5, 2.5)


def test_an_interval_depends_on_its_generator_alone() -> None:
    def drawn(seed: int) -> tuple[float, float]:
        return bootstrap_interval(SCORES, np.random.default_rng(seed), resamples=200)

    np.random.seed(0)  # noqa: NPY002 - the point: it must not matter
    first = drawn(1)
    np.random.seed(1)  # noqa: NPY002
    assert drawn(1) == first
    assert drawn(2) != first


def test_more_confidence_is_a_wider_interval_inside_which_the_other_lies() -> None:
    wide = bootstrap_interval(SCORES, np.random.default_rng(0), confidence=0.99)
    narrow = bootstrap_interval(SCORES, np.random.default_rng(0), confidence=0.5)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_an_interval_uses_the_given_statistic() -> None:
    scores = np.random.default_rng(3).normal(0.0, 1.0, 400)
    low, high = bootstrap_interval(scores, np.random.default_rng(0), statistic=lambda x: float(np.mean(x)))
    assert high - low == pytest.approx(2 * 1.96 * scores.std() / 20.0, rel=0.1)
