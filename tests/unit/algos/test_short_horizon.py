"""The training loop: randomness, saved states, gradients and values."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from ahac.algos.config import (
    ActorConfig,
    CriticConfig,
    HorizonConfig,
    ShortHorizonConfig,
    StiffnessConfig,
    UpdateConfig,
)
from ahac.algos.parts.next_values import next_values
from ahac.algos.recipes import recipe
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.errors import InputError
from ahac.envs import VecEnv, make
from ahac.rl.losses import short_horizon
from ahac.rl.returns import segment_discounts
from ahac.rl.rollout import Rollout
from support.episodes import outcomes, random_actions, set_time_left
from support.marks import keep

WORLDS = 4
CASES = [
    ("cartpole", "shac", "default"),
    ("cartpole", "ahac", "default"),
    ("cartpole", "ahac", "paper"),
    ("cartpole", "ahac", "released"),
    ("cartpole", "ahac1", "default"),
    ("cartpole", "bptt", "default"),
    ("hopper", "ahac", "default"),
    ("hopper", "ahac", "paper"),
    ("hopper", "ahac1", "released"),
]


@pytest.fixture(scope="module")
def made(device: torch.device) -> dict[str, VecEnv]:
    return {name: make(name, num_envs=WORLDS, device=device) for name in ("cartpole", "hopper")}


@pytest.fixture(scope="module")
def exact(device: torch.device) -> VecEnv:
    """Hoppers on the ground, in float64."""
    env = make("hopper", num_envs=WORLDS, device=device, dtype=torch.float64)
    env.reset(seed=1)
    outcomes(env, random_actions(env, 12, seed=2))
    return env


def small(config: ShortHorizonConfig) -> ShortHorizonConfig:
    """The same, with small networks and short rollouts."""
    critic = None if config.critic is None else replace(config.critic, hidden=(8, 8), epochs=8)
    horizon = replace(config.horizon, initial=6, min=4, max=12)
    return replace(config, actor=replace(config.actor, hidden=(8, 8)), critic=critic, horizon=horizon)


def make_small_algorithm(env: VecEnv, algo: str, preset: str = "default", seed: int = 0) -> ShortHorizonActorCritic:
    return ShortHorizonActorCritic(small(recipe(env.spec.name, algo, preset).algorithm), env.spec, seed)


def train(algo: ShortHorizonActorCritic, env: VecEnv, iterations: int) -> list[dict[str, float]]:
    return [dict(algo.iterate(env, 0.1 * i).metrics) for i in range(iterations)]


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(actual[name], value), name


def vector(network: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(network.parameters()).detach().clone()


# ------------------------------------------------------------------------------------------ randomness and states


@pytest.mark.parametrize(("task", "algo", "preset"), keep(3, CASES))
def test_a_saved_algorithm_resumes_bit_exactly(made: dict[str, VecEnv], task: str, algo: str, preset: str) -> None:
    env = made[task]
    env.reset(seed=3)
    one = make_small_algorithm(env, algo, preset, seed=1)
    other = make_small_algorithm(env, algo, preset, seed=2)
    train(one, env, 3)
    saved, worlds = one.state_dict(), env.state_dict()
    copy = {name: value.clone() for name, value in saved.items()}
    expected = train(one, env, 4)
    assert_same(saved, copy)
    # Loading must replace everything that the other algorithm has learned so far.
    train(other, env, 2)
    other.load_state_dict(saved)
    env.load_state_dict(worlds)
    assert_same(other.state_dict(), saved)
    assert train(other, env, 4) == expected
    assert_same(other.state_dict(), one.state_dict())
    assert torch.equal(other.act(env.obs), one.act(env.obs))


@pytest.mark.parametrize("algo", ["shac", "ahac", "bptt"])
def test_the_seed_alone_decides(made: dict[str, VecEnv], algo: str) -> None:
    env, states = made["cartpole"], []
    for seed in (1, 1, 2):
        env.reset(seed=3)
        torch.manual_seed(len(states))
        one = make_small_algorithm(env, algo, seed=seed)
        train(one, env, 3)
        states.append(one.state_dict())
    assert_same(states[0], states[1])
    names = [name for name in states[0] if name.startswith(("actor.", "critic."))]
    assert names
    for name in names:
        assert not torch.equal(states[0][name], states[2][name]), name


def test_everything_is_finite_and_reported(made: dict[str, VecEnv]) -> None:
    env = made["hopper"]
    env.reset(seed=3)
    report = make_small_algorithm(env, "ahac", "paper").iterate(env, 0.0)
    assert report.env_steps == 6 * WORLDS
    assert len(report.steps) == 6
    assert report.metrics["horizon"] == 6.0
    assert torch.isfinite(torch.tensor(list(report.metrics.values()))).all()


def test_actions_are_the_mode_for_normalized_observations(made: dict[str, VecEnv]) -> None:
    env = made["cartpole"]
    env.reset(seed=3)
    one = make_small_algorithm(env, "shac")
    train(one, env, 2)
    actual = one.act(env.obs)
    assert not actual.requires_grad
    assert torch.equal(actual, one.actor(one.normalizer.frozen()(env.obs)).detach())
    assert one.normalizer.count.item() == pytest.approx(2 * 6 * WORLDS, abs=1e-3)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("algo", "preset"), [("shac", "default"), ("ahac", "paper"), ("ahac1", "released"), ("sapo", "default")]
)
def test_the_actors_gradient_is_that_of_the_whole_graph(exact: VecEnv, algo: str, preset: str, at_once: bool) -> None:
    actual, saved = [], exact.state_dict()
    for whole in (True, False):
        exact.load_state_dict(saved)
        one = make_small_algorithm(exact, algo, preset)
        one._phi.fill_(0.3)
        buffer = one._roll_out(exact, 6)
        if whole:
            loss = short_horizon(buffer.rollout, buffer.next_value, one.config.gamma)
            (loss + one._constraint(buffer.rollout)).backward()
            nn.utils.clip_grad_norm_(one.actor.parameters(), one.config.actor.max_grad_norm)
        else:
            one.actor_step.batched = at_once
            one._update_actor(buffer)
        actual.append([weight.grad for weight in one.actor.parameters()])
    for expected, gradient in zip(*actual, strict=True):
        assert expected is not None
        assert expected.abs().max() > 0.0
        torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-12)


def test_learning_rates_decay_with_progress(made: dict[str, VecEnv]) -> None:
    env = made["cartpole"]
    one = make_small_algorithm(env, "shac")
    one.iterate(env, 0.5)
    # Half way from 1e-2, and from 1e-3, to 1e-5.
    assert one.actor_optimizer.param_groups[0]["lr"] == pytest.approx(5.005e-3)
    assert one.critic_optimizer.param_groups[0]["lr"] == pytest.approx(5.05e-4)


# ------------------------------------------------------------------------------------------------------------ values


def test_twin_critics_are_two_networks_and_both_learn(made: dict[str, VecEnv]) -> None:
    env = made["cartpole"]
    one = make_small_algorithm(env, "ahac")
    assert one.critic is not None
    assert one.target is None
    before = one.critic.theta.detach().clone()
    train(one, env, 2)
    assert one.critic.members == 2
    assert not torch.equal(before[0], before[1])
    assert not torch.equal(one.critic.theta[0], one.critic.theta[1])
    assert (one.critic.theta != before).any(dim=1).all()


def test_no_value_follows_where_the_task_ended_the_episode(made: dict[str, VecEnv]) -> None:
    one = make_small_algorithm(made["hopper"], "ahac")
    assert one.critic is not None
    obs = torch.randn(3, 2, 11, generator=torch.Generator().manual_seed(0), requires_grad=True)
    ended = torch.tensor([[False, False], [True, False], [False, False]])
    rollout = Rollout(
        raw_obs=obs,
        obs=obs,
        raw_critic_obs=obs,
        critic_obs=obs,
        final_critic_obs=obs,
        reward=torch.zeros(3, 2),
        terminated=ended,
        cut=ended,
        stiff=ended,
        stiffness=None,
        steps=[],
    )
    actual = next_values(one.critic, rollout, "min").actor
    assert torch.equal(actual, one.critic(obs) * ~ended)
    (gradient,) = torch.autograd.grad(actual.sum(), obs)
    assert torch.equal((gradient != 0.0).any(dim=-1), ~ended)
    both = one.critic.values(obs.flatten(0, 1)).view(2, 3, 2) * ~ended
    found = next_values(one.critic, rollout, "mean")
    torch.testing.assert_close(found.actor, both.mean(dim=0))
    torch.testing.assert_close(found.target, both.amin(dim=0))
    assert not found.target.requires_grad


def test_a_fit_whose_loss_is_not_finite_is_undone(made: dict[str, VecEnv], monkeypatch: pytest.MonkeyPatch) -> None:
    env = made["cartpole"]
    one = make_small_algorithm(env, "shac")
    one.iterate(env, 0.0)
    assert one.fit is not None
    honest = one.fit.__call__
    monkeypatch.setattr(one, "fit", lambda *given: honest(*given)._replace(loss=torch.tensor(torch.inf).double()))
    monkeypatch.setattr(one.fit, "rewind", lambda epochs: None, raising=False)
    before = one.state_dict()
    report = one.iterate(env, 0.1)
    assert report.failure is not None
    assert "the critic's loss is not finite; its fit was undone" in report.failure.message
    after = one.state_dict()
    for name, value in before.items():
        if name.startswith(("critic", "target")):
            assert torch.equal(after[name], value), name
    assert not torch.equal(after["actor.log_std"], before["actor.log_std"]), "the policy was updated all the same"
    assert report.metrics["horizon"] == 6


def test_the_target_network_follows_by_the_share_that_is_not_kept(made: dict[str, VecEnv]) -> None:
    env = made["cartpole"]
    config = small(recipe("cartpole", "shac").algorithm)
    assert config.critic is not None
    one = ShortHorizonActorCritic(replace(config, critic=replace(config.critic, target_alpha=0.75)), env.spec, 0)
    assert one.critic is not None
    assert one.target is not None
    old = vector(one.target)
    assert torch.equal(old, vector(one.critic))
    one.iterate(env, 0.0)
    expected = 0.75 * old + 0.25 * vector(one.critic)
    assert (vector(one.target) - expected).abs().max() < 1e-6


def test_without_a_critic_nothing_follows(made: dict[str, VecEnv]) -> None:
    env = made["cartpole"]
    one = make_small_algorithm(env, "bptt")
    assert one.critic is None
    assert not any("critic" in name or "target" in name for name in one.state_dict())
    report = one.iterate(env, 0.0)
    reward = torch.stack([step.reward for step in report.steps])
    discounts = 0.99 ** torch.arange(6.0)[:, None]
    assert report.metrics["actor_loss"] == pytest.approx(-(discounts * reward).mean().item(), rel=1e-5)


# ----------------------------------------------------------------------------------------------------------- actor


def actor_gradient(env: VecEnv, phi: float, lagrangian: bool = True) -> tuple[Tensor, float]:
    """Return the gradient with the paper's rule and all multipliers at `phi`, and the loss without them."""
    config = ShortHorizonConfig(
        actor=ActorConfig(hidden=(8, 8), max_grad_norm=1e12),
        critic=CriticConfig(hidden=(8, 8), epochs=1, num_critics=2, target_alpha=None),
        horizon=HorizonConfig(rule="paper", initial=6, min=4, max=12),
        stiffness=StiffnessConfig(signal="contact", limit=500.0, lagrangian=lagrangian),
    )
    saved = env.state_dict()
    one = ShortHorizonActorCritic(config, env.spec, seed=0)
    one.horizon.load_state_dict({**one.horizon.state_dict(), "phi": torch.full((12,), phi, dtype=torch.float64)})
    loss = one.iterate(env, 0.0).metrics["actor_loss"]
    env.load_state_dict(saved)
    return torch.cat([p.grad.flatten() for p in one.actor.parameters() if p.grad is not None]), loss


