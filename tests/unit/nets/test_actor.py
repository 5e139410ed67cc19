"""Policies: modes and samples."""

import math

import pytest
import torch
from torch import Tensor, nn

from ahac.nets.actor import Actor
from ahac.nets.normalizer import FrozenNormalizer


def actor(seed: int = 0, hidden: tuple[int, ...] = (16, 8), log_std: float = -1.0) -> Actor:
    return Actor(5, 2, hidden, log_std=log_std, rng=torch.Generator().manual_seed(seed))


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def weights(made: Actor) -> Tensor:
    return nn.utils.parameters_to_vector(made.parameters()).detach()


def test_the_mode_is_the_squashed_mean() -> None:
    made, obs = actor(), draw(6, 5)
    assert torch.equal(made(obs), torch.tanh(made.net(obs)))
    assert torch.equal(made(obs), made(obs, torch.zeros(6, 2)))


def test_a_sample_adds_noise_before_it_is_squashed() -> None:
    made = actor(log_std=-1.0)
    obs = draw(6, 5)
    noise = draw(6, 2, seed=2)
    wanted = torch.tanh(made.net(obs) + math.exp(-1.0) * noise)
    assert (made(obs, noise) - wanted).abs().max() < 1e-6


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_actions_lie_inside_the_bounds(scale: float) -> None:
    made = actor()
    assert made(scale * draw(100, 5), 2.0 * draw(100, 2, seed=2)).abs().max() <= 1.0


def test_the_generator_alone_decides_on_the_first_weights() -> None:
    torch.manual_seed(5)
    one = weights(actor(seed=0))
    torch.manual_seed(6)
    assert torch.equal(one, weights(actor(seed=0)))
    assert not torch.equal(one, weights(actor(seed=1)))


def test_first_weights_are_inside_torchs_bound() -> None:
    for layer in actor().net:
        if isinstance(layer, nn.Linear):
            bound = layer.in_features**-0.5
            assert 0.5 * bound < layer.weight.abs().max() <= bound
            assert layer.bias.abs().max() <= bound


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("hidden", [(16, 8), ()])
def test_a_sampler_is_the_policy_of_what_is_seen_through_a_view(hidden: tuple[int, ...], enabled: bool) -> None:
    made = actor(hidden=hidden).double()
    obs = draw(6, 5).double().requires_grad_()
    noise = draw(6, 2, seed=2).double()
    view = FrozenNormalizer(draw(5, seed=3).double(), draw(5, seed=4).double().square(), enabled)
    found, wanted = made.sampler(view)(obs, noise), made(view(obs), noise)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    bars = [torch.autograd.grad(x.square().sum(), [obs, *made.parameters()]) for x in (found, wanted)]
    torch.testing.assert_close(*bars, rtol=1e-10, atol=1e-10)


def test_gradients_reach_weights_deviation_and_observations() -> None:
    made, obs = actor(), draw(6, 5).requires_grad_()
    made(obs, draw(6, 2, seed=2)).square().sum().backward()
    assert obs.grad is not None
    assert (obs.grad != 0.0).any()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0.0).any(), name


def test_the_mode_has_no_gradient_by_the_deviation() -> None:
    made = actor()
    made(draw(6, 5)).sum().backward()
    assert made.log_std.grad is None


def test_a_policy_without_hidden_layers_is_linear() -> None:
    made, obs = actor(hidden=()), draw(6, 5)
    (layer,) = made.net
    assert isinstance(layer, nn.Linear)
    assert torch.equal(made(obs), torch.tanh(layer(obs)))
