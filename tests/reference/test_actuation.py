# pyright: reportAttributeAccessIssue=false
"""What actuators do to the coordinates, against MuJoCo's qfrc_actuator."""

import mujoco
import numpy as np
import pytest

from ahac.sim import ModelError
from support.mujoco_oracle import compiled, random_states, settled
from support.numeric_physics import Numeric
from support.robots import LINEAR_MUSCLE_ARM, SERVO_ARM, mjcf

STATES = 8

EXACT = 1e-9
"""Relative, of the largest force: both sides compute in float64; ours goes through the mass matrix and back."""

LIMB = """
<body name="base" pos="0 0 1">
  <joint name="lift" type="slide" axis="0 0 1"/><joint name="yaw" axis="0 0 1"/>
  <geom type="box" size="0.1 0.2 0.1" mass="2"/>
  <site name="eye" pos="0.1 0.1 0"/>
  <body name="arm" pos="0.3 0 0">
    <joint name="bend" axis="0 1 0" {bend}/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.7"/>
    <site name="knuckle" pos="0.1 0.02 0.05"/><site name="tip" pos="0.3 0.05 0.1"/>
  </body>
</body>
<body name="rover" pos="0 1 1" euler="0.3 0.2 0.1">
  <freejoint name="root"/><geom type="box" size="0.1 0.2 0.05" mass="1"/><site name="ring" pos="0.1 0 0.1"/>
  <body name="head" pos="0.2 0 0"><joint name="neck" type="ball"/>
    <geom type="sphere" size="0.1" mass="0.5" pos="0.1 0 0"/></body>
</body>
"""
TENDONS = """
<tendon>
  <fixed name="sum">
    <joint joint="yaw" coef="0.7"/><joint joint="bend" coef="-1.3"/><joint joint="lift" coef="2"/>
  </fixed>
  <spatial name="inner"><site site="eye"/><site site="tip"/></spatial>
  <spatial name="across"><site site="eye"/><site site="knuckle"/><site site="tip"/><site site="ring"/></spatial>
</tendon>
"""

ACTUATORS = {
    "motor with gear": '<motor joint="bend" gear="-7"/>',
    "motor with control range": '<motor joint="bend" gear="3" ctrlrange="-0.5 1.5"/>',
    "motor on a slide": '<motor joint="lift" gear="30"/>',
    "motor with force range": '<motor joint="bend" gear="3" forcerange="-0.4 0.8"/>',
    "position servo": '<position joint="bend" kp="20" kv="2" gear="1.5"/>',
    "position servo on a slide": '<position joint="lift" kp="200" gear="0.5" ctrlrange="-0.2 0.3"/>',
    "velocity servo": '<velocity joint="yaw" kv="4" gear="2" forcerange="-5 3"/>',
    "affine actuator": '<general joint="bend" gainprm="3" biastype="affine" biasprm="0.7 -2 -0.3" gear="1.2"/>',
    "actuator in the parent's frame": '<motor jointinparent="bend" gear="2"/>',
    "motor along a fixed tendon": '<motor tendon="sum" gear="3"/>',
    "servo along a fixed tendon": '<position tendon="sum" kp="11" kv="0.3" gear="0.5"/>',
    "motor along a spatial tendon": '<motor tendon="inner" gear="5"/>',
    "motor between two trees": '<motor tendon="across" gear="5" ctrlrange="-1 1"/>',
    "servo along a spatial tendon": '<position tendon="across" kp="9" kv="1" gear="1.5" forcerange="-20 20"/>',
    "motor on a ball": '<motor joint="neck" gear="1 -2 3"/>',
    "motor on a free joint": '<motor joint="root" gear="1 -2 3 0.4 0 -0.6"/>',
    "several on one joint": '<motor joint="bend" gear="2"/><position joint="bend" kp="3"/><motor tendon="sum"/>',
}


def applied_force(ours: Numeric, q: np.ndarray, v: np.ndarray, control: np.ndarray) -> np.ndarray:
    """M (v̇ with the actuators − v̇ without)."""
    driven = ours.step(q, v, 1.0, u=control)[1] - v
    free = ours.acceleration(q, v, np.zeros_like(v), contact=True)
    return np.einsum("sij,sj->si", ours.mass_matrix(q), driven - free)


