"""AHAC-1: truncate each world's trajectory where contact is stiff (appendix of the paper).

It runs `ShortHorizonActorCritic.iterate` with AHAC's critic and these differences:

- lines 7-12: rollouts always have 64 steps, but a world's trajectory ends at a step with ‖∇f‖ > C. No gradient crosses
  that step, its value is bootstrapped, and a new trajectory of the same world starts there (`rl/rollout.py`);
- lines 14-15 do nothing: there is no common horizon to adapt.
"""

from __future__ import annotations

from ahac.algos.ahac import ahac_critic_config
from ahac.algos.config import HorizonConfig, ShortHorizonConfig, StiffnessConfig
from ahac.algos.hyperparameters import TaskHyperparameters, actor_config

__all__ = ["ahac1_config"]

HORIZON = 64


def ahac1_config(numbers: TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """Return AHAC-1's settings; signal and limit depend on the preset."""
    stiffness = {
        "default": StiffnessConfig(signal="force", limit=500.0, truncate=True, min_steps=8),
        "paper": StiffnessConfig(signal="contact_normalized", limit=500.0, truncate=True),
        "released": StiffnessConfig(signal="force", limit=3000.0, truncate=True, min_steps=8),
    }[preset]
    return ShortHorizonConfig(
        actor=actor_config(numbers),
        critic=ahac_critic_config(numbers, preset),
        horizon=HorizonConfig(rule="fixed", initial=HORIZON),
        stiffness=stiffness,
    )