def test_multipliers_reach_the_actor_in_proportion(exact: VecEnv) -> None:
    (none, plain), (single, loss), (double, _) = (actor_gradient(exact, phi) for phi in (0.0, 1e-3, 2e-3))
    part = single - none
    assert part.norm() > 1e-3 * none.norm()
    assert (double - none - 2.0 * part).abs().max() < 1e-9 * double.abs().max()
    assert loss == plain, "the objective is reported without the constraint"


def test_without_the_lagrangian_multipliers_do_not_matter(exact: VecEnv) -> None:
    assert torch.equal(actor_gradient(exact, 1e-3, lagrangian=False)[0], actor_gradient(exact, 0.0)[0])


def test_the_actors_gradient_is_clipped(made: dict[str, VecEnv]) -> None:
    env = made["hopper"]
    env.reset(seed=3)
    config = small(recipe("hopper", "shac").algorithm)
    one = ShortHorizonActorCritic(replace(config, actor=replace(config.actor, max_grad_norm=1e-3)), env.spec, 0)
    values = one.iterate(env, 0.0).metrics
    norm = torch.cat([p.grad.flatten() for p in one.actor.parameters() if p.grad is not None]).norm().item()
    assert values["actor_grad_norm"] > 1e-3
    assert values["actor_grad_norm_clipped"] == 1e-3
    assert norm == pytest.approx(1e-3, rel=1e-2)


