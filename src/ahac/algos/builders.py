"""Build the parts of first-order algorithms from their settings."""

from __future__ import annotations

import math

from ahac.algos.config import ShortHorizonConfig
from ahac.algos.parts.gradient_horizon import EsnrHorizon, GrowthHorizon
from ahac.algos.parts.horizon import Bounds, FixedHorizon, HorizonRule
from ahac.algos.parts.stiffness_horizon import DualHorizon, StiffnessHorizon
from ahac.core.checks import check_int
from ahac.rl.rollout import StiffnessMonitor

__all__ = ["horizon_rule", "stiffness_monitor"]


def horizon_rule(config: ShortHorizonConfig) -> HorizonRule:
    """Return the horizon rule of a configuration."""
    h = config.horizon
    limit = config.stiffness.threshold
    bounds = Bounds(h.min, h.max)
    match h.rule:
        case "fixed":
            return FixedHorizon(check_int("horizon.initial", round(h.initial), 1))
        case "paper" | "released":
            signed = h.rule == "released"
            return DualHorizon(bounds, h.initial, limit=limit, learning_rate=h.learning_rate, signed=signed)
        case "shrink":
            return StiffnessHorizon(bounds, h.initial, limit=limit, speed=h.speed)
        case "growth":
            return GrowthHorizon(bounds, h.initial, limit=math.log(h.growth_limit), speed=h.speed)
        case "esnr":
            return EsnrHorizon(bounds, h.initial)


def stiffness_monitor(config: ShortHorizonConfig, horizon: HorizonRule, probes: int | None) -> StiffnessMonitor | None:
    """Return how to measure stiffness, or None if nothing uses it."""
    s = config.stiffness
    if not (s.truncate or s.lagrangian or "stiffness" in horizon.needs):
        return None
    truncate_above = s.threshold if s.truncate else None
    return StiffnessMonitor(signal=s.signal, probes=probes, truncate_above=truncate_above, min_steps=s.min_steps)
