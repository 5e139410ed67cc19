# pyright: reportAttributeAccessIssue=false
"""Convert MuJoCo's geoms to visual geoms, for rendering only.

Geoms of groups 0 to 2 are drawn, as in MuJoCo's viewer; of a body without any, all geoms are drawn. Planes are drawn
from `Model.planes`.
"""

from __future__ import annotations

from functools import cache

import mujoco
import numpy as np

from ahac.sim.model.tree import vector
from ahac.sim.model.types import Mesh, VisualGeom, VisualKind
from ahac.sim.model.unsupported import element_name

__all__ = ["visuals_of"]

KINDS: dict[int, VisualKind] = {
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): "ellipsoid",
    int(mujoco.mjtGeom.mjGEOM_MESH): "mesh",
}
SHOWN_GROUPS = 3
"""Geoms in groups below this one are drawn."""
UNCOLORED = np.array([0.5, 0.5, 0.5, 1.0], dtype=np.float32)
"""MuJoCo's color of a geom that sets none; its material's color is used instead."""


def visuals_of(model: mujoco.MjModel) -> tuple[VisualGeom, ...]:
    """Return the visual geoms in the file's order."""
    geoms = [g for g in range(model.ngeom) if int(model.geom_type[g]) in KINDS and _color(model, g)[3] > 0.0]
    shown = [g for g in geoms if model.geom_group[g] < SHOWN_GROUPS]
    bare = {int(model.geom_bodyid[g]) for g in geoms} - {int(model.geom_bodyid[g]) for g in shown}
    mesh_of = cache(lambda index: _mesh(model, index))
    return tuple(
        VisualGeom(
            geom=element_name(model, "geom", g),
            kind=(kind := KINDS[int(model.geom_type[g])]),
            size=vector(model.geom_size[g]),
            body=element_name(model, "body", int(model.geom_bodyid[g])),
            position=vector(model.geom_pos[g]),
            quaternion=_four(model.geom_quat[g]),
            color=_color(model, g),
            mesh=mesh_of(int(model.geom_dataid[g])) if kind == "mesh" else None,
        )
        for g in geoms
        if g in shown or int(model.geom_bodyid[g]) in bare
    )


def _color(model: mujoco.MjModel, geom: int) -> tuple[float, float, float, float]:
    own, material = model.geom_rgba[geom], int(model.geom_matid[geom])
    return _four(model.mat_rgba[material] if material >= 0 and np.array_equal(own, UNCOLORED) else own)


def _mesh(model: mujoco.MjModel, index: int) -> Mesh:
    """Return a mesh in its geom's frame; MuJoCo has centered it and aligned it with its principal axes."""
    vertex, face = model.mesh_vertadr[index], model.mesh_faceadr[index]
    return Mesh(
        vertices=np.array(model.mesh_vert[vertex : vertex + model.mesh_vertnum[index]], dtype=np.float32),
        faces=np.array(model.mesh_face[face : face + model.mesh_facenum[index]], dtype=np.int32),
    )


def _four(values: np.ndarray) -> tuple[float, float, float, float]:
    a, b, c, d = (float(v) for v in values)
    return a, b, c, d
