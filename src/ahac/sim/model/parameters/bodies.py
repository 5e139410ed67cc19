"""Parameters of bodies: masses, inertias and positions."""

from __future__ import annotations

from collections.abc import Sequence

from ahac.sim.compiler.graph import Real
from ahac.sim.model.basics import WORLD
from ahac.sim.model.parameters.domains import FREE, MOMENTS, NON_NEGATIVE, POSITIVE
from ahac.sim.model.parameters.draft import Draft
from ahac.sim.model.parameters.elements import XYZ, Element, Elements, Refusals, three
from ahac.sim.model.parameters.inertial import PSEUDO_INERTIA
from ahac.sim.model.types import Connect, FileBody, Model, SiteDrive, SliderCrank, Weld

__all__ = [
    "centers",
    "masses",
    "moments",
    "positions",
    "pseudo",
    "put_center",
    "put_mass",
    "put_moments",
    "put_position",
    "put_pseudo",
    "static",
    "submerged",
    "unmovable",
    "weightless",
]


def _moving(model: Model) -> dict[str, FileBody]:
    return {name: body for name, body in model.file_bodies.items() if body.link != WORLD}


def _heavy(model: Model) -> dict[str, FileBody]:
    """Return all moving bodies that have a mass and an inertia of their own."""
    return {name: body for name, body in _moving(model).items() if body.mass > 0.0 and min(body.moments) > 0.0}


def weightless(model: Model) -> Refusals:
    """Return why bodies have no parameters of inertia."""
    static = {name: "it does not move" for name in model.file_bodies if name not in _moving(model)}
    light = {name: "the file gives it no inertia of its own" for name in _moving(model) if name not in _heavy(model)}
    return {**light, **static}


def static(model: Model) -> Refusals:
    """Return why bodies have no mass that matters."""
    return {name: why for name, why in weightless(model).items() if name not in _moving(model)}


def submerged(model: Model) -> Refusals:
    """Return why bodies have no pseudo-inertia."""
    if model.fluid is None:
        return weightless(model)
    return dict.fromkeys(model.file_bodies, "drag depends on its principal axes; use body_mass and body_inertia")


def masses(model: Model) -> Elements:
    """Return the masses of all moving bodies."""
    return {
        name: Element((body.mass,), "kg", POSITIVE if body.mass > 0.0 else NON_NEGATIVE)
        for name, body in _moving(model).items()
    }


def put_mass(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set a mass."""
    (draft.body(name).mass,) = values


def moments(model: Model) -> Elements:
    """Return the principal moments of inertia."""
    return {name: Element(body.moments, "kg m²", MOMENTS, XYZ) for name, body in _heavy(model).items()}


def put_moments(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the principal moments of inertia."""
    draft.body(name).moments = three(values)


def centers(model: Model) -> Elements:
    """Return the centers of mass."""
    return {name: Element(body.center_of_mass, "m", FREE, XYZ) for name, body in _heavy(model).items()}


def put_center(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set a center of mass."""
    draft.body(name).center_of_mass = three(values)


def pseudo(model: Model) -> Elements:
    """Return the log-Cholesky coordinates, which are zero for the inertia of the file."""
    zero = (0.0,) * len(PSEUDO_INERTIA)
    return {name: Element(zero, "", FREE, PSEUDO_INERTIA) for name in _heavy(model) if model.fluid is None}


def put_pseudo(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the log-Cholesky coordinates."""
    draft.body(name).pseudo = list(values)


def positions(model: Model) -> Elements:
    """Return the positions of all bodies that can be placed elsewhere in their parents' frames."""
    refused = unmovable(model)
    bodies = {name: body for name, body in model.file_bodies.items() if name not in refused}
    return {name: Element(body.position, "m", FREE, XYZ) for name, body in bodies.items()}


def unmovable(model: Model) -> Refusals:
    """Return why bodies have no position that can change."""
    held = _held_links(model)
    reasons: Refusals = {}
    for name, body in model.file_bodies.items():
        if body.free:
            reasons[name] = "its free joint's coordinates are absolute"
        elif body.link == WORLD:
            reasons[name] = "it does not move"
        elif not body.jointed and body.link in held:
            reasons[name] = (
                "it has no joint of its own, and its link carries tendons, sites of actuators or constraints, which "
                "would not follow"
            )
    return reasons


def _held_links(model: Model) -> set[int]:
    """Return the links with points that do not follow a body that is merged into them."""
    tendons = [tendon for tendon in model.tendons if tendon.points]
    held = {link for tendon in tendons for link, _ in tendon.points}
    held |= {obstacle.frame.link for tendon in tendons for _, obstacle in tendon.obstacles}
    frames = [[e.first, e.second] for e in model.equalities if isinstance(e, Connect | Weld)]
    for actuator in model.actuators:
        if isinstance(actuator.drive, SiteDrive):
            frames.append([frame for frame in (actuator.drive.site, actuator.drive.reference) if frame is not None])
        if isinstance(actuator.drive, SliderCrank):
            frames.append([actuator.drive.crank, actuator.drive.slider])
    return held | {frame.link for pair in frames for frame in pair}


def put_position(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the position of a body in its parent's frame."""
    draft.move_body(name, three(values))
