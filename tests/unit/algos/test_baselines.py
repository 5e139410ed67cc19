"""PPO, SAC, SVG and FastTD3: randomness, saved states, what they learn from and what they do not touch."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ahac.algos.algorithm import Algorithm, HasReplayBuffer
from ahac.algos.fasttd3 import FastTD3Config
from ahac.algos.ppo import PPO, PPOConfig
from ahac.algos.registry import make_algorithm
from ahac.algos.sac import SAC, SACConfig
from ahac.algos.svg import SVG, SVGConfig
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.envs import VecEnv, make
from ahac.rl.on_policy import collect
from ahac.sim.autograd import Launcher
from support.episodes import set_time_left

WORLDS = 4
SMALL = {
    "hidden": (8,),
    "critic_hidden": (8,),
    "steps_per_env": 6,
    "batch_size": 16,
    "learning_starts": 40,
    "buffer_size": 100,
}
SETTINGS = {
    "ppo": PPOConfig(hidden=(8,), critic_hidden=(8,), steps_per_env=6, epochs=2, minibatches=2),
    "shared": PPOConfig(hidden=(8,), critic_hidden=None, steps_per_env=6, epochs=2, minibatches=2, target_kl=None),
    "sac": SACConfig(**SMALL),
    "svg": SVGConfig(**SMALL, model_hidden=(8,), latent=4, sequences=8, sequence_steps=3, updates=2, model_updates=1),
    "fasttd3": FastTD3Config(**SMALL, num_atoms=11),
}


@pytest.fixture(scope="module")
def env(device: torch.device) -> VecEnv:
    return make("hopper", num_envs=WORLDS, device=device)


def make_small_algorithm(env: VecEnv, name: str, seed: int = 0) -> Algorithm:
    return make_algorithm(SETTINGS[name], env.spec, seed)


def train(algo: Algorithm, env: VecEnv, iterations: int) -> list[dict[str, float]]:
    return [dict(algo.iterate(env, 0.1 * i).metrics) for i in range(iterations)]


def copy_replay(source: Algorithm, target: Algorithm) -> None:
    """Copy the replay buffer, as the files of a run do."""
    if isinstance(source, HasReplayBuffer) and isinstance(target, HasReplayBuffer):
        target.replay.put(source.replay.oldest, source.replay.rows(source.replay.oldest, source.replay.added))
        target.replay.added = source.replay.added


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(actual[name], value), name


# ------------------------------------------------------------------------------------------ randomness and states


@pytest.mark.parametrize("name", SETTINGS)
def test_a_saved_algorithm_resumes_bit_exactly(env: VecEnv, name: str) -> None:
    env.reset(seed=3)
    one, other = make_small_algorithm(env, name, 1), make_small_algorithm(env, name, 2)
    train(one, env, 4)
    saved, worlds = one.state_dict(), env.state_dict()
    train(other, env, 3)
    copy_replay(one, other)
    env.load_state_dict(worlds)
    expected = train(one, env, 4)
    env.load_state_dict(worlds)
    other.load_state_dict(saved)
    assert_same(other.state_dict(), saved)
    assert train(other, env, 4) == expected
    assert_same(other.state_dict(), one.state_dict())
    assert torch.equal(other.act(env.obs), one.act(env.obs))


@pytest.mark.parametrize("name", SETTINGS)
def test_the_seed_alone_decides(env: VecEnv, name: str) -> None:
    states = []
    for seed in (1, 1, 2):
        env.reset(seed=3)
        torch.manual_seed(len(states))
        one = make_small_algorithm(env, name, seed)
        train(one, env, 3)
        states.append(one.state_dict())
    assert_same(states[0], states[1])
    names = [name for name in states[0] if name.startswith(("net.", "actor.", "critic.q.", "model.dynamics."))]
    assert names
    for name in names:
        assert not torch.equal(states[0][name], states[2][name]), name


@pytest.mark.parametrize("name", SETTINGS)
def test_everything_is_finite_and_reported(env: VecEnv, name: str) -> None:
    env.reset(seed=3)
    one = make_small_algorithm(env, name)
    reports = [one.iterate(env, 0.0) for _ in range(3)]
    assert [report.env_steps for report in reports] == [6 * WORLDS] * 3
    assert [len(report.steps) for report in reports] == [6] * 3
    assert torch.isfinite(torch.tensor(list(reports[-1].metrics.values()))).all()
    assert {"actor_loss", "critic_loss"} <= reports[-1].metrics.keys()
    assert ("entropy" in reports[-1].metrics) == (name != "fasttd3")
    assert ("model_error_last" in reports[-1].metrics) == (name == "svg")


# ---------------------------------------------------------------------------------------------- without gradients


@pytest.mark.parametrize("name", SETTINGS)
def test_no_substep_is_kept_and_no_graph_is_built(env: VecEnv, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bool] = []
    honest = Launcher.run

    def run(self: Launcher, kernel: object, tensors: dict[str, Tensor | None], *more: object) -> None:
        if "saved_states" in tensors:
            kept.append(tensors["saved_states"] is not None)
        honest(self, kernel, tensors, *more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Launcher, "run", run)
    env.reset(seed=3)
    one = make_small_algorithm(env, name)
    reports = [one.iterate(env, 0.0) for _ in range(3)]
    assert kept == [False] * 18
    for step in reports[-1].steps:
        assert not any(x.requires_grad for x in (step.obs, step.final_obs, step.reward, step.action, step.next_state.q))
    assert not env.obs.requires_grad


# ------------------------------------------------------------------------------------------------ what goes wrong


def corrupt(env: VecEnv, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Make one world's reward NaN in the given step."""
    honest, done = env.step, [0]

    def step(action: Tensor) -> Step:
        actual = honest(action)
        done[0] += 1
        if done[0] == at:
            reward = actual.reward.clone()
            reward[2] = float("nan")
            return replace(actual, reward=reward)
        return actual

    monkeypatch.setattr(env, "step", step)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_iteration_with_a_nan_is_skipped(env: VecEnv, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env.reset(seed=3)
    one = make_small_algorithm(env, name)
    train(one, env, 3)
    before = one.state_dict()
    corrupt(env, monkeypatch, at=4)
    report = one.iterate(env, 0.0)
    assert report.failure is not None
    assert "the reward of step 3 in world 2 is not finite" in report.failure.message
    assert report.failure.worlds.tolist() == [False, False, True, False]
    assert report.failure.reproducer["actions"].shape == (6, WORLDS, 3)
    after = one.state_dict()
    assert_same(
        {k: x for k, x in after.items() if k != "generator"}, {k: x for k, x in before.items() if k != "generator"}
    )
    again = one.iterate(env, 0.0)
    assert again.failure is None
    assert torch.isfinite(torch.tensor(list(again.metrics.values()))).all()


def test_sequences_end_where_an_iteration_was_discarded(env: VecEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    env.reset(seed=3)
    one = SAC(SACConfig(**SMALL), env.spec, 0)
    train(one, env, 3)
    last = one.replay.added - 1
    assert not one.replay.named_rows(one.replay.rows(last, last + 1))["done"].all()
    corrupt(env, monkeypatch, at=4)
    assert one.iterate(env, 0.0).failure is not None
    assert one.iterate(env, 0.0).failure is None
    before = one.replay.named_rows(one.replay.rows(last, last + 1))["obs"][0]
    rows = one.collector.sample_sequences(2000, 3)
    at_gap = (rows["obs"][:2, :, None] == before).all(dim=-1).any(dim=-1)
    assert at_gap.any()
    assert rows["done"][:2][at_gap].all(), "the next row does not follow"


def test_sequences_of_undisturbed_iterations_are_as_stored(env: VecEnv) -> None:
    env.reset(seed=3)
    one = SAC(SACConfig(**SMALL), env.spec, 0)
    train(one, env, 3)
    state = one.generator.get_state()
    rows = one.collector.sample_sequences(500, 4)
    one.generator.set_state(state)
    stored = one.replay.sample_sequences(500, 4, one.generator)
    assert torch.equal(rows["done"], stored["done"])
    assert (rows["done"] == 0.0).any()


def test_an_iteration_with_a_non_finite_loss_is_undone(env: VecEnv) -> None:
    env.reset(seed=3)
    one = SAC(SACConfig(**SMALL), env.spec, 0)
    train(one, env, 3)
    with torch.no_grad():
        one.critic.q.weights[0].fill_(1e30)
    report = one.iterate(env, 0.0)
    assert report.failure is not None
    assert "a loss is not finite" in report.failure.message
    assert not report.failure.worlds.any()


# ------------------------------------------------------------------------------------------------------------ PPO


def test_a_time_out_is_followed_by_a_value_and_an_end_is_not(env: VecEnv) -> None:
    env.reset(seed=3)
    one = make_small_algorithm(env, "ppo")
    assert isinstance(one, PPO)
    with torch.no_grad():
        list(one.net.critic.parameters())[-1].fill_(100.0)
    set_time_left(env, [0], 2)
    seen = collect(env, lambda obs: torch.zeros(WORLDS, 3, device=obs.device), 3)
    assert seen.done[:, 0].tolist() == [False, True, False]
    view = one.normalizer.frozen()
    widths, rows = one._rows(seen, view)
    target = rows.split(widths, dim=-1)[-2].reshape(3, WORLDS)
    raw = one.value_normalizer.frozen().denormalize(target)
    # About 100 follow the time-out, discounted once.
    assert raw[1, 0].item() == pytest.approx(99.0, abs=2.0)


def test_best_actions_are_the_clipped_means(env: VecEnv) -> None:
    one = make_small_algorithm(env, "ppo")
    assert isinstance(one, PPO)
    with torch.no_grad():
        list(one.net.policy.parameters())[-1].copy_(torch.tensor([3.0, -3.0, 0.25]))
    actual = one.act(env.obs)
    assert actual[:, 0].tolist() == [1.0] * WORLDS
    assert actual[:, 1].tolist() == [-1.0] * WORLDS
    assert not actual.requires_grad


def test_the_learning_rate_adapts_to_the_kl_divergence_and_is_saved(env: VecEnv) -> None:
    env.reset(seed=3)
    one, other = make_small_algorithm(env, "ppo"), make_small_algorithm(env, "ppo")
    assert isinstance(one, PPO)
    assert isinstance(other, PPO)
    train(one, env, 3)
    assert one.learning_rate.item() != pytest.approx(5e-4)
    other.load_state_dict(one.state_dict())
    assert other.optimizer.param_groups[0]["lr"] is other.learning_rate
    assert torch.equal(other.learning_rate, one.learning_rate)


def test_without_a_target_kl_the_learning_rate_is_constant(env: VecEnv) -> None:
    one = make_small_algorithm(env, "shared")
    assert isinstance(one, PPO)
    train(one, env, 3)
    assert one.learning_rate.item() == pytest.approx(5e-4)


# ------------------------------------------------------------------------------------------------------ SAC and SVG


def test_nothing_is_learned_while_the_replay_buffer_is_warming_up(env: VecEnv) -> None:
    env.reset(seed=3)
    one = make_small_algorithm(env, "sac")
    assert isinstance(one, SAC)
    # 24 transitions per iteration, learning starts after 40: two iterations.
    first, second, third = (one.iterate(env, 0.0) for _ in range(3))
    assert "actor_loss" not in first.metrics
    assert "actor_loss" not in second.metrics
    assert "actor_loss" in third.metrics
    actions = torch.stack([step.action for step in first.steps])
    assert actions.abs().max() <= 1.0
    assert actions.abs().mean() > 0.4
    assert third.metrics["replay"] == 72.0


def test_replay_holds_what_happened(env: VecEnv) -> None:
    env.reset(seed=3)
    one = make_small_algorithm(env, "sac")
    assert isinstance(one, SAC)
    steps = one.iterate(env, 0.0).steps
    actual = one.replay.named_rows(one.replay.rows(0, 6))
    assert torch.equal(actual["next_obs"], torch.stack([step.final_obs for step in steps]))
    assert torch.equal(actual["obs"][1:], torch.stack([step.obs for step in steps[:-1]]))
    assert torch.equal(actual["reward"], torch.stack([step.reward for step in steps]))
    assert torch.equal(actual["terminated"] > 0.5, torch.stack([step.terminated for step in steps]))
    assert torch.equal(actual["done"] > 0.5, torch.stack([step.done for step in steps]))


def test_value_gradients_agree_with_finite_differences() -> None:
    spec = replace(make("cartpole", num_envs=2).spec, dtype=torch.float64)
    one = SVG(replace(SVGConfig(**SMALL), hidden=(6,), model_hidden=(6,), latent=4, horizon=3), spec, 0)
    rng = torch.Generator().manual_seed(1)
    obs = torch.randn(5, spec.obs_size, generator=rng, dtype=torch.float64)
    noise = torch.randn(4, 5, 1, generator=rng, dtype=torch.float64)
    alpha = torch.tensor(0.3, dtype=torch.float64)
    weights = list(one.actor.parameters())
    gradients = torch.autograd.grad(one.value(obs, noise, alpha)[0].mean(), weights)
    direction = [torch.randn(w.shape, generator=rng, dtype=torch.float64) for w in weights]
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))
    ends = []
    for size in (1e-6, -2e-6):
        with torch.no_grad():
            for w, d in zip(weights, direction, strict=True):
                w += size * d
        ends.append(one.value(obs, noise, alpha)[0].mean().item())
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)
    # The model is part of it: without it the slope is another one.
    assert abs(slope) > 1e-3


