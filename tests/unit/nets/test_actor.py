"""Policies: modes, samples, initial weights and gradients."""

import math

import pytest
import torch
from torch import Tensor, nn

from ahac.nets.actor import Actor, StateStdActor
from ahac.nets.normalizer import FrozenNormalizer


def make_actor(seed: int = 0, hidden: tuple[int, ...] = (16, 8), log_std: float = -1.0) -> Actor:
    return Actor(5, 2, hidden, log_std=log_std, rng=torch.Generator().manual_seed(seed))


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def weights(actor: Actor) -> Tensor:
    return nn.utils.parameters_to_vector(actor.parameters()).detach()


def test_the_mode_is_the_squashed_mean() -> None:
    actor, obs = make_actor(), draw(6, 5)
    assert torch.equal(actor(obs), torch.tanh(actor.net(obs)))
    assert torch.equal(actor(obs), actor(obs, torch.zeros(6, 2)))


def test_noise_is_added_before_squashing() -> None:
    actor = make_actor(log_std=-1.0)
    obs = draw(6, 5)
    noise = draw(6, 2, seed=2)
    expected = torch.tanh(actor.net(obs) + math.exp(-1.0) * noise)
    assert (actor(obs, noise) - expected).abs().max() < 1e-6


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_actions_are_within_bounds(scale: float) -> None:
    actor = make_actor()
    assert actor(scale * draw(100, 5), 2.0 * draw(100, 2, seed=2)).abs().max() <= 1.0


def test_initial_weights_depend_only_on_the_generator() -> None:
    torch.manual_seed(5)
    first = weights(make_actor(seed=0))
    torch.manual_seed(6)
    assert torch.equal(first, weights(make_actor(seed=0)))
    assert not torch.equal(first, weights(make_actor(seed=1)))


def test_initial_weights_are_within_torchs_bound() -> None:
    for layer in make_actor().net:
        if isinstance(layer, nn.Linear):
            bound = layer.in_features**-0.5
            assert 0.5 * bound < layer.weight.abs().max() <= bound
            assert layer.bias.abs().max() <= bound


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("hidden", [(16, 8), ()])
def test_a_sampler_equals_the_policy_on_normalized_observations(hidden: tuple[int, ...], enabled: bool) -> None:
    actor = make_actor(hidden=hidden).double()
    obs = draw(6, 5).double().requires_grad_()
    noise = draw(6, 2, seed=2).double()
    normalizer = FrozenNormalizer(draw(5, seed=3).double(), draw(5, seed=4).double().square(), enabled)
    actions, expected = actor.sampler(normalizer)(obs, noise), actor(normalizer(obs), noise)
    torch.testing.assert_close(actions, expected, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(x.square().sum(), [obs, *actor.parameters()]) for x in (actions, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


def test_gradients_reach_weights_log_std_and_observations() -> None:
    actor, obs = make_actor(), draw(6, 5).requires_grad_()
    actor(obs, draw(6, 2, seed=2)).square().sum().backward()
    assert obs.grad is not None
    assert (obs.grad != 0.0).any()
    for name, parameter in actor.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0.0).any(), name


def test_the_mode_has_no_gradient_for_log_std() -> None:
    actor = make_actor()
    actor(draw(6, 5)).sum().backward()
    assert actor.log_std.grad is None


def test_a_policy_without_hidden_layers_is_linear() -> None:
    actor, obs = make_actor(hidden=()), draw(6, 5)
    (layer,) = actor.net
    assert isinstance(layer, nn.Linear)
    assert torch.equal(actor(obs), torch.tanh(layer(obs)))


# ---------------------------------------------------------------- standard deviations that depend on the state


def state_std_actor(log_std: float = 0.3) -> StateStdActor:
    generator = torch.Generator().manual_seed(0)
    return StateStdActor(5, 2, (8, 6), function="silu", log_std=log_std, bounds=(-1.0, 0.5), rng=generator).double()


def test_the_standard_deviation_depends_on_the_state_within_bounds() -> None:
    actor, obs = state_std_actor(), 10.0 * torch.randn(200, 5, generator=torch.Generator().manual_seed(1)).double()
    mean, log_std = actor.distribution(obs)
    assert mean.shape == log_std.shape == (200, 2)
    assert log_std.std(dim=0).min() > 0.0
    assert log_std.min() == -1.0
    assert log_std.max() == 0.5
    torch.testing.assert_close(actor(obs), torch.tanh(mean))
    torch.testing.assert_close(actor.mean_net()(obs), mean)


def test_samples_have_the_density_of_the_change_of_variables() -> None:
    actor = state_std_actor()
    generator = torch.Generator().manual_seed(2)
    obs, noise = (torch.randn(3, 7, size, generator=generator).double() for size in (5, 2))
    action, entropy = actor.sample(obs, noise)
    mean, log_std = actor.distribution(obs)
    x = torch.distributions.Normal(mean, log_std.exp())
    squashed = torch.distributions.TransformedDistribution(x, [torch.distributions.TanhTransform(cache_size=1)])
    torch.testing.assert_close(action, torch.tanh(mean + log_std.exp() * noise))
    torch.testing.assert_close(entropy, -squashed.log_prob(action).sum(dim=-1))
