# pyright: reportAttributeAccessIssue=false
"""Motion without contact against closed forms and conservation laws."""

import math
from collections.abc import Callable

import mujoco
import numpy as np
import pytest
import torch

from ahac.sim import load_model
from support.mujoco_oracle import compiled, random_states
from support.robots import BALL_CHAIN, FREE_SPHERE, PENDULUM, mjcf
from support.simulated import rollout

ROUNDING = 1e-12
"""Sums of a few hundred float64 numbers of order one."""

FIRST_ORDER = (0.9, 1.1)
"""Where the measured order of a first-order method lies once the step is small."""

WITHOUT_DAMPING = BALL_CHAIN.replace("</mujoco>", '<option><flag damper="disable"/></option></mujoco>')

TUMBLER = mjcf(
    """
<body name="trunk" pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.2 0.3" mass="2" pos="0.05 0 0"/>
  <body name="arm" pos="0.1 0.2 0.3"><joint type="ball"/>
    <geom type="capsule" fromto="0 0 0 0 0.3 0.1" size="0.04" mass="1"/>
    <body name="hand" pos="0 0.3 0.1"><joint axis="1 0 1"/><joint type="slide" axis="0 1 0"/>
      <geom type="box" size="0.05 0.1 0.02" mass="0.5" pos="0 0.1 0"/></body></body></body>
""",
    option='gravity="0 0 0"',
)

TOP = mjcf("""
<body name="top"><joint type="ball"/><geom type="cylinder" size="0.1 0.01" mass="1" pos="0 0 0.1"/></body>
""")
"""A disk of radius 0.1 and half height 0.01, 0.1 above the point it spins on."""


def test_free_fall_is_the_exact_discrete_one(device: torch.device) -> None:
    h, steps = 1e-3, 200
    v0 = np.array([1.0, -2.0, 0.5, 3.0, -4.0, 5.0])
    start = np.array([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    q, v = (x[:, 0] for x in rollout(load_model(FREE_SPHERE), start[None], v0[None], h=h, frames=steps, device=device))
    n = np.arange(steps + 1)
    np.testing.assert_allclose(v[:, 2], 0.5 - 9.81 * h * n, atol=ROUNDING)
    np.testing.assert_allclose(q[:, 2], 1.0 + 0.5 * h * n - 9.81 * h * h * n * (n + 1) / 2, atol=ROUNDING)
    np.testing.assert_allclose(q[:, :2], np.outer(h * n, v0[:2]), atol=ROUNDING)
    # The inertia of a ball is the same about every axis: its spin is constant, and its rotation is Exp(t ω).
    np.testing.assert_allclose(v[:, 3:], np.tile(v0[3:], (steps + 1, 1)), atol=ROUNDING)
    half = np.linalg.norm(v0[3:]) * h * n / 2
    axis = v0[3:] / np.linalg.norm(v0[3:])
    np.testing.assert_allclose(q[:, 3:], np.column_stack([np.cos(half), np.outer(np.sin(half), axis)]), atol=ROUNDING)


@pytest.mark.parametrize("amplitude", [0.3, 1.5, 2.8])
def test_pendulum_has_the_period_of_the_elliptic_integral(amplitude: float, device: torch.device) -> None:
    mass = 1.0
    length = 0.7
    radius = 0.05
    h = 1e-3
    rate = math.sqrt(mass * 9.81 * length / (mass * length**2 + 0.4 * mass * radius**2))
    a, b = 1.0, math.cos(amplitude / 2)
    while a - b > 1e-15:
        a, b = (a + b) / 2, math.sqrt(a * b)
    period = 2 * math.pi / (rate * a)
    start, frames = np.array([[amplitude]]), int(1.4 * period / h)
    q = rollout(load_model(PENDULUM), start, np.zeros((1, 1)), h=h, frames=frames, device=device)[0][:, 0, 0]
    falling = np.flatnonzero((q[:-1] > 0.0) & (q[1:] <= 0.0))
    crossings = [h * (i + q[i] / (q[i] - q[i + 1])) for i in falling]
    assert len(crossings) == 2
    # The period of a symplectic method is off by O(h²), with a constant of order one in units of 1 / rate.
    assert abs(crossings[1] - crossings[0] - period) < period * (rate * h) ** 2


Quantity = Callable[[mujoco.MjModel, mujoco.MjData], np.ndarray]


def momenta(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Linear momentum, and angular momentum about the center of mass, of the whole model."""
    mujoco.mj_subtreeVel(model, data)
    return np.concatenate([data.subtree_linvel[0] * model.body_subtreemass[0], data.subtree_angmom[0]])


def energy(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Potential (gravity, springs) plus kinetic energy."""
    mujoco.mj_energyPos(model, data)
    mujoco.mj_energyVel(model, data)
    return np.array([data.energy.sum()])


@pytest.mark.parametrize(
    ("source", "quantity"),
    [(TUMBLER, momenta), (TUMBLER, energy), (WITHOUT_DAMPING, energy)],
    ids=["momenta of a tumbling chain", "energy of a tumbling chain", "energy of a chain on springs"],
)
def test_conserved_quantity_drifts_with_the_step_alone(source: str, quantity: Quantity, device: torch.device) -> None:
    theirs = compiled(source)
    time = 0.2
    steps = 200
    start = random_states(theirs, 1, seed=5)

    def measure(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        data = mujoco.MjData(theirs)
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(theirs, data)
        return quantity(theirs, data)

    first = measure(start[0][0], start[1][0])
    drifts = []
    for n in (steps, 2 * steps):
        q, v = rollout(load_model(source), *start, h=time / n, frames=1, every=n, device=device, integrator="explicit")
        drifts.append(np.linalg.norm(measure(q[-1, 0], v[-1, 0]) - first))
    assert drifts[0] < 0.01 * np.linalg.norm(first)
    assert FIRST_ORDER[0] < np.log2(drifts[0] / drifts[1]) < FIRST_ORDER[1]


def test_fast_top_precesses_and_its_quaternion_stays_unit(device: torch.device) -> None:
    spin = 300.0
    tilt = 0.5
    h = 1e-4
    steps = 4000
    start = np.array([[math.cos(tilt / 2), math.sin(tilt / 2), 0.0, 0.0]])
    # In steady precession Ω is along the vertical: ω = (0, Ω sin tilt, spin) in the top's axes, Ω ≈ m g l / (I₃ spin).
    rate = 9.81 * 0.1 / (0.5 * 0.1**2 * spin)
    v0 = np.array([[0.0, rate * math.sin(tilt), spin]])
    q, _ = rollout(load_model(TOP), start, v0, h=h, frames=1, every=steps, device=device)
    w, x, y, z = q[-1, 0]
    assert abs(np.linalg.norm(q[-1, 0]) - 1.0) < ROUNDING * 100
    upright = 1.0 - 2.0 * (x * x + y * y)
    heading = math.atan2(2.0 * (x * z + w * y), -2.0 * (y * z - w * x))
    wanted = rate * h * steps
    # To the next order in Ω / spin, and the first in h.
    assert abs(upright - math.cos(tilt)) < 0.01
    assert abs(heading - wanted) < 0.03 * wanted
