"""Losses that reuse and mix the gradients of a rollout."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ahac.rl.surrogate import (
    RolloutGradient,
    analytic_share,
    importance_weights,
    likelihood_ratio_gradient,
    surrogate_terms,
)

F64 = torch.float64
SAMPLES = 400_000
MIXING_BIAS = 0.2
"""Relative bias of mixed gradients times the number of worlds; measured 0.18, 0.17, 0.10 and 0.10 with 2, 4, 16 and 64
worlds, with a standard error below 0.03."""


def samples(shape: tuple[int, ...] = (3, 5, 2)) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return μ, log σ, noise and a gradient with respect to x."""
    generator = torch.Generator().manual_seed(0)
    mean, noise, gradient = (torch.randn(shape, generator=generator, dtype=F64) for _ in range(3))
    log_std = torch.tensor([-0.5, 0.3], dtype=F64).expand(shape)
    return mean, log_std, noise, gradient


def gradient_of(mean: Tensor, log_std: Tensor, noise: Tensor, gradient: Tensor) -> RolloutGradient:
    return RolloutGradient(mean=mean, log_std=log_std, x=mean + log_std.exp() * noise, gradient=gradient)


def test_the_first_update_has_the_gradient_of_the_rollout() -> None:
    mean, log_std, noise, gradient = samples()
    mean, log_std = mean.clone().requires_grad_(), log_std.clone().requires_grad_()
    x = mean + log_std.exp() * noise
    expected = torch.autograd.grad((gradient * x).sum(), (mean, log_std))
    rollout = gradient_of(mean.detach(), log_std.detach(), noise, gradient)
    found = torch.autograd.grad(surrogate_terms(mean, log_std, rollout, 0.8, 1.0).loss, (mean, log_std))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_a_changed_policy_is_weighted_by_importance() -> None:
    # One step, one action: μ moves from 0 to 0.1 with σ = 1, the sample is x = 0.5.
    zero = torch.zeros(1, 1, 1, dtype=F64)
    rollout = RolloutGradient(mean=zero, log_std=zero, x=zero + 0.5, gradient=zero + 2.0)
    mean = (zero + 0.1).requires_grad_()
    terms = surrogate_terms(mean, zero, rollout, 0.8, 1.0)
    ratio = math.exp(-0.5 * 0.4**2 + 0.5 * 0.5**2)
    assert torch.autograd.grad(terms.loss, mean)[0].item() == pytest.approx(2.0 * ratio)
    assert terms.kl.item() == pytest.approx(0.5 * 0.1**2)
    assert terms.entropy.item() == pytest.approx(0.5 * math.log(2.0 * math.pi * math.e))


def test_weights_outside_the_clipping_range_are_zero() -> None:
    ratios = torch.tensor([0.19, 0.21, 1.0, 1.99, 2.01], dtype=F64)
    found = importance_weights(ratios.log(), 0.8, 1.0)
    torch.testing.assert_close(found, torch.tensor([0.0, 0.21, 1.0, 1.99, 0.0], dtype=F64))


def test_the_share_of_samples_left_out_is_known() -> None:
    # σ = 1 and μ = 0 become μ = 1: ρ = exp(x − ½), from 0.2 to 2 for x from −1.11 to 1.19.
    x = torch.tensor([-1.2, -1.0, 0.0, 1.0, 1.3], dtype=F64)[None, :, None]
    zero = torch.zeros_like(x)
    rollout = RolloutGradient(mean=zero, log_std=zero, x=x, gradient=zero)
    assert surrogate_terms(zero + 1.0, zero, rollout, 0.8, 1.0).share_clipped.item() == pytest.approx(2 / 5)
    assert surrogate_terms(zero, zero, rollout, 0.0, 0.0).share_clipped.item() == 0.0


