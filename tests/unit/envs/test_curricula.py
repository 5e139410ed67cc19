"""Curricula: levels over several episodes, with every way to begin one."""

from typing import Any

import numpy as np
import torch

import ahac
from ahac.envs import Curriculum, Draw, Task, VecEnv
from ahac.envs.gym import GymEnv
from ahac.sim import Model, Real, load_model
from support.remembering import CART

EPISODE, WORLDS = 3, 2
START, UP = 0.2, 0.3

curriculum = Curriculum(lambda world, action: 1.0, threshold=EPISODE - 0.5, start=START, up=UP, down=0.1)


def reset_at_level(model: Model, draw: Draw, memory: Any) -> tuple[list[Real], list[Real]]:  # noqa: ANN401
    return [curriculum.next_level(memory)], [0.0]


def make_task(**changes: Any) -> Task:  # noqa: ANN401 - fields of a task
    settings = {
        "name": "levels",
        "model": load_model(CART),
        "reset": reset_at_level,
        "memory": {**curriculum.memory},
        "observation": {"position": lambda world, action: world.q[0], "level": curriculum.observation},
        "reward": {"one": lambda world, action: 1.0},
        "dt": 0.05,
        "substeps": 1,
        "episode_steps": EPISODE,
    }
    return Task(**{**settings, **changes})


def run_episode(env: VecEnv) -> None:
    for _ in range(EPISODE):
        step = env.step(torch.zeros(WORLDS, 1))
    assert step.done.all()


def levels(env: VecEnv) -> list[float]:
    return env.memory["level"][:, 0].tolist()


def test_a_reset_keeps_the_level_that_an_episode_has_reached() -> None:
    env = VecEnv(make_task(), num_envs=WORLDS)
    assert np.allclose(levels(env), START)
    for episodes in (1, 2):
        run_episode(env)
        assert np.allclose(levels(env), START + episodes * UP)
        env.reset()
        env.reset()
        assert np.allclose(levels(env), START + episodes * UP)
    env.step(torch.zeros(WORLDS, 1))
    env.reset()
    assert np.allclose(levels(env), START + 2 * UP - 0.1), "an episode that was given up counts as a failure"
    env.reset(seed=0)
    assert np.allclose(levels(env), START)


def test_resetting_some_worlds_keeps_their_level() -> None:
    env = VecEnv(make_task(), num_envs=WORLDS)
    run_episode(env)
    env.reset_worlds(torch.tensor([True, False]))
    assert np.allclose(levels(env), START + UP)


def test_levels_rise_in_a_gymnasium_environment() -> None:
    env = ahac.make_gym(make_task())
    assert isinstance(env, GymEnv)
    found = []
    for _ in range(3):
        obs, _ = env.reset()
        found.append(obs[1])
        for _ in range(EPISODE):
            _, _, _, truncated, _ = env.step(np.zeros(1, dtype=np.float32))
        assert truncated
    assert np.allclose(found, [START, START + UP, START + 2 * UP])


def test_a_reset_sees_the_level_of_the_episode_that_begins() -> None:
    env = VecEnv(make_task(), num_envs=WORLDS)
    for episodes in range(3):
        assert np.allclose(env.state.q, START + episodes * UP), "also in the first episode"
        assert torch.equal(env.obs[:, 0], env.obs[:, 1])
        run_episode(env)
