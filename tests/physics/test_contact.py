"""Contact with planes against closed forms: rest, touch-down, sticking and sliding."""

import math

import numpy as np
import pytest
import torch

from ahac.sim import ContactMaterial, Integrator, load_model
from ahac.sim.model.types import ContactConstants
from support.integrators import INTEGRATORS
from support.marks import keep
from support.numeric_physics import Numeric
from support.robots import FREE_SPHERE, TETRAHEDRON, mjcf
from support.simulated import rollout

ROUNDING = 1e-9
"""Relative, of weights: forces are differences of coordinates of order one times a stiffness of 1e4."""

SETTLED = 1e-6
"""Relative, of what is left of a transient after a dozen of its time constants."""

MATERIAL = ContactConstants(stiffness=1e4, damping=1e5, viscosity=100.0, friction=0.6)

FLOOR = '<geom name="floor" type="plane" size="1 1 1" conaffinity="1"/>'

STANDING = {
    "sphere": ('type="sphere" size="0.1"', 0.1, 1),
    "lying capsule": ('type="capsule" size="0.1 0.2" euler="1.5707963267948966 0 0"', 0.1, 2),
    "standing capsule": ('type="capsule" size="0.1 0.2"', 0.3, 1),
    "box": ('type="box" size="0.1 0.2 0.3"', 0.3, 4),
    "cylinder": ('type="cylinder" size="0.1 0.2"', 0.2, 9),
    "ellipsoid": ('type="ellipsoid" size="0.1 0.2 0.3"', 0.3, 1),
    "cube of a mesh": ('type="mesh" mesh="cube"', 0.125, 4),
}
"""Geom, height of its center over its lowest points, and how many those are."""

CORNERS = " ".join(f"{x} {y} {z}" for x in (-0.125, 0.125) for y in (-0.125, 0.125) for z in (-0.125, 0.125))
CUBE = TETRAHEDRON.replace("</asset>", f'<mesh name="cube" vertex="{CORNERS}"/></asset>')


@pytest.mark.parametrize("shape", STANDING)
def test_depth_at_rest_carries_the_weight(shape: str) -> None:
    geom, height, points = STANDING[shape]
    mass, ke = 3.0, MATERIAL.stiffness
    body = f'<body pos="0.4 -0.3 1"><freejoint/><geom {geom} mass="{mass}"/></body>'
    ours = Numeric(mjcf(FLOOR + body, rest=CUBE), contact=MATERIAL)
    q, still = np.array(ours.model.rest_q), np.zeros(6)
    q[2] = height - mass * 9.81 / (points * ke)
    assert np.sum(ours.contacts(q, still)["depth"] > 0.0) == points
    assert np.abs(ours.acceleration(q, still, still, contact=True)).max() < ROUNDING * ke


def test_force_grows_from_zero_at_touch_down() -> None:
    ours = Numeric(FREE_SPHERE, contact=MATERIAL)
    ke = MATERIAL.stiffness
    kd = MATERIAL.damping
    speed = 3.0
    depth = np.array([-1e-3, -1e-9, 0.0, 1e-9, 1e-6, 1e-3])
    q = np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (6, 1))
    q[:, 2] = 0.1 - depth
    for sign, damping in ((-1.0, kd), (1.0, 0.0)):
        v = np.tile([0.0, 0.0, sign * speed, 0.0, 0.0, 0.0], (6, 1))
        force = ours.contacts(q, v)["force"][:, 0]
        wanted = np.maximum(depth, 0.0) * (ke + damping * speed)
        np.testing.assert_allclose(force[:, 2], wanted, rtol=1e-6, atol=1e-12)
        assert np.abs(force[:, :2]).max() == 0.0


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_ball_bounces_and_comes_to_rest(integrator: Integrator, device: torch.device) -> None:
    start = np.array([[0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0]])
    still = np.zeros((1, 6))
    model = load_model(FREE_SPHERE, contact=ContactMaterial(stiffness=1e4, damping=5e4, viscosity=1.0, friction=0.5))
    q, v = rollout(model, start, still, h=1e-4, frames=300, every=200, device=device, integrator=integrator)
    assert v[:, 0, 2].max() > 0.1, "it never bounced"
    assert abs(q[-1, 0, 2] - (0.1 - 2.0 * 9.81 / 1e4)) < SETTLED * 10
    # Nothing was pulled sideways or set spinning by a force along the vertical.
    assert np.abs(v[:, 0, [0, 1, 3, 4, 5]]).max() == 0.0


