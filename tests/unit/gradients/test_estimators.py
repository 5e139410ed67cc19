"""Estimators on a quadratic with a known gradient, and statistics of samples."""

import pytest
import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.gradients import agreement, estimate, gaussian_scores, zeroth_order

SIGMA, SAMPLES = 0.3, 4096
CURVE = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
CENTER = torch.tensor([1.0, -2.0], dtype=torch.float64)
THETA = torch.tensor([0.4, 0.3], dtype=torch.float64)
GRADIENT = -CURVE @ (THETA - CENTER)
"""Gradient of E[R(θ + w)]; the noise only adds a constant to a quadratic."""
SURE = 4.5
"""Standard errors within which a mean of thousands of samples lies in all but one of 100,000 cases."""


def reward(action: Tensor) -> Tensor:
    apart = action - CENTER
    return -0.5 * ((apart @ CURVE) * apart).sum(dim=-1)


def samples(seed: int, baseline: bool = True) -> tuple[Tensor, Tensor]:
    """Return first- and zeroth-order samples [N, 2]."""
    noise = SIGMA * torch.randn(SAMPLES, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    theta = THETA.expand(SAMPLES, 2).clone().requires_grad_()
    returns = reward(theta + noise)
    (first,) = torch.autograd.grad(returns.sum(), theta)
    base = reward(THETA) if baseline else 0.0
    return first, zeroth_order(returns.detach(), base, gaussian_scores(noise, SIGMA))


@pytest.mark.parametrize("seed", range(3))
def test_both_orders_are_unbiased_within_their_standard_errors(seed: int) -> None:
    for gradients in samples(seed):
        error = gradients.std(dim=0) / SAMPLES**0.5
        assert ((gradients.mean(dim=0) - GRADIENT).abs() < SURE * error).all()


def test_the_noise_free_baseline_reduces_variance_without_bias() -> None:
    (_, with_it), (_, without) = samples(0), samples(0, baseline=False)
    assert estimate(with_it).variance < 0.7 * estimate(without).variance
    assert ((without.mean(dim=0) - GRADIENT).abs() < SURE * without.std(dim=0) / SAMPLES**0.5).all()


def test_orders_agree_within_sampling_noise() -> None:
    first, zeroth = map(estimate, samples(1))
    both = agreement(first, zeroth)
    assert both.error == pytest.approx(float((first.mean - zeroth.mean).norm()))
    assert 0.0 < both.error < SURE * both.expected
    assert both.cosine > 0.99
    assert first.esnr > 10.0 * zeroth.esnr, "on a smooth function"


def test_statistics_of_a_known_distribution() -> None:
    noise = torch.randn(200_000, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    mean = torch.tensor([1.0, -2.0, 0.5])
    deviation = torch.tensor([2.0, 1.0, 3.0])
    result = estimate(mean + deviation * noise)
    assert result.variance == pytest.approx(14.0, rel=0.01)
    assert result.esnr == pytest.approx(5.25 / 14.0, rel=0.02)
    assert result.standard_error == pytest.approx((14.0 / 200_000) ** 0.5, rel=0.01)


def test_pure_noise_has_a_ratio_of_one_over_its_samples() -> None:
    rng = torch.Generator().manual_seed(3)
    ratios = [estimate(torch.randn(100, 50, generator=rng, dtype=torch.float64)).esnr for _ in range(20)]
    assert sum(ratios) / 20 == pytest.approx(1 / 100, rel=0.15)


def test_a_gradient_of_zero_has_no_direction() -> None:
    still = estimate(torch.zeros(4, 2))
    assert agreement(still, still).cosine == 0.0


def test_a_single_sample_is_refused() -> None:
    with pytest.raises(InputError, match=r"N of at least 2, got \[1, 3\]"):
        estimate(torch.zeros(1, 3))
