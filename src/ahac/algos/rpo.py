"""RPO, Reparameterization Proximal Policy Optimization (arXiv 2508.06214): SHAC with several policy steps per rollout.

It runs `ShortHorizonActorCritic.iterate` with these differences from SHAC:

- five policy epochs per rollout reuse its action gradients, weighted by importance (`ahac.rl.surrogate`);
- a KL term keeps the policy near the one of the rollout, and in the publication an entropy term keeps it stochastic;
- in the publication, two critics, SiLU activations, AdamW, and networks as wide as those of AHAC's released code.

Written from descriptions of the method. Differences: actions are squashed by tanh, and learning rates fall linearly
instead of exponentially. Where descriptions are silent: SHAC's horizon and critic fit, torch's default weight decay.
"""

from __future__ import annotations

from dataclasses import replace

from ahac.algos.config import ActorConfig, CriticConfig, ShortHorizonConfig
from ahac.algos.hyperparameters import REUSE, TaskHyperparameters
from ahac.algos.shac import shac_config

__all__ = ["RPO_WORLDS", "rpo_config"]

RPO_WORLDS = {"hopper": 512, "ant": 128}
"""Worlds of the publication."""
PUBLISHED_HIDDEN = (400, 200, 100)
PUBLISHED_LEARNING_RATE = 5e-4
WEIGHT_DECAY = 1e-2


def rpo_config(numbers: TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """Return RPO's settings; preset `default` is SHAC with reuse and a KL term."""
    shac = shac_config(numbers, preset)
    if preset == "default":
        return replace(shac, update=REUSE)
    actor = ActorConfig(
        hidden=PUBLISHED_HIDDEN,
        learning_rate=PUBLISHED_LEARNING_RATE,
        weight_decay=WEIGHT_DECAY,
        activation="silu",
        init_log_std=numbers.init_log_std,
    )
    critic = CriticConfig(
        hidden=PUBLISHED_HIDDEN,
        learning_rate=PUBLISHED_LEARNING_RATE,
        weight_decay=WEIGHT_DECAY,
        activation="silu",
        num_critics=2,
        epochs=numbers.shac_epochs,
        target_alpha=0.2,  # read as in SHAC, whose 0.2 is the weight of the old network
    )
    return replace(shac, actor=actor, critic=critic, update=replace(REUSE, entropy_coef=0.2))
