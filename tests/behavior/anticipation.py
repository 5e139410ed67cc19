"""Contact ahead of touch-down: an implicit step feels the depth that it predicts for its end."""

from __future__ import annotations

import numpy as np

from behavior.bodies import SHAPES
from behavior.engines import Engine
from behavior.scenes import GRAVITY, Body, Start

__all__ = ["touch_down"]


def touch_down(engine: Engine, fall: float = 0.5, phases: int = 16) -> tuple[float, float]:
    """Drop spheres; return the largest height at which one feels the ground [mm], and its bound h · speed [mm].

    The spheres start at heights that differ by less than what they fall in a step, so that they meet the ground in
    different phases of one.
    """
    speed = float(np.sqrt(2.0 * GRAVITY * fall))
    starts = tuple(Start(height=0.1 + fall + engine.h * speed * k / phases) for k in range(phases))
    path = engine.roll(Body(SHAPES["sphere"], 1.0, starts), np.sqrt(2.0 * (fall + 0.1) / GRAVITY))
    start = np.array([[s.height for s in starts]])
    height = np.concatenate([start, path.q[:-1, :, 2]]) - 0.1  # before the step
    braked = np.diff(np.concatenate([np.zeros_like(start), path.v[:, :, 2]]), axis=0) > -GRAVITY * engine.h * 0.99
    first = height[braked.argmax(axis=0), np.arange(phases)]
    return 1e3 * float(first.max()), 1e3 * engine.h * speed
