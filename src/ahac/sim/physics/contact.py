"""Contact of balls, points, discs and ellipsoids on links with static planes, by a force law of depth and velocity.

With depth d > 0, point velocity u, normal n, normal speed s = n·u and slip u_t = u − n s:

    compliant    normal = max(0, ke d − kd min(d, d₀) s)           friction = −u_t min(kf, mu ke d / |u_t|)
    penalty      normal = ke d + kd d max(−s, 0)                   friction the same

Damping is scaled by depth (up to d₀ = 1 mm in the compliant law), so that the force is continuous at touch-down.
Friction is bounded by the elastic part alone. Contact between bodies is not simulated.

An explicit step takes the force at its start. An implicit step of h seconds takes it at the predicted depth d − h s,
and adds damping: of the normal force its derivative cn = h ∂f/∂d − ∂f/∂s, of friction the secant ct = |f_t| / |u_t|,
which slows a point down but never reverses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ahac.core.errors import TraceError
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import barrier, maximum, minimum, sqrt
from ahac.sim.compiler.reverse_mode import pullback
from ahac.sim.model.types import DISC_THICKNESS, ContactCandidate, ContactConstants, Model
from ahac.sim.physics.algebra import Mat3, Spatial, SpatialMatrix, Vec3, norm
from ahac.sim.physics.kinematics import Motion

__all__ = [
    "ContactLaw",
    "ContactPoint",
    "compliant",
    "contact_force",
    "contact_points",
    "implicit_wrenches",
    "penalty",
    "wrenches",
]

ContactLaw = Callable[[Real, Vec3, Vec3, ContactConstants], Vec3]
"""(depth >= 0 [m], point velocity [m/s], plane normal, material) -> force on the link [N], all in world axes."""

SLIP_FLOOR = 1e-12
"""Added to the squared slip speed [m²/s²]: at rest the friction law is exactly viscous, with a finite derivative."""


DAMPING_DEPTH = 1e-3
"""Depth d₀ [m] beyond which the damping of the compliant law no longer grows."""


def compliant(depth: Real, velocity: Vec3, normal: Vec3, material: ContactConstants) -> Vec3:
    """Return the force of a spring, a damper in both directions, and regularized Coulomb friction."""
    speed = velocity.dot(normal)
    elastic = depth * material.stiffness
    normal_force = maximum(0.0, elastic - minimum(depth, DAMPING_DEPTH) * material.damping * speed)
    return normal * normal_force - _friction(velocity - normal * speed, elastic, material)


def penalty(depth: Real, velocity: Vec3, normal: Vec3, material: ContactConstants) -> Vec3:
    """Return the force of a spring, a damper on approach, and regularized Coulomb friction: the law of dflex."""
    speed = velocity.dot(normal)
    elastic = depth * material.stiffness
    normal_force = elastic - depth * minimum(speed, 0.0) * material.damping
    return normal * normal_force - _friction(velocity - normal * speed, elastic, material)


def _friction(slip: Vec3, elastic: Real, material: ContactConstants) -> Vec3:
    return slip * minimum(material.viscosity, elastic * material.friction / norm(slip, SLIP_FLOOR))


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


def contact_points(model: Model, motion: Motion) -> list[ContactPoint]:
    """Return the state of every contact candidate."""
    points = []
    for candidate in model.contact_candidates:
        i, normal = candidate.link, Vec3.of(candidate.plane.normal)
        center = motion.position[i] + motion.rotation[i] @ Vec3.of(candidate.center)
        lowest = center - _support(candidate, motion.rotation[i], normal)
        depth = candidate.plane.offset - normal.dot(motion.origin[i]) - normal.dot(lowest)
        points.append(ContactPoint(candidate, normal, lowest, depth, motion.velocity[i].at(lowest)))
    return points


def wrenches(points: Iterable[ContactPoint], law: ContactLaw = penalty) -> dict[int, Spatial]:
    """Return the contact wrench on every link with contact candidates, about its tree's origin."""
    total: dict[int, Spatial] = {}
    for point in points:
        force = contact_force(law, point.depth, point.velocity, point)
        wrench = Spatial(point.position.cross(force), force)
        link = point.candidate.link
        total[link] = total[link] + wrench if link in total else wrench
    return total


def implicit_wrenches(
    points: Iterable[ContactPoint], law: ContactLaw, h: Scalar
) -> tuple[dict[int, Spatial], dict[int, SpatialMatrix]]:
    """Return the wrench and the implicit terms, h · damping + h² · stiffness, on every link with contact candidates."""
    total: dict[int, Spatial] = {}
    damping: dict[int, SpatialMatrix] = {}
    for point in points:
        force, along_normal, across = _implicit_response(law, point, h)
        wrench = Spatial(point.position.cross(force), force)
        matrix = SpatialMatrix.at_point(point.position, point.normal, h * along_normal, h * across)
        link = point.candidate.link
        total[link] = total[link] + wrench if link in total else wrench
        damping[link] = damping[link] + matrix if link in damping else matrix
    return total, damping


def _implicit_response(law: ContactLaw, point: ContactPoint, h: Scalar) -> tuple[Vec3, Real, Real]:
    """Return a law's force at the predicted depth, and its damping along the normal and across it."""
    normal, graph = point.normal, h.graph
    depth = barrier(graph, point.depth - h * point.velocity.dot(normal))
    velocity = [barrier(graph, x) for x in point.velocity]
    force = contact_force(law, depth, Vec3(*velocity), point)
    normal_force = force.dot(normal)
    by_depth, *by_velocity = pullback(graph, [(normal_force, 1.0)], [depth, *velocity])
    along_normal = maximum(0.0, h * by_depth - Vec3(*by_velocity).dot(normal))
    slip = point.velocity - normal * point.velocity.dot(normal)
    across = maximum(0.0, -(force.dot(slip) / (slip.dot(slip) + SLIP_FLOOR)))
    return force, along_normal, across


def contact_force(law: ContactLaw, depth: Real, velocity: Vec3, point: ContactPoint) -> Vec3:
    """Return a law's force for a signed depth; at depth zero its derivative is that of a point not in contact."""
    material = point.candidate.material
    assert isinstance(material, ContactConstants), "constants are chosen before the physics is traced"
    force = law(maximum(0.0, depth), velocity, point.normal, material)
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
