# pyright: reportAttributeAccessIssue=false
"""Points that stand for the shape of a geom in contact with planes, and the choice of some of them.

A sphere becomes one ball, a capsule two, a box its corners, an ellipsoid itself, a mesh the vertices of its convex
hull. A cylinder becomes two discs and RIM points on each rim. The lowest point of a disc is exact, so wheels roll; the
rim points lie slightly inside the cylinder, so that they only touch where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.types import DISC_THICKNESS, Vector
from ahac.sim.model.unsupported import element_name

__all__ = ["RIM", "RIM_INSET", "Group", "ShapePoint", "keep_points", "shape_points", "thin_out"]

RIM = 8
"""Number of points on each rim of a cylinder."""
RIM_INSET = 0.05
"""Distance of these points from the rim, as a fraction of the radius."""
TIER = 4
"""Every geom gets this many points before any gets more."""
FOOT_TIERS = 4
"""A foot gets as many points as this many tiers of other geoms."""
LOW_PART = 0.25
"""Every second point is in the lower part of its geom, which is this fraction of the geom's height."""
FOOT_HEIGHT = 0.1
"""Feet are on links without children, and at most this much above the lowest point, as a fraction of the height."""


@dataclass(frozen=True)
class ShapePoint:
    """A point, ball, disc or ellipsoid, in the frame of its geom."""

    center: np.ndarray
    radius: float = 0.0
    axis: Vector | None = None
    """Axis of a disc."""
    semi_axes: Vector | None = None
    """Semi-axes of an ellipsoid."""

    def height(self, normal: np.ndarray) -> float:
        """Return how high the lowest point lies above the frame's origin, along a unit normal in the geom's frame."""
        along = float(normal @ self.center)
        if self.semi_axes is not None:
            return along - float(np.linalg.norm(normal * self.semi_axes))
        if self.axis is not None:
            cosine = float(normal @ self.axis)
            return along - self.radius * float(np.sqrt(1.0 - cosine**2 + (DISC_THICKNESS * cosine) ** 2))
        return along - self.radius


def shape_points(model: mujoco.MjModel, geom: int) -> list[ShapePoint]:
    """Return the points of a geom."""
    size = [float(x) for x in model.geom_size[geom]]
    match model.geom_type[geom]:
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            return [ShapePoint(np.zeros(3), size[0])]
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            return [ShapePoint(np.array([0.0, 0.0, end * size[1]]), size[0]) for end in (1.0, -1.0)]
        case mujoco.mjtGeom.mjGEOM_BOX:
            return [ShapePoint(np.array(corner) * size) for corner in product((1.0, -1.0), repeat=3)]
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            return _cylinder(size[0], size[1])
        case mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            return [ShapePoint(np.zeros(3), semi_axes=(size[0], size[1], size[2]))]
        case mujoco.mjtGeom.mjGEOM_MESH:
            return [ShapePoint(point) for point in _hull(model, geom)]
        case kind:
            shape = mujoco.mjtGeom(int(kind)).name.removeprefix("mjGEOM_").lower()
            raise ModelError(
                f"geom {element_name(model, 'geom', geom)!r} is a {shape}, which cannot touch planes; use a sphere, "
                "capsule, box, cylinder, ellipsoid or mesh, or set its contype and conaffinity to 0"
            )


def thin_out(points: Sequence[ShapePoint], most: int) -> list[ShapePoint]:
    """Return `most` points of a mesh that are far from each other."""
    centers = np.array([point.center for point in points])
    return [points[k] for k in _spread_out(centers, int(np.argmin(centers[:, 2])), most)]


def _hull(model: mujoco.MjModel, geom: int) -> np.ndarray:
    """Return the vertices [V, 3] of the convex hull of a mesh geom."""
    mesh = model.geom_dataid[geom]
    first = model.mesh_vertadr[mesh]
    points = np.array(model.mesh_vert[first : first + model.mesh_vertnum[mesh]], dtype=np.float64)
    if (graph := model.mesh_graphadr[mesh]) >= 0:
        count = model.mesh_graph[graph]
        points = points[model.mesh_graph[graph + 2 + count : graph + 2 + 2 * count]]
    return points


def _cylinder(radius: float, half_length: float) -> list[ShapePoint]:
    # The discs are as thick as DISC_THICKNESS says; their outer sides end where the cylinder does.
    inner = max(0.0, half_length - DISC_THICKNESS * radius)
    discs = [ShapePoint(np.array([0.0, 0.0, end * inner]), radius, (0.0, 0.0, 1.0)) for end in (1.0, -1.0)]
    angles = 2.0 * np.pi * np.arange(RIM) / RIM
    rim = [((1.0 - RIM_INSET) * radius * np.cos(a), (1.0 - RIM_INSET) * radius * np.sin(a)) for a in angles]
    return discs + [ShapePoint(np.array([x, y, end * half_length])) for end in (1.0, -1.0) for x, y in rim]


@dataclass(frozen=True)
class Group:
    """The points of one geom that can touch one plane."""

    points: Sequence[ShapePoint]
    heights: np.ndarray
    """Height [P] of each point above the plane in the pose that the robot stands in [m]."""
    leaf: bool
    """Whether the geom's link has no children."""


def keep_points(groups: Sequence[Group], most: int) -> list[list[ShapePoint]]:
    """Choose at most `most` points of all groups: first of the feet, then of other geoms from low to high.

    The points of one group are far from each other. Points keep their order.
    """
    if sum(len(group.points) for group in groups) <= most:
        return [list(group.points) for group in groups]
    lowest = min(float(group.heights.min()) for group in groups)
    highest = max(float(group.heights.max()) for group in groups)
    near = lowest + FOOT_HEIGHT * (highest - lowest)
    queue = []
    for i, group in enumerate(groups):
        height = float(group.heights.min())
        foot = group.leaf and height <= near
        for rank, k in enumerate(_order(group, most)):
            tier = max(0, rank // TIER - (FOOT_TIERS - 1 if foot else 0))
            queue.append((tier, not foot, height, i, rank, k))
    kept: list[list[int]] = [[] for _ in groups]
    for _, _, _, i, _, k in sorted(queue)[:most]:
        kept[i].append(k)
    return [[group.points[k] for k in sorted(chosen)] for group, chosen in zip(groups, kept, strict=True)]


def _order(group: Group, most: int) -> list[int]:
    """Return the points of a group in the order of their importance: round shapes, then points that are spread out."""
    extended = [k for k, point in enumerate(group.points) if point.radius or point.semi_axes]
    plain = [k for k, point in enumerate(group.points) if not (point.radius or point.semi_axes)]
    if not plain:
        return extended
    centers = np.array([group.points[k].center for k in plain])
    heights = group.heights[plain]
    low = heights <= heights.min() + LOW_PART * np.ptp(heights)
    return extended + [plain[k] for k in _spread_out(centers, int(np.argmin(heights)), min(most, len(plain)), low)]


def _spread_out(points: np.ndarray, first: int, most: int, preferred: np.ndarray | None = None) -> list[int]:
    """Return the indices of `most` points that are far from each other, beginning with `first`.

    Every second one is a preferred point, while there are any.
    """
    selected = [first]
    distance = np.full(len(points), np.inf)
    for k in range(1, most):
        distance = np.minimum(distance, np.linalg.norm(points - points[selected[-1]], axis=1))
        distance[selected[-1]] = -1.0
        choice = distance
        if preferred is not None and k % 2 == 0 and np.any(distance[preferred] >= 0.0):
            choice = np.where(preferred, distance, -1.0)
        selected.append(int(np.argmax(choice)))
    return selected
