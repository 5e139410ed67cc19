"""What is drawn of a model: shapes on bodies, planes, muscles, and the points that may touch.

A `Scene` is plain data that goes into a file with a trajectory, so that it can be drawn without the model.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ahac.core.errors import InputError
from ahac.sim.model.types import WORLD, ContactCandidate, Mesh, Model, Plane, Vector, VisualGeom

__all__ = ["ContactPoint", "Muscle", "Scene", "scene_of"]

ContactPoint = tuple[int, Vector, float, Vector]
"""Body, centre in its frame [m], radius [m], normal of the plane that it may touch."""


@dataclass(frozen=True)
class Muscle:
    """A straight-line path through points on bodies."""

    name: str
    points: tuple[tuple[int, Vector], ...]
    """(body, position in its frame [m])."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything about a model that a picture needs; bodies are numbered as in `bodies`."""

    name: str
    bodies: tuple[str, ...]
    """In the order of `Simulator.poses`; the first is the world, which stands still."""
    visuals: tuple[VisualGeom, ...]
    planes: tuple[Plane, ...]
    muscles: tuple[Muscle, ...] = ()
    contact_points: tuple[ContactPoint, ...] = ()
    """In the order of `Simulator.contacts`."""
    root: int = 0
    """The body that a camera follows."""
    weight: float = 1.0
    """Of everything that moves [N], by which forces are shown; 1 where nothing has weight."""

    def to_dict(self) -> dict[str, Any]:
        """Lists, numbers and texts alone; a mesh that several looks share is kept once."""
        meshes = {id(look.mesh): look.mesh for look in self.visuals if look.mesh is not None}
        order = {key: number for number, key in enumerate(meshes)}
        looks = [
            {**asdict(replace(look, mesh=None)), "mesh": None if look.mesh is None else order[id(look.mesh)]}
            for look in self.visuals
        ]
        return {
            "name": self.name,
            "bodies": list(self.bodies),
            "looks": looks,
            "meshes": [{"vertices": _text(m.vertices, "<f4"), "faces": _text(m.faces, "<i4")} for m in meshes.values()],
            "planes": [asdict(plane) for plane in self.planes],
            "muscles": [asdict(muscle) for muscle in self.muscles],
            "touches": [list(touch) for touch in self.contact_points],
            "root": self.root,
            "weight": self.weight,
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Scene:
        """What `to_dict` made, also after a way through JSON."""
        try:
            meshes = [Mesh(_array(m["vertices"], "<f4"), _array(m["faces"], "<i4")) for m in content["meshes"]]
            return Scene(
                name=content["name"],
                bodies=tuple(content["bodies"]),
                visuals=tuple(_look(look, meshes) for look in content["looks"]),
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
            raise InputError(f"this is not a scene as Scene.to_dict makes it: {error!r}; record it again") from error


def scene_of(model: Model) -> Scene:
    """What is drawn of a model."""
    bodies = tuple(model.bodies)
    number = {WORLD: 0} | {i: bodies.index(link.name) for i, link in enumerate(model.links)}
    muscles = tuple(
        Muscle(actuator.name, tuple((number[link], at) for link, at in actuator.tendon.points))
        for actuator in model.actuators
        if actuator.tendon is not None
    )
    touches = tuple((number[t.link], t.center, _radius(t), t.plane.normal) for t in model.contact_candidates)
    weight = sum(link.mass for link in model.links) * math.hypot(*model.gravity)
    return Scene(model.name, bodies, model.visuals, model.planes, muscles, touches, number[0], weight or 1.0)


def _radius(touch: ContactCandidate) -> float:
    """Of an ellipsoid the smallest: its arrow may begin a little inside."""
    return touch.radius if touch.semi_axes is None else min(touch.semi_axes)


def _look(content: Mapping[str, Any], meshes: list[Mesh]) -> VisualGeom:
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
