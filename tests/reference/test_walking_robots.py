"""The Go1 and the G1 against the files of mjlab they take their numbers from, and the Go2 against Unitree's table.

Our files have other shapes, and the armature and servos that mjlab adds in code. Inertias are written with seven digits
in the axes of the body, mjlab's with six in principal axes: mass matrices agree to 1e-6.
"""

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from ahac.sim import Simulator, load_model
from behavior.scenes import mjlab_folder

DIGITS = 1e-6
"""Relative: of the rounded inertias."""


@dataclass(frozen=True)
class Drive:
    """The servos of some joints."""

    joints: str
    """Pattern of their names."""
    armature: float
    strength: float


@dataclass(frozen=True, eq=False)
class Robot:
    """What a file should contain."""

    name: str
    drives: tuple[Drive, ...]
    """Those that match last count."""
    stance: dict[str, float]
    """Angles by pattern of joint names; others are zero."""
    points: int
    """That may touch the ground."""

    @property
    def path(self) -> Path:
        return Path(str(files("ahac.envs") / "assets" / f"{self.name}.xml"))

    def drive(self, joint: str) -> Drive:
        return [drive for drive in self.drives if fnmatchcase(joint, drive.joints)][-1]

    def angle(self, joint: str) -> float:
        return ([0.0] + [angle for pattern, angle in self.stance.items() if fnmatchcase(joint, pattern)])[-1]


ROTOR = 0.000111842
"""Inertia of a rotor of the quadrupeds [kg m²]."""
DOG_STANCE = {"?R_hip_joint": 0.1, "?L_hip_joint": -0.1, "*_thigh_joint": 0.9, "*_calf_joint": -1.8}

GO1 = Robot(
    name="go1",
    drives=(Drive("*", 6.0**2 * ROTOR, 23.7), Drive("*_calf_joint", 9.0**2 * ROTOR, 35.55)),
    stance=DOG_STANCE,
    points=15,
)
ROBOTS = [GO1]
OF_MJLAB = [GO1]


@cache
def ours(robot: Robot) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(robot.path))


@cache
def theirs(robot: Robot) -> mujoco.MjModel:
    """Return mjlab's robot, with the armature that mjlab adds in code."""
    folder = mjlab_folder() / "asset_zoo" / "robots" / f"unitree_{robot.name}"
    model = mujoco.MjModel.from_xml_path(str(folder / "xmls" / f"{robot.name}.xml"))
    for joint in range(1, model.njnt):
        model.dof_armature[model.jnt_dofadr[joint]] = robot.drive(model.joint(joint).name).armature
    return model


def named(value: object) -> str | None:
    return value.name if isinstance(value, Robot) else None


def joint_names(model: mujoco.MjModel) -> list[str]:
    return [model.joint(j).name for j in range(1, model.njnt)]


def random_pose(model: mujoco.MjModel, seed: int) -> mujoco.MjData:
    """Return a robot somewhere in its joint ranges, after forward kinematics and at rest."""
    random = np.random.default_rng(seed)
    data = mujoco.MjData(model)
    data.qpos[:3] = random.uniform(-1.0, 1.0, 3)
    data.qpos[3:7] = random.standard_normal(4)
    data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
    data.qpos[7:] = random.uniform(*model.jnt_range[1:].T)
    mujoco.mj_forward(model, data)
    return data


def mass_matrix(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    matrix = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, matrix)
    return matrix


@pytest.mark.parametrize("robot", OF_MJLAB, ids=named)
def test_bodies_and_joints_are_those_of_the_source(robot: Robot) -> None:
    us, them = ours(robot), theirs(robot)
    assert [us.body(b).name for b in range(us.nbody)] == [them.body(b).name for b in range(them.nbody)]
    assert joint_names(us) == joint_names(them)
    np.testing.assert_array_equal(us.jnt_axis, them.jnt_axis)
    np.testing.assert_array_equal(us.jnt_range, them.jnt_range)
    np.testing.assert_allclose(us.body_mass[1:], them.body_mass[1:], rtol=1e-12)
    np.testing.assert_allclose(us.dof_armature, them.dof_armature, rtol=DIGITS)
    np.testing.assert_array_equal(us.dof_damping, them.dof_damping)
    np.testing.assert_array_equal(us.dof_frictionloss, them.dof_frictionloss)


