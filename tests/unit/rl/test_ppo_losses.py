"""PPO's losses, against numbers computed by hand."""

import math

import pytest
import torch
from torch.testing import assert_close

from ahac.rl.ppo_losses import action_bound_loss, adaptive_learning_rate, clipped_surrogate, clipped_value_loss


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "slope"),
    [
        (1.0, 2.0, -2.0, -2.0),  # where policies agree it is the plain policy gradient
        (1.5, 2.0, -1.2 * 2.0, 0.0),  # far enough: nothing more is gained
        (0.5, 2.0, -0.5 * 2.0, -0.5 * 2.0),  # gone the wrong way: it may come back
        (1.5, -2.0, 1.5 * 2.0, 1.5 * 2.0),
        (0.5, -2.0, 0.8 * 2.0, 0.0),
    ],
)
def test_ratios_are_clipped_where_that_is_worse(ratio: float, advantage: float, expected: float, slope: float) -> None:
    log_ratio = torch.tensor([math.log(ratio)], requires_grad=True)
    loss = clipped_surrogate(log_ratio, torch.tensor([advantage]), 0.2)
    loss.backward()
    assert loss.item() == pytest.approx(expected)
    assert log_ratio.grad is not None
    assert log_ratio.grad.item() == pytest.approx(slope)


def test_the_surrogate_is_a_mean() -> None:
    log_ratio = torch.tensor([0.0, math.log(1.5)])
    assert clipped_surrogate(log_ratio, torch.tensor([1.0, 2.0]), 0.2).item() == pytest.approx(-(1.0 + 2.4) / 2.0)


def test_values_are_clipped_where_that_is_worse() -> None:
    old, target = torch.tensor([0.0, 0.0, 0.0]), torch.tensor([1.0, 1.0, -1.0])
    value = torch.tensor([0.1, 0.5, 0.5])
    # Clipped to within 0.2 of 0 they are 0.1, 0.2, 0.2: errors 0.81; max(0.25, 0.64); max(2.25, 1.44).
    assert clipped_value_loss(value, old, target, 0.2).item() == pytest.approx((0.81 + 0.64 + 2.25) / 6.0)
    assert clipped_value_loss(value, old, target, None).item() == pytest.approx((0.81 + 0.25 + 2.25) / 6.0)


def test_means_beyond_the_bound_are_penalized() -> None:
    mean = torch.tensor([[1.0, -1.0], [1.6, -2.1]])
    assert action_bound_loss(mean).item() == pytest.approx((0.25 + 1.0) / 2.0)


@pytest.mark.parametrize(
    ("kl", "expected"), [(0.05, 1.0 / 1.5), (0.01, 1.0), (0.019, 1.0), (0.004, 1.5), (float("nan"), 1.0)]
)
def test_the_learning_rate_adapts_to_the_kl_divergence(kl: float, expected: float) -> None:
    rate = torch.tensor(1e-3)
    actual = adaptive_learning_rate(rate, torch.tensor(kl), 0.01, (1e-6, 1e-2))
    assert_close(actual, torch.tensor(1e-3 * expected))
    assert rate.item() == pytest.approx(1e-3), "the given one stays"


def test_the_learning_rate_stays_within_its_bounds() -> None:
    least, most = torch.tensor(1e-6), torch.tensor(1e-2)
    assert_close(adaptive_learning_rate(least, torch.tensor(1.0), 0.01, (1e-6, 1e-2)), least)
    assert_close(adaptive_learning_rate(most, torch.tensor(0.0), 0.01, (1e-6, 1e-2)), most)
