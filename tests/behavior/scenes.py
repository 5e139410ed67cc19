# pyright: reportAttributeAccessIssue=false
"""Scenes that MuJoCo and the simulator both load: single bodies on a plane, and two legged robots with servos."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.util import find_spec
from math import cos, radians, sin
from pathlib import Path

import mujoco
import numpy as np

from ahac.sim import ContactMaterial

__all__ = ["G1", "GO1", "GO1_STIFF", "GRAVITY", "Body", "Legged", "Robot", "Scene", "Start", "mjlab_folder"]

GRAVITY = 9.81


@dataclass(frozen=True)
class Start:
    """Initial state of one world."""

    height: float = 0.0
    """Height of a body's origin [m]."""
    euler: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Rotation [deg] about x, then y, then z of the body."""
    velocity: tuple[float, ...] = (0.0,) * 6
    slope: float = 0.0
    """Angle by which gravity is tilted toward +x [deg]."""


class Scene(ABC):
    """A model, and the states in which its worlds start; scenes are hashable."""

    material: ContactMaterial | None = None

    @abstractmethod
    def source(self) -> str | mujoco.MjSpec:
        """Return what `load_model` loads."""

    @abstractmethod
    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions [N, nq], velocities [N, nv] and applied forces [N, nv]."""

    def compiled(self) -> mujoco.MjModel:
        """Return MuJoCo's model."""
        source = self.source()
        return mujoco.MjModel.from_xml_string(source) if isinstance(source, str) else source.compile()


@dataclass(frozen=True)
class Body(Scene):
    """A free body of one geom above the plane z = 0; every world starts in a state of its own."""

    geom: str
    mass: float
    starts: tuple[Start, ...]
    friction: float = 1.0
    material: ContactMaterial | None = None

    def source(self) -> str:
        """Return the MJCF text."""
        geom = f'<geom {self.geom} mass="{self.mass}" friction="{self.friction}"/>'
        return (
            f'<mujoco><option gravity="0 0 -{GRAVITY}"/><worldbody>'
            f'<geom type="plane" size="9 9 1" friction="{self.friction}"/>'
            f"<body><freejoint/>{geom}</body></worldbody></mujoco>"
        )

    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return one world per start; a slope is a force on the body, not a plane of its own."""
        q, v, force = np.zeros((len(self.starts), 7)), np.zeros((len(self.starts), 6)), np.zeros((len(self.starts), 6))
        for i, start in enumerate(self.starts):
            q[i, 2], q[i, 3:], v[i] = start.height, _quaternion(start.euler), start.velocity
            tilt = radians(start.slope)
            force[i, [0, 2]] = self.mass * GRAVITY * sin(tilt), self.mass * GRAVITY * (1.0 - cos(tilt))
        return q, v, force


def _quaternion(euler: tuple[float, float, float]) -> np.ndarray:
    found = np.empty(4)
    mujoco.mju_euler2Quat(found, np.radians(euler), "xyz")
    return found


@dataclass(frozen=True, eq=False)
class Robot:
    """A robot of mjlab, whose actuators are replaced by joint servos."""

    file: str
    height: float
    """Height of the root in the stance [m]."""
    stance: Mapping[str, float]
    """Joint angles of the stance [rad], by pattern of joint names; zero for the others."""
    servos: Mapping[str, tuple[float, float, float]]
    """Armature, kp and kv, by pattern of joint names."""

    def spec(self, slope: float = 0.0) -> mujoco.MjSpec:
        """Return the robot on the plane z = 0, with gravity tilted toward +x by an angle [deg]."""
        spec = mujoco.MjSpec.from_file(str(mjlab_folder() / "asset_zoo" / "robots" / self.file))
        for actuator in list(spec.actuators):
            spec.delete(actuator)
        for joint in spec.joints:
            if joint.type == mujoco.mjtJoint.mjJNT_FREE:
                continue
            joint.armature, kp, kv = next(servo for name, servo in self.servos.items() if fnmatch(joint.name, name))
            servo = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            servo.gainprm[0] = kp
            servo.biastype = mujoco.mjtBias.mjBIAS_AFFINE
            servo.biasprm[1:3] = -kp, -kv
        for geom in spec.geoms:  # they touch the ground and not each other
            geom.contype, geom.conaffinity = 0, min(1, geom.conaffinity)
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[9.0, 9.0, 1.0], contype=1, conaffinity=0)
        tilt = radians(slope)
        spec.option.gravity = [GRAVITY * sin(tilt), 0.0, -GRAVITY * cos(tilt)]
        return spec

    def targets(self) -> np.ndarray:
        """Return the angles of the stance [rad], in the order of the servos."""
        names = [actuator.name for actuator in self.spec().actuators]
        return np.array([next((x for key, x in self.stance.items() if fnmatch(name, key)), 0.0) for name in names])


@dataclass(frozen=True)
class Legged(Scene):
    """A robot in its stance, in several worlds."""

    robot: Robot
    slope: float = 0.0
    worlds: int = 1
    noise: float = 0.0
    """Standard deviation of joint angles [rad] and of all velocities, zero in the first world."""
    material: ContactMaterial | None = None

    def source(self) -> mujoco.MjSpec:
        """Return the robot with servos on the ground."""
        return self.robot.spec(self.slope)

    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the stance, with noise."""
        targets = self.robot.targets()
        stance = np.concatenate([[0.0, 0.0, self.robot.height, 1.0, 0.0, 0.0, 0.0], targets])
        q, v = np.tile(stance, (self.worlds, 1)), np.zeros((self.worlds, 6 + len(targets)))
        random = np.random.default_rng(0)
        q[1:, 7:] += self.noise * random.standard_normal((self.worlds - 1, len(targets)))
        v[1:] += self.noise * random.standard_normal((self.worlds - 1, v.shape[1]))
        return q, v, np.zeros_like(v)


