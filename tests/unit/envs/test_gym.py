"""Gymnasium environments: Gymnasium's checker and wrappers, arrays and seeds."""

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers

import ahac
from ahac.envs.gym import GymEnv, GymVectorEnv
from ahac.sim import InputError

WORLDS = 4
EPISODE = 5
"""Steps after which episodes of these tests are truncated; no hopper falls that soon."""

ROUNDING = 1e-5
"""Relative error of sums of a few rewards in float32."""

Stepped = tuple[Any, Any, Any, Any, dict[str, Any]]


def worlds(arrays: str = "numpy", **settings: Any) -> GymVectorEnv:  # noqa: ANN401
    env = ahac.make_gym("hopper", num_envs=WORLDS, arrays=arrays, **{"episode_steps": EPISODE, **settings})
    assert isinstance(env, GymVectorEnv)
    return env


def single(**settings: Any) -> GymEnv:  # noqa: ANN401
    env = ahac.make_gym("hopper", **{"episode_steps": EPISODE, **settings})
    assert isinstance(env, GymEnv)
    return env


def actions(steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (steps, WORLDS, 3)).astype(np.float32)


def copy_of(values: np.ndarray | torch.Tensor) -> np.ndarray:
    return values.numpy().copy() if isinstance(values, torch.Tensor) else values.copy()


def rollout(env: GymVectorEnv, steps: int, seed: int = 0) -> list[Stepped]:
    env.reset(seed=seed)
    return [env.step(action) for action in actions(steps)]


UNBOUNDED = "ignore:.*A Box observation space (minimum|maximum) value is -?infinity. This is probably too"
"""Warning of Gymnasium's checker about joint velocities."""


@pytest.mark.filterwarnings(UNBOUNDED)
@pytest.mark.parametrize("name", ["cartpole", "double_pendulum", "hopper", "half_cheetah"])
def test_gymnasiums_checker_finds_nothing_but_that_observations_have_no_bounds(name: str) -> None:
    env = ahac.make_gym(name)
    assert isinstance(env, GymEnv)
    check_env(env, skip_render_check=True)


@pytest.mark.filterwarnings(UNBOUNDED)
@pytest.mark.parametrize("name", ["Cartpole", "DoublePendulum"])
def test_single_worlds_are_made_by_identifier(name: str) -> None:
    env = gymnasium.make(f"ahac.envs.gym:ahac/{name}-v0")
    check_env(env.unwrapped, skip_render_check=True)


def test_every_bundled_task_has_an_identifier() -> None:
    known = {spec.kwargs["task"]: name for name, spec in gymnasium.registry.items() if name.startswith("ahac/")}
    ours = "hopper ant anymal humanoid snu_humanoid go1 go2 g1 half_cheetah cartpole double_pendulum"
    assert set(ours.split()) <= known.keys()
    assert known["snu_humanoid"] == "ahac/SnuHumanoid-v0"
    assert known["go1"] == "ahac/Go1-v0"


def test_identifiers_need_no_import_of_the_package() -> None:
    made = "gymnasium.make_vec('ahac.envs.gym:ahac/Cartpole-v0', num_envs=2)"
    code = f"import gymnasium, sys; assert 'ahac' not in sys.modules; print({made}.reset(seed=0)[0].shape)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "(2, 5)"


def test_many_worlds_are_made_by_identifier_in_one_simulator() -> None:
    env = gymnasium.make_vec("ahac.envs.gym:ahac/Hopper-v0", num_envs=WORLDS)
    assert isinstance(env.unwrapped, GymVectorEnv)
    assert env.num_envs == WORLDS
    obs, _ = env.reset(seed=2)
    assert obs.shape == (WORLDS, 11)


def test_settings_of_make_pass_through_an_identifier() -> None:
    env = gymnasium.make("ahac.envs.gym:ahac/Hopper-v0", episode_steps=2, variant="released", disable_env_checker=True)
    env.reset(seed=0)
    ended = [env.step(np.zeros(3, dtype=np.float32))[3] for _ in range(2)]
    assert ended == [False, True]


def test_spaces_are_those_of_one_world_and_of_all() -> None:
    env = worlds()
    assert env.single_observation_space == gymnasium.spaces.Box(-np.inf, np.inf, (11,), np.float32)
    assert env.single_action_space == gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    assert env.observation_space.shape == (WORLDS, 11)
    assert env.action_space.shape == (WORLDS, 3)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert env.metadata["render_fps"] == pytest.approx(60.0)
    assert env.metadata["render_modes"] == ["rgb_array"]
    assert worlds(dtype=torch.float64).single_observation_space.dtype == np.float64


