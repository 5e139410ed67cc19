"""Networks of the baselines: shapes, chance, and that members and steps are what they are made of."""

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


def test_an_unknown_activation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="'gelu'; known: elu, tanh, relu"):
        activation("gelu")


def test_weights_depend_on_the_generator_alone() -> None:
    nets = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(nets))
        nets.append(mlp([3, 8, 2], "elu", rng=rng(seed)))
    a, b, c = (nn.utils.parameters_to_vector(net.parameters()) for net in nets)
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("critic_hidden", [None, (8,)])
def test_a_shared_trunk_gives_the_same_as_asking_twice(critic_hidden: tuple[int, ...] | None) -> None:
    net = PPOActorCritic(4, 2, hidden=(16, 8), critic_hidden=critic_hidden, function="elu", log_std=-0.5, rng=rng())
    obs = torch.randn(3, 5, 4, generator=rng(1))
    mean, value = net(obs)
    assert (mean.shape, value.shape) == ((3, 5, 2), (3, 5))
    assert torch.equal(mean, net.mean(obs))
    assert torch.equal(value, net.value(obs))
    assert mean.abs().max() < 0.1, "first actions are near zero"
    names, weights = zip(*net.named_parameters(), strict=True)
    gradients = torch.autograd.grad(value.sum(), weights, allow_unused=True)
    touched = {name for name, gradient in zip(names, gradients, strict=True) if gradient is not None}
    assert any(name.startswith("trunk") for name in touched) == (critic_hidden is None)


def test_members_of_twin_q_never_share_a_weight() -> None:
    q = QEnsemble(3, 2, hidden=(8, 4), function="elu", rng=rng())
    obs = torch.randn(6, 3, generator=rng(1))
    action = torch.randn(6, 2, generator=rng(2))
    said = q(obs, action)
    assert said.shape == (2, 6)
    assert not torch.equal(said[0], said[1])
    assert torch.equal(q.min_q(obs, action), said.amin(dim=0))
    said[0].sum().backward()
    for p in q.parameters():
        assert p.grad is not None
        assert bool((p.grad[0] != 0.0).any())
        assert not bool((p.grad[1] != 0.0).any())
    # A member is an ordinary network.
    x = torch.cat([obs, action], dim=-1)
    for k, (weight, bias) in enumerate(zip(q.weights, q.biases, strict=True)):
        x = x @ weight[1] + bias[1]
        x = nn.functional.elu(x) if k < 2 else x
    assert_close(said[1], x.squeeze(-1))


def test_deviations_stay_inside_their_bounds() -> None:
    actor = SACActor(3, 2, hidden=(8,), function="elu", log_std=(-1.0, -0.9), rng=rng())
    obs = 100.0 * torch.randn(50, 3, generator=rng(1))
    still, moved = (torch.atanh(actor(obs, torch.full((50, 2), x))[0].double()) for x in (0.0, 1e-3))
    fine = still.abs() < 2.0
    spread = ((moved - still) / 1e-3)[fine]
    assert 0.36 < spread.min() <= spread.max() < 0.42
    assert torch.equal(actor.sample(obs, torch.ones(50, 2)), actor(obs, torch.ones(50, 2))[0])
    assert torch.equal(actor.mode(obs), actor(obs, torch.zeros(50, 2))[0])


def test_unrolling_is_step_after_step_and_imagining_plays_the_policy() -> None:
    model = LatentDynamics(3, 2, hidden=(8,), latent=6, layers=2, function="elu", rng=rng())
    obs = torch.randn(4, 3, generator=rng(1))
    actions = torch.randn(5, 4, 2, generator=rng(2))
    found = model.unroll(obs, actions)
    x, memory = obs, model.initial_hidden(obs)
    for k in range(5):
        x, memory = model(x, actions[k], memory)
        assert torch.equal(found[k], x)
    seen, played, density = model.imagine(obs, lambda s, e: (e, s.sum(dim=-1)), actions)
    assert torch.equal(played, actions)
    assert torch.equal(seen, torch.cat([obs[None], found[:-1]]))
    assert torch.equal(density, seen.sum(dim=-1))


def test_a_step_moves_only_the_optimizers_own_weights() -> None:
    one, other = nn.Linear(2, 1), nn.Linear(1, 1)
    down = make_adam(one.parameters(), 0.1)
    norm = gradient_step(down, 100.0 * other(one(torch.ones(1, 2))).square().sum(), 0.5)
    assert norm > 0.5, "it is that before clipping"
    assert all(p.grad is None for p in other.parameters())
    assert sum(float(p.grad.square().sum()) for p in one.parameters() if p.grad is not None) <= 0.2501


@pytest.mark.parametrize("spoilt", ["loss", "gradient"])
def test_nothing_moves_where_something_is_not_finite(spoilt: str) -> None:
    net = nn.Linear(2, 1)
    down = make_adam(net.parameters(), 0.1)
    gradient_step(down, net(torch.ones(1, 2)).square().sum(), 1.0)
    before = [p.clone() for p in net.parameters()]
    memory = {k: x.clone() for k, x in optimizer_tensors(down).items()}
    said = net(torch.ones(1, 2)).sum()
    # The root of zero is finite, its slope is not.
    loss = said * float("nan") if spoilt == "loss" else (said - said.detach()).abs().sqrt()
    assert bool(torch.isfinite(loss)) == (spoilt == "gradient")
    gradient_step(down, loss, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert all(torch.equal(memory[k], x) for k, x in optimizer_tensors(down).items())
    gradient_step(down, net(torch.ones(1, 2)).square().sum(), 1.0)
    assert not any(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
