"""Critics against autograd, and what they pass on."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from ahac.nets.critic import Critic

EXACT = 1e-12
"""Relative; the same float64 formula in another order."""


def critic(hidden: tuple[int, ...], members: int, seed: int = 0) -> Critic:
    """In float64, away from the special values that layers begin with."""
    generator = torch.Generator().manual_seed(seed)
    made = Critic(3, hidden, members=members, rng=generator).double()
    with torch.no_grad():
        made.theta.add_(torch.randn(made.theta.shape, generator=generator, dtype=torch.float64), alpha=0.1)
    return made


def batch(seed: int = 1, count: int = 7) -> tuple[Tensor, Tensor]:
    drawn = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn[:, :3], drawn[:, 3]


def plain(theta: Tensor, widths: list[int], obs: Tensor) -> Tensor:
    """The network of one member, written out once more: linear, ELU and layer norm, then linear."""
    x, start = obs, 0
    for k, (inputs, outputs) in enumerate(pairwise(widths)):
        weight = theta[start : start + inputs * outputs].view(inputs, outputs)
        start += inputs * outputs
        x, start = x @ weight + theta[start : start + outputs], start + outputs
        if k < len(widths) - 2:
            x = torch.where(x > 0.0, x, x.clamp(max=0.0).exp() - 1.0)
            x = (x - x.mean(dim=-1, keepdim=True)) / (x.var(dim=-1, keepdim=True, correction=0) + 1e-5).sqrt()
            x = x * theta[start : start + outputs] + theta[start + outputs : start + 2 * outputs]
            start += 2 * outputs
    assert start == len(theta), "weights that nothing uses"
    return x.squeeze(-1)


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("hidden", [(), (5,), (5, 4), (6, 5, 4)])
def test_the_gradient_of_the_regression_is_autograds(hidden: tuple[int, ...], members: int) -> None:
    made, (obs, target) = critic(hidden, members), batch()
    theta = made.theta.detach().clone().requires_grad_()
    wanted = torch.stack([(plain(row, [3, *hidden, 1], obs) - target).square().mean() for row in theta])
    (gradient,) = torch.autograd.grad(wanted.sum(), theta)
    losses = made.regress(obs, target)
    assert losses.shape == (members,)
    assert (losses - wanted).abs().max() < EXACT * wanted.max()
    assert made.theta.grad is not None
    assert (made.theta.grad - gradient).abs().max() < EXACT * gradient.abs().max()


def test_a_regression_overwrites_the_gradient_of_the_one_before() -> None:
    made, (obs, target) = critic((5, 4), 2), batch()
    made.regress(*batch(seed=2))
    made.regress(obs, target)
    fresh = critic((5, 4), 2)
    fresh.regress(obs, target)
    assert made.theta.grad is not None
    assert fresh.theta.grad is not None
    assert torch.equal(made.theta.grad, fresh.theta.grad)


@pytest.mark.parametrize("hidden", [(), (5, 4)])
def test_values_are_those_of_the_plain_network(hidden: tuple[int, ...]) -> None:
    made, (obs, _) = critic(hidden, 2), batch()
    wanted = torch.stack([plain(row, [3, *hidden, 1], obs) for row in made.theta.detach()])
    assert (made.values(obs) - wanted).abs().max() < EXACT * wanted.abs().max()


def test_members_differ_and_the_least_counts() -> None:
    made = Critic(3, (8, 8), members=2, rng=torch.Generator().manual_seed(0)).double()
    obs, _ = batch(count=200)
    first, second = made.values(obs)
    assert (first < second).any()
    assert (first > second).any()
    assert torch.equal(made(obs), torch.minimum(first, second))


def test_leading_dimensions_are_kept() -> None:
    made, (obs, _) = critic((5,), 2), batch(count=12)
    found = made(obs.reshape(4, 3, 3))
    assert found.shape == (4, 3)
    assert torch.equal(found.flatten(), made(obs))


@pytest.mark.parametrize("members", [1, 2])
def test_values_pass_gradients_to_observations_and_none_to_weights(members: int) -> None:
    made, (obs, _) = critic((5, 4), members), batch()
    obs = obs.clone().requires_grad_()
    made(obs).sum().backward()
    assert made.theta.grad is None
    assert obs.grad is not None
    seen = obs.detach().requires_grad_()
    rows = torch.stack([plain(row, [3, 5, 4, 1], seen) for row in made.theta.detach()])
    (wanted,) = torch.autograd.grad(rows.amin(dim=0).sum(), seen)
    assert (obs.grad - wanted).abs().max() < EXACT * wanted.abs().max()


def test_first_weights_are_orthogonal_and_come_from_the_generator() -> None:
    made, same, other = (Critic(3, (8,), members=1, rng=torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert torch.equal(made.theta, same.theta)
    assert not torch.equal(made.theta, other.theta)
    weight = made.theta[0, :24].detach().view(3, 8)
    assert (weight @ weight.t() - 2.0 * torch.eye(3)).abs().max() < 1e-5
    # Biases 0, then scales 1 and shifts 0 of the layer norm.
    assert made.theta[0, 24:48].tolist() == [0.0] * 8 + [1.0] * 8 + [0.0] * 8


def test_the_second_members_fit_does_not_touch_the_first() -> None:
    made, (obs, target) = critic((5,), 2), batch()
    alone = critic((5,), 1)
    with torch.no_grad():
        alone.theta.copy_(made.theta[1:])
    made.regress(obs, target)
    alone.regress(obs, target)
    assert made.theta.grad is not None
    assert alone.theta.grad is not None
    assert torch.equal(made.theta.grad[1], alone.theta.grad[0])