def both(source: str) -> tuple[np.ndarray, list[mujoco.MjData], mujoco.MjModel, np.ndarray]:
    """Our generalised forces [states, nv], MuJoCo's data and model, and the controls: some far outside any range."""
    theirs = compiled(source, actuation=True)
    q, v = random_states(theirs, STATES, seed=3)
    control = 2.0 * np.random.default_rng(4).normal(size=(STATES, theirs.nu))
    return applied_force(Numeric(source), q, v, control), settled(theirs, q, v, control=control), theirs, control


def assert_close(got: np.ndarray, wanted: np.ndarray) -> None:
    scale = np.abs(wanted).max()
    assert scale > 0.0, "the actuators do nothing here"
    assert np.abs(got - wanted).max() < EXACT * scale


@pytest.mark.parametrize("actuator", ACTUATORS.values(), ids=ACTUATORS.keys())
def test_actuator_pushes_as_in_mujoco(actuator: str) -> None:
    source = mjcf(LIMB.format(bend=""), rest=f"{TENDONS}<actuator>{actuator}</actuator>")
    force, data, _, _ = both(source)
    assert_close(force, np.stack([d.qfrc_actuator for d in data]))


@pytest.mark.parametrize("actuator", ["motor with gear", "motor along a fixed tendon", "several on one joint"])
def test_joint_bounds_what_its_actuators_do_together(actuator: str) -> None:
    limb = LIMB.format(bend='actuatorfrcrange="-1.5 2.5"')
    force, data, model, _ = both(mjcf(limb, rest=f"{TENDONS}<actuator>{ACTUATORS[actuator]}</actuator>"))
    bend = model.joint("bend").dofadr[0]
    assert {-1.5, 2.5} <= {round(float(d.qfrc_actuator[bend]), 9) for d in data}, "the bounds are never reached"
    assert_close(force, np.stack([d.qfrc_actuator for d in data]))


def test_joint_bounds_what_comes_along_a_spatial_tendon_or_the_model_is_refused() -> None:
    limb = LIMB.format(bend='actuatorfrcrange="-0.1 0.1"')
    source = mjcf(limb, rest=f"{TENDONS}<actuator>{ACTUATORS['motor along a spatial tendon']}</actuator>")
    try:
        force, data, _, _ = both(source)
    except ModelError:
        return
    assert_close(force, np.stack([d.qfrc_actuator for d in data]))


def test_file_can_switch_control_ranges_off() -> None:
    actuator = f"<actuator>{ACTUATORS['motor with control range']}</actuator>"
    flag = '<option><flag clampctrl="disable"/></option>'
    force, data, _, control = both(mjcf(LIMB.format(bend=""), rest=f"{TENDONS}{actuator}{flag}"))
    assert np.abs(control).max() > 1.5
    assert_close(force, np.stack([d.qfrc_actuator for d in data]))


def test_servo_arm_pushes_as_in_mujoco() -> None:
    force, data, _, _ = both(SERVO_ARM)
    assert_close(force, np.stack([d.qfrc_actuator for d in data]))


def test_muscles_pull_along_mujocos_moment_arms() -> None:
    force, data, model, control = both(LINEAR_MUSCLE_ARM)
    muscle = model.actuator_gaintype == mujoco.mjtGain.mjGAIN_MUSCLE
    strength = np.where(model.actuator_gainprm[:, 2] >= 0.0, model.actuator_gainprm[:, 2], 150.0 / model.actuator_acc0)
    wanted = []
    for d, u in zip(data, control, strict=True):
        moment = np.zeros((model.nu, model.nv))
        mujoco.mju_sparse2dense(moment, d.actuator_moment, d.moment_rownnz, d.moment_rowadr, d.moment_colind)
        wanted.append(np.where(muscle, -strength * np.clip(u, 0.0, 1.0), d.actuator_force) @ moment)
    assert muscle.tolist() == [True, True, True, False, False]
    assert_close(force, np.stack(wanted))
