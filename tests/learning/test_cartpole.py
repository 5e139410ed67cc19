"""AHAC and SHAC learn to balance the cartpole.

The registered task with its physics and reward, started near upright: the swing-up takes minutes. Worlds are reset
every 80 steps, since poles that fell would otherwise hang through most of the training; policies are compared over the
task's own 240.
"""

from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from torch import Tensor

from ahac.algos.registry import make_algorithm
from ahac.envs import NoisyReset, VecEnv, make, make_task
from learning.cases import Case, Limit, Measured, check
from learning.toys import EVAL_SEED, Toy, mean_return, train
from support.marks import keep

START = NoisyReset(keyframe=None, root_position=0.3, joint_position=0.3, velocity=0.25)
EPISODE = 80
"""Control steps of an episode in training."""
WORLDS = 16
EVAL_WORLDS = 64
ITERATIONS = 50
ALGOS = ("ahac", "shac")
"""All algorithms learn the double integrator; these two learn in a simulated task as well."""

SOLVED = 200.0
"""Cost of 240 steps. The regulator below costs 4, zero actions 1400. Measured over 20 seeds and all roundings: see
README.md."""
MISSED = 1000.0
"""More than this is far from solved."""

TOY = Toy(task="cartpole", horizon=32)
REGULATOR = (-0.516, -1.149, -8.009, -1.950)
"""LQR of the motion linearized about upright, with 0.1 a² as the action's cost: a = −K (x, ẋ, θ, θ̇)."""


@cache
def worlds(count: int, episode_steps: int | None = None) -> VecEnv:
    """Worlds near upright, with the task's episode length by default."""
    task = replace(make_task("cartpole"), reset=START)
    return make(task, num_envs=count, seed=EVAL_SEED, episode_steps=episode_steps, num_threads=1)


def learn(algo: str, seed: int) -> Measured:
    """Cost of an episode under the learned policy."""
    env = worlds(WORLDS, EPISODE)
    env.reset(seed)
    algorithm = make_algorithm(TOY.algorithm(algo), env.spec, seed)
    train(algorithm, env, ITERATIONS)
    return {"cost": -mean_return(worlds(EVAL_WORLDS), algorithm.act)}


CASES = {f"pole, {algo}": Case(train=partial(learn, algo), limits={"cost": Limit(below=SOLVED)}) for algo in ALGOS}


def regulate(obs: Tensor) -> Tensor:
    x, rate, sine, cosine, turning = obs.unbind(dim=-1)
    state = torch.stack([x, rate, torch.atan2(sine, cosine), turning], dim=-1)
    return -(state @ obs.new_tensor(REGULATOR))[:, None]


def zero_action(obs: Tensor) -> Tensor:
    return torch.zeros(len(obs), 1)


def test_the_threshold_lies_between_a_good_controller_and_none() -> None:
    assert -mean_return(worlds(EVAL_WORLDS), regulate) < 0.1 * SOLVED
    assert -mean_return(worlds(EVAL_WORLDS), zero_action) > MISSED


@pytest.mark.parametrize("name", keep(1, CASES))
def test_the_pole_is_balanced(name: str) -> None:
    check(CASES[name])
