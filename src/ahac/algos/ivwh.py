"""IVW-H (arXiv 2604.18161): SHAC that mixes analytic and likelihood-ratio gradients by their inverse variance.

It runs `ShortHorizonActorCritic.iterate` with one difference from SHAC: the gradient of each step and action is the
inverse-variance mean of the one through the simulator and the one of the likelihood ratio (`ahac.rl.surrogate`). In
preset `default` it also has shorter rollouts on Hopper, Ant and tasks without hyperparameters of their own.
"""

from __future__ import annotations

from dataclasses import replace

from ahac.algos.config import ShortHorizonConfig, UpdateConfig
from ahac.algos.hyperparameters import TaskHyperparameters
from ahac.algos.shac import shac_config

__all__ = ["ivwh_config"]


def ivwh_config(numbers: TaskHyperparameters, preset: str) -> ShortHorizonConfig:
    """Return the settings of IVW-H: those of SHAC in each preset, with mixed gradients."""
    return replace(shac_config(numbers, preset), update=UpdateConfig(gradient="mixed"))
