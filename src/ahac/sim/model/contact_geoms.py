# pyright: reportAttributeAccessIssue=false
"""Convert MuJoCo's geoms into static planes and contact candidates: points, balls and ellipsoids on links.

A sphere becomes one ball, a capsule two, a box its corners, a cylinder RIM points on each rim, an ellipsoid itself, a
mesh the vertices of its convex hull. Which geom can touch which plane follows MuJoCo's rules: contype and conaffinity,
explicit pairs, excluded bodies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import product

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.tree import Tree, frame_on, matrix, vector
from ahac.sim.model.types import WORLD, ContactCandidate, ContactMaterial, Plane
from ahac.sim.model.unsupported import constraints_disabled, disabled, element_name

__all__ = ["contact_candidates", "ignored_pairs"]

RIM = 8
"""Number of points on each rim of a cylinder."""

logger = logging.getLogger("ahac")

Ball = tuple[np.ndarray, float]
"""Center in the geom's frame, and radius."""


def contact_candidates(
    model: mujoco.MjModel, tree: Tree, ground: bool, material_of: Callable[..., ContactMaterial], mesh_points: int
) -> tuple[tuple[Plane, ...], tuple[ContactCandidate, ...]]:
    """Return the model's static planes and all contact candidates."""
    planes = {g: _plane(model, tree, g) for g in range(model.ngeom) if _is_static_plane(model, tree, g)}
    candidates: list[ContactCandidate] = []
    for geom in range(model.ngeom):
        if _link(model, tree, geom) == WORLD or constraints_disabled(model, "CONTACT"):
            continue
        allowed = [plane for g, plane in planes.items() if _may_collide(model, geom, g)]
        if ground and not planes and (model.geom_contype[geom] & 1 or model.geom_conaffinity[geom] & 1):
            allowed = [GROUND]
        for plane in allowed:
            material = material_of(element_name(model, "geom", geom), plane.name)
            candidates += _candidates(model, tree, geom, plane, material, mesh_points)
    return tuple(planes.values()) or ((GROUND,) if ground else ()), tuple(candidates)


GROUND = Plane(name="ground", normal=(0.0, 0.0, 1.0), offset=0.0)


def ignored_pairs(model: mujoco.MjModel, tree: Tree) -> list[tuple[str, str]]:
    """Return the pairs of geoms that collide in MuJoCo but not here: all but those of a link with a static plane."""
    if constraints_disabled(model, "CONTACT"):
        return []
    contype, conaffinity = model.geom_contype, model.geom_conaffinity
    matching = (contype[:, None] & conaffinity) | (conaffinity[:, None] & contype)
    explicit = {tuple(sorted(map(int, pair))) for pair in zip(model.pair_geom1, model.pair_geom2, strict=True)}
    candidates = {(int(a), int(b)) for a, b in np.argwhere(np.triu(matching, k=1))} | explicit
    ignored = []
    for a, b in sorted(candidates):
        la, lb = _link(model, tree, a), _link(model, tree, b)
        if la == lb or _is_static_plane(model, tree, a) or _is_static_plane(model, tree, b):
            continue
        adjacent = WORLD not in (la, lb) and (tree.links[la].parent == lb or tree.links[lb].parent == la)
        if adjacent and not disabled(model, "FILTERPARENT") and (a, b) not in explicit:
            continue
        if _may_collide(model, a, b):
            ignored.append((element_name(model, "geom", a), element_name(model, "geom", b)))
    return ignored


def _candidates(
    model: mujoco.MjModel, tree: Tree, geom: int, plane: Plane, material: ContactMaterial, mesh_points: int
) -> Iterator[ContactCandidate]:
    name = element_name(model, "geom", geom)
    frame = frame_on(tree.frames[model.geom_bodyid[geom]], model.geom_pos[geom], model.geom_quat[geom])
    position, rotation = np.array(frame.position), np.array(frame.rotation)
    if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        axes = (vector(model.geom_size[geom]), frame.rotation)
        yield ContactCandidate(name, frame.link, plane, frame.position, 0.0, material, *axes)
        return
    for center, radius in _balls(model, geom, mesh_points):
        yield ContactCandidate(name, frame.link, plane, vector(position + rotation @ center), radius, material)


