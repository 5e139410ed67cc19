"""A Go1 under position servos: standing, squatting, trotting, jumping, and standing on a slope."""

from __future__ import annotations

from functools import cache

import numpy as np

from behavior.engines import Control, Engine, Motion
from behavior.scenes import GO1, Legged

__all__ = [
    "differences",
    "distance",
    "jump",
    "jump_height",
    "motion",
    "slope_drift",
    "squat",
    "standing",
    "stands",
    "trot",
]

HIP, THIGH, CALF = (np.arange(leg, 12, 3) for leg in range(3))
"""Servos of the four legs, in the order of the file: FR, FL, RR, RL."""
DIAGONAL = np.array([0.0, np.pi, np.pi, 0.0])
"""Phases of the legs in a trot."""
SQUAT = 0.25
"""Amplitude of the thigh in a squat [rad]; the calf moves twice as far."""
CROUCH_SECONDS = 1.0


@cache
def _stance() -> np.ndarray:
    return GO1.targets()


def stands(time: float) -> np.ndarray:
    """Hold the stance."""
    return _stance()


def squat(time: float) -> np.ndarray:
    """Squat once a second."""
    control, bend = _stance().copy(), SQUAT * (1.0 - np.cos(2.0 * np.pi * time)) / 2.0
    control[THIGH] += bend
    control[CALF] -= 2.0 * bend
    return control


def trot(time: float) -> np.ndarray:
    """Trot with two strides a second."""
    control, phase = _stance().copy(), 4.0 * np.pi * time + DIAGONAL
    control[THIGH] += 0.2 * np.sin(phase)
    control[CALF] -= 0.4 * np.maximum(0.0, np.cos(phase))
    return control


def jump(time: float) -> np.ndarray:
    """Crouch for a second, then stretch the legs at once, and return to the stance in flight."""
    control = _stance().copy()
    if time < CROUCH_SECONDS:
        control[THIGH], control[CALF] = 1.3, -2.5
    elif time < CROUCH_SECONDS + 0.15:
        control[THIGH], control[CALF] = 0.5, -1.0
    return control


@cache
def motion(engine: Engine, control: Control, seconds: float = 5.0) -> Motion:
    """Roll out a Go1 on level ground."""
    return engine.roll(Legged(GO1), seconds, control)


def standing(engine: Engine) -> float:
    """Return the height of the trunk after 5 s [m]."""
    return float(motion(engine, stands).q[-1, 0, 2])


def differences(engine: Engine, reference: Engine, control: Control) -> tuple[float, float]:
    """Return the largest differences in height [mm] and joint angle [rad] from 2 to 5 s, every 50 ms."""
    paths = [motion(e, control) for e in (engine, reference)]
    times = np.arange(2.0, 5.0, 1 / 20)
    first, second = (path.q[[path.at(t) for t in times], 0] for path in paths)
    return 1e3 * float(np.abs(first[:, 2] - second[:, 2]).max()), float(np.abs(first[:, 7:] - second[:, 7:]).max())


def distance(engine: Engine, control: Control) -> float:
    """Return the displacement along x in 5 s [m]."""
    return float(motion(engine, control).q[-1, 0, 0])


def jump_height(engine: Engine) -> float:
    """Return how much higher than in the crouch the trunk gets [m]."""
    path = motion(engine, jump, 2.0)
    height = path.q[:, 0, 2]
    start = path.at(CROUCH_SECONDS)
    return float(height[start:].max() - height[start])


def slope_drift(engine: Engine) -> float:
    """Return the drift on a slope of 10° from 2 to 10 s [m]."""
    path = engine.roll(Legged(GO1, slope=10.0), 10.0, stands)
    return float(np.linalg.norm(path.q[-1, 0, :2] - path.q[path.at(2.0), 0, :2]))
