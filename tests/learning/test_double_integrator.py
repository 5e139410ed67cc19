"""Every algorithm finds the known optimal controller of the double integrator."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from ahac.algos.registry import AlgorithmConfig, make_algorithm
from learning.cases import Case, Limit, Measured, check
from learning.double_integrator import DoubleIntegrator
from learning.riccati import controller, gains, least_cost
from learning.toys import (
    ALGOS,
    EVAL_SEED,
    FASTTD3_TOY,
    FIRST_ORDER,
    PPO_TOY,
    SAC_TOY,
    SVG_TOY,
    Toy,
    mean_return,
    train,
)

WORLDS = 16
EVAL_WORLDS = 256
ITERATIONS = {**dict.fromkeys(FIRST_ORDER, 60), "ppo": 32, "sac": 22, "svg": 18, "fasttd3": 12}

TOY = Toy(task="double_integrator", horizon=20)
ACTOR_RATE = 3e-3
GAMMA = 0.95

SOLVED = 1.25
"""Cost of a learned controller, as a multiple of the best one's. Some 0.01 is left because a policy does not know when
its episode ends. Measured over 20 seeds and all roundings: see README.md."""
SOLVED_BY_SVG = 2.0
"""Its results vary more: median 1.04, worst of 20 seeds 1.31."""
IDLE = 4.0
"""Zero actions cost 4.5 times as much as the best controller."""


def settings(algo: str) -> AlgorithmConfig:
    if algo == "ppo":
        return replace(PPO_TOY, minibatches=2)
    if algo == "sac":
        return replace(SAC_TOY, learning_rate=5e-3, tau=0.05)
    if algo == "fasttd3":
        return FASTTD3_TOY
    if algo == "svg":
        return replace(SVG_TOY, hidden=(32,), model_learning_rate=1e-2, head_learning_rate=1e-2)
    made = TOY.algorithm(algo)
    made = replace(made, gamma=GAMMA, actor=replace(made.actor, learning_rate=ACTOR_RATE))
    first = {"bptt": 30, "ahac1": 24}.get(algo, TOY.horizon)
    return replace(made, horizon=replace(made.horizon, initial=first))


def fresh(dtype: torch.dtype = torch.float32) -> DoubleIntegrator:
    return DoubleIntegrator(EVAL_WORLDS, seed=EVAL_SEED, dtype=dtype)


@cache
def best() -> float:
    """Return of the best controller on the initial states on which policies are compared."""
    env = fresh()
    return mean_return(env, controller(gains(env.spec.episode_steps)))


def learn(algo: str, seed: int) -> Measured:
    """Cost of the learned controller, as a multiple of the best one's."""
    env = DoubleIntegrator(WORLDS, seed=seed)
    algorithm = make_algorithm(settings(algo), env.spec, seed)
    cut = train(algorithm, env, ITERATIONS[algo])
    assert (cut > 0.0) == (algo == "ahac1")
    cost = mean_return(fresh(), algorithm.act) / best()
    assert cost > 1.0, "nothing is better than the best"
    return {"cost": cost}


CASES = {
    f"rail, {algo}": Case(
        train=partial(learn, algo),
        limits={"cost": Limit(below=SOLVED_BY_SVG if algo == "svg" else SOLVED)},
        compiled=algo in FIRST_ORDER and algo != "bptt",
    )
    for algo in ALGOS
}


def test_the_best_controller_has_the_cost_of_the_riccati_solution() -> None:
    env = fresh(torch.float64)
    steps = env.spec.episode_steps
    starts = env.reset(EVAL_SEED).numpy().copy()
    planned = controller(gains(steps))
    paid = np.zeros(EVAL_WORLDS)
    largest = 0.0
    for _ in range(steps):
        step = env.step(planned(env.obs))
        paid -= step.reward.numpy()
        largest = max(largest, float(step.action.abs().max()))
    assert_close(paid, least_cost(starts, steps), rtol=1e-10, atol=1e-12)
    # Where actions were clipped, it would not be the best.
    assert 0.5 < largest < 1.0


@pytest.mark.parametrize("entry", [0, 1])
@pytest.mark.parametrize("change", [-0.05, 0.05])
def test_any_other_gain_costs_more(change: float, entry: int) -> None:
    env = fresh(torch.float64)
    planned = gains(env.spec.episode_steps)
    expected = mean_return(env, controller(planned))
    for when in (0, 20):
        other = [k.copy() for k in planned]
        other[when][0, entry] += change
        assert mean_return(env, controller(other)) < expected


def test_doing_nothing_costs_far_more() -> None:
    def idle(obs: Tensor) -> Tensor:
        return torch.zeros(len(obs), 1)

    assert mean_return(fresh(), idle) / best() > IDLE


@pytest.mark.parametrize("name", CASES)
def test_it_is_solved(name: str) -> None:
    check(CASES[name])
