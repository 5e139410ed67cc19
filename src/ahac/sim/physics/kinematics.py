"""Forward kinematics: pose and velocity of every link, from root to leaf.

With joint columns S, velocity v and V_before the velocity of the link before the joint is applied:

    V = V_before + S v          A = A_before + crm(V_before) S v          A_0 = (0 ; −gravity)

A is the acceleration of the link if all v̇ = 0; gravity enters as an acceleration of the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ahac.sim.compiler.graph import Real
from ahac.sim.model.types import WORLD, Joint, JointKind, Link, Model
from ahac.sim.physics.algebra import ZERO, ZERO_SPATIAL, Mat3, Quat, Spatial, Vec3

__all__ = ["Motion", "forward"]


@dataclass
class Motion:
    """Pose and velocity of all links; lists are indexed by link, `joint_subspace` by velocity coordinate."""

    origin: list[Vec3] = field(default_factory=list)
    """Origin of the link's tree: the position of its root in the world."""
    position: list[Vec3] = field(default_factory=list)
    """Position of the link's frame relative to its tree's origin."""
    rotation: list[Mat3] = field(default_factory=list)
    velocity: list[Spatial] = field(default_factory=list)
    acceleration: list[Spatial] = field(default_factory=list)
    """Acceleration with all v̇ = 0, gravity included."""
    joint_subspace: dict[int, Spatial] = field(default_factory=dict)
    """Columns S: motion of the link per unit of each velocity coordinate."""


@dataclass
class _JointTransform:
    """Effect of one joint on its link's frame."""

    joint: Joint
    arm: Vec3
    """From the frame's position before the joint to the joint's anchor."""
    axes: list[Vec3]
    """World axes of the joint, one per velocity coordinate."""
    shift: Vec3
    """Displacement of the frame's position by the joint."""


def forward(model: Model, q: Sequence[Real], v: Sequence[Real]) -> Motion:
    """Return pose, velocity and bias acceleration of every link."""
    motion = Motion()
    gravity = Spatial(ZERO, -Vec3.of(model.gravity))
    for link in model.links:
        root = link.parent == WORLD
        rotation = Mat3.of(link.rotation) if root else motion.rotation[link.parent].times(Mat3.of(link.rotation))
        rotation, transforms = _apply_joints(link, rotation, q)
        if root:
            # Anchors are measured back from the root's final position: no difference of large world coordinates.
            cursors = [-total for total in accumulate((m.shift for m in reversed(transforms)), initial=ZERO)][::-1]
            motion.origin.append(sum((m.shift for m in transforms), Vec3.of(link.position)))
        else:
            start = motion.position[link.parent] + motion.rotation[link.parent] @ Vec3.of(link.position)
            cursors = list(accumulate((m.shift for m in transforms), initial=start))
            motion.origin.append(motion.origin[link.parent])
        velocity, acceleration = (
            (ZERO_SPATIAL, gravity) if root else (motion.velocity[link.parent], motion.acceleration[link.parent])
        )
        for m, cursor in zip(transforms, cursors, strict=False):
            step = ZERO_SPATIAL
            for k, column in enumerate(_joint_subspace(m, cursor + m.arm)):
                motion.joint_subspace[m.joint.v + k] = column
                step = step + column * v[m.joint.v + k]
            acceleration = acceleration + velocity.cross_motion(step)
            velocity = velocity + step
        motion.position.append(cursors[-1])
        motion.rotation.append(rotation)
        motion.velocity.append(velocity)
        motion.acceleration.append(acceleration)
    return motion


def _apply_joints(link: Link, rotation: Mat3, q: Sequence[Real]) -> tuple[Mat3, list[_JointTransform]]:
    transforms = []
    for joint in link.joints:
        anchor = Vec3.of(joint.anchor)
        arm = rotation @ anchor
        if joint.kind is JointKind.SLIDE:
            axes = [rotation @ Vec3.of(joint.axis)]
            shift = axes[0] * (q[joint.q] - joint.reference)
        elif joint.kind is JointKind.HINGE:
            axes = [rotation @ Vec3.of(joint.axis)]
            rotation = rotation.times(Mat3.about(Vec3.of(joint.axis), q[joint.q] - joint.reference))
            shift = arm - rotation @ anchor
        else:
            rotation = rotation.times(Quat.of(q[joint.q : joint.q + 4]).matrix())
            axes = [rotation.column(k) for k in range(3)]
            shift = arm - rotation @ anchor
        transforms.append(_JointTransform(joint, arm, axes, shift))
    return rotation, transforms


def _joint_subspace(transform: _JointTransform, anchor: Vec3) -> list[Spatial]:
    """Return the motion of the link per unit of each velocity coordinate of the joint."""
    if transform.joint.kind is JointKind.SLIDE:
        return [Spatial(ZERO, axis) for axis in transform.axes]
    return [Spatial(axis, anchor.cross(axis)) for axis in transform.axes]