# ------------------------------------------------------------------------------------- reuse and mixing of gradients

REUSED = UpdateConfig(epochs=3, kl_coef=0.2, entropy_coef=0.01)
MIXED = UpdateConfig(gradient="mixed")


def updating(env: VecEnv, update: UpdateConfig, algo: str = "ahac", seed: int = 0) -> ShortHorizonActorCritic:
    config = replace(small(recipe(env.spec.name, algo).algorithm), update=update)
    return ShortHorizonActorCritic(config, env.spec, seed)


def test_the_first_reused_update_is_the_plain_one(exact: VecEnv) -> None:
    gradients, saved = [], exact.state_dict()
    for update in (UpdateConfig(), UpdateConfig(kl_coef=1.0)):  # whose gradient is zero before the policy changes
        one = updating(exact, update)
        one.iterate(exact, 0.0)
        exact.load_state_dict(saved)
        gradients.append(torch.cat([p.grad.flatten() for p in one.actor.parameters() if p.grad is not None]))
    assert (gradients[0] - gradients[1]).abs().max() < 1e-10 * gradients[0].abs().max()


def test_every_epoch_moves_the_policy_further(exact: VecEnv) -> None:
    moves, saved = [], exact.state_dict()
    for epochs in (1, 2, 4):
        one = updating(exact, UpdateConfig(epochs=epochs, kl_coef=0.0))
        before = vector(one.actor)
        report = one.iterate(exact, 0.0)
        exact.load_state_dict(saved)
        moves.append((vector(one.actor) - before).norm().item())
        assert ("policy_kl" in report.metrics) == (epochs > 1)
    assert moves[0] < moves[1] < moves[2]


