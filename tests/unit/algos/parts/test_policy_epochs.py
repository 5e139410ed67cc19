"""Several policy updates with one rollout: they are those of a plain loop, which evaluates the policy every time."""

import math

import pytest
import torch
from torch import Tensor, nn

from ahac.algos.config import UpdateConfig
from ahac.algos.parts.policy_epochs import PolicyEpochs
from ahac.core.distributed import SINGLE_PROCESS
from ahac.nets.actor import Actor, SquashedGaussian, StateStdActor
from ahac.rl.surrogate import RolloutGradient, analytic_share, likelihood_ratio_gradient, surrogate_terms

STEPS, WORLDS, OBS, ACTIONS = 3, 4, 5, 2


def made_actor(state_std: bool) -> SquashedGaussian:
    rng = torch.Generator().manual_seed(0)
    if not state_std:
        return Actor(OBS, ACTIONS, (8,), log_std=-1.0, rng=rng)
    return StateStdActor(OBS, ACTIONS, (8,), function="silu", log_std=-1.0, bounds=(-5.0, 2.0), rng=rng)


def log_std(actor: SquashedGaussian) -> Tensor:
    """Return the weights that shift log σ in all states."""
    if isinstance(actor, Actor):
        return actor.log_std
    assert isinstance(actor, StateStdActor)
    last = actor.net[-1]
    assert isinstance(last, nn.Linear)
    return last.bias.data[ACTIONS:]


@pytest.mark.parametrize("state_std", [False, True])
def test_a_change_of_the_standard_deviation_is_part_of_divergence_and_weights(state_std: bool) -> None:
    actor = made_actor(state_std)
    epochs = PolicyEpochs(actor, UpdateConfig(epochs=2, clip_low=0.0, clip_high=1e9), SINGLE_PROCESS)
    rng = torch.Generator().manual_seed(1)
    obs, noise = (torch.randn(STEPS, WORLDS, n, generator=rng) for n in (OBS, ACTIONS))
    rollout = epochs.describe(actor.distribution(obs), noise, torch.zeros_like(noise))
    change = 0.5
    log_std(actor).data += change  # as optimizers do
    clipped = epochs.set_gradients(rollout, actor.distribution(obs))
    # log σ' − log σ = d for each action: KL = d + ½ exp(−2d) − ½, and log ρ = Σ ½ ε² (1 − exp(−2d)) − d.
    divergence = ACTIONS * (change + 0.5 * math.exp(-2.0 * change) - 0.5)
    assert epochs.metrics(rollout, obs, []).pop("policy_kl").item() == pytest.approx(divergence, rel=1e-5)
    log_ratio = (0.5 * noise.square() * (1.0 - math.exp(-2.0 * change)) - change).sum(dim=-1)
    assert clipped.item() == pytest.approx((log_ratio < 0.0).float().mean().item())


UPDATES = [
    UpdateConfig(epochs=5, kl_coef=0.2),  # RPO
    UpdateConfig(gradient="mixed"),  # IVW-H
    UpdateConfig(epochs=5, gradient="mixed", clip_low=0.1, clip_high=0.1, kl_coef=0.2, entropy_coef=0.1),
]


def update_plainly(actor: SquashedGaussian, config: UpdateConfig, obs: Tensor, given: list[Tensor]) -> Tensor:
    """Update a policy, and return the KL divergence; nothing is computed once for several updates."""
    noise, by_action, advantage, by_entropy = given
    optimizer = torch.optim.Adam(actor.parameters(), 1e-2)
    with torch.no_grad():
        mean, log_std = (x.clone() for x in actor.distribution(obs))
        x = torch.addcmul(mean, log_std.exp(), noise)
        gradient = by_action * (1.0 - torch.tanh(x).square())
        zeroth = likelihood_ratio_gradient(advantage, mean, log_std, x)
        share = analytic_share(gradient * advantage.numel(), zeroth * advantage.numel())
    if config.gradient == "analytic":
        advantage = share = None

    def evaluate() -> tuple[Tensor, Tensor]:
        rollout = RolloutGradient(
            mean=mean, log_std=log_std, x=x, gradient=gradient, advantage=advantage, share=share, by_entropy=by_entropy
        )
        terms = surrogate_terms(*actor.distribution(obs), rollout, config.clip_low, config.clip_high)
        return terms.loss + config.kl_coef * terms.kl - config.entropy_coef * terms.entropy, terms.kl

    for _ in range(config.epochs):
        optimizer.zero_grad()
        evaluate()[0].backward()
        optimizer.step()
    return evaluate()[1]


@pytest.mark.parametrize("config", UPDATES)
@pytest.mark.parametrize("state_std", [False, True])
def test_updates_are_bit_identical_to_those_of_a_plain_loop(state_std: bool, config: UpdateConfig) -> None:
    rng = torch.Generator().manual_seed(1)
    obs, noise, by_action = (torch.randn(STEPS, WORLDS, n, generator=rng) for n in (OBS, ACTIONS, ACTIONS))
    advantage, by_entropy = (torch.randn(STEPS, WORLDS, generator=rng) for _ in range(2))
    expected, actor = made_actor(state_std), made_actor(state_std)
    kl = update_plainly(expected, config, obs, [noise, by_action, advantage, by_entropy])

    epochs = PolicyEpochs(actor, config, SINGLE_PROCESS)
    optimizer = torch.optim.Adam(actor.parameters(), 1e-2)
    policy = actor.distribution(obs)
    rollout = epochs.describe(policy, noise, by_action, advantage if config.gradient == "mixed" else None, by_entropy)
    for epoch in range(config.epochs):
        epochs.set_gradients(rollout, policy if epoch == 0 else actor.distribution(obs))
        optimizer.step()
    assert torch.equal(epochs.metrics(rollout, obs, [])["policy_kl"], kl)
    for name, weight in expected.state_dict().items():
        assert torch.equal(actor.state_dict()[name], weight), name
