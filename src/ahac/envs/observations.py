"""What a policy sees: parts of observations, each a function of the world and the action that led to it.

Lengths, speeds and angles are in SI units, in world axes: z is up and x is forward.
"""

from __future__ import annotations

from ahac.core.errors import InputError
from ahac.envs.root import find_root
from ahac.envs.task import Action, ObsTerm
from ahac.sim import Joint, JointKind, Real, World, cos, sin

__all__ = [
    "angular_velocity",
    "heading",
    "height",
    "joint_pos",
    "joint_vel",
    "last_action",
    "limb_joint_pos",
    "limb_joint_vel",
    "orientation",
    "root_angles",
    "root_angular_velocities",
    "root_velocities",
    "sin_cos",
    "uprightness",
    "velocity",
]  # fmt: skip


def height(body: str) -> ObsTerm:
    """How high a body's origin is [m]."""
    return lambda world, action: world.position(body).z


def orientation(torso: str) -> ObsTerm:
    """The quaternion (w, x, y, z) of the free or ball joint on which a torso hangs."""

    def sense(world: World, action: Action) -> list[Real]:
        ball = find_root(world.model, torso).ball
        if ball is None:
            raise InputError(f"{torso!r} of {world.model.name!r} hangs on no free or ball joint; use root_angles")
        return _values(world, ball)

    return sense


def velocity(body: str) -> ObsTerm:
    """Velocity of a body's origin [m/s]."""
    return lambda world, action: world.velocity(body)


def angular_velocity(body: str) -> ObsTerm:
    """Angular velocity of a body [rad/s]."""
    return lambda world, action: world.angular_velocity(body)


def uprightness(body: str) -> ObsTerm:
    """Vertical part of a body's upward axis: 1 upright, −1 upside down."""
    return lambda world, action: world.rotation(body).column(2).z


def heading(body: str) -> ObsTerm:
    """How much a body's forward axis points along x: 1 straight ahead, −1 backwards."""
    return lambda world, action: world.rotation(body).column(0).x


def root_angles(torso: str) -> ObsTerm:
    """Hinge angles between world and torso [rad]: the pitch of a planar robot."""

    def sense(world: World, action: Action) -> list[Real]:
        return [world.q[j.q] for j in find_root(world.model, torso).joints if j.kind is JointKind.HINGE]

    return sense


def root_angular_velocities(torso: str) -> ObsTerm:
    """Rates of the hinges between world and torso [rad/s]."""

    def sense(world: World, action: Action) -> list[Real]:
        return [world.v[j.v] for j in find_root(world.model, torso).joints if j.kind is JointKind.HINGE]

    return sense


def root_velocities(torso: str) -> ObsTerm:
    """Rates of all coordinates between world and torso [m/s] and [rad/s]."""
    return lambda world, action: [world.v[k] for j in find_root(world.model, torso).joints for k in j.dofs]


def limb_joint_pos(torso: str) -> ObsTerm:
    """Coordinates of all joints but the root's: angles [rad], lengths [m], quaternions."""
    return lambda world, action: [
        x for joint in find_root(world.model, torso).non_root_joints for x in _values(world, joint)
    ]


def limb_joint_vel(torso: str, scale: float = 1.0) -> ObsTerm:
    """Rates of all joints but the root's, scaled."""

    def sense(world: World, action: Action) -> list[Real]:
        return [world.v[k] * scale for joint in find_root(world.model, torso).non_root_joints for k in joint.dofs]

    return sense


def joint_pos(*joints: str) -> ObsTerm:
    """Coordinates of these hinges and slides [rad] or [m]."""
    return lambda world, action: [world.joint_position(name) for name in joints]


def joint_vel(*joints: str) -> ObsTerm:
    """Rates of these hinges and slides [rad/s] or [m/s]."""
    return lambda world, action: [world.joint_velocity(name) for name in joints]


def sin_cos(joint: str) -> ObsTerm:
    """Sine and cosine of a hinge's angle."""
    return lambda world, action: [sin(world.joint_position(joint)), cos(world.joint_position(joint))]


def last_action() -> ObsTerm:
    """The action that led here, clipped to [-1, 1]; zero at the start of an episode."""
    return lambda world, action: list(action)


def _values(world: World, joint: Joint) -> list[Real]:
    return world.q[joint.q : joint.q + (4 if joint.kind is JointKind.BALL else 1)]
