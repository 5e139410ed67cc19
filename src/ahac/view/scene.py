"""The visible part of a model: visual geoms, planes, muscles and contact points.

A `Scene` is plain data that is saved with a trajectory, so the trajectory can be rendered without the model.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ahac.core.errors import InputError
from ahac.sim.model.types import DISC_THICKNESS, WORLD, ContactCandidate, Mesh, Model, Plane, Vector, VisualGeom

__all__ = ["ContactPoint", "Muscle", "Scene", "scene_of"]

ContactPoint = tuple[int, Vector, float, Vector]
"""Body, center in the body frame [m], radius [m], and normal of the plane that the point may touch."""


@dataclass(frozen=True)
class Muscle:
    """A muscle as a polyline through points on bodies."""

    name: str
    points: tuple[tuple[int, Vector], ...]
    """(body, position in the body frame [m]) of each point."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything needed to render a model; bodies are referred to by their index in `bodies`."""

    name: str
    """Name of the model."""
    bodies: tuple[str, ...]
    """Body names in the order of `Simulator.poses`; the first is the world, which is fixed."""
    visuals: tuple[VisualGeom, ...]
    """Shapes to draw."""
    planes: tuple[Plane, ...]
    """Static planes."""
    muscles: tuple[Muscle, ...] = ()
    """Muscles to draw."""
    contact_points: tuple[ContactPoint, ...] = ()
    """Contact candidates in the order of `Simulator.contacts`."""
    root: int = 0
    """Body that the camera follows."""
    weight: float = 1.0
    """Weight of all moving bodies [N], the unit of displayed forces; 1 if the robot has no weight."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to lists, numbers and strings; a mesh that several geoms share is stored once."""
        meshes = {id(geom.mesh): geom.mesh for geom in self.visuals if geom.mesh is not None}
        order = {key: number for number, key in enumerate(meshes)}
        visuals = [
            {**asdict(replace(geom, mesh=None)), "mesh": None if geom.mesh is None else order[id(geom.mesh)]}
            for geom in self.visuals
        ]
        return {
            "name": self.name,
            "bodies": list(self.bodies),
            "looks": visuals,
            "meshes": [{"vertices": _text(m.vertices, "<f4"), "faces": _text(m.faces, "<i4")} for m in meshes.values()],
            "planes": [asdict(plane) for plane in self.planes],
            "muscles": [asdict(muscle) for muscle in self.muscles],
            "touches": [list(point) for point in self.contact_points],
            "root": self.root,
            "weight": self.weight,
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Scene:
        """Restore a scene from the output of `to_dict`, also after a round trip through JSON."""
        try:
            meshes = [Mesh(_array(m["vertices"], "<f4"), _array(m["faces"], "<i4")) for m in content["meshes"]]
            return Scene(
                name=content["name"],
                bodies=tuple(content["bodies"]),
                visuals=tuple(_visual_geom(item, meshes) for item in content["looks"]),
                planes=tuple(Plane(**{**plane, "normal": tuple(plane["normal"])}) for plane in content["planes"]),
                muscles=tuple(
                    Muscle(muscle["name"], tuple((body, _vector(at)) for body, at in muscle["points"]))
                    for muscle in content["muscles"]
                ),
                contact_points=tuple(
                    (body, _vector(at), r, _vector(normal)) for body, at, r, normal in content["touches"]
                ),
                root=content["root"],
                weight=content["weight"],
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"not a scene written by Scene.to_dict: {error!r}; record the trajectory again") from error


def scene_of(model: Model) -> Scene:
    """Return the scene of a model."""
    bodies = tuple(model.bodies)
    number = {WORLD: 0} | {i: bodies.index(link.name) for i, link in enumerate(model.links)}
    muscles = tuple(
        Muscle(actuator.name, tuple((number[link], at) for link, at in actuator.tendon.points))
        for actuator in model.actuators
        if actuator.tendon is not None
    )
    points = tuple((number[c.link], c.center, _radius(c), c.plane.normal) for c in model.contact_candidates)
    weight = sum(link.mass for link in model.links) * math.hypot(*model.gravity)
    return Scene(model.name, bodies, model.visuals, model.planes, muscles, points, number[0], weight or 1.0)


def _radius(candidate: ContactCandidate) -> float:
    """Return the radius, of an ellipsoid or disc the smallest semi-axis; its arrow may begin inside the shape."""
    if candidate.axis is not None:
        return candidate.radius * DISC_THICKNESS
    return candidate.radius if candidate.semi_axes is None else min(candidate.semi_axes)


def _visual_geom(content: Mapping[str, Any], meshes: list[Mesh]) -> VisualGeom:
    mesh = None if content["mesh"] is None else meshes[content["mesh"]]
    plain: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in content.items()}
    return VisualGeom(**{**plain, "mesh": mesh})


def _vector(values: list[float]) -> Vector:
    x, y, z = values
    return x, y, z


def _text(array: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode("ascii")


def _array(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=dtype).reshape(-1, 3)
