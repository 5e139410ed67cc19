"""Observation terms: functions of the world and of the action that led to it.

Values are in SI units and in world axes: x is forward, z is up.
"""

from __future__ import annotations

from collections.abc import Sequence

from ahac.core.errors import InputError
from ahac.envs.randomization import RandomizedValues
from ahac.envs.root import find_root
from ahac.envs.task import Action, ObsTerm
from ahac.sim import Joint, JointKind, Real, Vec3, World, cos, maximum, minimum, sin, sqrt

__all__ = [
    "actuator_force",
    "angular_velocity",
    "base_ang_vel",
    "base_lin_vel",
    "heading",
    "height",
    "joint_margin",
    "joint_pos",
    "joint_vel",
    "last_action",
    "limb_joint_pos",
    "limb_joint_vel",
    "orientation",
    "parameters",
    "planar_velocity",
    "projected_gravity",
    "root_angles",
    "root_angular_velocities",
    "root_velocities",
    "sin_cos",
    "uprightness",
    "values_of",
    "velocity",
    "yaw_frame_velocity",
]

VERTICAL = 1e-6
"""Squared horizontal length of a forward axis below which it points up or down, without a heading."""


def height(body: str) -> ObsTerm:
    """Height of a body's origin [m]."""
    return lambda world, action: world.position(body).z


def orientation(torso: str) -> ObsTerm:
    """Quaternion (w, x, y, z) of the free or ball joint that carries a torso."""

    def term(world: World, action: Action) -> list[Real]:
        ball = find_root(world.model, torso).ball
        if ball is None:
            raise InputError(f"{torso!r} of {world.model.name!r} has no free or ball joint; use root_angles")
        return _values(world, ball)

    return term


def velocity(body: str) -> ObsTerm:
    """Velocity of a body's origin [m/s]."""
    return lambda world, action: world.velocity(body)


def angular_velocity(body: str) -> ObsTerm:
    """Angular velocity of a body [rad/s]."""
    return lambda world, action: world.angular_velocity(body)


def base_lin_vel(body: str) -> ObsTerm:
    """Velocity of a body's origin in its own axes [m/s]."""
    return lambda world, action: world.rotation(body).transpose() @ world.velocity(body)


def base_ang_vel(body: str) -> ObsTerm:
    """Angular velocity of a body in its own axes [rad/s]."""
    return lambda world, action: world.rotation(body).transpose() @ world.angular_velocity(body)


def planar_velocity(body: str) -> ObsTerm:
    """Velocity of a body's origin in its yaw frame, forward and to the left [m/s], and its yaw rate [rad/s]."""
    return lambda world, action: [*list(yaw_frame_velocity(world, body))[:2], world.angular_velocity(body).z]


def projected_gravity(body: str) -> ObsTerm:
    """Direction of gravity in a body's own axes: (0, 0, −1) if it is upright."""
    return lambda world, action: world.rotation(body).transpose() @ Vec3(0.0, 0.0, -1.0)


def uprightness(body: str) -> ObsTerm:
    """Vertical component of a body's up axis: 1 upright, −1 upside down."""
    return lambda world, action: world.rotation(body).column(2).z


def heading(body: str) -> ObsTerm:
    """Component of a body's forward axis along x: 1 straight ahead, −1 backwards."""
    return lambda world, action: world.rotation(body).column(0).x


def root_angles(torso: str) -> ObsTerm:
    """Angles of the hinges between the world and a torso [rad]: the pitch of a planar robot."""

    def term(world: World, action: Action) -> list[Real]:
        return [world.q[j.q] for j in find_root(world.model, torso).joints if j.kind is JointKind.HINGE]

    return term


def root_angular_velocities(torso: str) -> ObsTerm:
    """Angular velocities of the hinges between the world and a torso [rad/s]."""

    def term(world: World, action: Action) -> list[Real]:
        return [world.v[j.v] for j in find_root(world.model, torso).joints if j.kind is JointKind.HINGE]

    return term


def root_velocities(torso: str) -> ObsTerm:
    """Velocities of all joints between the world and a torso [m/s] and [rad/s]."""
    return lambda world, action: [world.v[k] for j in find_root(world.model, torso).joints for k in j.dofs]


def limb_joint_pos(torso: str, measured: bool = False) -> ObsTerm:
    """Positions of all joints except the root's: angles [rad], lengths [m], quaternions.

    If `measured`, they include encoder offsets, which `randomize` draws as "joint_offset:*".
    """
    return lambda world, action: [
        x for joint in find_root(world.model, torso).non_root_joints for x in _values(world, joint, measured)
    ]


