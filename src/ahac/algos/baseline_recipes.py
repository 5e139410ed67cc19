"""Hyper-parameters of PPO, SAC, SVG and FastTD3: number of worlds, iterations, settings for each task and preset.

Values missing in the paper are from the released code. Worlds and iterations of preset `paper` are from the revision of
the released repository whose networks match the paper's (docs/algorithms/baselines.md has the tables).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ahac.algos.fasttd3 import FastTD3Config
from ahac.algos.ppo import PPOConfig
from ahac.algos.sac import SACConfig
from ahac.algos.svg import SVGConfig

__all__ = ["BASELINES", "BaselineRecipe"]

BaselineRecipe = tuple[int, int, Any]
"""Number of worlds, number of iterations, settings."""
Widths = tuple[int, ...]

PPO_RELEASED = {"hopper": (4096, 500), "ant": (2048, 50_000), "anymal": (4096, 5000), "humanoid": (4096, 50_000),
                "snu_humanoid": (2048, 15_000)}  # fmt: skip
PPO_PAPER = {"hopper": (1024, 1500), "ant": (2048, 5000), "anymal": (2048, 5000), "humanoid": (1024, 5000),
             "snu_humanoid": (1024, 50_000)}  # fmt: skip
"""Hopper had 200 iterations of 240 steps; this is the same number of steps, 32 per iteration as the paper prints."""
PPO_DEFAULT = {"hopper": (1024, 600), "ant": (4096, 1500), "anymal": (4096, 1500), "humanoid": (4096, 1500),
               "snu_humanoid": (4096, 2000), "cartpole": (256, 200), "double_pendulum": (256, 300),
               "go1": (4096, 2000), "go2": (4096, 2000), "g1": (4096, 4000)}  # fmt: skip
PPO_OTHERS = (2048, 1000)
PPO_TARGET_KL = {"snu_humanoid": 0.1}
"""Of preset `default`, where pilot runs favored a value other than the published 0.008 (docs/results/pilots.md)."""
PPO_WALKING = PPOConfig(hidden=(256, 128), critic_hidden=(256, 128), init_log_std=-0.5, target_kl=0.016)
"""Best of four pilot runs on the Go1 and of six on the G1 (docs/guides/walking.md)."""

SAC_WORLDS = {"hopper": (64, 500), "ant": (128, 5000), "anymal": (64, 5000), "humanoid": (64, 5000),
              "snu_humanoid": (256, 10_000), "cartpole": (64, 100), "double_pendulum": (64, 200)}  # fmt: skip
SAC_OTHERS = (64, 1000)
SAC_STEPS = 128
"""Steps of each world per iteration."""
SAC_WARM_UP = 9
"""Iterations with random actions in preset `released`: its setting is 10, but it counts iterations from 1."""
BATCH_PER_WORLD = 32
"""Transitions per world in an update: the appendix's batch size."""
SAC_FREQUENT = {"hopper": (64, 500), "ant": (64, 1000)}
"""Worlds and iterations of preset `default` on tasks where a pilot run favored four updates per step instead of one,
each of a quarter as many transitions per world (docs/results/pilots.md)."""
SAC_UPDATES = 4

SVG_STEPS = 1000
"""Steps per iteration of the paper's single world: 11 million steps in total, 10 million on Anymal."""
SVG_DEFAULT = {"hopper": (64, 500), "ant": (256, 500), "cartpole": (64, 60), "double_pendulum": (64, 120)}
SVG_OTHERS = (64, 1000)

FASTTD3_PAPER = (128, 800)
"""Worlds, and iterations of 128 steps: 100 thousand steps of all worlds, as on HumanoidBench."""
FASTTD3_BUFFER_PER_WORLD = 51_200
"""Transitions in the replay buffer, per world: the published code's setting for HumanoidBench. Its learning rate is
constant there."""
FASTTD3_DEFAULT = {"hopper": (1024, 600), "cartpole": (256, 100), "double_pendulum": (256, 200)}
FASTTD3_OTHERS = (1024, 1500)
FASTTD3_REWARD_SCALE = 0.1
"""Rewards are up to 17 per step, so returns discounted with γ = 0.99 are within ± 250 after it."""