def _balls(model: mujoco.MjModel, geom: int, mesh_points: int) -> list[Ball]:
    size = model.geom_size[geom]
    match model.geom_type[geom]:
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            return [(np.zeros(3), float(size[0]))]
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            return [(np.array([0.0, 0.0, end * size[1]]), float(size[0])) for end in (1.0, -1.0)]
        case mujoco.mjtGeom.mjGEOM_BOX:
            return [(np.array(corner) * size, 0.0) for corner in product((1.0, -1.0), repeat=3)]
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            angles = 2.0 * np.pi * np.arange(RIM) / RIM
            rim = [(size[0] * np.cos(a), size[0] * np.sin(a)) for a in angles]
            return [(np.array([x, y, end * size[1]]), 0.0) for end in (1.0, -1.0) for x, y in rim]
        case mujoco.mjtGeom.mjGEOM_MESH:
            return [(point, 0.0) for point in _hull(model, geom, mesh_points)]
        case kind:
            shape = mujoco.mjtGeom(int(kind)).name.removeprefix("mjGEOM_").lower()
            raise ModelError(
                f"geom {element_name(model, 'geom', geom)!r} is a {shape}, which cannot touch planes; use a sphere, "
                "capsule, box, cylinder, ellipsoid or mesh, or set its contype and conaffinity to 0"
            )


def _hull(model: mujoco.MjModel, geom: int, most: int) -> np.ndarray:
    """Return the vertices of a mesh's convex hull; of a large hull, `most` vertices that are far from each other."""
    mesh = model.geom_dataid[geom]
    first = model.mesh_vertadr[mesh]
    points = np.array(model.mesh_vert[first : first + model.mesh_vertnum[mesh]], dtype=np.float64)
    if (graph := model.mesh_graphadr[mesh]) >= 0:
        count = model.mesh_graph[graph]
        points = points[model.mesh_graph[graph + 2 + count : graph + 2 + 2 * count]]
    if len(points) <= most:
        return points
    logger.warning(
        "mesh %r uses %d of its %d hull vertices for contact; load_model(..., mesh_points=%d) uses all",
        element_name(model, "mesh", int(mesh)),
        most,
        len(points),
        len(points),
    )
    selected = [int(np.argmin(points[:, 2]))]
    distance = np.full(len(points), np.inf)
    for _ in range(most - 1):
        distance = np.minimum(distance, np.linalg.norm(points - points[selected[-1]], axis=1))
        selected.append(int(np.argmax(distance)))
    return points[selected]


def _link(model: mujoco.MjModel, tree: Tree, geom: int) -> int:
    return tree.frames[model.geom_bodyid[geom]].link


def _is_static_plane(model: mujoco.MjModel, tree: Tree, geom: int) -> bool:
    return model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE and _link(model, tree, geom) == WORLD


def _plane(model: mujoco.MjModel, tree: Tree, geom: int) -> Plane:
    frame = frame_on(tree.frames[model.geom_bodyid[geom]], model.geom_pos[geom], model.geom_quat[geom])
    normal = matrix(np.array(frame.rotation).T)[2]
    return Plane(name=element_name(model, "geom", geom), normal=normal, offset=float(np.dot(normal, frame.position)))


def _may_collide(model: mujoco.MjModel, a: int, b: int) -> bool:
    """Apply MuJoCo's filter: an explicit pair, or matching bits on bodies that are not excluded."""
    if any({a, b} == {int(x), int(y)} for x, y in zip(model.pair_geom1, model.pair_geom2, strict=True)):
        return True
    low, high = sorted((int(model.geom_bodyid[a]), int(model.geom_bodyid[b])))
    if (low << 16) + high in model.exclude_signature:
        return False
    return bool(model.geom_contype[a] & model.geom_conaffinity[b] or model.geom_contype[b] & model.geom_conaffinity[a])
