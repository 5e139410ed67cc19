"""Convert a scene and its poses into instances of triangle meshes, for any viewer; the meshes are in `shapes`.

Visual geoms that share a mesh form one batch: between frames, only the poses of its instances change. A capsule is
drawn as a cylinder and two spheres, so capsules of all sizes share two meshes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahac.sim.model.types import VisualGeom
from ahac.view.quaternions import multiply, rotate
from ahac.view.scene import Scene
from ahac.view.shapes import Triangles, box, cylinder, sphere
from ahac.view.trajectory import Frame, contact_points

__all__ = ["MeshBatch", "MusclePaths", "arrows", "batches", "bounding_radius", "muscle_colors"]

Array = NDArray[np.float32]

RESTING = np.array([0.30, 0.38, 0.72])
PULLING = np.array([0.92, 0.16, 0.12])
"""sRGB colors of a muscle at activation 0 and 1."""

Z_FIGHT_SCALE = 0.008
"""Relative size difference of neighboring geoms, so that coincident surfaces of two colors do not flicker."""

WEIGHT_ARROW = 1.5
"""Length of the arrow of a force equal to the robot's weight, in units of the robot's reach."""

LONGEST_ARROW = 3.0
"""Maximum arrow length, in units of the robot's reach."""

SMALLEST_FORCE = 0.01
"""Forces below this fraction of the robot's weight have no arrow."""


@dataclass(frozen=True, eq=False)
class MeshBatch:
    """K instances of one mesh."""

    name: str
    mesh: Triangles
    body: NDArray[np.int64]
    """[K] body of each instance."""
    position: Array
    """[K, 3] position in the body frame [m]."""
    quaternion: Array
    """[K, 4] rotation in the body frame."""
    scale: Array
    """[K, 3] scale along the mesh axes."""
    color: Array
    """[K, 4] RGBA in [0, 1]."""

    def poses(self, position: Array, quaternion: Array) -> tuple[Array, Array]:
        """Return instance positions [N, K, 3] and quaternions [N, K, 4] from body poses [N, B, 3] and [N, B, 4]."""
        body_quaternion = quaternion[:, self.body]
        return (
            position[:, self.body] + rotate(body_quaternion, self.position),
            multiply(body_quaternion, self.quaternion),
        )


@dataclass(frozen=True, eq=False)
class MusclePaths:
    """The S straight segments of all muscles."""

    start_body: NDArray[np.int64]
    end_body: NDArray[np.int64]
    start: Array
    """[S, 3] start in the frame of `start_body` [m]."""
    end: Array
    """[S, 3] end in the frame of `end_body` [m]."""
    muscle: NDArray[np.int64]
    """[S] muscle of each segment."""

    @staticmethod
    def of(scene: Scene) -> MusclePaths:
        """Return the segments of a scene's muscles."""
        segments = [
            (k, a, b)
            for k, muscle in enumerate(scene.muscles)
            for a, b in zip(muscle.points, muscle.points[1:], strict=False)
        ]
        return MusclePaths(
            np.array([a[0] for _, a, _ in segments], dtype=np.int64),
            np.array([b[0] for _, _, b in segments], dtype=np.int64),
            np.array([a[1] for _, a, _ in segments], dtype=np.float32).reshape(-1, 3),
            np.array([b[1] for _, _, b in segments], dtype=np.float32).reshape(-1, 3),
            np.array([k for k, _, _ in segments], dtype=np.int64),
        )

    def ends(self, position: Array, quaternion: Array) -> tuple[Array, Array]:
        """Return where the segments begin and end, each [N, S, 3], from body poses [N, B, 3] and [N, B, 4]."""
        a, b = self.start_body, self.end_body
        start = position[:, a] + rotate(quaternion[:, a], self.start)
        return start, position[:, b] + rotate(quaternion[:, b], self.end)