def mjlab_folder() -> Path:
    """Return the folder of mjlab, which cannot be imported without its dependencies."""
    package = find_spec("mjlab")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent


def _g1_servo(armature: float) -> tuple[float, float, float]:
    """Return a servo with a natural frequency of 10 Hz on the armature alone, and a damping ratio of 2."""
    return armature, 3948.0 * armature, 251.0 * armature


GO1_STANCE = {"?R_hip_joint": 0.1, "?L_hip_joint": -0.1, "*_thigh_joint": 0.9, "*_calf_joint": -1.8}
GO1 = Robot("unitree_go1/xmls/go1.xml", 0.278, GO1_STANCE, {"*": (0.0, 40.0, 1.0)})
GO1_STIFF = Robot(
    "unitree_go1/xmls/go1.xml", 0.278, GO1_STANCE, {"*_calf_joint": _g1_servo(0.00906), "*": _g1_servo(0.00403)}
)
G1 = Robot(
    "unitree_g1/xmls/g1.xml",
    0.76,
    {
        "*_hip_pitch_joint": -0.312, "*_knee_joint": 0.669, "*_ankle_pitch_joint": -0.363, "*_elbow_joint": 0.6,
        "left_shoulder_roll_joint": 0.2, "right_shoulder_roll_joint": -0.2, "*_shoulder_pitch_joint": 0.2,
    },
    {
        "*_hip_pitch_joint": _g1_servo(0.0102), "*_hip_yaw_joint": _g1_servo(0.0102),
        "waist_yaw_joint": _g1_servo(0.0102), "*_hip_roll_joint": _g1_servo(0.0251), "*_knee_joint": _g1_servo(0.0251),
        "*_wrist_pitch_joint": _g1_servo(0.00425), "*_wrist_yaw_joint": _g1_servo(0.00425),
        "waist_*_joint": _g1_servo(0.00722), "*_ankle_*_joint": _g1_servo(0.00722), "*": _g1_servo(0.00361),
    },
)  # fmt: skip
