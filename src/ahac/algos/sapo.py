"""SAPO, Soft Analytic Policy Optimization (Xing et al., ICLR 2025): SHAC with a maximum-entropy objective.

It runs `ShortHorizonActorCritic.iterate` with these differences from SHAC:

- rewards, and with them the value targets, include the policy's entropy, with a learned temperature;
- the standard deviation of the policy depends on the state;
- two critics without a target network: the objective uses the mean of their values, the targets the minimum;
- networks have SiLU activations and are trained by AdamW, with gradients clipped to norm 0.5.

Written from descriptions of the method. Where they are silent: torch's default weight decay, and activation before
layer norm as in SHAC. Values are those of the state after a step.
"""

from __future__ import annotations

from ahac.algos.config import ActorConfig, CriticConfig, EntropyConfig, HorizonConfig, ShortHorizonConfig
from ahac.algos.hyperparameters import TaskHyperparameters

__all__ = ["SAPO_WORLDS", "sapo_config"]

SAPO_WORLDS = (64, 2000)
"""Worlds and iterations of the publication: 4.1 million steps with a horizon of 32."""
WEIGHT_DECAY = 1e-2
MAX_GRAD_NORM = 0.5


def sapo_config(numbers: TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """Return SAPO's settings, with the networks of the other algorithms on the task."""
    published = preset != "default"
    actor = ActorConfig(
        hidden=numbers.actor,
        learning_rate=2e-3,
        max_grad_norm=MAX_GRAD_NORM,
        weight_decay=WEIGHT_DECAY,
        activation="silu",
        init_log_std=0.0,
        state_std=True,
    )
    critic = CriticConfig(
        hidden=numbers.critic,
        learning_rate=5e-4 if published else numbers.critic_learning_rate,
        max_grad_norm=MAX_GRAD_NORM,
        weight_decay=WEIGHT_DECAY,
        activation="silu",
        num_critics=2,
        actor_value="mean",
        target_alpha=None,
        epochs=16 if published else numbers.shac_epochs,
    )
    horizon = HorizonConfig(rule="fixed", initial=32 if published else numbers.shac_horizon)
    return ShortHorizonConfig(actor=actor, critic=critic, horizon=horizon, entropy=EntropyConfig(enabled=True))
