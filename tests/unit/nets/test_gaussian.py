"""Densities of policies compared with torch's distributions."""

import pytest
import torch
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution, kl_divergence
from torch.testing import assert_close

from ahac.nets.gaussian import entropy, kl, log_prob, squashed_log_prob

EXACT = 1e-10


@pytest.fixture
def numbers() -> torch.Tensor:
    return torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_log_prob_and_entropy_of_a_gaussian(numbers: torch.Tensor) -> None:
    x, mean, log_std, *_ = numbers
    expected = Independent(Normal(mean, log_std.exp()), 1)
    assert_close(log_prob(x, mean, log_std), expected.log_prob(x), rtol=EXACT, atol=EXACT)
    assert_close(entropy(log_std), expected.entropy(), rtol=EXACT, atol=EXACT)


def test_log_prob_of_a_squashed_gaussian(numbers: torch.Tensor) -> None:
    noise, mean, log_std, *_ = numbers
    x = mean + log_std.exp() * noise
    expected = TransformedDistribution(Independent(Normal(mean, log_std.exp()), 1), [TanhTransform(cache_size=1)])
    x = x.clamp(-3.0, 3.0)
    noise = (x - mean) * torch.exp(-log_std)
    assert_close(squashed_log_prob(x, noise, log_std), expected.log_prob(torch.tanh(x)), rtol=1e-8, atol=1e-8)


def test_squashed_log_prob_is_finite_where_tanh_saturates() -> None:
    x = torch.tensor([[-40.0, 40.0]], requires_grad=True)
    density = squashed_log_prob(x, torch.zeros(1, 2), torch.zeros(1, 2))
    density.sum().backward()
    assert torch.isfinite(density).all()
    assert x.grad is not None
    assert_close(x.grad, torch.tensor([[-2.0, 2.0]]))


def test_kl_divergence_of_two_gaussians(numbers: torch.Tensor) -> None:
    mean, log_std, other_mean, other_log_std, _ = numbers
    one, other = (Independent(Normal(m, s.exp()), 1) for m, s in ((mean, log_std), (other_mean, other_log_std)))
    assert_close(kl(mean, log_std, other_mean, other_log_std), kl_divergence(one, other), rtol=EXACT, atol=EXACT)
    assert kl(mean, log_std, mean, log_std).abs().max() < 1e-12
