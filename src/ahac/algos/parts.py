"""From settings to the parts of first-order algorithms."""

from __future__ import annotations

import math

from ahac.algos.config import FirstOrderConfig
from ahac.core.checks import whole_number
from ahac.rl.gradient_horizon import EsnrHorizon, GrowthHorizon
from ahac.rl.horizon import Bounds, FixedHorizon, HorizonRule
from ahac.rl.rollout import Gauge
from ahac.rl.stiffness_horizon import DualHorizon, ShrinkHorizon

__all__ = ["gauge", "horizon_rule"]


def horizon_rule(config: FirstOrderConfig) -> HorizonRule:
    """The rule that a configuration names."""
    h, limit = config.horizon, config.stiffness.threshold
    bounds = Bounds(h.least, h.most)
    match h.rule:
        case "fixed":
            return FixedHorizon(whole_number("horizon.first", round(h.first), 1))
        case "paper" | "released":
            signed = h.rule == "released"
            return DualHorizon(bounds, h.first, limit=limit, learning_rate=h.rate, signed=signed)
        case "shrink":
            return ShrinkHorizon(bounds, h.first, limit=limit, speed=h.speed)
        case "growth":
            return GrowthHorizon(bounds, h.first, limit=math.log(h.growth), speed=h.speed)
        case "esnr":
            return EsnrHorizon(bounds, h.first)


def gauge(config: FirstOrderConfig, horizon: HorizonRule, probes: int | None) -> Gauge | None:
    """Stiffness is measured only where something looks at it."""
    s = config.stiffness
    if not (s.truncate or s.lagrangian or "stiffness" in horizon.needs):
        return None
    cut_above = s.threshold if s.truncate else None
    return Gauge(signal=s.signal, probes=probes, cut_above=cut_above, least_steps=s.least_steps)
