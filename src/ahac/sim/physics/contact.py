"""Contact of balls, points, discs and ellipsoids with static planes: a force law of depth and velocity.

With depth d > 0, point velocity u, normal n, normal speed s = n·u and slip u_t = u − n s:

    compliant    normal = max(0, ke d − kd d s)              friction = −u_t min(kf, mu normal / |u_t|)
    penalty      normal = ke d + kd d max(−s, 0)             friction = −u_t min(kf, mu ke d / |u_t|)

Damping is scaled by depth, so that the force is continuous at touch-down. Contact between bodies is not simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ahac.core.errors import TraceError
from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.operations import maximum, minimum, sqrt
from ahac.sim.model.types import DISC_THICKNESS, ContactCandidate, ContactConstants, Model, Plane
from ahac.sim.physics.algebra import Mat3, Spatial, Vec3, norm
from ahac.sim.physics.kinematics import Motion

__all__ = [
    "ContactLaw",
    "ContactPoint",
    "compliant",
    "contact_force",
    "contact_points",
    "contact_wrench",
    "depth_below",
    "penalty",
    "wrenches",
]

ContactLaw = Callable[[Real, Vec3, Vec3, ContactConstants], Vec3]
"""(depth >= 0 [m], point velocity [m/s], plane normal, material) -> force on the link [N], all in world axes."""

SLIP_FLOOR = 1e-12
"""Added to the squared slip speed [m²/s²], so that friction is exactly viscous at rest and its derivative finite."""


def compliant(depth: Real, velocity: Vec3, normal: Vec3, material: ContactConstants) -> Vec3:
    """Return the force of a spring, a damper on approach and separation, and regularized Coulomb friction.

    Args:
        depth: Penetration, 0 or more [m].
        velocity: Velocity of the point in world axes [m/s].
        normal: Unit normal of the plane.
        material: Constants of the contact.

    Returns:
        Force on the link in world axes [N].
    """
    speed = velocity.dot(normal)
    normal_force = maximum(0.0, depth * material.stiffness - depth * material.damping * speed)
    return normal * normal_force - _friction(velocity - normal * speed, normal_force, material)


def penalty(depth: Real, velocity: Vec3, normal: Vec3, material: ContactConstants) -> Vec3:
    """Return the force of a spring, a damper on approach, and regularized Coulomb friction: the law of dflex.

    Arguments and result are those of `compliant`.
    """
    speed = velocity.dot(normal)
    elastic = depth * material.stiffness
    normal_force = elastic - depth * minimum(speed, 0.0) * material.damping
    return normal * normal_force - _friction(velocity - normal * speed, elastic, material)


def _friction(slip: Vec3, load: Real, material: ContactConstants) -> Vec3:
    return slip * minimum(material.viscosity, load * material.friction / norm(slip, SLIP_FLOOR))


@dataclass(frozen=True)
class ContactPoint:
    """State of one contact candidate, in contact or not."""

    candidate: ContactCandidate
    normal: Vec3
    position: Vec3
    """Lowest point of the shape, relative to the tree's origin [m]."""
    depth: Real
    """Penetration [m]; negative is clearance."""
    velocity: Vec3
    """Velocity of the link's material at that point [m/s]."""

    @property
    def material(self) -> ContactConstants:
        """Constants of the contact."""
        material = self.candidate.material
        assert isinstance(material, ContactConstants), "constants are chosen before the physics is traced"
        return material


def contact_points(model: Model, motion: Motion) -> list[ContactPoint]:
    """Return the state of every contact candidate."""
    points = []
    for candidate in model.contact_candidates:
        i, normal = candidate.link, Vec3.of(candidate.plane.normal)
        center = motion.position[i] + motion.rotation[i] @ Vec3.of(candidate.center)
        lowest = center - _support(candidate, motion.rotation[i], normal)
        depth = depth_below(candidate.plane, motion.origin[i], lowest)
        points.append(ContactPoint(candidate, normal, lowest, depth, motion.velocity[i].at(lowest)))
    return points


def depth_below(plane: Plane, origin: Vec3, position: Vec3) -> Real:
    """Return the depth of a point below a plane, from its position relative to the origin of its tree."""
    normal = Vec3.of(plane.normal)
    return plane.offset - normal.dot(origin) - normal.dot(position)


def wrenches(points: Iterable[ContactPoint], law: ContactLaw) -> dict[int, Spatial]:
    """Return the contact wrench on every link with contact candidates, about its tree's origin."""
    total: dict[int, Spatial] = {}
    for point in points:
        wrench = contact_wrench(law, point.depth, point.velocity, point.position, point.normal, point.material)
        link = point.candidate.link
        total[link] = total[link] + wrench if link in total else wrench
    return total


def contact_wrench(
    law: ContactLaw, depth: Real, velocity: Vec3, position: Vec3, normal: Vec3, material: ContactConstants
) -> Spatial:
    """Return the wrench of a point on its link, about its tree's origin."""
    force = contact_force(law, depth, velocity, normal, material)
    return Spatial(position.cross(force), force)


def contact_force(law: ContactLaw, depth: Real, velocity: Vec3, normal: Vec3, material: ContactConstants) -> Vec3:
    """Return a law's force for a signed depth; at depth zero its derivative is that of a point not in contact."""
    force = law(maximum(0.0, depth), velocity, normal, material)
    if not isinstance(force, Vec3):
        raise TraceError(
            f"contact law {getattr(law, '__name__', law)!r} must return a Vec3, got {type(force).__name__}"
        )
    return force


def _support(candidate: ContactCandidate, rotation: Mat3, normal: Vec3) -> Vec3:
    """Return the vector from the shape's lowest point along the normal to its center.

    For an ellipsoid with semi-axes s and normal m in its own axes: (s² m) / |s m|. A disc is an ellipsoid of revolution
    with semi-axes r, r and ε r. With c = axis · normal and t = normal − c axis: r (t + ε² c axis) / √(|t|² + ε² c²).
    """
    if candidate.axis is not None:
        axis = rotation @ Vec3.of(candidate.axis)
        cosine = axis.dot(normal)
        across = normal - axis * cosine
        flat = cosine * DISC_THICKNESS
        scale = candidate.radius / sqrt(across.dot(across) + flat * flat)
        return (across + axis * (flat * DISC_THICKNESS)) * scale
    if candidate.semi_axes is None or candidate.rotation is None:
        return normal * candidate.radius
    axes = rotation.times(Mat3.of(candidate.rotation))
    scaled = Vec3(*(a * s for a, s in zip(axes.transpose() @ normal, candidate.semi_axes, strict=True)))
    lever = Vec3(*(a * s for a, s in zip(scaled, candidate.semi_axes, strict=True)))
    return axes @ lever / norm(scaled)
