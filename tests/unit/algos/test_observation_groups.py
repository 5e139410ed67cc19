"""Observation groups: policies see one observation, critics another."""

import inspect
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ahac.algos.algorithm import Algorithm, HasReplayBuffer
from ahac.algos.off_policy import OffPolicy
from ahac.algos.parts.next_values import next_values
from ahac.algos.ppo import PPO
from ahac.algos.registry import make_algorithm
from ahac.algos.sac import SAC
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.algos.svg import SVG
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.nets.critic import Critic
from ahac.nets.normalizer import FrozenNormalizer, Normalizer
from ahac.rl.on_policy import collect
from ahac.rl.rollout import roll_out
from ahac.training.evaluate import evaluate
from learning.double_integrator import DoubleIntegrator
from support.observation_groups import TwoGroups
from support.small_algorithms import SETTINGS as ALL
from support.small_algorithms import worlds

SETTINGS = {name: config for name, config in ALL.items() if name != "ppo, one trunk"}
WITH_CRITIC = [name for name in SETTINGS if name != "bptt"]
WORLDS, WORLD, STEP = 4, 2, 3


def make(name: str, env: DoubleIntegrator, seed: int = 0) -> Algorithm:
    return make_algorithm(SETTINGS[name], env.spec, seed)


def train(one: Algorithm, env: DoubleIntegrator, iterations: int) -> list[Mapping[str, float]]:
    reports = [one.iterate(env, 0.1 * i) for i in range(iterations)]
    assert [report.failure for report in reports] == [None] * iterations
    return [dict(report.metrics) for report in reports]


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(actual[name].nan_to_num(), value.nan_to_num()), name


def first_layer_inputs(state: dict[str, Tensor]) -> dict[str, int]:
    """Number of inputs of the first layers of policy and critic."""
    return {
        name: x.shape[1]
        for name, x in state.items()
        if name in ("actor.net.0.weight", "net.policy.0.weight", "net.critic.0.weight", "critic.q.weights.0")
    }


# ------------------------------------------------------------------------------------------------------- who sees what


@pytest.mark.parametrize("name", SETTINGS)
def test_networks_and_statistics_have_the_sizes_of_their_groups(name: str) -> None:
    env = TwoGroups(WORLDS, seed=0)
    one = make(name, env)
    train(one, env, 3)
    sizes = {"actor.net.0.weight": 2, "net.policy.0.weight": 2, "net.critic.0.weight": 4, "critic.q.weights.0": 4 + 1}
    state = one.state_dict()
    actual = first_layer_inputs(state)
    assert actual.items() <= sizes.items()
    assert actual
    if isinstance(one, ShortHorizonActorCritic) and isinstance(one.critic, Critic):
        assert one.critic.widths[0] == 4
    assert state["normalizer.mean"].shape == (2,)
    if name == "bptt":
        assert "critic_normalizer.mean" not in state
    else:
        assert state["critic_normalizer.mean"].shape == (4,)
    assert one.act(env.obs).shape == (WORLDS, 1)


