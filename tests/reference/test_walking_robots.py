# pyright: reportAttributeAccessIssue=false
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

from ahac.envs import make_task
from ahac.sim import Simulator, World, load_model
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
    tilt: float = 1e-6
    """By how much some contact points of the feet are higher than others in the stance [m]."""

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
GO2 = Robot(
    name="go2",
    drives=(Drive("*", 6.33**2 * ROTOR, 23.7), Drive("*_calf_joint", (6.33 * 45.43 / 23.7) ** 2 * ROTOR, 45.43)),
    stance=DOG_STANCE,
    points=15,
)

GO2_LINKS = {
    "base": (6.921, (0.021112, 0.0, -0.005366), (0.02448, 0.098077, 0.107, 0.00012166, 0.0014849, -3.12e-05)),
    "FL_hip": (0.678, (-0.0054, 0.00194, -0.000105), (0.00048, 0.000884, 0.000596, -3.01e-06, 1.11e-06, -1.42e-06)),
    "RR_hip": (0.678, (0.0054, -0.00194, -0.000105), (0.00048, 0.000884, 0.000596, -3.01e-06, -1.11e-06, 1.42e-06)),
    "FL_thigh": (1.152, (-0.00374, -0.0223, -0.0327), (0.00584, 0.0058, 0.00103, 8.72e-05, -0.000289, 0.000808)),
    "RR_thigh": (1.152, (-0.00374, 0.0223, -0.0327), (0.00584, 0.0058, 0.00103, -8.72e-05, -0.000289, -0.000808)),
}
"""Unitree's numbers of some links: mass, center of mass, and xx, yy, zz, xy, xz and yz of the inertia."""
GO2_CALF = (0.154, (0.00548, -0.000975, -0.115), (0.00108, 0.0011, 3.29e-05, 3.4e-07, 1.72e-05, 8.28e-06))
"""Those of the left calves, without the foot."""
GO2_FOOT = (0.04, (0.0, 0.0, -0.213), (9.6e-06, 9.6e-06, 9.6e-06, 0.0, 0.0, 0.0))
"""Those of the feet, in the axes of the calf."""


def geared(rotors: tuple[float, float, float], ratios: tuple[float, float]) -> float:
    """Return the armature of a motor with two planetary stages, from the inertias of its three shafts [kg m²]."""
    first, second = ratios
    return rotors[0] * (first * second) ** 2 + rotors[1] * second**2 + rotors[2]


M5020 = geared((0.139e-4, 0.017e-4, 0.169e-4), (1 + 46 / 18, 1 + 56 / 16))
M7520_14 = geared((0.489e-4, 0.098e-4, 0.533e-4), (4.5, 1 + 48 / 22))
M7520_22 = geared((0.489e-4, 0.109e-4, 0.738e-4), (4.5, 5.0))
M4010 = geared((0.068e-4, 0.0, 0.0), (5.0, 5.0))

G1 = Robot(
    name="g1",
    drives=(
        Drive("*", M5020, 25.0),
        Drive("*_hip_pitch_joint", M7520_14, 88.0),
        Drive("*_hip_yaw_joint", M7520_14, 88.0),
        Drive("*_hip_roll_joint", M7520_22, 139.0),
        Drive("*_knee_joint", M7520_22, 139.0),
        Drive("*_ankle_*_joint", 2.0 * M5020, 50.0),
        Drive("waist_*_joint", 2.0 * M5020, 50.0),
        Drive("waist_yaw_joint", M7520_14, 88.0),
        Drive("*_wrist_pitch_joint", M4010, 5.0),
        Drive("*_wrist_yaw_joint", M4010, 5.0),
    ),
    stance={
        "*_hip_pitch_joint": -0.312,
        "*_knee_joint": 0.669,
        "*_ankle_pitch_joint": -0.363,
        "*_elbow_joint": 0.6,
        "*_shoulder_pitch_joint": 0.2,
        "left_shoulder_roll_joint": 0.35,
        "right_shoulder_roll_joint": -0.35,
    },
    points=15,
    tilt=0.0011,
)
DOGS = [GO1, GO2]
ROBOTS = [*DOGS, G1]
OF_MJLAB = [GO1, G1]


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


