# pyright: reportAttributeAccessIssue=false
"""Equality constraints as stiff springs in implicit steps: how far they yield, and what they conserve."""

import math

import mujoco
import numpy as np
import pytest

from ahac.sim.physics.constraints import CONSTRAINT_RATE
from support.integrators import IMPLICIT
from support.numeric_physics import Numeric
from support.robots import mjcf

STEP = 1 / 240
FLOATING = 'gravity="0 0 0"'

FINGERS = """
<body name="left" pos="-0.1 0 0"><joint name="left" axis="0 1 0" damping="0.02"/>
  <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.02" mass="0.3"/></body>
<body name="right" pos="0.1 0 0"><joint name="right" axis="0 1 0" damping="0.02"/>
  <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.02" mass="0.3"/></body>
"""

FOUR_BAR = """
<body name="crank"><joint name="crank" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.02" mass="0.4"/>
  <body name="coupler" pos="0 0 0.2"><joint name="elbow" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.02" mass="0.8"/></body></body>
<body name="rocker" pos="0.4 0 0"><joint name="rocker" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.02" mass="0.4"/></body>
"""
LOOP = '<equality><connect body1="coupler" body2="rocker" anchor="0.4 0 0"/></equality>'
DRIVE = '<actuator><position joint="crank" kp="60" kv="6"/></actuator>'


def test_coupled_joint_tracks_the_other_one() -> None:
    """A gripper: one finger is driven, the other one mirrors it, also in the first steps of a hard push."""
    mirror = '<equality><joint joint1="left" joint2="right" polycoef="0 -1 0 0 0"/></equality>'
    servo = '<actuator><position joint="right" kp="20" kv="1"/></actuator>'
    ours = Numeric(mjcf(FINGERS, rest=mirror + servo, option=FLOATING), IMPLICIT)
    q, _ = ours.path([0.0, 0.0], [0.0, 0.0], STEP, 480, u=np.array([0.8]))
    assert q[-1, 1] == pytest.approx(0.8, abs=1e-3)
    # Half of the driving torque of up to 16 N m passes through the coupling; a rate of 200 / s and half the inertia of
    # a finger hold it within 0.1 rad then, and within a hair in the end.
    assert np.abs(q.sum(axis=1)).max() < 0.1
    assert np.abs(q[-1].sum()) < 1e-6


def test_locked_joint_leans_by_its_load_over_its_stiffness() -> None:
    lock = '<equality><joint joint1="left" polycoef="0.3 0 0 0 0"/></equality>'
    ours = Numeric(mjcf(FINGERS, rest=lock, option=FLOATING), IMPLICIT)
    [equality] = ours.model.equalities
    torque = 0.5
    q, v = ours.path([0.3, 0.0], [0.0, 0.0], STEP, 480, f=np.array([torque, 0.0]))
    lean = torque / (equality.effective_mass * CONSTRAINT_RATE**2)
    assert q[-1, 0] == pytest.approx(0.3 + lean, rel=1e-6)
    assert abs(v[-1, 0]) < 1e-6


def closure(q: np.ndarray) -> np.ndarray:
    """Gap [m] between the ends of the coupler and the rocker, whose angles are those of the file."""
    crank, elbow, rocker = np.moveaxis(q, -1, 0)
    end = 0.2 * np.stack([np.sin(crank), np.cos(crank)]) + 0.4 * np.stack(
        [np.cos(crank + elbow), -np.sin(crank + elbow)]
    )
    other = np.stack([0.4 + 0.2 * np.sin(rocker), 0.2 * np.cos(rocker)])
    return np.linalg.norm(end - other, axis=0)


def test_connect_closes_a_four_bar_loop() -> None:
    """A servo tilts a parallelogram with a load of 1.6 kg: the gap stays below 1 mm."""
    ours = Numeric(mjcf(FOUR_BAR, rest=LOOP + DRIVE), IMPLICIT)
    q, _ = ours.path([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], STEP, 360, u=np.array([0.8]))
    assert q[-1, 0] == pytest.approx(0.8, abs=0.1)
    assert closure(q).max() < 1e-3
    assert np.abs(q[:, 0] - q[:, 2]).max() < 0.02


def test_gap_of_a_loop_decays_critically() -> None:
    """A loop that starts 2 cm open closes within ten time constants, without swinging through."""
    ours = Numeric(mjcf(FOUR_BAR, rest=LOOP, option=FLOATING), IMPLICIT)
    q, _ = ours.path([0.0, 0.05, 0.0], [0.0, 0.0, 0.0], STEP, 48)
    gap = closure(q)
    assert gap[0] == pytest.approx(0.02, rel=0.01)
    assert gap[round(10.0 / CONSTRAINT_RATE / STEP) :].max() < 1e-3
    assert gap.max() == gap[0]