def limb_joint_vel(torso: str, scale: float = 1.0) -> ObsTerm:
    """Velocities of all joints except the root's [rad/s] and [m/s], multiplied by `scale`."""

    def term(world: World, action: Action) -> list[Real]:
        return [world.v[k] * scale for joint in find_root(world.model, torso).non_root_joints for k in joint.dofs]

    return term


def joint_pos(*joints: str, measured: bool = False) -> ObsTerm:
    """Positions of the named hinges and slides [rad] or [m], with encoder offsets if `measured`."""

    def term(world: World, action: Action) -> list[Real]:
        positions = [world.joint_position(name) for name in joints]
        if not measured:
            return positions
        index = {joint.name: joint.q for joint in world.model.joints}
        return [x + world.model.joint_offsets.get(index[name], 0.0) for name, x in zip(joints, positions, strict=True)]

    return term


def joint_vel(*joints: str) -> ObsTerm:
    """Velocities of the named hinges and slides [rad/s] or [m/s]."""
    return lambda world, action: [world.joint_velocity(name) for name in joints]


def actuator_force(*joints: str) -> ObsTerm:
    """Force of all actuators on hinges and slides [N m] or [N], at the current state and controls; a signal.

    Without names, on all hinges and slides that actuators drive directly. In an observation, the controls are those
    passed to the step: the action, without delays and `Task.control`.
    """

    def term(world: World, action: Action) -> list[Real]:
        single = {joint.name: joint.v for joint in world.model.joints if len(joint.dofs) == 1}
        driven = {k for actuator in world.model.actuators for k, _ in actuator.dofs}
        if unknown := [name for name in joints if name not in single]:
            raise InputError(f"no hinge or slide is named {unknown[0]!r}; the model has: {', '.join(single)}")
        indices = [single[name] for name in joints] or [v for v in single.values() if v in driven]
        return [world.actuator_force[v] for v in indices]

    return term


def joint_margin(*joints: str) -> ObsTerm:
    """Distance of hinges and slides to their nearer limit [rad] or [m], negative beyond it; a signal.

    Without names, of all that have limits.
    """

    def term(world: World, action: Action) -> list[Real]:
        limited = {j.name: (j.q, j.range) for j in world.model.joints if j.range is not None and len(j.dofs) == 1}
        if unknown := [name for name in joints if name not in limited]:
            raise InputError(f"no hinge or slide with limits is named {unknown[0]!r}; there are: {', '.join(limited)}")
        found = [limited[name] for name in joints] or list(limited.values())
        return [minimum(world.q[q] - low, high - world.q[q]) for q, (low, high) in found]

    return term


def sin_cos(joint: str) -> ObsTerm:
    """Sine and cosine of a hinge's angle."""
    return lambda world, action: [sin(world.joint_position(joint)), cos(world.joint_position(joint))]


def last_action() -> ObsTerm:
    """Previous action, clipped to [-1, 1]; zero at the start of an episode."""
    return lambda world, action: list(action)


def parameters(*patterns: str) -> ObsTerm:
    """Randomized parameters that match the patterns, each mapped to about unit range by its distribution.

    The policy of a robot usually cannot know them: use this term in the "critic" group.
    """

    def term(world: World, action: Action) -> list[Real]:
        if not isinstance(world.parameters, RandomizedValues):
            raise InputError("no parameter is randomized: set randomize={'body_mass:*': uniform(...)} in the task")
        return world.parameters.normalized(*patterns)

    return term


def values_of(term: ObsTerm, world: World, action: Action) -> list[Real]:
    """Return the numbers of an observation term."""
    value = term(world, action)
    return list(value) if isinstance(value, Vec3 | Sequence) else [value]


def yaw_frame_velocity(world: World, body: str) -> Vec3:
    """Return the velocity of a body's origin [m/s] in its yaw frame: level, with the body's heading as the x axis."""
    return to_yaw_frame(world, body, world.velocity(body))


def to_yaw_frame(world: World, body: str, vector: Vec3) -> Vec3:
    """Return a vector in world axes in the yaw frame of a body."""
    forward = world.rotation(body).column(0)
    scale = 1.0 / sqrt(maximum(forward.x * forward.x + forward.y * forward.y, VERTICAL))
    x, y = forward.x * scale, forward.y * scale
    return Vec3(x * vector.x + y * vector.y, x * vector.y - y * vector.x, vector.z)


def _values(world: World, joint: Joint, measured: bool = False) -> list[Real]:
    if joint.kind is JointKind.BALL:
        return world.q[joint.q : joint.q + 4]
    position = world.q[joint.q]
    return [position + world.model.joint_offsets.get(joint.q, 0.0) if measured else position]
