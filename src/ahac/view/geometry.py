"""From a scene and its poses to instances of triangle meshes, for any viewer; shapes are in `shapes`.

Shapes that share a mesh make one batch: every moment only the places of its instances change. A capsule is a cylinder
and two balls, so that capsules of all sizes share two meshes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahac.sim.model.types import VisualGeom
from ahac.view.quaternions import rotate
from ahac.view.scene import Scene
from ahac.view.shapes import Triangles, box, cylinder, sphere
from ahac.view.trajectory import Frame, contact_points

__all__ = ["MeshBatch", "MusclePaths", "align_z", "arrows", "batches", "bounding_radius", "multiply", "muscle_colors"]

Array = NDArray[np.float32]

RESTING = np.array([0.30, 0.38, 0.72])
PULLING = np.array([0.92, 0.16, 0.12])
"""Colours of a muscle with activation 0 and 1."""

Z_FIGHT_SCALE = 0.008
"""Neighbours differ by this part in size, or balls of two colours would flicker where limbs of equal width meet."""

WEIGHT_ARROW = 1.5
"""An arrow of so many reaches of the robot is a force as large as its weight ..."""

LONGEST_ARROW, SMALLEST_FORCE = 3.0, 0.01
"""... up to this length; a force below this part of the weight has no arrow."""


@dataclass(frozen=True, eq=False)
class MeshBatch:
    """K shapes of one mesh."""

    name: str
    mesh: Triangles
    body: NDArray[np.int64]
    """[K] on which body each is."""
    position: Array
    """[K, 3] in the body's frame [m]."""
    quaternion: Array
    """[K, 4] in the body's frame."""
    scale: Array
    """[K, 3] along the mesh's axes."""
    color: Array
    """[K, 4], each number in [0, 1]."""

    def poses(self, position: Array, quaternion: Array) -> tuple[Array, Array]:
        """[N, K, 3] and [N, K, 4] in N worlds, of the bodies' poses [N, B, 3] and [N, B, 4]."""
        turn = quaternion[:, self.body]
        return position[:, self.body] + rotate(turn, self.position), multiply(turn, self.quaternion)


@dataclass(frozen=True, eq=False)
class MusclePaths:
    """The straight pieces of all muscles, S in number."""

    start_body: NDArray[np.int64]
    end_body: NDArray[np.int64]
    start: Array
    """[S, 3] in the body's frame [m]."""
    end: Array
    muscle: NDArray[np.int64]
    """[S] the muscle of each piece."""

    @staticmethod
    def of(scene: Scene) -> MusclePaths:
        """The pieces of a scene's muscles."""
        pieces = [
            (k, a, b)
            for k, muscle in enumerate(scene.muscles)
            for a, b in zip(muscle.points, muscle.points[1:], strict=False)
        ]
        return MusclePaths(
            np.array([a[0] for _, a, _ in pieces], dtype=np.int64),
            np.array([b[0] for _, _, b in pieces], dtype=np.int64),
            np.array([a[1] for _, a, _ in pieces], dtype=np.float32).reshape(-1, 3),
            np.array([b[1] for _, _, b in pieces], dtype=np.float32).reshape(-1, 3),
            np.array([k for k, _, _ in pieces], dtype=np.int64),
        )

    def ends(self, position: Array, quaternion: Array) -> tuple[Array, Array]:
        """[N, S, 3] where the pieces begin and end, of the bodies' poses."""
        a, b = self.start_body, self.end_body
        start = position[:, a] + rotate(quaternion[:, a], self.start)
        return start, position[:, b] + rotate(quaternion[:, b], self.end)


def batches(scene: Scene) -> tuple[MeshBatch, ...]:
    """Everything of a scene that rides on bodies."""
    number = {name: i for i, name in enumerate(scene.bodies)}
    groups: dict[str, tuple[Triangles, list[tuple[int, VisualGeom, np.ndarray, np.ndarray]]]] = {}
    meshes: dict[int, str] = {}
    for i, look in enumerate(scene.visuals):
        for name, mesh, offset, scale in _pieces(look, meshes):
            place = np.add(look.position, rotate(np.array(look.quaternion), offset))
            size = scale * (1.0 - Z_FIGHT_SCALE * (i % 3))
            groups.setdefault(name, (mesh, []))[1].append((number[look.body], look, place, size))
    return tuple(
        MeshBatch(
            name,
            mesh,
            np.array([body for body, *_ in items], dtype=np.int64),
            np.array([place for _, _, place, _ in items], dtype=np.float32),
            np.array([look.quaternion for _, look, _, _ in items], dtype=np.float32),
            np.array([scale for *_, scale in items], dtype=np.float32),
            np.array([look.color for _, look, _, _ in items], dtype=np.float32),
        )
        for name, (mesh, items) in groups.items()
    )


