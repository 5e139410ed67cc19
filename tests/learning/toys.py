"""Training on toy tasks: small recipes, and the training loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from ahac.algos.algorithm import Algorithm
from ahac.algos.config import ShortHorizonConfig
from ahac.algos.fasttd3 import FastTD3Config
from ahac.algos.ppo import PPOConfig
from ahac.algos.recipes import recipe
from ahac.algos.sac import SACConfig
from ahac.algos.svg import SVGConfig
from ahac.core.env import Env
from ahac.training.evaluate import evaluate

FIRST_ORDER = ("ahac", "ahac1", "shac", "sapo", "rpo", "ivwh", "bptt")
BASELINES = ("ppo", "sac", "svg", "fasttd3")
ALGOS = (*FIRST_ORDER, *BASELINES)
EVAL_SEED = 1000
"""Seed of the initial states on which policies are compared."""

SOFT = {
    "hidden": (32, 32),
    "critic_hidden": (64, 64),
    "steps_per_env": 32,
    "learning_starts": 500,
    "learning_rate": 3e-3,
    "init_alpha": 0.05,
    "alpha_learning_rate": 3e-3,
    "tau": 0.02,
    "reward_scale": 0.1,
}
SAC_TOY = SACConfig(**SOFT, buffer_size=4000, batch_size=256, activation="relu")
SVG_TOY = SVGConfig(
    **SOFT,
    buffer_size=8000,
    batch_size=128,
    model_hidden=(32,),
    latent=16,
    layers=1,
    sequences=64,
    updates=1,
    model_updates=1,
    model_learning_rate=3e-3,
    head_learning_rate=3e-3,
    gamma=0.95,
)
FASTTD3_TOY = FastTD3Config(
    hidden=(32, 32),
    critic_hidden=(64, 64),
    steps_per_env=32,
    learning_starts=500,
    learning_rate=3e-3,
    final_learning_rate=3e-4,
    buffer_size=8000,
    batch_size=256,
    reward_scale=0.1,
    num_atoms=31,
    v_min=-2.0,
    v_max=2.0,
    gamma=0.95,
)
PPO_TOY = PPOConfig(
    hidden=(32, 32),
    critic_hidden=(32, 32),
    steps_per_env=30,
    epochs=8,
    learning_rate=3e-3,
    init_log_std=-1.0,
    reward_scale=1.0,
)


@dataclass(frozen=True, kw_only=True)
class Toy:
    """Settings of a first-order algorithm on a toy task: its recipe, with small networks and large learning rates."""

    task: str
    horizon: int
    """Length of the first rollout [control steps]."""
    hidden: tuple[int, ...] = (32, 32)
    """Of actor and critic."""
    rate: float = 1e-2
    """Of actor and critic."""
    passes: int = 8
    minibatches: int = 2

    def algorithm(self, algo: str, preset: str = "default") -> ShortHorizonConfig:
        """Return the settings."""
        made = recipe(self.task, algo, preset).algorithm
        actor = replace(made.actor, hidden=self.hidden, learning_rate=self.rate)
        critic = made.critic
        if critic is not None:
            critic = replace(
                critic, hidden=self.hidden, learning_rate=self.rate, epochs=self.passes, minibatches=self.minibatches
            )
        return replace(made, actor=actor, critic=critic, horizon=replace(made.horizon, initial=self.horizon))


def train(algorithm: Algorithm, env: Env, iterations: int) -> float:
    """Train as the trainer does; return the mean share of steps where a trajectory was truncated for stiffness."""
    reports = [algorithm.iterate(env, i / iterations) for i in range(iterations)]
    assert all(report.failure is None for report in reports)
    return sum(report.metrics.get("share_cut", 0.0) for report in reports) / iterations


def mean_return(env: Env, act: Callable[[Tensor], Tensor]) -> float:
    """Return the mean return of one episode of each world, always from the same initial states."""
    env.reset(EVAL_SEED)
    return evaluate(env, act, env.spec.num_envs).mean
