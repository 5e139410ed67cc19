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


def test_both_gradients_and_their_mixture_are_unbiased_on_a_quadratic() -> None:
    # L = E (x − 2)² with x ~ N(0.5, 0.4²): dL/dμ = 2 (0.5 − 2) = −3, dL/dσ = 2 σ, by log σ 2 σ² = 0.32.
    worlds = 400_000
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
