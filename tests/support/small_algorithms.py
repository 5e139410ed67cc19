"""Tiny versions of all algorithms on a double integrator, which needs no compiled simulator."""

from __future__ import annotations

from dataclasses import replace

from ahac.algos.algorithm import Algorithm
from ahac.algos.config import UpdateConfig
from ahac.algos.fasttd3 import FastTD3Config
from ahac.algos.ppo import PPOConfig
from ahac.algos.registry import AlgorithmConfig, make_algorithm
from ahac.algos.sac import SACConfig
from ahac.algos.svg import SVGConfig
from learning.double_integrator import DoubleIntegrator
from learning.toys import Toy

WORLDS = 4
SOFT = {
    "hidden": (4,),
    "critic_hidden": (4,),
    "steps_per_env": 6,
    "batch_size": 8,
    "learning_starts": 12,
    "buffer_size": 100,
}
TOY = Toy(task="double_integrator", horizon=6, hidden=(8, 8))
"""Same widths as the traces in `learning`, to share the critic's kernel."""


def _settings() -> dict[str, AlgorithmConfig]:
    ahac = TOY.algorithm("ahac")
    ppo = PPOConfig(hidden=(4,), critic_hidden=(4,), steps_per_env=6, epochs=1, minibatches=2)
    return {
        "ahac": ahac,
        "ahac, paper": TOY.algorithm("ahac", "paper"),
        "ahac, shrink": replace(ahac, horizon=replace(ahac.horizon, rule="shrink")),
        "ahac, esnr": replace(ahac, horizon=replace(ahac.horizon, rule="esnr")),
        "ahac1": TOY.algorithm("ahac1"),
        "shac": TOY.algorithm("shac"),
        "sapo": TOY.algorithm("sapo"),
        "ahac, reused": replace(ahac, update=UpdateConfig(epochs=2, kl_coef=0.2)),
        "sapo, mixed": replace(TOY.algorithm("sapo"), update=UpdateConfig(epochs=2, gradient="mixed")),
        "bptt": TOY.algorithm("bptt"),
        "ppo": ppo,
        "ppo, one trunk": replace(ppo, critic_hidden=None),
        "sac": SACConfig(**SOFT),
        "svg": SVGConfig(
            **SOFT, model_hidden=(4,), latent=3, layers=1, sequences=4, sequence_steps=3, updates=1, model_updates=1
        ),
        "fasttd3": FastTD3Config(**SOFT, num_atoms=5),
    }


SETTINGS = _settings()
"""Settings by name."""


def worlds(seed: int = 0) -> DoubleIntegrator:
    return DoubleIntegrator(WORLDS, seed=seed)


def make_small_algorithm(name: str, env: DoubleIntegrator, seed: int = 0) -> Algorithm:
    return make_algorithm(SETTINGS[name], env.spec, seed)
