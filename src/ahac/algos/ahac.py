"""AHAC, Adaptive Horizon Actor-Critic: Algorithm 1 of the paper.

It runs `ShortHorizonActorCritic.iterate` with

- a horizon that adapts after every iteration (lines 14-15), by one of the rules in `algos/parts/*_horizon.py`;
- two critics, of which the lower value counts, and no target network;
- critics fitted until their loss has plateaued (lines 16-19), for at most 64 epochs on the paper's tasks.

The presets differ in the horizon rule. `paper` is Algorithm 1 as printed, with the constraint φᵀ (C − ‖∇f‖) in the
objective. `released` is the rule of the released code. `default` adapts H to the growth of the gradient along the
rollout (docs/algorithms/ahac.md explains why), and on Go1 and Go2 takes several policy epochs per rollout.
"""

from __future__ import annotations

from ahac.algos.config import CriticConfig, HorizonConfig, ShortHorizonConfig, StiffnessConfig
from ahac.algos.hyperparameters import TaskHyperparameters, actor_config

__all__ = ["ahac_config", "ahac_critic_config"]

PLATEAU_TOLERANCE = 0.2
INITIAL_HORIZON = 16
"""Of preset `default`."""
STIFFNESS_LIMIT = 500.0
"""C in the paper, for any signal."""


def ahac_config(numbers: TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """Return AHAC's settings."""
    horizon, stiffness = {
        "default": (
            HorizonConfig(
                rule="growth",
                initial=max(INITIAL_HORIZON, numbers.min_horizon),
                min=numbers.min_horizon,
                max=numbers.max_horizon,
                growth_limit=numbers.growth_limit,
            ),
            StiffnessConfig(),
        ),
        "paper": (
            HorizonConfig(rule="paper", initial=8, learning_rate=numbers.horizon_learning_rate),
            StiffnessConfig(signal="contact_normalized", limit=STIFFNESS_LIMIT, lagrangian=True),
        ),
        "released": (
            HorizonConfig(rule="released", initial=8, learning_rate=numbers.horizon_learning_rate),
            StiffnessConfig(signal="force", limit=STIFFNESS_LIMIT),
        ),
    }[preset]
    return ShortHorizonConfig(
        actor=actor_config(numbers),
        critic=ahac_critic_config(numbers, preset),
        horizon=horizon,
        stiffness=stiffness,
        update=numbers.ahac_update,
    )


def ahac_critic_config(numbers: TaskHyperparameters, preset: str) -> CriticConfig:
    """Return the settings of the double critic, which AHAC-1 shares."""
    released = preset == "released"
    return CriticConfig(
        hidden=numbers.critic,
        learning_rate=numbers.critic_learning_rate,
        num_critics=1 if released else 2,  # the released code's "double" critic uses the same weights twice
        epochs=numbers.max_epochs,
        plateau_tolerance=PLATEAU_TOLERANCE,
        target_alpha=None,
        shuffle=not released,
        max_grad_norm=None if released else 1.0,
    )
