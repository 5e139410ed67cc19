"""Choose the constants of contact and of joint and tendon limits that a model does not set.

For explicit integration they are fixed numbers that suit small steps and robots of a few kilograms. Implicit
integration is stable for any constants, so they follow from the robot. For a robot of weight W that stands on n points:

    contact      ke = W / (n δ)        kd δ = 2 ζ √(ke W / (n g))        kf = W / (n v₀)
    limits       k = I ω²              c = 2 I ω, critical, with I the inertia that the joint moves

The robot sinks in by δ = 1 mm. While all points stick, it slips at less than v₀ if the tangential force is below its
weight. Damping is proportional to depth: the damping ratio is ζ at rest, and above critical in impacts deeper than
5 mm. A foot is much lighter than the robot and stops at a smaller depth, where damping is lower. With critical damping
at every depth, gradients over a second with several touch-downs are up to ten times as large.

A point that is higher than the lowest one by z < δ in the rest pose counts as 1 − z / δ points, so the depth is exact
for a robot that comes down in that pose.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields, replace
from math import sqrt
from typing import TypeVar

from ahac.sim.model.types import (
    ContactConstants,
    ContactMaterial,
    JointLimit,
    Link,
    Model,
    Plane,
)
from ahac.sim.physics.constraints import CONSTRAINT_RATE
from ahac.sim.physics.contact import contact_points
from ahac.sim.physics.kinematics import forward

__all__ = ["with_constants"]

Settings = TypeVar("Settings", ContactMaterial, JointLimit)

EXPLICIT_CONTACT = ContactConstants()
EXPLICIT_LIMIT = JointLimit(stiffness=1e3, damping=1.0)

REST_DEPTH = 1e-3
"""Depth to which a robot sinks in under its own weight, δ [m]."""
REST_DAMPING = 0.2
"""Damping ratio of the normal motion at that depth, ζ."""
CREEP_SPEED = 1e-3
"""Slip speed at which friction equals the weight, v₀ [m/s]."""
STANDARD_GRAVITY = 9.81
"""Gravity assumed for models without gravity [m/s²]."""


def with_constants(model: Model, implicit: bool) -> Model:
    """Return the model with a number for every constant of contact, joint limits and tendon limits."""
    materials = _contact_defaults(model) if implicit else [EXPLICIT_CONTACT] * len(model.contact_candidates)
    candidates = tuple(
        replace(candidate, material=ContactConstants(**_fill(candidate.material, material)))
        for candidate, material in zip(model.contact_candidates, materials, strict=True)
    )
    links = tuple(_with_limits(link, implicit) for link in model.links)
    tendons = tuple(
        replace(
            tendon,
            limit=JointLimit(**_fill(tendon.limit, _limit(tendon.effective_mass) if implicit else EXPLICIT_LIMIT)),
        )
        for tendon in model.tendons
    )
    if candidates == model.contact_candidates and links == model.links and tendons == model.tendons:
        return model
    return replace(model, contact_candidates=candidates, links=links, tendons=tendons)


def _with_limits(link: Link, implicit: bool) -> Link:
    joints = tuple(
        replace(joint, limit=JointLimit(**_fill(joint.limit, _limit(joint.inertia) if implicit else EXPLICIT_LIMIT)))
        for joint in link.joints
    )
    return replace(link, joints=joints)


def _fill(settings: Settings, defaults: Settings) -> dict[str, float]:
    """Return all settings by name, with defaults for those that are None."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {name: getattr(defaults, name) if value is None else value for name, value in values.items()}


def _limit(inertia: float) -> JointLimit:
    return JointLimit(stiffness=inertia * CONSTRAINT_RATE**2, damping=2.0 * inertia * CONSTRAINT_RATE)


def _contact_defaults(model: Model) -> list[ContactConstants]:
    """Return the constants of every contact candidate, derived from the weight of its tree."""
    if not model.contact_candidates:
        return []
    masses: dict[int, float] = defaultdict(float)
    for i, link in enumerate(model.links):
        masses[model.chain(i)[-1]] += link.mass
    pairs = [(model.chain(candidate.link)[-1], candidate.plane) for candidate in model.contact_candidates]
    supports = _support_counts(model, pairs)
    gravity = sqrt(sum(g * g for g in model.gravity)) or STANDARD_GRAVITY
    return [_contact_material(masses[pair[0]] / supports[pair], gravity) for pair in pairs]


def _contact_material(mass: float, gravity: float) -> ContactConstants:
    """Return the constants of one of the points that a robot stands on, which carries `mass`."""
    stiffness = mass * gravity / REST_DEPTH
    return ContactConstants(
        stiffness=stiffness,
        damping=2.0 * REST_DAMPING * sqrt(stiffness * mass) / REST_DEPTH,
        viscosity=mass * gravity / CREEP_SPEED,
        friction=1.0,
    )


def _support_counts(model: Model, pairs: list[tuple[int, Plane]]) -> dict[tuple[int, Plane], float]:
    """Return the number of points on which each tree, given by its root link, would stand on each plane."""
    points = contact_points(model, forward(model, model.rest_q, [0.0] * model.nv))
    depths: dict[tuple[int, Plane], list[float]] = {}
    for pair, point in zip(pairs, points, strict=True):
        depths.setdefault(pair, []).append(float(point.depth))
    return {
        pair: sum(max(0.0, 1.0 - (max(values) - value) / REST_DEPTH) for value in values)
        for pair, values in depths.items()
    }