def test_svg_with_horizon_zero_maximizes_the_value_of_sac(env: VecEnv) -> None:
    svg = SVG(replace(SVGConfig(**SMALL), horizon=0), env.spec, 0)
    noise = torch.randn(1, WORLDS, 3, generator=torch.Generator().manual_seed(0)).to(env.obs.device)
    alpha = torch.tensor(0.3, device=env.obs.device)
    value, density = svg.value(env.obs, noise, alpha)
    action, expected = svg.actor(env.obs, noise[0])
    assert torch.equal(density, expected)
    assert torch.equal(value, svg.critic.q.min_q(env.obs, action) - alpha * expected)


# -------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (PPOConfig, "steps_per_env", 0),
        (PPOConfig, "clip_range", 0.0),
        (PPOConfig, "target_kl", -1.0),
        (PPOConfig, "gamma", 1.5),
        (PPOConfig, "reward_scale", 0.0),
        (PPOConfig, "clip_range_vf", 0.0),
        (PPOConfig, "init_log_std", float("nan")),
        (SACConfig, "batch_size", 0),
        (SACConfig, "tau", 2.0),
        (SACConfig, "init_alpha", 0.0),
        (SACConfig, "learning_rate", -1.0),
        (SACConfig, "log_std_bounds", (2.0, -5.0)),
        (SACConfig, "buffer_size", 0),
        (SVGConfig, "horizon", -1),
        (SVGConfig, "sequence_steps", 0),
        (SVGConfig, "head_learning_rate", -1.0),
        (SVGConfig, "max_grad_norm", 0.0),
    ],
)
def test_invalid_settings_are_refused_by_name(kind: type, field: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"{field} must .* got"):
        kind(**{field: value})


def test_settings_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(InputError, match="sequence_steps must not exceed steps_per_env, got 9 and 8"):
        SVGConfig(sequence_steps=9, steps_per_env=8)
    few = SVGConfig(**{**SMALL, "buffer_size": 2 * WORLDS})
    with pytest.raises(InputError, match="buffer_size must be at least 16 for sequences of 4 steps in 4 worlds, got 8"):
        SVG(few, make("cartpole", num_envs=WORLDS).spec, 0)
    with pytest.raises(InputError, match="shares the policy's"):
        PPOConfig(hidden=(), critic_hidden=None)