def test_what_comes_back_lies_in_the_spaces() -> None:
    env = worlds()
    obs, info = env.reset(seed=0)
    assert info == {}
    for action in actions(EPISODE + 1):
        assert env.observation_space.contains(obs)
        obs, reward, terminated, truncated, _ = env.step(action)
        assert reward.shape == terminated.shape == truncated.shape == (WORLDS,)
        assert reward.dtype == np.float32
        assert terminated.dtype == truncated.dtype == np.bool_


def test_a_world_is_reset_in_the_step_that_ends_its_episode() -> None:
    *_, last = rollout(worlds(), EPISODE - 1)
    assert not last[3].any()
    assert not last[4]["_final_obs"].any()
    assert np.array_equal(last[4]["final_obs"], last[0])
    *_, (obs, _, terminated, truncated, infos) = rollout(worlds(), EPISODE)
    assert truncated.all()
    assert not terminated.any()
    assert infos["_final_obs"].all()
    fresh = np.abs(obs).max()
    assert fresh <= 0.05 + ROUNDING, "only noise around an upright hopper at rest"
    assert np.abs(infos["final_obs"]).max() > fresh


def test_statistics_of_an_episode_are_its_return_and_length() -> None:
    steps = rollout(worlds(), EPISODE + 1)
    total = np.sum([step[1] for step in steps[:EPISODE]], axis=0)
    ended, begun = steps[EPISODE - 1][4], steps[EPISODE][4]
    assert np.allclose(ended["episode_return"], total, rtol=ROUNDING)
    assert (ended["episode_length"] == EPISODE).all()
    assert ended["_final_obs"].all()
    assert not begun["_final_obs"].any()
    assert np.allclose(begun["episode_return"], steps[EPISODE][1], rtol=ROUNDING)
    assert (begun["episode_length"] == 1).all()


def test_numpy_and_torch_hold_the_same_numbers() -> None:
    for ours, theirs in zip(rollout(worlds("torch"), EPISODE), rollout(worlds("numpy"), EPISODE), strict=True):
        for tensor, array in zip(ours[:4], theirs[:4], strict=True):
            assert isinstance(tensor, torch.Tensor)
            assert isinstance(array, np.ndarray)
            assert np.array_equal(tensor.numpy(), array)
        assert isinstance(ours[4]["episode_return"], torch.Tensor)
        assert not ours[0].requires_grad


def test_actions_may_be_tensors_arrays_and_of_another_precision() -> None:
    given = actions(1)[0]
    outcomes = []
    for action in (given, given.astype(np.float64), torch.as_tensor(given), torch.as_tensor(given).double()):
        env = worlds()
        env.reset(seed=0)
        outcomes.append(env.step(action)[0])
    for outcome in outcomes[1:]:
        assert np.array_equal(outcome, outcomes[0])


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_seeds_reproduce_everything_and_differ(arrays: str) -> None:
    env = worlds(arrays)
    first, again, other = (rollout(env, EPISODE + 2, seed) for seed in (3, 3, 4))
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(np.asarray(a[0]), np.asarray(b[0]))
    assert not np.array_equal(np.asarray(first[0][0]), np.asarray(other[0][0]))


def test_a_reset_without_a_seed_differs() -> None:
    env = worlds()
    seeded, _ = env.reset(seed=3)
    unseeded, _ = env.reset()
    assert not np.array_equal(seeded, unseeded)
    assert len(np.unique(seeded[:, 0])) == WORLDS, "worlds differ from each other"


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_arrays_that_came_back_stay_as_they_were(arrays: str) -> None:
    env = worlds(arrays)
    obs, _ = env.reset(seed=0)
    kept, copies = [obs], [copy_of(obs)]
    for action in actions(EPISODE + 1):
        stepped = env.step(action)
        new = [*stepped[:4], stepped[4]["final_obs"], stepped[4]["episode_return"]]
        kept, copies = [*kept, *new], [*copies, *map(copy_of, new)]
    env.reset(seed=9)
    env.step(actions(1, seed=1)[0])
    assert all(np.array_equal(x, copy) for x, copy in zip(map(copy_of, kept), copies, strict=True))
    assert len({x.ctypes.data if isinstance(x, np.ndarray) else x.data_ptr() for x in kept}) == len(kept)


