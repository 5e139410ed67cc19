"""Values, losses and gradients of critics, compared with a plain implementation."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from ahac.nets.critic import Critic

EXACT = 1e-12
"""Relative; the same float64 formula in another order."""


def make_critic(hidden: tuple[int, ...], members: int, seed: int = 0) -> Critic:
    """Return a float64 critic whose biases, scales and shifts differ from their initial zeros and ones."""
    generator = torch.Generator().manual_seed(seed)
    critic = Critic(3, hidden, members=members, rng=generator).double()
    with torch.no_grad():
        critic.theta.add_(torch.randn(critic.theta.shape, generator=generator, dtype=torch.float64), alpha=0.1)
    return critic


def batch(seed: int = 1, count: int = 7) -> tuple[Tensor, Tensor]:
    numbers = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers[:, :3], numbers[:, 3]


def plain(theta: Tensor, widths: list[int], obs: Tensor) -> Tensor:
    """Compute the values of one member from elementary operations: linear, ELU and layer norm, then linear."""
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
    assert start == len(theta), "unused weights"
    return x.squeeze(-1)


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("hidden", [(), (5,), (5, 4), (6, 5, 4)])
def test_losses_and_their_gradients_match_a_plain_network(hidden: tuple[int, ...], members: int) -> None:
    critic, (obs, target) = make_critic(hidden, members), batch()
    theta = critic.theta.detach().clone().requires_grad_()
    expected = torch.stack([(plain(row, [3, *hidden, 1], obs) - target).square().mean() for row in theta])
    (expected_gradient,) = torch.autograd.grad(expected.sum(), theta)
    losses = critic.losses(obs, target)
    assert losses.shape == (members,)
    assert (losses - expected).abs().max() < EXACT * expected.max()
    (gradient,) = torch.autograd.grad(losses.sum(), critic.theta)
    assert (gradient - expected_gradient).abs().max() < EXACT * expected_gradient.abs().max()


@pytest.mark.parametrize("hidden", [(), (5, 4)])
def test_values_match_a_plain_network(hidden: tuple[int, ...]) -> None:
    critic, (obs, _) = make_critic(hidden, 2), batch()
    expected = torch.stack([plain(row, [3, *hidden, 1], obs) for row in critic.theta.detach()])
    assert (critic.values(obs) - expected).abs().max() < EXACT * expected.abs().max()


def test_members_differ_and_the_minimum_is_returned() -> None:
    critic = Critic(3, (8, 8), members=2, rng=torch.Generator().manual_seed(0)).double()
    obs, _ = batch(count=200)
    first, second = critic.values(obs)
    assert (first < second).any()
    assert (first > second).any()
    assert torch.equal(critic(obs), torch.minimum(first, second))


def test_leading_dimensions_are_kept() -> None:
    critic, (obs, _) = make_critic((5,), 2), batch(count=12)
    values = critic(obs.reshape(4, 3, 3))
    assert values.shape == (4, 3)
    assert torch.equal(values.flatten(), critic(obs))


@pytest.mark.parametrize("members", [1, 2])
def test_gradients_of_values_reach_observations_but_not_weights(members: int) -> None:
    critic, (obs, _) = make_critic((5, 4), members), batch()
    obs = obs.clone().requires_grad_()
    critic(obs).sum().backward()
    assert critic.theta.grad is None
    assert obs.grad is not None
    inputs = obs.detach().requires_grad_()
    rows = torch.stack([plain(row, [3, 5, 4, 1], inputs) for row in critic.theta.detach()])
    (expected,) = torch.autograd.grad(rows.amin(dim=0).sum(), inputs)
    assert (obs.grad - expected).abs().max() < EXACT * expected.abs().max()


def test_initial_weights_are_orthogonal_and_come_from_the_generator() -> None:
    critic, same, other = (Critic(3, (8,), members=1, rng=torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert torch.equal(critic.theta, same.theta)
    assert not torch.equal(critic.theta, other.theta)
    weight = critic.theta[0, :24].detach().view(3, 8)
    assert (weight @ weight.t() - 2.0 * torch.eye(3)).abs().max() < 1e-5
    # Biases 0, then scales 1 and shifts 0 of the layer norm.
    assert critic.theta[0, 24:48].tolist() == [0.0] * 8 + [1.0] * 8 + [0.0] * 8


def test_the_gradient_of_a_member_does_not_depend_on_the_others() -> None:
    critic, (obs, target) = make_critic((5,), 2), batch()
    alone = make_critic((5,), 1)
    with torch.no_grad():
        alone.theta.copy_(critic.theta[1:])
    (together,) = torch.autograd.grad(critic.losses(obs, target).sum(), critic.theta)
    (separate,) = torch.autograd.grad(alone.losses(obs, target).sum(), alone.theta)
    assert torch.equal(together[1], separate[0])
