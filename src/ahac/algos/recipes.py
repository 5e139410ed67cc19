"""Recipes: how to train each algorithm on each task, in three presets.

paper      the tables of the paper's appendix G, and the released code's numbers where it is silent
released   the released configuration files (imgeorgiev/DiffRL bb59db5)
default    the paper's networks and learning rates, fewer worlds, for AHAC a horizon rule that matches the best fixed
           horizon (docs/results.md), and shorter rollouts for SAPO, RPO and IVW-H on Hopper, Ant and
           tasks without hyperparameters of their own
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, overload

from ahac.algos.ahac import ahac_config
from ahac.algos.ahac1 import ahac1_config
from ahac.algos.baseline_recipes import BASELINES
from ahac.algos.bptt import bptt_config
from ahac.algos.config import ShortHorizonConfig
from ahac.algos.hyperparameters import hyperparameters_of, task_hyperparameters, with_short_rollouts
from ahac.algos.ivwh import ivwh_config
from ahac.algos.registry import algorithms, settings_class
from ahac.algos.rpo import RPO_WORLDS, rpo_config
from ahac.algos.sapo import SAPO_WORLDS, sapo_config
from ahac.algos.shac import shac_config
from ahac.core.errors import InputError
from ahac.core.text import suggestion

__all__ = ["ALGOS", "PRESETS", "Recipe", "describe_algorithms", "recipe"]

PRESETS = ("default", "paper", "released")
ALGOS = {
    "ahac": "Adaptive Horizon Actor-Critic: adaptive horizon, double critic fitted until its loss plateaus",
    "ahac1": "AHAC-1: truncates each world's trajectory where contact is stiff",
    "shac": "Short-Horizon Actor-Critic: fixed horizon, critic with a target network",
    "sapo": "SAPO: SHAC with a maximum-entropy objective, state-dependent standard deviation and two critics",
    "rpo": "RPO: SHAC that reuses the action gradients of a rollout over several policy epochs",
    "ivwh": "IVW-H: SHAC that mixes analytic and likelihood-ratio gradients by their inverse variance",
    "bptt": "backpropagation through time: long rollouts, no critic",
    "ppo": "proximal policy optimization: no simulator gradients, thousands of worlds",
    "sac": "soft actor-critic: no simulator gradients, replay buffer",
    "svg": "stochastic value gradients: soft actor-critic through a learned model",
    "fasttd3": "FastTD3: no simulator gradients, replay buffer, many worlds, critics of return distributions",
}
FirstOrderName = Literal["ahac", "ahac1", "shac", "sapo", "rpo", "ivwh", "bptt"]
ConfigT = TypeVar("ConfigT")

FIRST_ORDER = {
    "ahac": ahac_config,
    "ahac1": ahac1_config,
    "shac": shac_config,
    "sapo": sapo_config,
    "rpo": rpo_config,
    "ivwh": ivwh_config,
    "bptt": bptt_config,
}
BPTT_WORLDS = 32


def describe_algorithms() -> dict[str, str]:
    """Return the names of all algorithms, those of other packages included, with a description of each."""
    return algorithms() | ALGOS


@dataclass(frozen=True, kw_only=True)
class Recipe(Generic[ConfigT]):
    """Settings for training an algorithm on a task."""

    num_envs: int
    iterations: int
    algorithm: ConfigT


@overload
def recipe(task: str, algo: FirstOrderName, preset: str = "default") -> Recipe[ShortHorizonConfig]: ...
@overload
def recipe(task: str, algo: str, preset: str = "default") -> Recipe[Any]: ...
def recipe(task: str, algo: str, preset: str = "default") -> Recipe[Any]:
    """Return the recipe for training `algo` on `task`; tasks without their own numbers take those of Ant.

    Algorithms that other packages registered have their default settings, and the worlds and iterations of the task.
    """
    settings = settings_class(algo)
    if preset not in PRESETS:
        raise InputError(f"no preset named {preset!r}{suggestion(preset, PRESETS)}; known: {', '.join(PRESETS)}")
    if algo not in ALGOS:
        numbers = task_hyperparameters(task, preset)
        return Recipe(num_envs=numbers.num_envs, iterations=numbers.iterations, algorithm=settings())
    if algo in BASELINES:
        networks = task_hyperparameters(task, "paper")
        worlds, iterations, settings = BASELINES[algo](task, preset, networks.actor, networks.critic)
        return Recipe(num_envs=worlds, iterations=iterations, algorithm=settings)
    numbers = task_hyperparameters(task, preset)
    if algo in ("sapo", "rpo", "ivwh") and preset == "default":
        numbers = with_short_rollouts(task, numbers)
    worlds, iterations = numbers.num_envs, numbers.iterations
    if algo == "sapo" and preset != "default":
        published = sapo_config(task_hyperparameters(task, "paper"), preset)
        return Recipe(num_envs=SAPO_WORLDS[0], iterations=SAPO_WORLDS[1], algorithm=published)
    if algo == "rpo" and preset != "default":
        worlds = RPO_WORLDS.get(hyperparameters_of(task), worlds)
    elif algo == "ahac":
        iterations = numbers.ahac_iterations or iterations
    elif algo == "bptt":
        worlds = BPTT_WORLDS
    elif algo == "ahac1" and preset == "paper":
        worlds = 1
    return Recipe(num_envs=worlds, iterations=iterations, algorithm=FIRST_ORDER[algo](numbers, preset))
