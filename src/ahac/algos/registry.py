"""From settings to what learns: which class belongs to which settings."""

from __future__ import annotations

from ahac.algos.algorithm import Algorithm
from ahac.algos.config import FirstOrderConfig
from ahac.algos.first_order import FirstOrder
from ahac.algos.ppo import PPO, PPOConfig
from ahac.algos.sac import SAC, SACConfig
from ahac.algos.svg import SVG, SVGConfig
from ahac.core.env import EnvSpec
from ahac.core.errors import InputError
from ahac.core.ranks import ALONE, Ranks

__all__ = ["Learner", "check_ranks", "make_algorithm"]

Learner = FirstOrderConfig | PPOConfig | SACConfig | SVGConfig
"""Settings of any algorithm."""


def make_algorithm(learner: Learner, spec: EnvSpec, seed: int, graphs: bool = True, ranks: Ranks = ALONE) -> Algorithm:
    """What learns with these settings; on CUDA, `graphs` lets work be recorded and replayed."""
    check_ranks(learner, ranks)
    match learner:
        case FirstOrderConfig():
            return FirstOrder(learner, spec, seed, graphs, ranks)
        case PPOConfig():
            return PPO(learner, spec, seed, graphs)
        case SACConfig():
            return SAC(learner, spec, seed, graphs)
        case SVGConfig():
            return SVG(learner, spec, seed, graphs)
    raise InputError(f"settings of an algorithm were wanted, got {type(learner).__name__}")


def check_ranks(learner: Learner, ranks: Ranks) -> None:
    """Only first-order algorithms divide their worlds among processes."""
    if ranks.size > 1 and not isinstance(learner, FirstOrderConfig):
        name = type(learner).__name__.removesuffix("Config")
        raise InputError(f"{name} trains in one process, got {ranks.size} ranks; start it without torchrun")