@pytest.mark.parametrize(("coefficient", "skipped"), [(0.2, 0), (1e300, 3)])
def test_later_epochs_without_a_finite_gradient_are_counted(exact: VecEnv, coefficient: float, skipped: int) -> None:
    one = updating(exact, UpdateConfig(epochs=4, kl_coef=coefficient))
    assert one.iterate(exact, 0.0).metrics["epochs_skipped"] == skipped


@pytest.mark.parametrize(("epochs", "clip"), [(1, 0.0), (3, 0.0), (3, 1e-9)])
def test_samples_left_out_by_later_epochs_are_logged(exact: VecEnv, epochs: int, clip: float) -> None:
    one = updating(exact, UpdateConfig(epochs=epochs, clip_low=clip, clip_high=clip or 1e9, entropy_coef=1e-3))
    share = one.iterate(exact, 0.0).metrics["share_clipped"]
    if epochs == 1:
        assert share == 0.0
    elif clip > 0.0:  # only a sample whose probability did not change at all remains
        assert share == 1.0
    else:  # those that became less likely
        assert 0.1 < share < 0.9


def test_mixed_gradients_lie_between_both(made: dict[str, VecEnv]) -> None:
    env = made["hopper"]
    env.reset(seed=3)
    report = updating(env, MIXED).iterate(env, 0.0)
    assert 0.0 < report.metrics["analytic_share"] < 1.0
    assert report.metrics["policy_kl"] > 0.0


