"""A scene as nodes of viser: made once; after that only places, arrows and colours of muscles travel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ahac.view.geometry import MeshBatch, MusclePaths, align_z, arrows, batches, muscle_colors
from ahac.view.layout import TrackLayout, checker
from ahac.view.scene import Scene
from ahac.view.shapes import Triangles, arrow, cylinder
from ahac.view.trajectory import Frame

if TYPE_CHECKING:
    import viser

__all__ = ["SceneNodes"]

LIGHT, DARK = (176, 186, 197), (142, 154, 168)
"""Colours of the ground's tiles."""

ARROW = (0.09, 0.62, 0.24)

NOWHERE = np.zeros((1, 3), dtype=np.float32)
UPRIGHT = np.array([[1.0, 0.0, 0.0, 0.0]], dtype=np.float32)


class SceneNodes:
    """Everything of a scene that a browser shows, in as many worlds as there are lanes."""

    def __init__(self, api: viser.SceneApi, scene: Scene, lanes: TrackLayout) -> None:
        self._scene = scene
        self._lanes = lanes
        self._paths = MusclePaths.of(scene)
        self._anchor = np.zeros((lanes.count, 3), dtype=np.float32)
        self._ground = [self._add_ground(api, number) for number in range(len(scene.planes))]
        self._batches = [(batch, self._add_batch(api, batch)) for batch in batches(scene)]
        self._muscles = self._add_moving(api, "muscles", cylinder()) if scene.muscles else None
        self._arrows = self._add_moving(api, "contacts", arrow()) if scene.contact_points else None
        self.follow = True
        self.show_arrows = self.show_muscles = True

    def draw(self, frame: Frame) -> None:
        """Show a moment."""
        worlds, scene = self._lanes.count, self._scene
        position, quaternion = frame.position[:worlds], frame.quaternion[:worlds]
        if self.follow:
            self._anchor = self._lanes.smoothed_anchor(self._anchor, position[:, scene.root])
        shift = (self._lanes.offsets() - self._anchor)[:, None]
        position = position + shift
        for batch, handle in self._batches:
            place, turn = batch.poses(position, quaternion)
            handle.batched_positions = place.reshape(-1, 3)
            handle.batched_wxyzs = turn.reshape(-1, 4)
        self._draw_ground()
        moment = Frame(position, quaternion, frame.force[:worlds], frame.activation[:worlds])
        self._draw_arrows(moment)
        self._draw_muscles(moment)

    def _draw_ground(self) -> None:
        for plane, handles in zip(self._scene.planes, self._ground, strict=True):
            place, turn = self._lanes.ground(plane, self._anchor)
            for pair, at in zip(handles, place, strict=True):
                for handle in pair:
                    handle.position = at
                    handle.wxyz = turn

    def _draw_arrows(self, moment: Frame) -> None:
        if self._arrows is None:
            return
        ends, _ = arrows(self._scene, moment, self._lanes.reach)
        _stretch(
            self._arrows, ends if self.show_arrows else ends[:0], lambda length: 0.03 * (self._lanes.reach + length)
        )

    def _draw_muscles(self, moment: Frame) -> None:
        if self._muscles is None:
            return
        self._muscles.visible = self.show_muscles
        if self.show_muscles:
            start, end = self._paths.ends(moment.position, moment.quaternion)
            ends = np.stack([start, end], axis=2).reshape(-1, 2, 3)
            activation = moment.activation[:, self._paths.muscle].reshape(-1)
            radius = self._lanes.reach * (0.003 + 0.005 * np.clip(activation, 0.0, 1.0))
            middle = ends.mean(axis=1, keepdims=True)
            # The cylinder reaches from -1 to 1: a piece is put by its middle, and half as long.
            _stretch(self._muscles, np.concatenate([middle, ends[:, 1:]], axis=1), lambda _: radius)
            self._muscles.batched_colors = _seen(muscle_colors(activation))

    def _add_ground(self, api: viser.SceneApi, number: int) -> list[tuple[viser.MeshHandle, ...]]:
        lanes = self._lanes
        tiles = list(zip(checker(*lanes.half_tiles, lanes.tile), (LIGHT, DARK), strict=True))
        return [
            tuple(
                api.add_mesh_simple(
                    f"/ground {number}/lane {lane}/{k}", mesh.vertices, mesh.faces, color=color, cast_shadow=False
                )
                for k, (mesh, color) in enumerate(tiles)
            )
            for lane in range(lanes.count)
        ]

    def _add_batch(self, api: viser.SceneApi, batch: MeshBatch) -> viser.BatchedMeshHandle:
        worlds, shapes = self._lanes.count, len(batch.body)
        solid = bool((batch.color[:, 3] >= 1.0).all())
        return api.add_batched_meshes_simple(
            f"/robot/{batch.name}",
            batch.mesh.vertices,
            batch.mesh.faces,
            np.tile(UPRIGHT, (worlds * shapes, 1)),
            np.tile(NOWHERE, (worlds * shapes, 1)),
            batched_scales=np.tile(batch.scale, (worlds, 1)),
            batched_colors=_seen(np.tile(batch.color[:, :3], (worlds, 1))),
            batched_opacities=None if solid else np.tile(batch.color[:, 3], worlds),
            flat_shading=batch.mesh.flat,
            lod="off",
        )

    def _add_moving(self, api: viser.SceneApi, name: str, mesh: Triangles) -> viser.BatchedMeshHandle:
        return api.add_batched_meshes_simple(
            f"/{name}",
            mesh.vertices,
            mesh.faces,
            UPRIGHT,
            NOWHERE,
            batched_scales=NOWHERE,
            batched_colors=_seen(np.array(ARROW)),
            lod="off",
            cast_shadow=False,
            receive_shadow=False,
        )


def _seen(color: np.ndarray) -> NDArray[np.uint8]:
    """Colours of instances, which viser takes for amounts of light (linear), from what is to be seen (sRGB)."""
    return np.round(255.0 * np.clip(color, 0.0, 1.0) ** 2.2).astype(np.uint8)


def _stretch(handle: viser.BatchedMeshHandle, ends: np.ndarray, width: Callable[[np.ndarray], np.ndarray]) -> None:
    """Lay a mesh that reaches from z = 0 to 1 between pairs of points [A, 2, 3]; none is one of no size."""
    way = ends[:, 1] - ends[:, 0]
    length = np.linalg.norm(way, axis=1)
    wide = np.broadcast_to(width(length), length.shape)
    none = len(ends) == 0
    handle.batched_positions = NOWHERE if none else ends[:, 0]
    handle.batched_wxyzs = UPRIGHT if none else align_z(way)
    handle.batched_scales = NOWHERE if none else np.stack([wide, wide, length], axis=1)