def _pieces(look: VisualGeom, meshes: dict[int, str]) -> Iterator[tuple[str, Triangles, np.ndarray, np.ndarray]]:
    """(name, mesh, offset in the shape's frame, scale) of what a shape is made of."""
    (a, b, _), here = look.size, np.zeros(3)
    if look.mesh is not None:
        name = meshes.setdefault(id(look.mesh), f"mesh {len(meshes)}")
        surface = Triangles(look.mesh.vertices.astype(np.float32), look.mesh.faces.astype(np.uint32), flat=True)
        yield name, surface, here, np.ones(3)
    elif look.kind == "box":
        yield "boxes", box(), here, np.array(look.size)
    elif look.kind == "ellipsoid":
        yield "balls", sphere(), here, np.array(look.size)
    elif look.kind == "sphere":
        yield "balls", sphere(), here, np.full(3, a)
    else:
        yield "cylinders", cylinder(), here, np.array([a, a, b])
        if look.kind == "capsule":
            for end in (-b, b):
                yield "balls", sphere(), np.array([0.0, 0.0, end]), np.full(3, a)


def bounding_radius(scene: Scene, frame: Frame) -> float:
    """How far a robot's shapes are from its root in a moment [m]; at least a little."""
    root, farthest = frame.position[0, scene.root], 0.1
    for batch in batches(scene):
        place, turn = (values[0] for values in batch.poses(frame.position[:1], frame.quaternion[:1]))
        for k in np.flatnonzero(batch.body != 0):
            corners = place[k] + rotate(turn[k], batch.scale[k] * batch.mesh.vertices)
            farthest = max(farthest, float(np.linalg.norm(corners - root, axis=1).max()))
    return farthest


def arrows(scene: Scene, frame: Frame, length: float) -> tuple[Array, Array]:
    """[A, 3] where arrows of contact begin and end, and of which [N, P] they are, for a robot with a reach of `length`.

    Forces on the robot, drawn from where they act.
    """
    size = np.linalg.norm(frame.force, axis=-1)
    shown = size > SMALLEST_FORCE * scene.weight
    start = contact_points(scene, frame.position, frame.quaternion)[shown]
    relative = frame.force[shown] / scene.weight
    longest = LONGEST_ARROW / np.maximum(WEIGHT_ARROW * size[shown] / scene.weight, LONGEST_ARROW)
    end = start + relative * (WEIGHT_ARROW * length * longest)[:, None]
    return np.stack([start, end], axis=1).astype(np.float32), shown


def muscle_colors(activation: np.ndarray) -> Array:
    """[..., 3] of activations in [0, 1]: blue at rest, red when pulling."""
    share = np.clip(activation, 0.0, 1.0)[..., None]
    return (RESTING + share * (PULLING - RESTING)).astype(np.float32)


def multiply(a: np.ndarray, b: np.ndarray) -> Array:
    """The quaternion of turning by b, then by a."""
    aw, ax, ay, az = np.moveaxis(np.asarray(a), -1, 0)
    bw, bx, by, bz = np.moveaxis(np.asarray(b), -1, 0)
    parts = [
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ]
    return np.stack(parts, axis=-1).astype(np.float32)


def align_z(direction: np.ndarray) -> Array:
    """[..., 4] quaternions that turn z to a direction [..., 3] of any length."""
    length = np.linalg.norm(direction, axis=-1, keepdims=True)
    x, y, z = np.moveaxis(direction / np.maximum(length, 1e-9), -1, 0)
    # q = (1 + z·d, z × d), normalised; straight down any axis across will do.
    down = z < -0.999999
    parts = [np.where(down, 0.0, 1.0 + z), np.where(down, 1.0, -y), np.where(down, 0.0, x), np.zeros_like(x)]
    quaternion = np.stack(parts, axis=-1)
    return (quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)).astype(np.float32)