def inertia_about_origin(mass: float, center: tuple[float, ...], inertia: tuple[float, ...]) -> np.ndarray:
    """Return the inertia about the origin of the body, from that about its center of mass."""
    xx, yy, zz, xy, xz, yz = inertia
    c = np.array(center)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) + mass * (c @ c * np.eye(3) - np.outer(c, c))


def body_inertia(model: mujoco.MjModel, name: str) -> np.ndarray:
    """Return the inertia of a body of the file about its origin."""
    body, axes = model.body(name), np.zeros(9)
    mujoco.mju_quat2Mat(axes, body.iquat)
    axes = axes.reshape(3, 3)
    c = body.ipos
    return axes @ np.diag(body.inertia) @ axes.T + body.mass * (c @ c * np.eye(3) - np.outer(c, c))


@pytest.mark.parametrize("name", GO2_LINKS)
def test_links_of_the_go2_are_those_of_unitree(name: str) -> None:
    mass, center, _ = GO2_LINKS[name]
    body = ours(GO2).body(name)
    assert body.mass[0] == mass
    np.testing.assert_allclose(body.ipos, center, atol=1e-12)
    expected = inertia_about_origin(*GO2_LINKS[name])
    np.testing.assert_allclose(body_inertia(ours(GO2), name), expected, atol=DIGITS * expected.max())


def test_the_foot_of_the_go2_is_part_of_its_calf() -> None:
    body = ours(GO2).body("FL_calf")
    assert body.mass[0] == pytest.approx(0.194)
    np.testing.assert_allclose(body.ipos, (0.0043501, -0.00077397, -0.13520619), atol=1e-7)
    expected = inertia_about_origin(*GO2_CALF) + inertia_about_origin(*GO2_FOOT)
    np.testing.assert_allclose(body_inertia(ours(GO2), "FL_calf"), expected, atol=DIGITS * expected.max())


def test_the_frame_of_the_go2_is_that_of_unitree() -> None:
    model = ours(GO2)
    assert model.body_mass.sum() == pytest.approx(6.921 + 4 * (0.678 + 1.152 + 0.154 + 0.04))
    for leg in ("FL", "FR", "RL", "RR"):
        front, left = (1.0 if leg[0] == "F" else -1.0), (1.0 if leg[1] == "L" else -1.0)
        assert tuple(model.body(f"{leg}_hip").pos) == (front * 0.1934, left * 0.0465, 0.0)
        assert tuple(model.body(f"{leg}_thigh").pos) == (0.0, left * 0.0955, 0.0)
        assert tuple(model.body(f"{leg}_calf").pos) == (0.0, 0.0, -0.213)
        assert tuple(model.joint(f"{leg}_hip_joint").range) == (-1.0472, 1.0472)
        assert tuple(model.joint(f"{leg}_thigh_joint").range) == ((-1.5708, 3.4907) if front > 0 else (-0.5236, 4.5379))
        assert tuple(model.joint(f"{leg}_calf_joint").range) == (-2.7227, -0.83776)
        axes = [tuple(model.joint(f"{leg}_{joint}_joint").axis) for joint in ("hip", "thigh", "calf")]
        assert axes == [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 1.0, 0.0)]


@pytest.mark.parametrize("seed", range(4))
def test_the_soles_of_the_g1_are_those_of_the_source(seed: int) -> None:
    us, them = (random_pose(model(G1), seed) for model in (ours, theirs))
    for side in ("left", "right"):
        foot = them.body(f"{side}_ankle_roll_link")
        corners = (sole(ours(G1), us, f"{side}_foot*") - foot.xpos) @ foot.xmat.reshape(3, 3)
        capsules = (sole(theirs(G1), them, f"{side}_foot*_collision") - foot.xpos) @ foot.xmat.reshape(3, 3)
        assert len(corners) == 4
        np.testing.assert_allclose(corners[:, 2], -0.035, atol=1e-6)
        np.testing.assert_allclose(capsules[:, 2], -0.035, atol=1e-6)
        for angle in np.linspace(0.0, 2.0 * math.pi, 24, endpoint=False):
            direction = np.array([math.cos(angle), math.sin(angle), 0.0])
            assert (corners @ direction).max() == pytest.approx((capsules @ direction).max(), abs=0.01)