def test_a_single_world_reports_its_reward_terms() -> None:
    env = single()
    env.reset(seed=0)
    obs, reward, terminated, truncated, info = env.step(np.zeros(3, dtype=np.float32))
    assert obs.shape == (11,)
    assert isinstance(reward, float)
    assert terminated is truncated is False
    assert list(info["reward_terms"]) == ["forward", "height", "upright", "effort"]
    assert sum(info["reward_terms"].values()) == pytest.approx(reward, rel=ROUNDING)


def test_a_single_world_needs_a_reset_after_its_episode() -> None:
    env = single()
    env.reset(seed=0)
    for action in actions(EPISODE)[:, 0]:
        env.step(action)
    with pytest.raises(InputError, match=r"over: call reset\(\)"):
        env.step(np.zeros(3, dtype=np.float32))
    env.reset()
    env.step(np.zeros(3, dtype=np.float32))


def test_a_single_world_shows_the_last_observation_of_its_episode() -> None:
    env = single()
    same = ahac.make("hopper", num_envs=1, episode_steps=EPISODE)
    env.reset(seed=1)
    same.reset(seed=1)
    for action in actions(EPISODE)[:, :1]:
        obs, *_, truncated, _ = env.step(action[0])
        step = same.step(torch.as_tensor(action))
        assert np.array_equal(obs, step.final_obs[0].numpy())
    assert truncated
    assert not torch.equal(step.final_obs, step.obs)


def test_gymnasiums_statistics_agree_with_ours() -> None:
    env = wrappers.RecordEpisodeStatistics(worlds(), stats_key="recorded")
    env.reset(seed=0)
    for action in actions(2 * EPISODE):
        *_, infos = env.step(action)
        if infos["_final_obs"].any():
            assert np.allclose(infos["recorded"]["r"], infos["episode_return"], rtol=ROUNDING)
            assert np.array_equal(infos["recorded"]["l"], infos["episode_length"])
    assert env.episode_count == 2 * WORLDS


def test_gymnasiums_statistics_need_no_key_of_their_own() -> None:
    env = wrappers.RecordEpisodeStatistics(worlds())
    env.reset(seed=0)
    for action in actions(EPISODE):
        env.step(action)
    assert env.episode_count == WORLDS


TWICE = np.full(3, 2.0, dtype=np.float32)


def test_gymnasiums_wrappers_of_many_worlds_run() -> None:
    env = wrappers.ClipReward(wrappers.NormalizeReward(wrappers.RescaleAction(worlds(), -TWICE, TWICE)), -1.0, 1.0)
    env.reset(seed=0)
    for action in actions(2 * EPISODE):
        obs, reward, *_ = env.step(2.0 * action)
        assert np.isfinite(obs).all()
        assert (np.abs(reward) <= 1.0).all()


def test_gymnasiums_wrappers_of_a_single_world_run() -> None:
    inner = gymnasium.wrappers.RecordEpisodeStatistics(single())
    env = gymnasium.wrappers.NormalizeObservation(gymnasium.wrappers.NormalizeReward(inner))
    env.reset(seed=0)
    for action in actions(EPISODE)[:, 0]:
        obs, _, _, truncated, info = env.step(action)
        assert np.isfinite(obs).all()
    assert truncated
    assert info["episode"]["l"] == EPISODE


def test_gymnasiums_own_vector_of_single_worlds_runs() -> None:
    env = gymnasium.vector.SyncVectorEnv([single for _ in range(3)])
    obs, _ = env.reset(seed=0)
    assert len(np.unique(obs[:, 0])) == 3
    for action in actions(EPISODE + 1)[:, :3]:
        obs, *_ = env.step(action)
    assert obs.shape == (3, 11)


def test_single_worlds_without_a_seed_differ() -> None:
    first, second = single(), single()
    assert not np.array_equal(first.reset()[0], second.reset()[0])


@pytest.mark.parametrize("num_envs", [2, None])
def test_arrays_of_another_kind_are_refused(num_envs: int | None) -> None:
    with pytest.raises(InputError, match="arrays must be one of numpy, torch, got 'jax'"):
        ahac.make_gym("hopper", num_envs, arrays="jax")


def test_a_single_environment_has_one_world() -> None:
    with pytest.raises(InputError, match="a single Gymnasium environment has one world, got 2"):
        GymEnv(ahac.make("hopper", num_envs=2))


def test_actions_of_the_wrong_size_are_refused() -> None:
    env = worlds()
    env.reset(seed=0)
    with pytest.raises(InputError, match=r"of shape \[4, 3\] on cpu, got torch.float32 \[4, 2\]"):
        env.step(np.zeros((WORLDS, 2), dtype=np.float32))
