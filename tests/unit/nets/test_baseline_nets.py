"""Networks and optimizers of the baselines: shapes, seeding, ensembles, unrolling and gradient steps."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from ahac.core.errors import InputError
from ahac.nets.latent_dynamics import LatentDynamics
from ahac.nets.mlp import activation, mlp
from ahac.nets.optim import gradient_step, make_adam, optimizer_tensors
from ahac.nets.ppo_actor_critic import PPOActorCritic
from ahac.nets.q_ensemble import QEnsemble
from ahac.nets.sac_actor import SACActor


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_an_unknown_activation_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="'gelu'; known: elu, silu, tanh, relu"):
        activation("gelu")


def test_weights_depend_only_on_the_generator() -> None:
    nets = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(nets))
        nets.append(mlp([3, 8, 2], "elu", rng=rng(seed)))
    a, b, c = (nn.utils.parameters_to_vector(net.parameters()) for net in nets)
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("critic_hidden", [None, (8,)])
def test_forward_equals_mean_and_value(critic_hidden: tuple[int, ...] | None) -> None:
    net = PPOActorCritic(4, 2, hidden=(16, 8), critic_hidden=critic_hidden, function="elu", log_std=-0.5, rng=rng())
    obs = torch.randn(3, 5, 4, generator=rng(1))
    mean, value = net(obs)
    assert (mean.shape, value.shape) == ((3, 5, 2), (3, 5))
    assert torch.equal(mean, net.mean(obs))
    assert torch.equal(value, net.value(obs))
    assert mean.abs().max() < 0.1, "initial actions are near zero"
    names, weights = zip(*net.named_parameters(), strict=True)
    gradients = torch.autograd.grad(value.sum(), weights, allow_unused=True)
    used = {name for name, gradient in zip(names, gradients, strict=True) if gradient is not None}
    assert any(name.startswith("trunk") for name in used) == (critic_hidden is None)


def test_members_of_a_q_ensemble_share_no_weights() -> None:
    q = QEnsemble(3, 2, hidden=(8, 4), function="elu", rng=rng())
    obs = torch.randn(6, 3, generator=rng(1))
    action = torch.randn(6, 2, generator=rng(2))
    values = q(obs, action)
    assert values.shape == (2, 6)
    assert not torch.equal(values[0], values[1])
    assert torch.equal(q.min_q(obs, action), values.amin(dim=0))
    values[0].sum().backward()
    for p in q.parameters():
        assert p.grad is not None
        assert bool((p.grad[0] != 0.0).any())
        assert not bool((p.grad[1] != 0.0).any())
    # Each member is an ordinary network.
    x = torch.cat([obs, action], dim=-1)
    for k, (weight, bias) in enumerate(zip(q.weights, q.biases, strict=True)):
        x = x @ weight[1] + bias[1]
        x = nn.functional.elu(x) if k < 2 else x
    assert_close(values[1], x.squeeze(-1))


def test_standard_deviations_are_within_bounds() -> None:
    actor = SACActor(3, 2, hidden=(8,), function="elu", log_std=(-1.0, -0.9), rng=rng())
    obs = 100.0 * torch.randn(50, 3, generator=rng(1))
    mean, shifted = (torch.atanh(actor(obs, torch.full((50, 2), x))[0].double()) for x in (0.0, 1e-3))
    unsaturated = mean.abs() < 2.0
    std = ((shifted - mean) / 1e-3)[unsaturated]
    assert 0.36 < std.min() <= std.max() < 0.42
    assert torch.equal(actor.sample(obs, torch.ones(50, 2)), actor(obs, torch.ones(50, 2))[0])
    assert torch.equal(actor.mode(obs), actor(obs, torch.zeros(50, 2))[0])


def test_unroll_repeats_steps_and_imagine_follows_the_policy() -> None:
    model = LatentDynamics(3, 2, hidden=(8,), latent=6, layers=2, function="elu", rng=rng())
    obs = torch.randn(4, 3, generator=rng(1))
    actions = torch.randn(5, 4, 2, generator=rng(2))
    predictions = model.unroll(obs, actions)
    x, memory = obs, model.initial_hidden(obs)
    for k in range(5):
        x, memory = model(x, actions[k], memory)
        assert torch.equal(predictions[k], x)
    observations, imagined_actions, density = model.imagine(obs, lambda s, e: (e, s.sum(dim=-1)), actions)
    assert torch.equal(imagined_actions, actions)
    assert torch.equal(observations, torch.cat([obs[None], predictions[:-1]]))
    assert torch.equal(density, observations.sum(dim=-1))


def test_a_step_gives_gradients_only_to_the_optimizers_parameters() -> None:
    one, other = nn.Linear(2, 1), nn.Linear(1, 1)
    optimizer = make_adam(one.parameters(), 0.1)
    norm = gradient_step(optimizer, 100.0 * other(one(torch.ones(1, 2))).square().sum(), 0.5)
    assert norm > 0.5, "the norm before clipping"
    assert all(p.grad is None for p in other.parameters())
    assert sum(float(p.grad.square().sum()) for p in one.parameters() if p.grad is not None) <= 0.2501


@pytest.mark.parametrize("non_finite", ["loss", "gradient"])
def test_steps_are_skipped_where_loss_or_gradient_is_not_finite(non_finite: str) -> None:
    net = nn.Linear(2, 1)
    optimizer = make_adam(net.parameters(), 0.1)
    gradient_step(optimizer, net(torch.ones(1, 2)).square().sum(), 1.0)
    before = [p.clone() for p in net.parameters()]
    state = {k: x.clone() for k, x in optimizer_tensors(optimizer).items()}
    output = net(torch.ones(1, 2)).sum()
    # The square root of zero is finite, its derivative is not.
    loss = output * float("nan") if non_finite == "loss" else (output - output.detach()).abs().sqrt()
    assert bool(torch.isfinite(loss)) == (non_finite == "gradient")
    gradient_step(optimizer, loss, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert all(torch.equal(state[k], x) for k, x in optimizer_tensors(optimizer).items())
    gradient_step(optimizer, net(torch.ones(1, 2)).square().sum(), 1.0)
    assert not any(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