def sole(model: mujoco.MjModel, data: mujoco.MjData, pattern: str) -> np.ndarray:
    """Return the points where spheres and capsules of a foot touch a ground that is parallel to the foot [N, 3]."""
    points = []
    for number in range(model.ngeom):
        geom = model.geom(number)
        if fnmatchcase(geom.name, pattern):
            down = -data.xmat[geom.bodyid[0]].reshape(3, 3)[:, 2]
            half = geom.size[1] if geom.type[0] == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0
            axis = half * data.geom_xmat[number].reshape(3, 3)[:, 2]
            points += [data.geom_xpos[number] + end * axis + geom.size[0] * down for end in (-1.0, 1.0)]
    return np.unique(np.round(points, 12), axis=0)


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
    np.testing.assert_allclose(lowest, 0.0, atol=robot.tilt)
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
@pytest.mark.parametrize("robot", DOGS, ids=named)
def test_a_quadruped_stands_under_its_servos(robot: Robot, engine: str) -> None:
    q = stand(robot, engine, seconds=2.0)
    assert q[2] == pytest.approx(ours(robot).key("home").qpos[2], abs=0.005)
    assert uprightness(q[3:7]) > 0.999


@pytest.mark.parametrize("engine", ["mujoco", "implicit"])
@pytest.mark.parametrize(("seconds", "stiffer"), [(0.8, 1.0), (2.0, 10.0)])
def test_the_g1_stands_for_a_while_under_its_servos_and_longer_under_stiffer_ones(
    seconds: float, stiffer: float, engine: str
) -> None:
    """Two ankles of 28 Nm/rad each cannot hold 33 kg up: the weight tips it with 226 Nm/rad."""
    q = stand(G1, engine, seconds, stiffer)
    assert q[2] == pytest.approx(ours(G1).key("home").qpos[2], abs=0.005)
    assert uprightness(q[3:7]) > 0.999


def stand(robot: Robot, engine: str, seconds: float, stiffer: float = 1.0) -> np.ndarray:
    """Return the positions after some time from the home pose, with the keyframe's targets.

    With stiffer servos the targets are as much closer to the pose, so that they hold the same weight.
    """
    spec = mujoco.MjSpec.from_file(str(robot.path))
    for servo in spec.actuators:
        servo.gainprm[0] *= stiffer
        servo.biasprm[1:3] *= stiffer
    model = spec.compile()
    home = model.key("home")
    targets = home.qpos[7:] + (home.ctrl - home.qpos[7:]) / stiffer
    if engine == "mujoco":
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        data = mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, data, home.id)
        data.ctrl[:] = targets
        mujoco.mj_step(model, data, round(seconds / model.opt.timestep))
        return data.qpos
    simulator = Simulator(load_model(spec.to_xml()), num_worlds=1, dt=0.02, substeps=4, dtype=torch.float64)
    state, control = simulator.rest_state("home"), torch.from_numpy(targets)[None]
    with torch.no_grad():
        for _ in range(round(seconds / simulator.dt)):
            state = simulator.step(state, control)
    return state.q[0].numpy()


def test_legs_that_come_close_cost() -> None:
    """The positions of links, from MuJoCo: the legs of a G1, turned inward."""
    model, data, task = ours(G1), mujoco.MjData(ours(G1)), make_task("g1")

    def gaps(roll: float) -> list[float]:
        mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
        for joint, angle in (("left_hip_roll_joint", -roll), ("right_hip_roll_joint", roll)):
            data.qpos[model.joint(joint).qposadr[0]] = angle
        mujoco.mj_kinematics(model, data)
        parts = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
        return [data.body(f"left_{part}_link").xpos[1] - data.body(f"right_{part}_link").xpos[1] for part in parts]

    stance, inward = gaps(0.0), gaps(0.15)
    expected = sum(max(0.0, 0.8 * wide - narrow) ** 2 for wide, narrow in zip(stance, inward, strict=True))
    assert expected > 0.0
    world = World(task.model, list(data.qpos), [0.0] * task.model.nv, [0.0] * task.model.nu)
    assert task.reward["legs_apart"](world, []) == pytest.approx(-100.0 * expected)
