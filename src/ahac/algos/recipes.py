"""Hyper-parameters as code: one recipe per task and algorithm, in three presets.

paper      the tables of the paper's appendix G, where it is silent the released code's numbers
released   the released configuration files (imgeorgiev/DiffRL bb59db5)
default    the paper's networks and rates, fewer worlds, a horizon rule as good as the best fixed one (docs/results.md)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar, overload

from ahac.algos.baseline_recipes import BASELINES
from ahac.algos.config import ActorConfig, CriticConfig, HorizonConfig, ShortHorizonConfig, StiffnessConfig
from ahac.core.errors import InputError

__all__ = ["ALGOS", "PRESETS", "Recipe", "recipe"]

PRESETS = ("default", "paper", "released")
ALGOS = {
    "ahac": "Adaptive Horizon Actor-Critic: double critic fitted until its loss settles, horizon that adapts",
    "ahac1": "AHAC-1: every world's trajectory is cut where contact is stiff",
    "shac": "Short-Horizon Actor-Critic: fixed horizon, critic with a target network",
    "bptt": "back-propagation through time: no critic, long rollouts",
    "ppo": "proximal policy optimisation: no gradients of the simulator, thousands of worlds",
    "sac": "soft actor-critic: no gradients of the simulator, learns from replay",
    "svg": "stochastic value gradients: soft actor-critic through a learnt model",
}
FirstOrderName = Literal["ahac", "ahac1", "shac", "bptt"]
ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True, kw_only=True)
class Recipe(Generic[ConfigT]):
    """How to train an algorithm on a task."""

    num_envs: int
    iterations: int
    algorithm: ConfigT


@dataclass(frozen=True, kw_only=True)
class _TaskHyperparameters:
    """A column of the appendix's table: networks and rates of one task."""

    actor: tuple[int, ...]
    critic: tuple[int, ...]
    critic_rate: float
    target_alpha: float
    horizon_rate: float
    num_envs: int
    iterations: int
    actor_rate: float = 2e-3
    growth: float = 3.0
    log_std: float = -1.0


PAPER = {
    "hopper": _TaskHyperparameters(
        actor=(128, 64, 32), critic=(64, 64), critic_rate=4e-3, target_alpha=0.2, horizon_rate=2e-4, num_envs=1024,
        iterations=500,
    ),
    "ant": _TaskHyperparameters(
        actor=(128, 64, 32), critic=(64, 64), critic_rate=2e-3, target_alpha=0.2, horizon_rate=1e-5, num_envs=512,
        iterations=2000,
    ),
    "anymal": _TaskHyperparameters(
        actor=(256, 128), critic=(256, 128), critic_rate=2e-3, target_alpha=0.2, horizon_rate=1e-5, num_envs=128,
        iterations=5000,
    ),
    "humanoid": _TaskHyperparameters(
        actor=(256, 128), critic=(256, 128), critic_rate=5e-4, target_alpha=0.995, horizon_rate=1e-5, num_envs=64,
        iterations=5000,
    ),
    "snu_humanoid": _TaskHyperparameters(
        actor=(512, 256), critic=(256, 256), critic_rate=5e-4, target_alpha=0.995, horizon_rate=1e-5, num_envs=64,
        iterations=5000,
    ),
    "half_cheetah": _TaskHyperparameters(
        actor=(128, 64, 32), critic=(64, 64), critic_rate=2e-3, target_alpha=0.2, horizon_rate=1e-5, num_envs=64,
        iterations=500,
    ),
    "cartpole": _TaskHyperparameters(
        actor=(64, 64), critic=(64, 64), critic_rate=1e-3, target_alpha=0.2, horizon_rate=1e-5, num_envs=64,
        iterations=200, actor_rate=1e-2,
    ),
    "double_pendulum": _TaskHyperparameters(
        actor=(64, 64), critic=(64, 64), critic_rate=1e-3, target_alpha=0.2, horizon_rate=1e-5, num_envs=64,
        iterations=200, actor_rate=1e-2,
    ),
}  # fmt: skip
"""Tasks that are not in the paper, and tasks of a user's own, have numbers after SHAC's; see `_TaskHyperparameters` of "ant"."""

RELEASED = {"hopper": (1024, 500), "ant": (128, 2000), "anymal": (128, 3000), "humanoid": (64, 5000),
            "snu_humanoid": (64, 5000), "half_cheetah": (1024, 500), "cartpole": (1024, 500)}  # fmt: skip
"""Worlds and iterations of the released configurations."""

DEFAULT = {"hopper": {"num_envs": 256, "iterations": 800, "log_std": 0.0, "growth": 2.0}, "ant": {"num_envs": 128}}
"""Where the default preset differs: fewer worlds, with which a CPU learns as well, and what leaves Hopper's slow gait
(docs/results.md)."""


