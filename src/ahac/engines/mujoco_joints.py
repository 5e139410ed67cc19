# pyright: reportAttributeAccessIssue=false
"""Joints of a task's model and of a MuJoCo model, matched by name."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from ahac.core.errors import InputError
from ahac.sim import JointKind, Model
from ahac.sim.model.unsupported import element_name

__all__ = ["FileJoint", "JointMap", "file_joints", "match_joints"]

FREE, BALL = int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL)
KINDS = {
    JointKind.BALL: BALL,
    JointKind.HINGE: int(mujoco.mjtJoint.mjJNT_HINGE),
    JointKind.SLIDE: int(mujoco.mjtJoint.mjJNT_SLIDE),
}
SIZES = {FREE: (7, 6), BALL: (4, 3)}
"""Numbers of position and velocity coordinates; (1, 1) for all others."""


@dataclass(frozen=True)
class FileJoint:
    """A joint as model files have it: a free joint is a single one."""

    name: str
    kind: int
    """MuJoCo's mjtJoint."""
    q: int
    """Index of its first position coordinate."""
    v: int
    """Index of its first velocity coordinate."""

    @property
    def coordinates(self) -> range:
        """Its position coordinates."""
        return range(self.q, self.q + SIZES.get(self.kind, (1, 1))[0])

    @property
    def dofs(self) -> range:
        """Its velocity coordinates."""
        return range(self.v, self.v + SIZES.get(self.kind, (1, 1))[1])


@dataclass(frozen=True)
class JointMap:
    """Where the coordinates of a task's model are in a MuJoCo model."""

    q: np.ndarray
    """[nq] index in qpos of each position coordinate."""
    v: np.ndarray
    """[nv] index in qvel of each velocity coordinate."""
    names: dict[str, str]
    """MuJoCo's name of each joint."""


def file_joints(model: Model) -> list[FileJoint]:
    """Return the joints of a model, with the slides and balls of free joints put together again."""
    free = {joint.name.rpartition(":")[0] for joint in model.joints if joint.spring_dofs}
    found: list[FileJoint] = []
    for joint in model.joints:
        if joint.kind is JointKind.BALL and joint.name in free:
            found.append(FileJoint(joint.name, FREE, joint.q - 3, joint.v - 3))
        elif not joint.spring_dofs:
            found.append(FileJoint(joint.name, KINDS[joint.kind], joint.q, joint.v))
    return found


def match_joints(model: Model, raw: mujoco.MjModel) -> JointMap:
    """Match the joints of two models by name; the only free joints of both match in any case."""
    ours = {joint.name: joint for joint in file_joints(model)}
    theirs = {
        joint.name: joint
        for joint in (
            FileJoint(
                element_name(raw, "joint", j), int(raw.jnt_type[j]), int(raw.jnt_qposadr[j]), int(raw.jnt_dofadr[j])
            )
            for j in range(raw.njnt)
        )
    }
    names = {name: name for name in ours}
    roots = [[joint.name for joint in side.values() if joint.kind == FREE] for side in (ours, theirs)]
    if all(len(side) == 1 for side in roots):
        names[roots[0][0]] = roots[1][0]
    _check(ours, theirs, names)
    q, v = np.zeros(model.nq, dtype=int), np.zeros(model.nv, dtype=int)
    for name, joint in ours.items():
        other = theirs[names[name]]
        q[list(joint.coordinates)], v[list(joint.dofs)] = list(other.coordinates), list(other.dofs)
    return JointMap(q, v, names)


def _check(ours: dict[str, FileJoint], theirs: dict[str, FileJoint], names: dict[str, str]) -> None:
    missing = [name for name, other in names.items() if other not in theirs]
    unknown = [name for name in theirs if name not in names.values()]
    if missing or unknown:
        parts = [f"lacks the joints {', '.join(missing)}"] if missing else []
        parts += [f"has joints that the task's model lacks: {', '.join(unknown)}"] if unknown else []
        raise InputError(
            f"the file does not have the joints of the task's model: it {' and '.join(parts)}; joints are matched by "
            "name, so rename them in the file, or fix joints of the file that the task does not have"
        )
    for name, other in names.items():
        if ours[name].kind != theirs[other].kind:
            kinds = [mujoco.mjtJoint(j.kind).name.removeprefix("mjJNT_").lower() for j in (ours[name], theirs[other])]
            raise InputError(f"joint {name!r} is a {kinds[0]} in the task's model, but a {kinds[1]} in the file")