BLOCK = '<body name="block" pos="0 0 0.05"><freejoint/><geom type="box" size="0.3 0.3 0.05" mass="2"/></body>'


STEP = 5e-4


def settled_drift(
    model_text: str, force: np.ndarray, down: np.ndarray, device: torch.device, integrator: Integrator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Speed of flat blocks along `down`, their mean acceleration over the last 0.1 s, and their speed before.

    They start on the plane and are pushed by `force` [N, 6].
    """
    model = load_model(model_text, contact=MATERIAL)
    q = np.tile(model.rest_q, (len(force), 1))
    still = np.zeros_like(force)
    q, v = rollout(model, q, still, h=STEP, frames=12, every=100, force=force, device=device, integrator=integrator)
    speed = v[:, :, :3] @ down
    return speed[-1], (speed[-1] - speed[-3]) / 0.1, speed[-3]


def excess_friction(integrator: Integrator, deceleration: float, speed: np.ndarray) -> np.ndarray:
    """Largest share by which a sliding block accelerates too slowly.

    An implicit step multiplies friction by the speed at its end over that at its start, 1 + h a / v. A block then
    accelerates at (push − friction) / (mass + h friction / v).
    """
    return (STEP * deceleration / speed) * (integrator == "implicit")


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_pushed_block_sticks_inside_the_friction_cone_and_slides_outside(
    integrator: Integrator, device: torch.device
) -> None:
    mass = 2.0
    mu = MATERIAL.friction
    kf = MATERIAL.viscosity
    push = np.array([0.5, 0.85, 1.05, 2.0]) * mu * mass * 9.81
    force = np.zeros((4, 6))
    force[:, 0] = push
    speed, rate, before = settled_drift(mjcf(FLOOR + BLOCK), force, np.array([1.0, 0.0, 0.0]), device, integrator)
    # Sticking is viscous: four corners, each with kf times its speed. (The push tips the block a little, so that the
    # rear corners begin to slip at 0.92 of the cone.)
    np.testing.assert_allclose(speed[:2], push[:2] / (4.0 * kf), rtol=1e-3)
    wanted = push[2:] / mass - mu * 9.81
    slower = wanted / (1.0 + excess_friction(integrator, mu * 9.81, before[2:]))
    assert np.all(rate[2:] < 1.001 * wanted)
    assert np.all(rate[2:] > 0.999 * slower)


@pytest.mark.parametrize(
    ("share", "integrator"),
    keep(2, [(0.8, "implicit"), (1.5, "explicit"), (0.8, "explicit"), (1.5, "implicit")]),
)
def test_block_on_a_slope_sticks_below_the_angle_of_friction_and_slides_above(
    share: float, integrator: Integrator, device: torch.device
) -> None:
    mu, kf = MATERIAL.friction, MATERIAL.viscosity
    angle = math.atan(share * mu)
    tilted = f'<frame euler="0 {angle} 0">{FLOOR}{BLOCK}</frame>'
    down = np.array([math.cos(angle), 0.0, -math.sin(angle)])
    speed, rate, before = settled_drift(mjcf(tilted), np.zeros((1, 6)), down, device, integrator)
    if share < 1.0:
        assert speed[0] == pytest.approx(2.0 * 9.81 * math.sin(angle) / (4.0 * kf), rel=1e-3)
    else:
        wanted = 9.81 * (math.sin(angle) - mu * math.cos(angle))
        excess = float(excess_friction(integrator, mu * 9.81 * math.cos(angle), before[0]))
        assert 0.999 * wanted / (1.0 + excess) < rate[0] < 1.001 * wanted
