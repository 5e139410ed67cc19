"""Autoreset modes of Gymnasium: which step starts a new episode, next to Gymnasium's own vector environment."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import vector as wrappers

import ahac
from ahac.envs.gym import GymEnv, GymVectorEnv
from ahac.sim import InputError

WORLDS = 3
EPISODE = 4
"""Steps after which episodes of these tests are truncated; no hopper falls that soon."""
NOISE = 0.05 + 1e-5
"""Largest number in the first observation of a hopper."""
MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED]

Stepped = tuple[Any, Any, Any, Any, dict[str, Any]]


def worlds(mode: AutoresetMode | str, **settings: Any) -> GymVectorEnv:  # noqa: ANN401
    env = ahac.make_gym("hopper", WORLDS, autoreset_mode=mode, episode_steps=EPISODE, **settings)
    assert isinstance(env, GymVectorEnv)
    return env


def single() -> GymEnv:
    env = ahac.make_gym("hopper", episode_steps=EPISODE)
    assert isinstance(env, GymEnv)
    return env


def actions(steps: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1.0, 1.0, (steps, WORLDS, 3)).astype(np.float32)


def rollout(env: VectorEnv, steps: int) -> list[Stepped]:
    """Step, and restart the worlds whose episode is over if the environment does not."""
    env.reset(seed=0)
    stepped = []
    for action in actions(steps):
        stepped.append(env.step(action))
        over = stepped[-1][2] | stepped[-1][3]
        if env.metadata["autoreset_mode"] is AutoresetMode.DISABLED and over.any():
            env.reset(options={"reset_mask": over})
    return stepped


def pattern(steps: list[Stepped]) -> list[tuple[list[bool], ...]]:
    """Return in which worlds each step gives a first observation, no reward, and the ends of an episode."""
    return [
        ((abs(obs).max(axis=1) <= NOISE).tolist(), (reward == 0.0).tolist(), terminated.tolist(), truncated.tolist())
        for obs, reward, terminated, truncated, _ in steps
    ]


@pytest.mark.parametrize("mode", MODES)
def test_episodes_begin_and_end_as_in_gymnasiums_own_vector_environment(mode: AutoresetMode) -> None:
    theirs = SyncVectorEnv([single for _ in range(WORLDS)], autoreset_mode=mode)
    env = worlds(mode)
    assert env.metadata["autoreset_mode"] is mode
    assert pattern(rollout(env, 3 * EPISODE)) == pattern(rollout(theirs, 3 * EPISODE))


def test_the_next_step_shows_the_first_observation_and_ignores_the_action() -> None:
    same, after = worlds(AutoresetMode.SAME_STEP), worlds(AutoresetMode.NEXT_STEP)
    same.reset(seed=0)
    after.reset(seed=0)
    for action in actions(EPISODE - 1):
        for ours, theirs in zip(after.step(action)[:4], same.step(action)[:4], strict=True):
            assert np.array_equal(ours, theirs)
    first, reward, _, truncated, infos = same.step(action)
    last = after.step(action)
    assert np.array_equal(last[0], infos["final_obs"])
    assert np.array_equal(last[1], reward)
    assert last[3].all()
    assert truncated.all()
    assert "final_obs" not in last[4]
    obs, reward, terminated, truncated, infos = after.step(np.full((WORLDS, 3), np.nan))
    assert np.array_equal(obs, first)
    assert not any(values.any() for values in (reward, terminated, truncated, infos["episode_length"]))
    assert not any(term.any() for term in infos["reward_terms"].values())
    assert np.array_equal(after.step(action)[0], same.step(action)[0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_a_mask_resets_some_worlds_and_leaves_the_others_alone(mode: AutoresetMode, arrays: str) -> None:
    env, undisturbed = worlds(mode, arrays=arrays), worlds(mode, arrays=arrays)
    env.reset(seed=0)
    undisturbed.reset(seed=0)
    given = actions(EPISODE)
    before = [(env.step(action), undisturbed.step(action)) for action in given[:2]][-1][0][0]
    mask = np.array([True, False, False])
    obs, _ = env.reset(options={"reset_mask": torch.as_tensor(mask) if arrays == "torch" else mask})
    assert abs(obs[0]).max() <= NOISE < abs(before[0]).max()
    assert np.array_equal(obs[1:], before[1:])
    for action in given[2:]:
        stepped, same = env.step(action), undisturbed.step(action)
    assert np.asarray(stepped[3]).tolist() == [False, True, True]
    final = [s[4]["final_obs"] if mode is AutoresetMode.SAME_STEP else s[0] for s in (stepped, same)]
    assert np.array_equal(final[0][1:], final[1][1:])


def test_worlds_that_end_at_different_times_wait_for_their_own_reset() -> None:
    env = worlds(AutoresetMode.NEXT_STEP)
    env.reset(seed=0)
    env.step(actions(1)[0])
    env.reset(options={"reset_mask": np.array([True, False, False])})
    steps = [env.step(action) for action in actions(2 * EPISODE)]
    ended = np.array([truncated for *_, truncated, _ in steps])
    idle = np.array([reward == 0.0 for _, reward, *_ in steps])
    assert np.flatnonzero(ended[:, 0]).tolist() == [EPISODE - 1]
    assert np.flatnonzero(ended[:, 1]).tolist() == [EPISODE - 2, 2 * EPISODE - 1]
    assert np.array_equal(idle[1:], ended[:-1])


def test_without_autoreset_a_finished_world_must_be_reset() -> None:
    env = worlds(AutoresetMode.DISABLED)
    env.reset(seed=0)
    for action in actions(EPISODE):
        last, *_, truncated, _ = env.step(action)
    assert truncated.all()
    some = np.array([True, False, True])
    obs, _ = env.reset(options={"reset_mask": some})
    assert abs(obs[some]).max() <= NOISE
    assert np.array_equal(obs[1], last[1])
    with pytest.raises(InputError, match=r"episodes of worlds \[1\] are over: start new ones with reset\(options="):
        env.step(action)
    env.reset(options={"reset_mask": ~some})
    env.step(action)
    env.reset()
    env.step(action)


def test_a_seed_with_a_mask_reproduces_the_new_episodes() -> None:
    env = worlds(AutoresetMode.DISABLED)
    mask = {"reset_mask": np.array([True, True, False])}
    env.reset(seed=0)
    first, again, other = (env.reset(seed=seed, options=mask)[0] for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first[:2], other[:2])
    assert np.array_equal(first[2], other[2])


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([True, False, False], r"must be a bool array of shape \[3\], got list"),
        (np.array([True, False]), r"must be a bool array of shape \[3\], got bool \[2\]"),
        (np.ones(3), r"must be a bool array of shape \[3\], got float64 \[3\]"),
        (np.zeros(3, dtype=bool), "must be True for at least one world"),
    ],
)
def test_invalid_masks_are_refused(mask: object, message: str) -> None:
    env = worlds(AutoresetMode.DISABLED)
    with pytest.raises(InputError, match=message):
        env.reset(options={"reset_mask": mask})


@pytest.mark.parametrize("mode", MODES)
def test_gymnasiums_statistics_agree_with_ours(mode: AutoresetMode) -> None:
    env = wrappers.RecordEpisodeStatistics(worlds(mode))
    steps = rollout(env, 3 * EPISODE)
    for _, _, _, truncated, infos in steps:
        if truncated.any():
            assert np.allclose(infos["episode"]["r"], infos["episode_return"], rtol=1e-5)
            assert np.array_equal(infos["episode"]["l"], infos["episode_length"])
    assert env.episode_count == WORLDS * sum(truncated.any() for *_, truncated, _ in steps)


def test_gymnasiums_normalization_accepts_the_next_step_mode() -> None:
    env = wrappers.NormalizeObservation(worlds("NextStep"))
    assert all(np.isfinite(obs).all() for obs, *_ in rollout(env, 2 * EPISODE))


def test_the_mode_passes_through_an_identifier() -> None:
    env = gymnasium.make_vec("ahac.envs.gym:ahac/Cartpole-v0", 2, autoreset_mode=AutoresetMode.NEXT_STEP)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_unknown_modes_and_modes_of_a_single_world_are_refused() -> None:
    with pytest.raises(InputError, match=r"must be a gymnasium.vector.AutoresetMode or 'NextStep', .*, got 'later'"):
        ahac.make_gym("hopper", 2, autoreset_mode="later")
    with pytest.raises(InputError, match="a single world has no autoreset_mode"):
        ahac.make_gym("hopper", autoreset_mode="NextStep")


def test_an_episode_that_ended_is_reset_once() -> None:
    env, one = worlds(AutoresetMode.DISABLED), single()
    for mask in ({"reset_mask": np.ones(WORLDS, dtype=bool)}, None):
        env.reset(seed=0)
        for action in actions(EPISODE):
            env.step(action)
        begun = env.env.obs.clone()
        assert np.array_equal(env.reset(options=mask)[0], begun)
    one.reset(seed=0)
    for action in actions(EPISODE)[:, 0]:
        one.step(action)
    begun = one.env.obs[0].clone()
    assert np.array_equal(one.reset()[0], begun)
    assert not np.array_equal(one.reset()[0], begun)