def batches(scene: Scene) -> tuple[MeshBatch, ...]:
    """Group the visual geoms of a scene by mesh."""
    number = {name: i for i, name in enumerate(scene.bodies)}
    groups: dict[str, tuple[Triangles, list[tuple[int, VisualGeom, np.ndarray, np.ndarray]]]] = {}
    meshes: dict[int, str] = {}
    for i, geom in enumerate(scene.visuals):
        for name, mesh, offset, scale in _parts(geom, meshes):
            position = np.add(geom.position, rotate(np.array(geom.quaternion), offset))
            size = scale * (1.0 - Z_FIGHT_SCALE * (i % 3))
            groups.setdefault(name, (mesh, []))[1].append((number[geom.body], geom, position, size))
    return tuple(
        MeshBatch(
            name,
            mesh,
            np.array([body for body, *_ in items], dtype=np.int64),
            np.array([position for _, _, position, _ in items], dtype=np.float32),
            np.array([geom.quaternion for _, geom, _, _ in items], dtype=np.float32),
            np.array([scale for *_, scale in items], dtype=np.float32),
            np.array([geom.color for _, geom, _, _ in items], dtype=np.float32),
        )
        for name, (mesh, items) in groups.items()
    )


def _parts(geom: VisualGeom, meshes: dict[int, str]) -> Iterator[tuple[str, Triangles, np.ndarray, np.ndarray]]:
    """Yield (batch name, mesh, offset in the geom frame, scale) for each mesh that a geom is drawn with."""
    a, b, _ = geom.size
    center = np.zeros(3)
    if geom.mesh is not None:
        name = meshes.setdefault(id(geom.mesh), f"mesh {len(meshes)}")
        surface = Triangles(geom.mesh.vertices.astype(np.float32), geom.mesh.faces.astype(np.uint32), flat=True)
        yield name, surface, center, np.ones(3)
    elif geom.kind == "box":
        yield "boxes", box(), center, np.array(geom.size)
    elif geom.kind == "ellipsoid":
        yield "balls", sphere(), center, np.array(geom.size)
    elif geom.kind == "sphere":
        yield "balls", sphere(), center, np.full(3, a)
    else:
        yield "cylinders", cylinder(), center, np.array([a, a, b])
        if geom.kind == "capsule":
            for end in (-b, b):
                yield "balls", sphere(), np.array([0.0, 0.0, end]), np.full(3, a)


def bounding_radius(scene: Scene, frame: Frame) -> float:
    """Return the largest distance of the robot's surface from its root in world 0 [m], at least 0.1."""
    root = frame.position[0, scene.root]
    farthest = 0.1
    for batch in batches(scene):
        position, quaternion = (values[0] for values in batch.poses(frame.position[:1], frame.quaternion[:1]))
        for k in np.flatnonzero(batch.body != 0):
            corners = position[k] + rotate(quaternion[k], batch.scale[k] * batch.mesh.vertices)
            farthest = max(farthest, float(np.linalg.norm(corners - root, axis=1).max()))
    return farthest


def arrows(scene: Scene, frame: Frame, length: float) -> tuple[Array, Array]:
    """Return the contact-force arrows of a robot whose reach is `length`.

    Returns:
        Start and end points [A, 2, 3] of the arrows: forces on the robot, drawn from where they act; and a mask [N, P]
        of the contact points that have one.
    """
    size = np.linalg.norm(frame.force, axis=-1)
    shown = size > SMALLEST_FORCE * scene.weight
    start = contact_points(scene, frame.position, frame.quaternion)[shown]
    relative = frame.force[shown] / scene.weight
    longest = LONGEST_ARROW / np.maximum(WEIGHT_ARROW * size[shown] / scene.weight, LONGEST_ARROW)
    end = start + relative * (WEIGHT_ARROW * length * longest)[:, None]
    return np.stack([start, end], axis=1).astype(np.float32), shown


def muscle_colors(activation: np.ndarray) -> Array:
    """Return sRGB colors [..., 3] of activations in [0, 1], from blue at rest to red when fully active."""
    share = np.clip(activation, 0.0, 1.0)[..., None]
    return (RESTING + share * (PULLING - RESTING)).astype(np.float32)
