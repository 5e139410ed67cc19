# pyright: reportAttributeAccessIssue=false
"""A task's robot as a MuJoCo model: a file of it, with the actuators of the task's model."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import mujoco
import numpy as np

from ahac.core.errors import InputError
from ahac.engines.mujoco_actuators import add_actuators
from ahac.engines.mujoco_joints import JointMap, match_joints
from ahac.sim import Model
from ahac.sim.model.friction import friction_between
from ahac.sim.model.source import Source, compile_spec, read_spec
from ahac.sim.model.types import Plane
from ahac.sim.model.unsupported import element_name

__all__ = ["MujocoRobot", "build_robot", "set_friction"]

GROUND_TYPES = (int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD))


@dataclass(frozen=True)
class MujocoRobot:
    """A robot that MuJoCo simulates."""

    raw: mujoco.MjModel
    joints: JointMap
    """Where the coordinates of the task's model are."""
    own_file: bool
    """Whether the file is that of the task's model."""

    def index(self, kind: str, name: str) -> int | None:
        """Return the number of a body, geom, tendon or joint; None if there is none of that name."""
        count = {"body": self.raw.nbody, "geom": self.raw.ngeom, "tendon": self.raw.ntendon, "joint": self.raw.njnt}
        return next((i for i in range(count[kind]) if element_name(self.raw, kind, i) == name), None)


def build_robot(model: Model, file: str | os.PathLike[str] | None = None) -> MujocoRobot:
    """Compile the robot of a task for MuJoCo.

    From the task's own file, joints keep armature and damping of the task's model, and geoms its friction with planes.
    Another file keeps all its own constants, but armature where it has none. Actuators are always those of the task's
    model, and its planes are added to a file without ground.

    Args:
        model: The task's model.
        file: MJCF or URDF file of the same robot; by default the file from which the model was loaded.
    """
    own = model.source
    if file is None and own is None:
        raise InputError(
            f"it is not known from which file {model.name!r} was loaded; pass the file: MujocoEngine(..., model=FILE)"
        )
    source = own if file is None else _like(own, file)
    assert source is not None, "there is a source or a file"
    spec = read_spec(source)
    spec.compiler.LRopt.mode = mujoco.mjtLRMode.mjLRMODE_NONE  # length ranges of muscles are those of the task's model
    first = compile_spec(spec, source)
    # The names of unnamed elements are numbers, which change with the ground.
    for kind, elements in (("joint", spec.joints), ("geom", spec.geoms)):
        for element in elements:
            element.name = element.name or element_name(first, kind, element.id)
    joints = match_joints(model, first)
    add_actuators(spec, model, lambda name: joints.names[name])
    if not any(int(geom.type) in GROUND_TYPES for geom in spec.geoms):
        _add_planes(spec, first, model.planes)
    raw = compile_spec(spec, source)
    if (raw.nu, raw.na) != (model.nu, model.na):
        raise InputError(
            f"the robot in MuJoCo has {raw.nu} controls and {raw.na} activations, the task's model {model.nu} and "
            f"{model.na}: an actuator of the file could not be carried over"
        )
    robot = MujocoRobot(raw, joints, file is None)
    _set_constants(robot, model)
    mujoco.mj_setConst(raw, mujoco.MjData(raw))
    return robot


def _like(own: Source | None, file: str | os.PathLike[str]) -> Source:
    """Return a file as the source of a model, read like the model's own."""
    floating, balance = (False, False) if own is None else (own.floating, own.balance_inertia)
    return Source(file, {}, floating, None, balance)


def _add_planes(spec: mujoco.MjSpec, raw: mujoco.MjModel, planes: Iterable[Plane]) -> None:
    """Add planes that all colliding geoms touch; without friction of their own, that of the geoms counts."""
    for plane in planes:
        normal, quat = np.array(plane.normal, dtype=float), np.zeros(4)
        mujoco.mju_quatZ2Vec(quat, normal)
        spec.worldbody.add_geom(
            name=plane.name if raw.ngeom == 0 or spec.geom(plane.name) is None else f"ground {plane.name}",
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=[0.0, 0.0, 0.05],
            pos=plane.offset * normal,
            quat=quat,
            friction=[0.0, 0.0, 0.0],
            contype=int(np.bitwise_or.reduce(raw.geom_conaffinity, initial=0)),
            conaffinity=int(np.bitwise_or.reduce(raw.geom_contype, initial=0)),
        )


def _set_constants(robot: MujocoRobot, model: Model) -> None:
    """Carry over what the task's model has in place of the file's constants."""
    raw, v = robot.raw, robot.joints.v
    armature = np.array(model.armature)
    raw.dof_armature[v] = np.where((raw.dof_armature[v] == 0.0) | robot.own_file, armature, raw.dof_armature[v])
    for joint in model.joints:
        j = raw.dof_jntid[v[joint.v]]
        if joint.force_range is not None and not raw.jnt_actfrclimited[j]:
            raw.jnt_actfrclimited[j], raw.jnt_actfrcrange[j] = True, joint.force_range
    if not robot.own_file:
        return
    raw.dof_damping[v] = np.array(model.damping)
    priority = int(raw.geom_priority.max(initial=0)) + 1
    for geom, friction in {c.geom: c.material.friction for c in model.contact_candidates}.items():
        g = robot.index("geom", geom)
        if g is not None and friction is not None and not _has_friction(raw, g, friction):
            set_friction(raw, [g], friction, priority)


def _has_friction(raw: mujoco.MjModel, geom: int, friction: float) -> bool:
    return all(friction_between(raw, geom, plane).sliding == friction for plane in _planes(raw))


def _planes(raw: mujoco.MjModel) -> list[int]:
    return [g for g in range(raw.ngeom) if int(raw.geom_type[g]) in GROUND_TYPES]


def set_friction(raw: mujoco.MjModel, geoms: Iterable[int], friction: float, priority: int) -> None:
    """Set the sliding friction of geoms, with such a priority that it counts in contacts with the ground.

    The geom of higher priority determines all of a contact, so these geoms take over what they shared with the ground
    before: the larger dimension, and the larger torsional and rolling friction.
    """
    planes = _planes(raw)
    for g in geoms:
        together = [g, *planes]
        raw.geom_condim[g] = raw.geom_condim[together].max()
        raw.geom_friction[g, 1:] = raw.geom_friction[together, 1:].max(axis=0)
        raw.geom_friction[g, 0] = friction
        raw.geom_priority[g] = priority
        pairs = np.flatnonzero((raw.pair_geom1 == g) | (raw.pair_geom2 == g))
        raw.pair_friction[pairs, :2] = friction
