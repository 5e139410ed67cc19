"""Training on toy tasks: recipes made small, and the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from ahac.algos.config import FirstOrderConfig
from ahac.algos.first_order import FirstOrder
from ahac.algos.recipes import recipe
from ahac.core.env import Env
from ahac.training.evaluate import evaluate

ALGOS = ("ahac", "ahac1", "shac", "bptt")
SEEDS = (0, 1, 2)
EVAL_SEED = 1000
"""Of the starts on which policies are compared."""


@dataclass(frozen=True, kw_only=True)
class Toy:
    """How an algorithm learns a toy: its recipe, with small networks and quick rates."""

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


@dataclass(frozen=True)
class Learnt:
    """What came out of a training."""

    policy: FirstOrder
    env_steps: int
    """World-steps taken."""
    cut: float
    """Mean share of steps at which a trajectory was cut for stiffness."""


def train(config: FirstOrderConfig, env: Env, seed: int, iterations: int) -> Learnt:
    """As the trainer does, without its services."""
    learner = FirstOrder(config, env.spec, seed)
    reports = [learner.iterate(env, i / iterations) for i in range(iterations)]
    cut = sum(report.values["share_cut"] for report in reports) / iterations
    return Learnt(learner, sum(report.env_steps for report in reports), cut)


def mean_return(env: Env, act: Callable[[Tensor], Tensor]) -> float:
    """Of one episode of each world, from always the same starts."""
    env.reset(EVAL_SEED)
    return evaluate(env, act, env.spec.num_envs).mean
