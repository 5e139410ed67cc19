"""SHAC, Short-Horizon Actor-Critic: Algorithm 1 with a fixed horizon.

It runs `ShortHorizonActorCritic.iterate` with these differences from AHAC:

- lines 14-15 do nothing: H is fixed, 32 for the paper's tasks, and the objective has no constraint;
- lines 16-19 fit a single critic, for 16 epochs on the paper's tasks;
- a target network, a slow copy of the critic, provides the values of the rollout.
"""

from __future__ import annotations

from ahac.algos.config import CriticConfig, HorizonConfig, ShortHorizonConfig
from ahac.algos.hyperparameters import TaskHyperparameters, actor_config

__all__ = ["shac_config"]


def shac_config(numbers: TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """Return SHAC's settings; the released code does not shuffle minibatches."""
    critic = CriticConfig(
        hidden=numbers.critic,
        learning_rate=numbers.critic_learning_rate,
        num_critics=1,
        epochs=numbers.shac_epochs,
        target_alpha=numbers.target_alpha,
        shuffle=preset != "released",
    )
    horizon = HorizonConfig(rule="fixed", initial=numbers.shac_horizon)
    return ShortHorizonConfig(actor=actor_config(numbers), critic=critic, horizon=horizon)