@pytest.mark.parametrize("robot", OF_MJLAB, ids=named)
@pytest.mark.parametrize("seed", range(4))
def test_mass_matrix_and_gravity_are_those_of_the_source(robot: Robot, seed: int) -> None:
    us, them = (random_pose(model(robot), seed) for model in (ours, theirs))
    expected = mass_matrix(theirs(robot), them)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(mass_matrix(ours(robot), us) / scale, expected / scale, atol=DIGITS)
    np.testing.assert_allclose(us.qfrc_bias, them.qfrc_bias, atol=DIGITS * np.abs(them.qfrc_bias).max())


@pytest.mark.parametrize("seed", range(4))
def test_the_feet_of_the_go1_are_those_of_the_source(seed: int) -> None:
    us, them = (random_pose(model(GO1), seed) for model in (ours, theirs))
    for leg in ("FR", "FL", "RR", "RL"):
        np.testing.assert_allclose(us.geom(f"{leg}_foot").xpos, them.geom(f"{leg}_foot_collision").xpos, atol=1e-9)
        np.testing.assert_array_equal(
            ours(GO1).geom(f"{leg}_foot").size, theirs(GO1).geom(f"{leg}_foot_collision").size
        )


@pytest.mark.parametrize("robot", ROBOTS, ids=named)
def test_servos_have_10_hz_and_a_damping_ratio_of_2_on_the_armature(robot: Robot) -> None:
    model = ours(robot)
    pulse = 2.0 * math.pi * 10.0
    names = joint_names(model)
    assert [model.actuator(a).name for a in range(model.nu)] == names
    for number, name in enumerate(names):
        drive, servo, joint = robot.drive(name), model.actuator(number), model.joint(name)
        assert servo.trnid[0] == joint.id
        assert joint.armature[0] == pytest.approx(drive.armature, rel=1e-6)
        assert servo.gainprm[0] == pytest.approx(drive.armature * pulse**2, rel=1e-5)
        assert -servo.biasprm[1] == servo.gainprm[0]
        assert -servo.biasprm[2] == pytest.approx(4.0 * drive.armature * pulse, rel=1e-5)
        assert tuple(servo.forcerange) == (-drive.strength, drive.strength)
        np.testing.assert_allclose(servo.ctrlrange, joint.range, rtol=1e-12)


@pytest.mark.parametrize("robot", ROBOTS, ids=named)
def test_the_home_pose_is_the_stance_with_the_feet_on_the_ground(robot: Robot) -> None:
    model, data = ours(robot), mujoco.MjData(ours(robot))
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    assert list(data.qpos[7:]) == [robot.angle(name) for name in joint_names(model)]
    feet = [g for g in range(model.ngeom) if model.geom_contype[g] and "_foot" in model.geom(g).name]
    lowest = data.geom_xpos[feet, 2] - model.geom_size[feet, 0]
    assert len(feet) >= 4
    np.testing.assert_allclose(lowest, 0.0, atol=5e-4)
    assert lowest.min() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("robot", ROBOTS, ids=named)
def test_nothing_is_dropped_and_few_points_touch_the_ground(robot: Robot) -> None:
    model = load_model(robot.path)
    assert model.notes == ()
    assert len(model.contact_candidates) == robot.points


def uprightness(quaternion: np.ndarray) -> float:
    """Return the z component of the body's z axis."""
    return float(1.0 - 2.0 * (quaternion[1] ** 2 + quaternion[2] ** 2))


@pytest.mark.parametrize("engine", ["mujoco", "implicit"])
def test_the_go1_stands_under_its_servos(engine: str) -> None:
    q = stand(GO1, engine, seconds=2.0)
    assert q[2] == pytest.approx(ours(GO1).key("home").qpos[2], abs=0.005)
    assert uprightness(q[3:7]) > 0.999


def stand(robot: Robot, engine: str, seconds: float) -> np.ndarray:
    """Return the positions after some time from the home pose, with the keyframe's targets."""
    if engine == "mujoco":
        model, data = ours(robot), mujoco.MjData(ours(robot))
        mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
        mujoco.mj_step(model, data, round(seconds / model.opt.timestep))
        return data.qpos
    simulator = Simulator(load_model(robot.path), num_worlds=1, dt=0.02, substeps=4, dtype=torch.float64)
    state, control = simulator.rest_state("home"), simulator.keyframe_control("home")
    with torch.no_grad():
        for _ in range(round(seconds / 0.02)):
            state = simulator.step(state, control)
    return state.q[0].numpy()
