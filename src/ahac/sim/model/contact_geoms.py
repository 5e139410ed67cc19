# pyright: reportAttributeAccessIssue=false
"""Convert MuJoCo's geoms into static planes and contact candidates on links.

Which geom can touch which plane follows MuJoCo's rules: contype and conaffinity, explicit pairs, excluded bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from ahac.sim.model.contact_points import Group, ShapePoint, keep_points, shape_points, thin_out
from ahac.sim.model.friction import explicit_pair, friction_between, note_approximations
from ahac.sim.model.notes import Notes
from ahac.sim.model.tree import Tree, frame_on, matrix, vector
from ahac.sim.model.types import WORLD, ContactCandidate, ContactMaterial, FileGeom, Plane
from ahac.sim.model.unsupported import Refusals, constraints_disabled, disabled, element_name

__all__ = ["TouchingGeom", "contact_candidates", "file_geoms", "ignored_pairs", "static_planes", "touching_geoms"]

ROUND_SHAPES = (int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE))


@dataclass(frozen=True)
class TouchingGeom:
    """A geom on a link that can touch a plane."""

    geom: int
    plane: Plane
    plane_geom: int | None
    """Number of the plane's geom; None for a ground that the file does not have."""
    points: Sequence[ShapePoint]

    def heights(self, data: mujoco.MjData) -> np.ndarray:
        """Return the height of each point above the plane [m], for poses that MuJoCo has computed."""
        normal = np.array(self.plane.normal)
        above = float(normal @ data.geom_xpos[self.geom]) - self.plane.offset
        local = data.geom_xmat[self.geom].reshape(3, 3).T @ normal
        return np.array([above + point.height(local) for point in self.points])


def static_planes(model: mujoco.MjModel, tree: Tree, ground: bool) -> dict[int | None, Plane]:
    """Return the model's static planes by geom; without any, z = 0 if there is to be a ground."""
    planes: dict[int | None, Plane] = {
        g: _plane(model, tree, g) for g in range(model.ngeom) if _is_static_plane(model, tree, g)
    }
    return planes or ({None: GROUND} if ground else {})


def touching_geoms(
    model: mujoco.MjModel,
    tree: Tree,
    planes: dict[int | None, Plane],
    mesh_points: int | None,
    refusals: Refusals,
    notes: Notes,
) -> list[TouchingGeom]:
    """Return all geoms on links with the planes that they can touch."""
    touching: list[TouchingGeom] = []
    if constraints_disabled(model, "CONTACT"):
        return touching
    for geom in range(model.ngeom):
        if _link(model, tree, geom) == WORLD:
            continue
        for number, plane in planes.items():
            if _may_touch_ground(model, geom) if number is None else _may_collide(model, geom, number):
                with refusals.collect():
                    touching.append(TouchingGeom(geom, plane, number, shape_points(model, geom)))
    if mesh_points is not None:
        touching = _thin_out_meshes(model, touching, mesh_points, notes)
    return touching


def _thin_out_meshes(
    model: mujoco.MjModel, touching: list[TouchingGeom], most: int, notes: Notes
) -> list[TouchingGeom]:
    large = {
        i
        for i, t in enumerate(touching)
        if model.geom_type[t.geom] == mujoco.mjtGeom.mjGEOM_MESH and len(t.points) > most
    }
    if large:
        count = len({touching[i].geom for i in large})
        total = max(len(touching[i].points) for i in large)
        notes.warn(
            f"{count} meshes touch with {most} of up to {total} hull vertices; "
            f"load_model(..., mesh_points={total}) uses all"
        )
    return [replace(t, points=thin_out(t.points, most)) if i in large else t for i, t in enumerate(touching)]


def contact_candidates(
    model: mujoco.MjModel,
    tree: Tree,
    touching: Sequence[TouchingGeom],
    material_of: Callable[..., ContactMaterial],
    most: int,
    pose: mujoco.MjData,
    notes: Notes,
) -> tuple[ContactCandidate, ...]:
    """Return the contact candidates of some geoms: at most `most`, those of the feet in a pose first."""
    parents = {link.parent for link in tree.links}
    groups = [Group(t.points, t.heights(pose), _link(model, tree, t.geom) not in parents) for t in touching]
    kept = keep_points(groups, most)
    frictions = [friction_between(model, t.geom, t.plane_geom) for t in touching]
    candidates: list[ContactCandidate] = []
    for t, points, friction in zip(touching, kept, frictions, strict=True):
        material = material_of(element_name(model, "geom", t.geom), t.plane.name)
        if material.friction is None:
            material = replace(material, friction=friction.sliding)
        candidates += _candidates(model, tree, t, points, material)
    note_approximations(model, _numbers(touching), frictions, notes)
    if (total := sum(len(t.points) for t in touching)) > len(candidates):
        without = sum(not points for points in kept)
        order = f"feet first ({without} geoms have none)" if without else "feet first"
        notes.warn(
            f"{len(candidates)} of {total} contact points are used, {order}; "
            f"load_model(..., max_contact_points={total}) uses all, which takes longer to run"
        )
    return tuple(candidates)


def file_geoms(model: mujoco.MjModel, touching: Sequence[TouchingGeom]) -> dict[str, FileGeom]:
    """Return all geoms that can touch a plane, by name."""
    return {
        element_name(model, "geom", t.geom): FileGeom(
            body=element_name(model, "body", int(model.geom_bodyid[t.geom])),
            position=vector(model.geom_pos[t.geom]),
            round=int(model.geom_type[t.geom]) in ROUND_SHAPES,
        )
        for t in touching
    }


def _numbers(touching: Sequence[TouchingGeom]) -> set[int]:
    """Return the numbers of the geoms and planes that can touch each other."""
    return {t.geom for t in touching} | {t.plane_geom for t in touching if t.plane_geom is not None}


def _candidates(
    model: mujoco.MjModel, tree: Tree, t: TouchingGeom, points: Sequence[ShapePoint], material: ContactMaterial
) -> Iterator[ContactCandidate]:
    name = element_name(model, "geom", t.geom)
    frame = frame_on(tree.frames[model.geom_bodyid[t.geom]], model.geom_pos[t.geom], model.geom_quat[t.geom])
    position, rotation = np.array(frame.position), np.array(frame.rotation)
    for point in points:
        if point.semi_axes is not None:
            shape = (point.semi_axes, frame.rotation)
            yield ContactCandidate(name, frame.link, t.plane, frame.position, 0.0, material, *shape)
            continue
        center = vector(position + rotation @ point.center)
        axis = None if point.axis is None else matrix(np.tile(rotation @ point.axis, (3, 1)))[0]
        yield ContactCandidate(name, frame.link, t.plane, center, point.radius, material, axis=axis)


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
    if explicit_pair(model, a, b) is not None:
        return True
    low, high = sorted((int(model.geom_bodyid[a]), int(model.geom_bodyid[b])))
    if (low << 16) + high in model.exclude_signature:
        return False
    return bool(model.geom_contype[a] & model.geom_conaffinity[b] or model.geom_contype[b] & model.geom_conaffinity[a])


def _may_touch_ground(model: mujoco.MjModel, geom: int) -> bool:
    """Apply the filter to a ground with MuJoCo's default bits."""
    return bool(model.geom_contype[geom] & 1 or model.geom_conaffinity[geom] & 1)
