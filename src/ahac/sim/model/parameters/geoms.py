"""Parameters of contact points, by geom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ahac.sim.compiler.graph import Real
from ahac.sim.model.parameters.domains import FREE, NON_NEGATIVE, POSITIVE
from ahac.sim.model.parameters.draft import Draft
from ahac.sim.model.parameters.elements import XYZ, Element, Elements, Find, Put, Refusals, Refuse, three
from ahac.sim.model.types import ContactCandidate, Model

__all__ = ["material", "positions", "put_position", "put_radius", "radii", "touchless"]


def _points(model: Model) -> dict[str, list[ContactCandidate]]:
    """Return the contact points of every geom."""
    found: dict[str, list[ContactCandidate]] = {}
    for point in model.contact_candidates:
        found.setdefault(point.geom, []).append(point)
    return found


def touchless(model: Model) -> Refusals:
    """Return why geoms have no position or radius that can change."""
    points = _points(model)
    without = {name: "none of its contact points is used" for name in model.file_geoms if name not in points}
    shapes = {name: "it is neither a sphere nor a capsule" for name in points if not model.file_geoms[name].round}
    return {**shapes, **without}


def positions(model: Model) -> Elements:
    """Return the positions of all geoms with contact points."""
    return {name: Element(model.file_geoms[name].position, "m", FREE, XYZ) for name in _points(model)}


def put_position(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Move the contact points of a geom."""
    draft.move_geom(name, three(values))


def radii(model: Model) -> Elements:
    """Return the radii of spheres and capsules."""
    points = {name: found[0] for name, found in _points(model).items() if model.file_geoms[name].round}
    return {name: Element((point.radius,), "m", POSITIVE) for name, point in points.items()}


def put_radius(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set a radius."""
    draft.geom(name, lambda point: replace(point, radius=values[0]))


def material(constant: str, unit: str) -> tuple[Find, Put, Refuse]:
    """Return where a constant of the geoms' contact materials is, how to set it, and which geoms do not have it."""

    def elements(model: Model) -> Elements:
        found = {name: _constants(points, constant) for name, points in _points(model).items()}
        return {name: Element((v[0],), unit, NON_NEGATIVE) for name, v in found.items() if _is_single(v)}

    def put(draft: Draft, name: str, values: Sequence[Real]) -> None:
        change: dict[str, Any] = {constant: values[0]}
        draft.geom(name, lambda point: replace(point, material=replace(point.material, **change)))

    def refusals(model: Model) -> Refusals:
        reasons = {name: "none of its contact points is used" for name in model.file_geoms}
        for name, points in _points(model).items():
            found = _constants(points, constant)
            reasons[name] = f"its {constant} differs between planes"
            if None in found:
                reasons[name] = (
                    f"the simulator chooses its {constant}; set it with load_model(..., "
                    f"contact=ContactMaterial({constant}=...))"
                )
        return reasons

    return elements, put, refusals


def _constants(points: Iterable[ContactCandidate], constant: str) -> list[Any]:
    return list(dict.fromkeys(getattr(point.material, constant) for point in points))


def _is_single(values: Sequence[float | None]) -> bool:
    return len(values) == 1 and values[0] is not None