def _ppo(task: str, preset: str, actor: Widths, critic: Widths) -> BaselineRecipe:
    """Return PPO's recipe: 32 steps, 5 epochs of 4 minibatches, learning rate adapted to the KL divergence."""
    if preset == "released":
        worlds, iterations = PPO_RELEASED.get(task, PPO_OTHERS)
        return worlds, iterations, PPOConfig(hidden=(400, 200, 100), critic_hidden=None)
    worlds, iterations = (PPO_PAPER if preset == "paper" else PPO_DEFAULT).get(task, PPO_OTHERS)
    if preset == "default" and task in ("go1", "go2", "g1"):
        return worlds, iterations, PPO_WALKING
    config = PPOConfig(hidden=actor, critic_hidden=critic)
    if preset == "default":
        config = replace(config, target_kl=PPO_TARGET_KL.get(task, config.target_kl))
    return worlds, iterations, config


def _sac(task: str, preset: str, actor: Widths, critic: Widths) -> BaselineRecipe:
    """Return SAC's recipe: the updates after a step of all worlds draw 32 transitions per world in total."""
    worlds, iterations = SAC_WORLDS.get(task, SAC_OTHERS)
    if preset == "released":
        widths = (128, 64, 32) if task in ("hopper", "ant") else (512, 256)
        config = SACConfig(
            hidden=widths,
            critic_hidden=widths,
            batch_size=BATCH_PER_WORLD * worlds,
            steps_per_env=SAC_STEPS,
            learning_starts=SAC_WARM_UP * SAC_STEPS * worlds,
        )
        return worlds, iterations, config
    critic_hidden = critic if preset == "paper" else actor
    config = SACConfig(
        hidden=actor, critic_hidden=critic_hidden, batch_size=BATCH_PER_WORLD * worlds, steps_per_env=SAC_STEPS
    )
    if preset == "default" and task in SAC_FREQUENT:
        worlds, iterations = SAC_FREQUENT[task]
        batch_size = BATCH_PER_WORLD * worlds // SAC_UPDATES
        config = replace(config, updates=SAC_UPDATES, batch_size=batch_size)
    return worlds, iterations, config


def _svg(task: str, preset: str, actor: Widths, critic: Widths) -> BaselineRecipe:
    """Return SVG's recipe.

    Presets `paper` and `released` use the released configuration with one world; `default` uses many worlds, larger
    learning rates and fewer updates per step.
    """
    if preset != "default":
        iterations = 10_000 if task == "anymal" else 11_000
        return 1, iterations, SVGConfig(steps_per_env=SVG_STEPS)
    worlds, iterations = SVG_DEFAULT.get(task, SVG_OTHERS)
    return worlds, iterations, SVGConfig(learning_rate=5e-4, model_learning_rate=5e-4, updates=2, model_updates=2)


def _fasttd3(task: str, preset: str, _actor: Widths, _critic: Widths) -> BaselineRecipe:
    """Return FastTD3's recipe: its authors' networks; more worlds and scaled rewards in preset `default`."""
    if preset != "default":
        worlds, iterations = FASTTD3_PAPER
        config = FastTD3Config(
            buffer_size=FASTTD3_BUFFER_PER_WORLD * worlds, steps_per_env=SAC_STEPS, learning_starts=10 * worlds
        )
        config = replace(config, final_learning_rate=config.learning_rate)
        return worlds, iterations, config
    worlds, iterations = FASTTD3_DEFAULT.get(task, FASTTD3_OTHERS)
    config = FastTD3Config(
        batch_size=BATCH_PER_WORLD * worlds, learning_starts=10 * worlds, reward_scale=FASTTD3_REWARD_SCALE
    )
    return worlds, iterations, config


BASELINES: dict[str, Callable[[str, str, Widths, Widths], BaselineRecipe]] = {
    "ppo": _ppo,
    "sac": _sac,
    "svg": _svg,
    "fasttd3": _fasttd3,
}
"""Recipes as functions of the task, the preset, and the appendix's hidden layer widths of actor and critic."""