@overload
def recipe(task: str, algo: FirstOrderName, preset: str = "default") -> Recipe[ShortHorizonConfig]: ...
@overload
def recipe(task: str, algo: str, preset: str = "default") -> Recipe[Any]: ...
def recipe(task: str, algo: str, preset: str = "default") -> Recipe[Any]:
    """How to train `algo` on `task`."""
    if algo not in ALGOS:
        raise InputError(f"no algorithm named {algo!r}; known: {', '.join(ALGOS)}")
    if preset not in PRESETS:
        raise InputError(f"no preset named {preset!r}; known: {', '.join(PRESETS)}")
    known = task if task in PAPER else "ant"
    numbers = PAPER[known]
    if algo in BASELINES:
        worlds, iterations, settings = BASELINES[algo](task, preset, numbers.actor, numbers.critic)
        return Recipe(num_envs=worlds, iterations=iterations, algorithm=settings)
    if preset == "released":
        worlds, iterations = RELEASED.get(task, (numbers.num_envs, numbers.iterations))
        numbers = replace(
            numbers,
            actor=(400, 200, 100),
            critic=(400, 200, 100),
            critic_rate=5e-4,
            target_alpha=0.99,
            horizon_rate=5e-4,
            num_envs=worlds,
            iterations=iterations,
        )
    if preset == "default":
        numbers = replace(numbers, **DEFAULT.get(known, {}))
    learner = _LEARNERS[algo](numbers, preset)
    worlds = {"ahac1": 1 if preset == "paper" else numbers.num_envs, "bptt": 32}.get(algo, numbers.num_envs)
    return Recipe(num_envs=worlds, iterations=numbers.iterations, algorithm=learner)


def _shac(numbers: _TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """Fixed horizon of 32, single critic with a target network, 16 passes."""
    critic = CriticConfig(
        hidden=numbers.critic,
        learning_rate=numbers.critic_rate,
        target_alpha=numbers.target_alpha,
        shuffle=preset != "released",
    )
    return ShortHorizonConfig(actor=_actor(numbers), critic=critic, horizon=HorizonConfig(rule="fixed", initial=32))


def _ahac(numbers: _TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """Double critic without a target network, fitted until its loss settles; a horizon that adapts."""
    horizon, stiffness = {
        "default": (HorizonConfig(rule="growth", initial=16, growth_limit=numbers.growth), StiffnessConfig()),
        "paper": (
            HorizonConfig(rule="paper", initial=8, learning_rate=numbers.horizon_rate),
            StiffnessConfig(signal="contact_normalised", limit=500.0, lagrangian=True),
        ),
        "released": (
            HorizonConfig(rule="released", initial=8, learning_rate=numbers.horizon_rate),
            StiffnessConfig(signal="force", limit=500.0),
        ),
    }[preset]
    return ShortHorizonConfig(
        actor=_actor(numbers), critic=_ahac_critic(numbers, preset), horizon=horizon, stiffness=stiffness
    )


def _ahac1(numbers: _TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """Rollouts of 64 steps, each world's trajectory cut where it is stiff."""
    stiffness = {
        "default": StiffnessConfig(signal="force", limit=500.0, truncate=True, min_steps=8),
        "paper": StiffnessConfig(signal="contact_normalised", limit=500.0, truncate=True),
        "released": StiffnessConfig(signal="force", limit=3000.0, truncate=True, min_steps=8),
    }[preset]
    return ShortHorizonConfig(
        actor=_actor(numbers),
        critic=_ahac_critic(numbers, preset),
        horizon=HorizonConfig(rule="fixed", initial=64),
        stiffness=stiffness,
    )


def _bptt(numbers: _TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """No critic: rollouts of 128 steps, as SHAC's authors compare with."""
    return ShortHorizonConfig(
        actor=_actor(numbers), critic=None, horizon=HorizonConfig(rule="fixed", initial=128, max=1000)
    )


def _actor(numbers: _TaskHyperparameters) -> ActorConfig:
    return ActorConfig(hidden=numbers.actor, learning_rate=numbers.actor_rate, init_log_std=numbers.log_std)


def _ahac_critic(numbers: _TaskHyperparameters, preset: str) -> CriticConfig:
    released = preset == "released"
    # "Double" is one network in the released code: two views of the same weights.
    return CriticConfig(
        hidden=numbers.critic,
        learning_rate=numbers.critic_rate,
        num_critics=1 if released else 2,
        epochs=64,
        plateau_tolerance=0.2,
        target_alpha=None,
        shuffle=not released,
        max_grad_norm=None if released else 1.0,
    )


_LEARNERS = {"ahac": _ahac, "ahac1": _ahac1, "shac": _shac, "bptt": _bptt}
