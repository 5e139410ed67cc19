"""Single bodies on a plane: rest, impact, friction, rolling, and the energy of an elastic ball."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ahac.sim import ContactMaterial
from behavior.engines import Engine, Motion
from behavior.scenes import GRAVITY, Body, Start

__all__ = [
    "MASSES",
    "SHAPES",
    "SLOPES",
    "Drop",
    "drop",
    "drops_of_shapes",
    "drops_of_spheres",
    "elastic_energy",
    "landing",
    "push",
    "roll",
    "slide",
    "slopes",
    "stand",
]

MASSES = (0.1, 1.0, 10.0, 50.0)
SHAPES = {
    "sphere": 'type="sphere" size="0.1"',
    "box": 'type="box" size="0.1 0.1 0.1"',
    "capsule": 'type="capsule" size="0.1 0.1"',
    "cylinder": 'type="cylinder" size="0.1 0.1"',
}
HALF_HEIGHTS = {"sphere": 0.1, "box": 0.1, "capsule": 0.2, "cylinder": 0.1}
SLOPES = (20.0, 36.0, 38.0, 40.0, 45.0)
FALL = 0.5
"""Height from which bodies are dropped [m]."""
SETTLED = 1e-3
"""Distance from its final height within which a body counts as settled [m]."""
WHEEL_RADIUS = 0.1


@dataclass(frozen=True)
class Drop:
    """What a drop from 0.5 m comes to."""

    rest: float
    """Depth at rest [mm]."""
    deepest: float
    """Largest depth [mm]."""
    rebound: float
    """Height of the first rebound [% of the drop]."""
    settled: float
    """Time until the height stays within 1 mm of its final value [s]."""


def drop(engine: Engine, shape: str = "sphere", mass: float = 1.0, material: ContactMaterial | None = None) -> Drop:
    """Drop a body upright from 0.5 m."""
    half = HALF_HEIGHTS[shape]
    scene = Body(SHAPES[shape], mass, (Start(height=half + FALL),), material=material)
    height = engine.roll(scene, 3.0).q[:, 0, 2] - half
    touch = int(np.argmax(height < 0.0))
    # Up to the first rebound's top, or to the end.
    lowest = touch + int(np.argmin(height[touch : touch + round(0.2 / engine.h)]))
    moving = np.abs(height - height[-1]) > SETTLED
    return Drop(
        rest=-1e3 * height[-1],
        deepest=-1e3 * height.min(),
        rebound=100.0 * max(0.0, height[lowest:].max()) / FALL,
        settled=engine.h * (len(height) - int(np.argmax(moving[::-1]))) if moving.any() else 0.0,
    )


def drops_of_spheres(engine: Engine) -> list[Drop]:
    """Drop spheres of different masses."""
    return [drop(engine, "sphere", mass) for mass in MASSES]


def drops_of_shapes(engine: Engine) -> list[Drop]:
    """Drop 1 kg of different shapes."""
    return [drop(engine, shape) for shape in SHAPES]


def slide(engine: Engine, friction: float) -> float:
    """Return how far a box slides from 2 m/s [m]; in theory 2² / (2 mu g)."""
    start = Start(height=0.1, velocity=(2.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    motion = engine.roll(Body(SHAPES["box"], 1.0, (start,), friction), 2.0, settle=0.5)
    return float(motion.q[-1, 0, 0])


def slopes(engine: Engine, angles: tuple[float, ...] = SLOPES, friction: float = 0.8) -> list[float]:
    """Return the speeds of a 3 kg box after 2 s on slopes [m/s]; in theory 2 g (sin − mu cos), or 0."""
    starts = tuple(Start(height=0.1, slope=angle) for angle in angles)
    return list(engine.roll(Body(SHAPES["box"], 3.0, starts, friction), 2.0, settle=0.5).v[-1, :, 0])


def stand(engine: Engine) -> tuple[float, float]:
    """Return the drift of a standing cylinder in the 3 s after a drop [mm], and its largest speed at the end."""
    motion = engine.roll(Body(SHAPES["cylinder"], 1.0, (Start(height=0.6),)), 3.5)
    drift = motion.q[-1, 0, :2] - motion.q[motion.at(0.5), 0, :2]
    return 1e3 * float(np.linalg.norm(drift)), float(np.abs(motion.v[-1, 0]).max())


def landing(engine: Engine) -> tuple[np.ndarray, int]:
    """Drop a tilted box; return where it ends up [m], and which face is up: ±1, ±2 or ±3 for ±x, ±y or ±z."""
    scene = Body(SHAPES["box"], 1.0, (Start(height=0.6, euler=(30.0, 20.0, 0.0)),))
    q = engine.roll(scene, 4.0).q[-1, 0]
    w, x, y, z = q[3:] / np.linalg.norm(q[3:])
    up = np.array([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])  # in the box's axes
    axis = int(np.argmax(np.abs(up)))
    return q[:2], int(np.copysign(axis + 1, up[axis]))


def roll(engine: Engine) -> tuple[float, float, float]:
    """Roll a wheel at 1 m/s for 2 s; return its distance [m], its final speed [m/s] and its bounce [mm]."""
    turned = Start(height=WHEEL_RADIUS, euler=(90.0, 0.0, 0.0), velocity=(1.0, 0.0, 0.0, 0.0, 0.0, -1.0 / WHEEL_RADIUS))
    motion = engine.roll(Body('type="cylinder" size="0.1 0.03"', 1.0, (turned,)), 2.0, settle=0.5)
    heights = motion.q[:, 0, 2]
    return float(motion.q[-1, 0, 0]), float(motion.v[-1, 0, 0]), 1e3 * float(np.ptp(heights))


ELASTIC = ContactMaterial(stiffness=1e4, damping=0.0)


def elastic_energy(engine: Engine, seconds: float = 10.0) -> float:
    """Return the energy of an undamped ball of 1 kg that fell from 0.5 m [J]; at first 5.886."""
    motion = engine.roll(Body(SHAPES["sphere"], 1.0, (Start(height=0.6),), material=ELASTIC), seconds)
    return energy(motion)


def energy(motion: Motion, mass: float = 1.0, radius: float = 0.1, stiffness: float = 1e4) -> float:
    """Return kinetic, potential and elastic energy of a ball at the end [J]."""
    z, speed = motion.q[-1, 0, 2], motion.v[-1, 0, 2]
    depth = max(0.0, radius - z)
    return float(mass * (GRAVITY * z + speed**2 / 2) + stiffness * depth**2 / 2)


def push(engine: Engine, steps: int) -> float:
    """Push a plate at rest sideways with half of its weight; return its speed after some steps [m/s]."""
    plate = Body('type="box" size="0.1 0.1 0.002"', 3.0, (Start(height=0.001, slope=30.0),))
    return float(engine.roll(plate, steps * engine.h).v[-1, 0, 0])
