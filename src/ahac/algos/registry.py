"""Registry of algorithms: which class belongs to which settings."""

from __future__ import annotations

from ahac.algos.algorithm import Algorithm
from ahac.algos.config import ShortHorizonConfig
from ahac.algos.ppo import PPO, PPOConfig
from ahac.algos.sac import SAC, SACConfig
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.algos.svg import SVG, SVGConfig
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.env import EnvSpec
from ahac.core.errors import InputError

__all__ = ["AlgorithmConfig", "check_process_group", "make_algorithm"]

AlgorithmConfig = ShortHorizonConfig | PPOConfig | SACConfig | SVGConfig
"""Settings of any algorithm."""


def make_algorithm(
    config: AlgorithmConfig, spec: EnvSpec, seed: int, ranks: ProcessGroup = SINGLE_PROCESS
) -> Algorithm:
    """Make the algorithm that these settings belong to."""
    check_process_group(config, ranks)
    match config:
        case ShortHorizonConfig():
            return ShortHorizonActorCritic(config, spec, seed, ranks)
        case PPOConfig():
            return PPO(config, spec, seed)
        case SVGConfig():
            return SVG(config, spec, seed)
        case SACConfig():
            return SAC(config, spec, seed)
    raise InputError(f"config must be the settings of an algorithm, got a {type(config).__name__}")


def check_process_group(config: AlgorithmConfig, ranks: ProcessGroup) -> None:
    """Raise if the algorithm cannot train in several processes; only first-order algorithms can."""
    if ranks.size > 1 and not isinstance(config, ShortHorizonConfig):
        name = type(config).__name__.removesuffix("Config")
        raise InputError(f"{name} trains in one process, got {ranks.size} ranks; start it without torchrun")
