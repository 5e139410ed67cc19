"""BPTT, backpropagation through time: Algorithm 1 without a critic.

It runs `ShortHorizonActorCritic.iterate` with these differences from SHAC:

- rollouts have 128 steps, as in the comparison of SHAC's authors, and no value follows their last step;
- lines 16-19 do nothing: there is no critic to fit.
"""

from __future__ import annotations

from ahac.algos.config import HorizonConfig, ShortHorizonConfig
from ahac.algos.hyperparameters import TaskHyperparameters, actor_config

__all__ = ["bptt_config"]

HORIZON = 128


def bptt_config(numbers: TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """Return BPTT's settings, the same in all presets."""
    horizon = HorizonConfig(rule="fixed", initial=HORIZON, max=1000)  # a fixed horizon ignores max
    return ShortHorizonConfig(actor=actor_config(numbers), critic=None, horizon=horizon)
