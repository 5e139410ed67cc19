"""Choose the constants of contact and joint limits that a model leaves open.

For explicit integration they are stable at small steps and suit robots of a few kilograms. Implicit integration is
stable with any constants, so they follow from the robot. If it stands on n points with its weight W:

    contact      ke = W / (n δ)        kd δ = 2 √(ke W / (n g)), critical        kf = W / (n v₀)
    limits       k = I ω²              c = 2 I ω, critical, with I the inertia that the joint moves

So it sinks in by δ = 1 mm, and slips at less than v₀ while the tangential force is below its weight.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from math import sqrt
from typing import TypeVar

from ahac.sim.model.types import (
    WORLD,
    ContactCandidate,
    ContactConstants,
    ContactMaterial,
    JointLimit,
    Link,
    Model,
)
from ahac.sim.physics.constraints import CONSTRAINT_RATE
from ahac.sim.physics.contact import DAMPING_DEPTH, contact_points
from ahac.sim.physics.kinematics import forward

__all__ = ["with_constants"]

Settings = TypeVar("Settings", ContactMaterial, JointLimit)

EXPLICIT_CONTACT = ContactConstants()
EXPLICIT_LIMIT = JointLimit(stiffness=1e3, damping=1.0)

REST_DEPTH = DAMPING_DEPTH
"""Depth to which a robot sinks in under its own weight, δ [m]."""
CREEP_SPEED = 1e-3
"""Slip speed at which friction equals the weight, v₀ [m/s]."""
SUPPORT_HEIGHT = 0.01
"""A robot stands on all points that are at most this much higher than its lowest one in the rest pose [m]."""
STANDARD_GRAVITY = 9.81
"""Gravity where the model has none [m/s²]."""


def with_constants(model: Model, implicit: bool) -> Model:
    """Return the model with a number for every constant of contact and joint limits."""
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
    """Return the constants of every contact candidate that follow from the weight of its tree."""
    if not model.contact_candidates:
        return []
    roots = [_root(model, candidate) for candidate in model.contact_candidates]
    masses = Counter[int]()
    for i, link in enumerate(model.links):
        masses[_root_of_link(model, i)] += link.mass  # pyright: ignore[reportArgumentType]
    supports = _support_counts(model, roots)
    gravity = sqrt(sum(g * g for g in model.gravity)) or STANDARD_GRAVITY
    return [_contact_material(masses[root] / supports[root], gravity) for root in roots]


def _contact_material(mass: float, gravity: float) -> ContactConstants:
    """Return the constants of one of the points that a robot stands on, which carries `mass`."""
    stiffness = mass * gravity / REST_DEPTH
    return ContactConstants(
        stiffness=stiffness,
        damping=2.0 * sqrt(stiffness * mass) / DAMPING_DEPTH,
        viscosity=mass * gravity / CREEP_SPEED,
        friction=1.0,
    )


def _support_counts(model: Model, roots: list[int]) -> dict[int, int]:
    """Return the number of points that each tree stands on in the rest pose, by the tree's root link."""
    points = contact_points(model, forward(model, model.rest_q, [0.0] * model.nv))
    depths = [float(point.depth) for point in points]
    lowest = {root: max(d for d, r in zip(depths, roots, strict=True) if r == root) for root in set(roots)}
    near = [root for d, root in zip(depths, roots, strict=True) if d > lowest[root] - SUPPORT_HEIGHT]
    return Counter(near)


def _root(model: Model, candidate: ContactCandidate) -> int:
    return _root_of_link(model, candidate.link)


def _root_of_link(model: Model, link: int) -> int:
    while model.links[link].parent != WORLD:
        link = model.links[link].parent
    return link