WELDED = """
<body name="base" pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="2"/></body>
<body name="tool" pos="0.3 0 1"><freejoint/><geom type="box" size="0.2 0.05 0.05" mass="1"/></body>
"""
WELD = '<equality><weld body1="base" body2="tool"/></equality>'


def relative_pose(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the tool in the base's frame: position, and angle from the first orientation."""
    places, angles = [], []
    for row in q:
        back = np.zeros(4)
        mujoco.mju_negQuat(back, row[3:7])
        place, turn = np.zeros(3), np.zeros(4)
        mujoco.mju_rotVecQuat(place, row[7:10] - row[:3], back)
        mujoco.mju_mulQuat(turn, back, row[10:14])
        places.append(place)
        angles.append(2.0 * math.atan2(float(np.linalg.norm(turn[1:])), abs(turn[0])))
    return np.array(places), np.array(angles)


def test_weld_holds_two_bodies_together() -> None:
    """Pushed with 9 N and 0.4 N m, the tool shifts by less than 2 mm and turns by less than 5 mrad."""
    ours = Numeric(mjcf(WELDED, rest=WELD, option=FLOATING), IMPLICIT)
    start = np.array(ours.model.rest_q)
    push = np.zeros(12)
    push[[7, 8, 11]] = 4.0, 8.0, 0.4
    q, v = ours.path(start, np.zeros(12), STEP, 60, f=push)
    place, angle = relative_pose(q)
    assert np.linalg.norm(v[-1, 6:9]) > 0.5, "it hardly moves"
    assert np.linalg.norm(place - place[0], axis=1).max() < 2e-3
    assert angle.max() < 5e-3


def momentum(source: str, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Linear momentum, and angular momentum about the center of mass, by MuJoCo."""
    model = mujoco.MjModel.from_xml_string(source)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_forward(model, data)
    mujoco.mj_subtreeVel(model, data)
    return np.concatenate([data.subtree_linvel[0] * model.body_subtreemass[0], data.subtree_angmom[0]])


ROBOT = mjcf(
    """
<body name="trunk" pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.2 0.3" mass="2" pos="0.05 0 0"/>
  <body name="arm" pos="0.1 0.2 0.3"><joint name="shoulder" axis="1 0 1" damping="30" frictionloss="1"/>
    <geom type="capsule" fromto="0 0 0 0 0.3 0.1" size="0.04" mass="1"/>
    <body name="hand" pos="0 0.3 0.1"><joint name="wrist" axis="0 1 0" stiffness="500" range="-0.2 0.2"/>
      <geom type="box" size="0.05 0.1 0.02" mass="0.5" pos="0 0.1 0"/></body></body>
  <body name="leg" pos="0 0 -0.3"><joint name="hip" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.04" mass="1"/></body></body>
""",
    rest="""
<equality><joint joint1="hip" joint2="wrist" polycoef="0 0.5 0 0 0"/></equality>
<actuator><position joint="shoulder" kp="4000" kv="100" forcerange="-60 60"/>
<position joint="hip" kp="300" kv="20"/></actuator>
""",
    option=FLOATING,
)
"""A free robot with every stiff force between its parts."""


def test_internal_forces_conserve_the_momentum_of_a_free_robot() -> None:
    """Implicit terms act between joints: at rest, one step leaves no momentum however hard the servos push.

    Over many steps the drift is that of the positions' integration, of first order in the step, as without any force.
    """
    ours = Numeric(ROBOT, IMPLICIT)
    start = np.array(ours.model.rest_q)
    start[7:] = [0.3, 0.4, -0.5]
    q, v = ours.path(start, np.zeros(9), STEP, 1, u=np.array([1.0, -1.0]))
    assert np.abs(v[1]).max() > 0.5, "nothing moves"
    # At the start's positions: a velocity belongs to the positions it was computed at.
    assert np.abs(momentum(ROBOT, start, v[1])).max() < 1e-10
    spun = np.array([0.3, -0.2, 0.1, 0.5, -0.4, 0.6, 0.0, 0.0, 0.0])
    drifts = []
    for steps in (60, 120):
        q, v = ours.path(start, spun, 0.2 / steps, steps, u=np.array([0.3, -0.5]))
        drifts.append(np.linalg.norm(momentum(ROBOT, q[-1], v[-1]) - momentum(ROBOT, start, spun)))
    assert drifts[0] < 0.05 * np.linalg.norm(momentum(ROBOT, start, spun))
    assert 1.6 < drifts[0] / drifts[1] < 2.5