@pytest.mark.parametrize("name", WITH_CRITIC)
def test_each_normalizer_follows_its_own_group(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = TwoGroups(WORLDS, seed=0, critic_offset=5.0, policy_offset=-3.0)
    one = make(name, env)
    assert isinstance(one, ShortHorizonActorCritic | PPO | OffPolicy)
    seen: dict[int, list[Tensor]] = {2: [], 4: []}
    honest = env.step

    def step(action: Tensor) -> Step:
        seen[2].append(env.obs.detach())
        seen[4].append(env.critic_obs.detach())
        return honest(action)

    monkeypatch.setattr(env, "step", step)
    train(one, env, 1)
    assert one.critic_normalizer is not None
    for normalizer in (one.normalizer, one.critic_normalizer):
        batch = torch.cat(seen[len(normalizer.mean)])
        expected = Normalizer(batch.shape[1], dtype=batch.dtype)
        expected.update(batch)
        assert torch.allclose(normalizer.mean, expected.mean, rtol=1e-9)
        assert torch.allclose(normalizer.variance, expected.variance, rtol=1e-6)


def ignore_observations(one: Algorithm) -> None:
    """Let the policy act in the same way whatever it sees."""
    state = one.learned.tensors  # pyright: ignore[reportAttributeAccessIssue]
    next(x for name, x in state.items() if name in ("actor.net.0.weight", "net.policy.0.weight")).zero_()


@pytest.mark.parametrize("name", [n for n in WITH_CRITIC if isinstance(make(n, worlds()), ShortHorizonActorCritic)])
def test_values_depend_on_what_critics_see_alone(name: str) -> None:
    def values(policy_offset: float, critic_offset: float) -> Tensor:
        env = TwoGroups(WORLDS, seed=0, policy_offset=policy_offset, critic_offset=critic_offset)
        one = make(name, env)
        assert isinstance(one, ShortHorizonActorCritic)
        ignore_observations(one)
        return one._roll_out(env, 5).next_value.detach()

    plain = values(0.0, 0.0)
    assert torch.equal(values(0.5, 0.0), plain)
    assert (values(0.0, 0.5) != plain).all()


def test_ppo_acts_on_one_group_and_evaluates_the_other() -> None:
    env = TwoGroups(WORLDS, seed=0)
    one = make("ppo", env)
    assert isinstance(one, PPO)
    batch, normalize, normalize_critic = one._collect(env)

    def columns(**changes: Tensor) -> list[Tensor]:
        one.value_normalizer = Normalizer(1, dtype=torch.float64)  # which every call updates
        widths, rows = one._rows(replace(batch, **changes), normalize, normalize_critic)
        return list(torch.split(rows, widths, dim=-1))

    _, _, mean, _, _, _, value, critic_obs = columns()
    assert critic_obs.shape[1] == 4
    _, _, other_mean, _, _, _, same_value, _ = columns(obs=batch.obs + 0.5)
    assert torch.equal(same_value, value)
    assert (other_mean != mean).all()
    _, _, same_mean, _, _, _, other_value, _ = columns(critic_obs=batch.critic_obs + 0.5)
    assert torch.equal(same_mean, mean)
    assert (other_value != value).all()
    target = columns(final_critic_obs=batch.final_critic_obs + 0.5)[5]
    assert (target != columns()[5]).all(), "time-outs and the last step are followed by a value of the critics' group"


def test_ppo_normalizes_all_that_critics_see() -> None:
    """Only what lies between an observation and its running mean counts: shift both, and no target changes."""
    env = TwoGroups(WORLDS, seed=0)
    one = make("ppo", env)
    assert isinstance(one, PPO)
    train(one, env, 2)
    batch, normalize, normalize_critic = one._collect(env)
    assert normalize_critic is not None
    variance, saved = one.learned.tensors["critic_normalizer.variance"], one.state_dict()

    def rows(shift: float) -> Tensor:
        one.load_state_dict(saved)  # statistics of values, which every call updates
        moved = {name: getattr(batch, name) + shift for name in ("critic_obs", "final_critic_obs")}
        normalize_moved = FrozenNormalizer(normalize_critic.mean + shift, variance)
        return one._rows(replace(batch, **moved), normalize, normalize_moved)[1]

    assert torch.allclose(rows(3.0), rows(0.0), rtol=1e-9, atol=1e-9)


def test_sac_normalizes_all_that_critics_see_by_the_statistics_before_the_iteration() -> None:
    env = TwoGroups(WORLDS, seed=0)
    one = make("sac", env)
    assert isinstance(one, SAC)
    assert one.critic_normalizer is not None
    train(one, env, 3)
    before = one.critic_normalizer.frozen()
    train(one, env, 1)
    assert before.mean.all()
    assert torch.equal(one.frozen_critic.mean, before.mean)
    assert torch.equal(one.frozen_critic.scale, before.scale)


@pytest.mark.parametrize("name", ["sac", "svg"])
def test_q_functions_and_policies_learn_from_their_own_group(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = TwoGroups(WORLDS, seed=0)
    one = make(name, env)
    assert isinstance(one, SAC)
    train(one, env, 3)
    one.frozen.copy_from(one.normalizer.frozen())
    one.frozen_critic.copy_from(one.critic_normalizer.frozen())  # pyright: ignore[reportOptionalMemberAccess]
    rows = one.replay.named_rows(one.replay.rows(one.replay.oldest, one.replay.added))
    seen: dict[str, Tensor] = {}
    update, target, actor = one.critic.update, one.critic.target.min_q, one.actor.forward

    def spy_update(obs: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        seen["critic_obs"] = obs
        return update(obs, *more)

    def spy_target(obs: Tensor, action: Tensor) -> Tensor:
        seen["next_critic_obs"] = obs
        return target(obs, action)

    def spy_actor(obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        seen.setdefault("next_obs", obs)
        return actor(obs, noise)

    monkeypatch.setattr(one.critic, "update", spy_update)
    monkeypatch.setattr(one.critic.target, "min_q", spy_target)
    monkeypatch.setattr(one.actor, "forward", spy_actor)
    one._update_from_replay()
    for part, actual in seen.items():
        normalize = one.frozen_critic if "critic" in part else one.frozen
        stored = normalize(rows[part].flatten(0, 1))
        assert actual.shape[1] == stored.shape[1]
        assert (actual[:, None] == stored).all(dim=-1).any(dim=1).all(), part
    assert len(seen) == 3


def test_replay_stores_both_groups() -> None:
    env = TwoGroups(WORLDS, seed=0, critic_offset=1.0, episode_steps=4)
    one = make("sac", env)
    assert isinstance(one, SAC)
    first = env.critic_obs
    steps = one.iterate(env, 0.0).steps
    actual = one.replay.named_rows(one.replay.rows(0, len(steps)))
    assert torch.equal(actual["next_critic_obs"], torch.stack([step.final_critic_obs for step in steps]))
    assert torch.stack([step.done for step in steps]).any(), "so that the last observations differ from the next"
    assert torch.equal(actual["critic_obs"], torch.stack([first, *(step.critic_obs for step in steps[:-1])]))
    assert torch.equal(actual["next_obs"], torch.stack([step.final_obs for step in steps]))
    plain = make("sac", worlds())
    assert isinstance(plain, SAC)
    assert "critic_obs" not in plain.replay.widths


def test_the_model_of_svg_predicts_both_groups() -> None:
    env = TwoGroups(WORLDS, seed=0)
    one = make("svg", env)
    assert isinstance(one, SVG)
    noise = torch.randn(1, WORLDS, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    alpha = torch.tensor(0.3, dtype=torch.float64)
    one.config = replace(one.config, horizon=0)
    value, density = one.value(torch.cat([env.obs, env.critic_obs], dim=-1), noise, alpha)
    action, expected = one.actor(env.obs, noise[0])
    assert torch.equal(density, expected)
    assert torch.equal(value, one.critic.q.min_q(env.critic_obs, action) - alpha * expected)


def test_svg_ends_its_predictions_with_what_critics_would_see() -> None:
    env = TwoGroups(WORLDS, seed=0)
    one = make("svg", env)
    assert isinstance(one, SVG)
    noise = torch.randn(4, WORLDS, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    start = torch.cat([env.obs, env.critic_obs], dim=-1)
    actions, states = [], [start]
    for k in range(4):
        actions.append(one.actor(states[-1][:, :2], noise[k])[0])
        states.append(one.model.dynamics.unroll(start, torch.stack(actions))[-1])
    asked: list[Tensor] = []
    one.critic.q.register_forward_hook(lambda module, inputs, output: asked.extend(inputs))
    one.value(start, noise, torch.tensor(0.3, dtype=torch.float64))
    assert torch.allclose(asked[0], states[3][:, 2:])
    assert torch.allclose(asked[1], actions[3])


def test_groups_of_equal_size_are_not_mixed_up() -> None:
    class SameSize(TwoGroups):
        def __init__(self) -> None:
            super().__init__(WORLDS, seed=0, critic_offset=7.0)
            self.spec = replace(self.spec, critic_obs_size=2)

        @property
        def critic_obs(self) -> Tensor:
            return self._critic_obs

        @critic_obs.setter
        def critic_obs(self, value: Tensor) -> None:
            self._critic_obs = value[:, :2]

    for name in WITH_CRITIC:
        env = SameSize()
        one = make(name, env)
        train(one, env, 3)
        state = one.state_dict()
        assert (state["critic_normalizer.mean"] - state["normalizer.mean"] > 5.0).all(), name


def test_ppo_with_a_shared_trunk_is_refused() -> None:
    with pytest.raises(InputError, match=r"critic_hidden=None shares the policy's layers.*for example \(4,\)"):
        make_algorithm(ALL["ppo, one trunk"], TwoGroups(WORLDS, seed=0).spec, 0)


def test_a_larger_critic_observation_without_its_own_group_is_refused() -> None:
    with pytest.raises(InputError, match=r"critic_obs_size must be obs_size = 2, got 3; set asymmetric=True"):
        replace(worlds().spec, critic_obs_size=3)


# ---------------------------------------------------------------------------------------------------------- gradients


def test_the_gradient_of_a_bootstrap_flows_through_what_critics_see() -> None:
    """Without rewards, the objective is the value at the end, against central differences of the first action."""

    def objective(shift: float) -> tuple[Tensor, Tensor]:
        env = TwoGroups(WORLDS, seed=0)
        one = make("shac", env)
        assert isinstance(one, ShortHorizonActorCritic)
        assert one.critic is not None
        assert one.critic_normalizer is not None
        first = torch.full((WORLDS, 1), 0.1 + shift, dtype=torch.float64, requires_grad=True)
        queue = iter([first, *(torch.zeros(WORLDS, 1, dtype=torch.float64) for _ in range(3))])
        normalize_critic = one.critic_normalizer.frozen()
        rollout = roll_out(env, lambda obs: next(queue), one.normalizer.frozen(), 4, None, normalize_critic)
        return next_values(one.target or one.critic, rollout, "min").actor[-1].sum(), first

    def value_at(shift: float) -> float:
        return objective(shift)[0].item()

    value, action = objective(0.0)
    (gradient,) = torch.autograd.grad(value, action)
    size = 1e-5
    difference = (value_at(size) - value_at(-size)) / (2.0 * size)
    assert abs(difference) > 1e-3
    assert float(gradient.sum()) == pytest.approx(difference, rel=1e-6)


# -------------------------------------------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("name", SETTINGS)
def test_a_saved_algorithm_resumes_bit_exactly(name: str) -> None:
    env = TwoGroups(WORLDS, seed=3)
    one, other = make(name, env, 1), make(name, env, 2)
    train(one, env, 4)
    saved, state = one.state_dict(), env.state_dict()
    train(other, env, 3)
    if isinstance(one, HasReplayBuffer) and isinstance(other, HasReplayBuffer):
        other.replay.put(one.replay.oldest, one.replay.rows(one.replay.oldest, one.replay.added))
    env.load_state_dict(state)
    expected = train(one, env, 4)
    env.load_state_dict(state)
    other.load_state_dict(saved)
    assert train(other, env, 4) == expected
    assert_same(other.state_dict(), one.state_dict())


@pytest.mark.parametrize("name", WITH_CRITIC)
def test_a_checkpoint_of_one_group_is_refused_by_name_with_two(name: str) -> None:
    env = worlds()
    state = make(name, env).state_dict()
    assert not [entry for entry in state if "critic_normalizer" in entry]
    two = TwoGroups(WORLDS, seed=0)
    with pytest.raises(InputError, match=r"the saved"):
        make(name, two).load_state_dict(state)


# --------------------------------------------------------------------------------------------------------- not finite


class CorruptingCritic(TwoGroups):
    """Corrupts the critics' observation of one world once, some steps from now."""

    left = -2
    value = 0.0

    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        self.left -= 1
        if self.left != -1:
            return step
        self.critic_obs = seen = self._corrupted()
        return replace(step, critic_obs=seen, final_critic_obs=seen)

    def detach(self, worlds: Tensor | None = None) -> None:
        super().detach(worlds)
        if self.left == -1:
            self.critic_obs = self._corrupted()

    def _corrupted(self) -> Tensor:
        there = torch.zeros(self.critic_obs.shape, dtype=torch.bool)
        there[WORLD] = True
        return torch.where(there, self.value, self.critic_obs)


@pytest.mark.parametrize("value", [float("nan"), 1e30])
@pytest.mark.parametrize("name", WITH_CRITIC)
def test_one_bad_critic_observation_skips_one_iteration(name: str, value: float) -> None:
    env = CorruptingCritic(WORLDS, seed=0)
    one = make(name, env)
    train(one, env, 3)
    before = one.state_dict()
    env.left, env.value = STEP, value
    report = one.iterate(env, 0.0)
    assert report.failure is not None
    assert "critic observation of step" in report.failure.message
    assert f"in world {WORLD} is" in report.failure.message
    assert report.failure.worlds.tolist() == [world == WORLD for world in range(WORLDS)]
    assert_same({**one.state_dict(), "generator": before["generator"]}, before)
    train(one, env, 2)


# --------------------------------------------------------------------------------------------------------- the policy


@pytest.mark.parametrize("name", SETTINGS)
def test_evaluation_needs_no_critic_observation(name: str) -> None:
    env = TwoGroups(WORLDS, seed=0)
    one = make(name, env)
    train(one, env, 2)

    class Blind(TwoGroups):
        """Critics' observations are NaN."""

        def __init__(self) -> None:
            super().__init__(WORLDS, seed=1, critic_offset=float("nan"))

    expected = evaluate(TwoGroups(WORLDS, seed=1), one.act, 8)
    assert torch.equal(torch.tensor(evaluate(Blind(), one.act, 8).returns), torch.tensor(expected.returns))
    assert list(inspect.signature(one.act).parameters) == ["obs"]


def test_with_one_group_nothing_is_stored_twice() -> None:
    env = worlds()
    assert env.critic_obs is env.obs
    rollout = roll_out(env, lambda obs: torch.zeros(WORLDS, 1), lambda obs: 0.5 * obs, 3)
    assert rollout.critic_obs is rollout.obs
    assert rollout.raw_critic_obs is rollout.raw_obs
    assert not rollout.asymmetric
    batch = collect(env, lambda obs: torch.zeros(WORLDS, 1), 3)
    assert batch.critic_obs is batch.obs
    assert "critic observation" not in batch.tensors
