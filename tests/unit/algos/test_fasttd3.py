"""FastTD3: targets, delayed policy updates, exploration of each world, smoothing, schedule and settings."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from ahac.algos.fasttd3 import FastTD3, FastTD3Config, smoothed_action
from ahac.algos.recipes import recipe
from ahac.core.errors import InputError
from ahac.rl.categorical import expected_value, project
from ahac.rl.schedule import cosine_schedule
from learning.double_integrator import DoubleIntegrator

WORLDS = 4
SMALL = FastTD3Config(
    hidden=(8,),
    critic_hidden=(8,),
    steps_per_env=5,
    batch_size=64,
    learning_starts=WORLDS,
    buffer_size=100 * WORLDS,
    num_atoms=11,
    v_min=-5.0,
    v_max=5.0,
)


def made(env: DoubleIntegrator, **changes: object) -> FastTD3:
    return FastTD3(replace(SMALL, **changes), env.spec, 0)


def trained(iterations: int = 3, **changes: object) -> FastTD3:
    env = DoubleIntegrator(WORLDS, seed=0)
    one = made(env, **changes)
    for _ in range(iterations):
        assert one.iterate(env, 0.0).failure is None
    return one


# --------------------------------------------------------------------------------------------------------- updates


@pytest.mark.parametrize(("updates", "delay"), [(2, 2), (4, 2), (3, 1), (3, 3)])
def test_the_policy_is_updated_once_per_delay(updates: int, delay: int) -> None:
    # One iteration fills the replay buffer, two have five steps with updates each.
    state = trained(updates=updates, policy_delay=delay).state_dict()
    assert state["critic.optimizer.0.step"].item() == 10 * updates
    assert state["optimizer.0.step"].item() == 10 * updates / delay


@pytest.mark.parametrize("lower", [True, False])
def test_targets_use_the_lower_distribution_or_the_mean(lower: bool) -> None:
    one = trained(clipped_double_q=lower, target_noise=0.0, gamma=0.9)
    batch = one._sample_batch()
    next_obs = one.frozen(batch["next_obs"])
    with torch.no_grad():
        both = one.critic.target.probabilities(next_obs, one.actor(next_obs))
    means = expected_value(both, one.support)
    assert (means[0] < means[1]).any()
    assert (means[0] > means[1]).any()
    chosen = torch.where((means[0] < means[1])[:, None], both[0], both[1]) if lower else (both[0] + both[1]) / 2.0
    expected, _ = project(chosen, batch["reward"], torch.full((64,), 0.9), one.support, 0.9)
    assert_close(one._target(batch)[0], expected)


def test_the_policy_ascends_the_expected_return() -> None:
    one = trained()
    batch = one._sample_batch()
    obs = one.frozen(batch["obs"])
    before = one.critic.values(obs, one.actor(obs)).amin(dim=0).mean().item()
    for _ in range(20):
        one._update_policy(obs, obs)
    assert one.critic.values(obs, one.actor(obs)).amin(dim=0).mean().item() > before


def test_actions_of_targets_are_smoothed_with_clipped_noise() -> None:
    action = torch.tensor([[0.0, 0.0, 0.9, -0.9]])
    noise = torch.tensor([[0.25, -3.0, 0.4, -0.05]])
    assert_close(smoothed_action(action, noise, 0.5), torch.tensor([[0.25, -0.5, 1.0, -0.95]]))


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_targets_are_smoothed(noise: float) -> None:
    one = trained(target_noise=noise)
    batch = one._sample_batch()
    assert torch.equal(one._target(batch)[0], one._target(batch)[0]) == (noise == 0.0)


def test_returns_of_several_steps_end_with_the_episode() -> None:
    env = DoubleIntegrator(WORLDS, seed=0, episode_steps=4)
    one = made(env, n_steps=3, gamma=0.5, reward_scale=2.0)
    for _ in range(3):
        one.iterate(env, 0.0)
    rows = one.replay.named_rows(one.replay.rows(0, one.replay.added))
    batch = one._sample_batch()
    ends = set()
    for k in range(len(batch["obs"])):
        at, world = (int(x) for x in (rows["obs"] == batch["obs"][k]).all(dim=-1).nonzero()[0])
        steps = next((n for n in (1, 2, 3) if rows["done"][at + n - 1, world]), 3)
        ends.add(steps)
        parts = [2.0 * 0.5**n * rows["reward"][at + n, world] for n in range(steps)]
        assert_close(batch["reward"][k], torch.stack(parts).sum())
        assert batch["discount"][k].item() == 0.5**steps, "time-outs are followed by a value"
        assert torch.equal(batch["next_obs"][k], rows["next_obs"][at + steps - 1, world])
    assert ends == {1, 2, 3}


def test_returns_beyond_the_support_are_reported() -> None:
    env = DoubleIntegrator(WORLDS, seed=0)
    small, large = (made(env, v_min=-limit, v_max=limit) for limit in (0.01, 50.0))
    shares = []
    for one in (small, large):
        env.reset(seed=0)
        one.iterate(env, 0.0)
        shares.append(one.iterate(env, 0.0).metrics["share_beyond"])
    assert shares[0] > 0.5
    assert shares[1] < 0.1, "what the first, nearly uniform distributions have at the ends"


# ------------------------------------------------------------------------------------------------------ exploration


def test_a_world_draws_a_new_standard_deviation_when_its_episode_ends() -> None:
    env = DoubleIntegrator(WORLDS, seed=0)
    one = made(env, steps_per_env=1, exploration_std=(0.1, 0.3))
    first = one.exploration_std.clone()
    assert len(set(first.flatten().tolist())) == WORLDS
    one.iterate(env, 0.0)
    assert torch.equal(one.exploration_std, first)
    env.length[1] = env.spec.episode_steps - 1.0
    one.iterate(env, 0.0)
    assert (one.exploration_std != first).flatten().tolist() == [False, True, False, False]
    many = one._draw_std(1000)
    assert many.min() >= 0.1
    assert many.max() <= 0.3
    assert many.std().item() == pytest.approx(0.2 / 12.0**0.5, rel=0.1)


def test_every_world_explores_with_its_own_noise() -> None:
    env = DoubleIntegrator(WORLDS, seed=0)
    one = made(env)
    one.exploration_std.copy_(torch.tensor([[0.0], [0.1], [0.4], [50.0]]))
    drawn = torch.stack([one._sample_action(env.obs) for _ in range(400)])
    mode = one.act(env.obs)
    assert torch.equal(drawn[:, 0], mode[0].expand(400, 1))
    spread = (drawn - mode)[:, 1:3].std(dim=0).flatten()
    assert spread.tolist() == pytest.approx([0.1, 0.4], rel=0.15)
    assert drawn.abs().max() == 1.0


def test_policies_start_near_zero() -> None:
    env = DoubleIntegrator(64, seed=0)
    assert FastTD3(FastTD3Config(), env.spec, 0).act(env.obs).abs().max() < 0.1


# --------------------------------------------------------------------------------------------- schedule and settings


def test_the_learning_rate_falls_along_a_cosine() -> None:
    assert [cosine_schedule(3.0, p, 1.0) for p in (0.0, 0.5, 1.0)] == pytest.approx([3.0, 2.0, 1.0])
    assert cosine_schedule(3.0, 0.25, 1.0) == pytest.approx(2.0 + 0.5**0.5)
    env = DoubleIntegrator(WORLDS, seed=0)
    one = made(env, learning_rate=3e-3, final_learning_rate=1e-3)
    for progress, rate in ((0.0, 3e-3), (0.5, 2e-3), (1.0, 1e-3)):
        one.iterate(env, progress)
        for optimizer in (one.optimizer, one.critic.optimizer):
            assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(rate)
            assert optimizer.param_groups[0]["weight_decay"] == 0.1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"updates": 3}, "updates must be a multiple of policy_delay, .* got 3 and 2; use policy_delay 3 or 1"),
        ({"v_min": 1.0, "v_max": 1.0}, "v_max must be more than v_min, got v_min 1 and v_max 1"),
        ({"exploration_std": (0.4, 0.1)}, r"exploration_std must be two numbers, .* got \(0\.4, 0\.1\)"),
        ({"exploration_std": (0.1,)}, "exploration_std must be two numbers"),
        ({"num_atoms": 1}, "num_atoms must be a whole number of at least 2, got 1"),
        ({"policy_delay": 0}, "policy_delay must be a whole number"),
        ({"n_steps": 33}, "n_steps must not exceed steps_per_env, got 33 and 32"),
        ({"target_noise_clip": 0.0}, "target_noise_clip must be more than 0"),
        ({"weight_decay": -0.1}, "weight_decay must be"),
    ],
)
def test_settings_are_checked(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FastTD3Config(**given)  # pyright: ignore[reportArgumentType]


def test_a_replay_buffer_shorter_than_a_return_is_refused() -> None:
    env = DoubleIntegrator(WORLDS, seed=0)
    with pytest.raises(InputError, match="buffer_size must be at least 12 for returns of 3 steps in 4 worlds, got 8"):
        made(env, n_steps=3, buffer_size=8)


def test_presets() -> None:
    published, ours = recipe("ant", "fasttd3", "paper"), recipe("ant", "fasttd3")
    assert published == recipe("hopper", "fasttd3", "released")
    p = published.algorithm
    assert (published.num_envs, p.batch_size, p.buffer_size) == (128, 32_768, 128 * 51_200)
    assert (p.hidden, p.critic_hidden, p.activation) == ((512, 256, 128), (1024, 512, 256), "relu")
    assert (p.num_atoms, p.v_min, p.v_max, p.reward_scale) == (101, -250.0, 250.0, 1.0)
    assert (p.updates, p.policy_delay, p.tau, p.target_noise, p.target_noise_clip) == (2, 2, 0.1, 0.001, 0.5)
    assert (p.learning_rate, p.final_learning_rate, p.weight_decay) == (3e-4, 3e-4, 0.1)
    assert p.exploration_std == (0.001, 0.4)
    assert (ours.num_envs, ours.algorithm.batch_size) == (1024, 32_768)
    # Rewards of 17 per step.
    assert ours.algorithm.reward_scale * 17.0 / (1.0 - ours.algorithm.gamma) < ours.algorithm.v_max