def test_shares_are_inverse_variances() -> None:
    first = torch.tensor([[[1.0], [3.0]]], dtype=F64)  # variance 2
    zeroth = torch.tensor([[[0.0], [4.0]]], dtype=F64)  # variance 8
    assert analytic_share(first, zeroth).item() == pytest.approx(8.0 / 10.0)
    assert analytic_share(first, torch.zeros_like(first)).item() == pytest.approx(0.0, abs=1e-11)
    assert analytic_share(torch.zeros_like(first), torch.zeros_like(first)).item() == pytest.approx(0.5)


def test_mixed_gradients_are_the_weighted_mean_of_both() -> None:
    mean, log_std, noise, gradient = samples()
    advantage = gradient.sum(dim=-1) - 1.0
    base = replace(gradient_of(mean, log_std, noise, gradient), advantage=advantage)

    def by_mean(share: float) -> Tensor:
        new = mean.clone().requires_grad_()
        terms = surrogate_terms(new, log_std, replace(base, share=torch.full((3, 1, 2), share, dtype=F64)), 0.8, 1.0)
        return torch.autograd.grad(terms.loss, new)[0]

    torch.testing.assert_close(by_mean(1.0), gradient)
    torch.testing.assert_close(by_mean(0.0), likelihood_ratio_gradient(advantage, mean, log_std, base.x))
    torch.testing.assert_close(by_mean(0.3), 0.3 * by_mean(1.0) + 0.7 * by_mean(0.0))


@pytest.mark.parametrize("worlds", [2, 4, 16, 64])
def test_with_few_worlds_mixed_gradients_are_too_small_by_little(worlds: int) -> None:
    # The quadratic of the next test, in many rollouts of one step. Shares depend on the same samples as the gradients.
    mean = torch.full((SAMPLES // worlds, worlds, 1), 0.5, dtype=F64)
    log_std = torch.full_like(mean, math.log(0.4))
    x = mean + 0.4 * torch.randn(mean.shape, generator=torch.Generator().manual_seed(1), dtype=F64)
    loss = (x - 2.0).square().squeeze(-1)
    first, zeroth = 2.0 * (x - 2.0), likelihood_ratio_gradient(1.5**2 + 0.4**2 - loss, mean, log_std, x)
    mixed = torch.lerp(zeroth, first, analytic_share(first, zeroth)).mean().item()
    assert 0.0 < 1.0 - mixed / -3.0 < MIXING_BIAS / worlds


def test_both_gradients_and_their_mixture_are_unbiased_on_a_quadratic() -> None:
    # L = E (x − 2)² with x ~ N(0.5, 0.4²): dL/dμ = 2 (0.5 − 2) = −3, dL/dσ = 2 σ, by log σ 2 σ² = 0.32.
    worlds = SAMPLES
    mean = torch.full((1, worlds, 1), 0.5, dtype=F64)
    log_std = torch.full_like(mean, math.log(0.4))
    noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(1), dtype=F64)
    x = mean + log_std.exp() * noise
    loss = (x - 2.0).square().squeeze(-1)
    first, advantage = 2.0 * (x - 2.0), -(loss - loss.mean())
    share = analytic_share(first, likelihood_ratio_gradient(advantage, mean, log_std, x))
    assert 0.5 < share.item() < 1.0  # the analytic gradient varies less
    for used in (torch.ones_like(share), torch.zeros_like(share), share):
        rollout = RolloutGradient(
            mean=mean, log_std=log_std, x=x, gradient=first / worlds, advantage=advantage / worlds, share=used
        )
        parameters = torch.tensor([0.5, math.log(0.4)], dtype=F64, requires_grad=True)
        terms = surrogate_terms(parameters[0].expand_as(mean), parameters[1].expand_as(mean), rollout, 0.8, 1.0)
        found = torch.autograd.grad(terms.loss, parameters)[0]
        assert found[0].item() == pytest.approx(-3.0, abs=0.05)
        assert found[1].item() == pytest.approx(0.32, abs=0.03)
