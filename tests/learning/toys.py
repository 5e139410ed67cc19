"""Training on toy tasks: recipes made small, and the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from ahac.algos.algorithm import Algorithm
from ahac.algos.config import FirstOrderConfig
from ahac.algos.ppo import PPOConfig
from ahac.algos.recipes import recipe
from ahac.algos.sac import SACConfig
from ahac.algos.svg import SVGConfig
from ahac.core.env import Env
from ahac.training.evaluate import evaluate

FIRST_ORDER = ("ahac", "ahac1", "shac", "bptt")
BASELINES = ("ppo", "sac", "svg")
ALGOS = (*FIRST_ORDER, *BASELINES)
EVAL_SEED = 1000
"""Of the starts on which policies are compared."""

SOFT = {
    "hidden": (32, 32), "critic_hidden": (64, 64), "steps": 32, "seed_steps": 500, "rate": 3e-3, "temperature": 0.05,
    "temperature_rate": 3e-3, "tau": 0.02, "reward_scale": 0.1,
}  # fmt: skip
SAC_TOY = SACConfig(**SOFT, capacity=4000, batch=256, activation="relu")
SVG_TOY = SVGConfig(
    **SOFT, capacity=8000, batch=128, model_hidden=(32,), latent=16, layers=1, sequences=64, updates=1,
    model_updates=1, model_rate=3e-3, head_rate=3e-3, gamma=0.95,
)  # fmt: skip
PPO_TOY = PPOConfig(
    hidden=(32, 32), critic_hidden=(32, 32), steps=30, passes=8, rate=3e-3, log_std=-1.0, reward_scale=1.0
)


@dataclass(frozen=True, kw_only=True)
class Toy:
    """How a first-order algorithm learns a toy: its recipe, with small networks and quick rates."""

    task: str
    horizon: int
    """Length of the first rollout [control steps]."""
    hidden: tuple[int, ...] = (32, 32)
    """Of actor and critic."""
    rate: float = 1e-2
    """Of actor and critic."""
    passes: int = 8
    minibatches: int = 2

    def learner(self, algo: str, preset: str = "default") -> FirstOrderConfig:
        """The settings."""
        made = recipe(self.task, algo, preset).learner
        actor = replace(made.actor, hidden=self.hidden, rate=self.rate)
        critic = made.critic
        if critic is not None:
            critic = replace(
                critic, hidden=self.hidden, rate=self.rate, passes=self.passes, minibatches=self.minibatches
            )
        return replace(made, actor=actor, critic=critic, horizon=replace(made.horizon, first=self.horizon))


def train(learner: Algorithm, env: Env, iterations: int) -> float:
    """As the trainer does; the mean share of steps at which a trajectory was cut for stiffness."""
    reports = [learner.iterate(env, i / iterations) for i in range(iterations)]
    assert all(report.trouble is None for report in reports)
    return sum(report.values.get("share_cut", 0.0) for report in reports) / iterations


def mean_return(env: Env, act: Callable[[Tensor], Tensor]) -> float:
    """Of one episode of each world, from always the same starts."""
    env.reset(EVAL_SEED)
    return evaluate(env, act, env.spec.num_envs).mean