@pytest.mark.parametrize("update", [REUSED, MIXED, replace(REUSED, gradient="mixed")])
def test_reused_and_mixed_updates_resume_bit_exactly(made: dict[str, VecEnv], update: UpdateConfig) -> None:
    env = made["cartpole"]
    env.reset(seed=3)
    one, other = updating(env, update, seed=1), updating(env, update, seed=2)
    train(one, env, 2)
    saved, worlds = one.state_dict(), env.state_dict()
    expected = train(one, env, 3)
    other.load_state_dict(saved)
    env.load_state_dict(worlds)
    assert train(other, env, 3) == expected
    assert_same(other.state_dict(), one.state_dict())


def test_an_objective_that_is_not_finite_changes_nothing_in_any_epoch(
    made: dict[str, VecEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = made["cartpole"]
    env.reset(seed=3)
    one = updating(env, REUSED)
    train(one, env, 1)
    before = vector(one.actor)
    monkeypatch.setattr(one, "_constraint", lambda rollout: torch.inf)
    report = one.iterate(env, 0.0)
    assert report.failure is not None
    assert torch.equal(vector(one.actor), before)


def test_a_steps_own_entropy_is_not_part_of_its_advantage(exact: VecEnv) -> None:
    # It would count twice, as its gradient through the policy is part of every update.
    one = updating(exact, MIXED, "sapo")
    buffer = one._roll_out(exact, 6)
    assert one.entropy_bonus is not None
    assert buffer.entropy is not None
    targets = torch.zeros_like(buffer.target_value)
    plain = replace(buffer, entropy=torch.zeros_like(buffer.entropy))
    found, without = (
        one._advantages(buffer, targets + one.entropy_bonus(buffer.entropy)),
        one._advantages(plain, targets),
    )
    assert found is not None
    assert without is not None
    # What remains is the mean of the bonus, the same for all steps but for their weights in the objective.
    weight = segment_discounts(buffer.rollout.cut, one.config.gamma, targets.dtype)
    shift = ((found - without) / weight).detach()
    assert shift.abs().min() > 0.0
    torch.testing.assert_close(shift, shift.mean().expand_as(shift))


def test_mixing_needs_two_worlds() -> None:
    env = make("cartpole", num_envs=1, device="cpu")
    with pytest.raises(InputError, match=r"variance over worlds, got 1 world; use num_envs of 2 or more"):
        updating(env, MIXED).iterate(env, 0.0)


def test_mixing_needs_a_critic() -> None:
    with pytest.raises(InputError, match="needs a critic"):
        ShortHorizonConfig(critic=None, update=MIXED)


def test_a_time_out_inside_a_rollout_leaves_learning_finite(made: dict[str, VecEnv]) -> None:
    env = made["hopper"]
    env.reset(seed=3)
    one = make_small_algorithm(env, "ahac", "paper")
    set_time_left(env, [0, 1], 3)
    report = one.iterate(env, 0.0)
    assert torch.stack([step.truncated for step in report.steps]).sum() == 2
    assert torch.isfinite(vector(one.actor)).all()


def test_stiffness_is_measured_only_if_something_uses_it(made: dict[str, VecEnv]) -> None:
    env = made["hopper"]
    assert make_small_algorithm(env, "shac").monitor is None
    assert make_small_algorithm(env, "bptt").monitor is None
    assert make_small_algorithm(env, "ahac").monitor is None
    paper = make_small_algorithm(env, "ahac", "paper").monitor
    cutting = make_small_algorithm(env, "ahac1", "paper").monitor
    assert paper is not None
    assert cutting is not None
    assert paper.truncate_above is None
    assert cutting.truncate_above == 500.0


def test_observations_are_counted_in_double_precision_also_by_a_single_one(made: dict[str, VecEnv]) -> None:
    """In float32 a count stops growing at 2²⁴ batches of one, and the statistics would never converge."""
    normalizer = make_small_algorithm(made["cartpole"], "shac").normalizer
    assert (normalizer.mean.dtype, normalizer.count.dtype) == (torch.float32, torch.float64)
