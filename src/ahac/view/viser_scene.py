"""Scene nodes of viser: created once; afterwards only poses, arrows and muscle colors are sent to the browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ahac.view.colors import ARROW_COLOR
from ahac.view.geometry import MeshBatch, MusclePaths, arrows, batches, muscle_colors
from ahac.view.layout import TrackLayout, checker
from ahac.view.quaternions import align_z
from ahac.view.scene import Scene
from ahac.view.shapes import Triangles, arrow, cylinder
from ahac.view.trajectory import Frame

if TYPE_CHECKING:
    import viser

__all__ = ["SceneNodes"]

LIGHT_TILE = (176, 186, 197)
DARK_TILE = (142, 154, 168)

ORIGIN = np.zeros((1, 3), dtype=np.float32)
IDENTITY = np.array([[1.0, 0.0, 0.0, 0.0]], dtype=np.float32)


class SceneNodes:
    """All nodes of a scene in the browser, for the worlds of a track layout."""

    def __init__(self, api: viser.SceneApi, scene: Scene, layout: TrackLayout) -> None:
        self._scene = scene
        self._layout = layout
        self._paths = MusclePaths.of(scene)
        self._anchor = np.zeros((layout.count, 3), dtype=np.float32)
        self._ground = [self._add_ground(api, number) for number in range(len(scene.planes))]
        self._batches = [(batch, self._add_batch(api, batch)) for batch in batches(scene)]
        self._muscles = self._add_moving(api, "muscles", cylinder()) if scene.muscles else None
        self._arrows = self._add_moving(api, "contacts", arrow()) if scene.contact_points else None
        self.follow = True
        self.show_arrows = self.show_muscles = True

    def draw(self, frame: Frame) -> None:
        """Show a frame."""
        worlds, scene = self._layout.count, self._scene
        position, quaternion = frame.position[:worlds], frame.quaternion[:worlds]
        if self.follow:
            self._anchor = self._layout.smoothed_anchor(self._anchor, position[:, scene.root])
        shift = (self._layout.offsets() - self._anchor)[:, None]
        position = position + shift
        for batch, handle in self._batches:
            instance_position, instance_quaternion = batch.poses(position, quaternion)
            handle.batched_positions = instance_position.reshape(-1, 3)
            handle.batched_wxyzs = instance_quaternion.reshape(-1, 4)
        self._draw_ground()
        shifted = Frame(position, quaternion, frame.force[:worlds], frame.activation[:worlds])
        self._draw_arrows(shifted)
        self._draw_muscles(shifted)

    def _draw_ground(self) -> None:
        for plane, handles in zip(self._scene.planes, self._ground, strict=True):
            positions, quaternion = self._layout.ground(plane, self._anchor)
            for pair, position in zip(handles, positions, strict=True):
                for handle in pair:
                    handle.position = position
                    handle.wxyz = quaternion

    def _draw_arrows(self, frame: Frame) -> None:
        if self._arrows is None:
            return
        ends, _ = arrows(self._scene, frame, self._layout.reach)
        _stretch(
            self._arrows, ends if self.show_arrows else ends[:0], lambda length: 0.03 * (self._layout.reach + length)
        )

    def _draw_muscles(self, frame: Frame) -> None:
        if self._muscles is None:
            return
        self._muscles.visible = self.show_muscles
        if self.show_muscles:
            start, end = self._paths.ends(frame.position, frame.quaternion)
            ends = np.stack([start, end], axis=2).reshape(-1, 2, 3)
            activation = frame.activation[:, self._paths.muscle].reshape(-1)
            radius = self._layout.reach * (0.003 + 0.005 * np.clip(activation, 0.0, 1.0))
            middle = ends.mean(axis=1, keepdims=True)
            # The cylinder mesh extends from -1 to 1, so a segment starts at its middle and has half the length.
            _stretch(self._muscles, np.concatenate([middle, ends[:, 1:]], axis=1), lambda _: radius)
            self._muscles.batched_colors = _to_linear(muscle_colors(activation))

    def _add_ground(self, api: viser.SceneApi, number: int) -> list[tuple[viser.MeshHandle, ...]]:
        layout = self._layout
        tiles = list(zip(checker(*layout.half_tiles, layout.tile), (LIGHT_TILE, DARK_TILE), strict=True))
        return [
            tuple(
                api.add_mesh_simple(
                    f"/ground {number}/track {track}/{k}", mesh.vertices, mesh.faces, color=color, cast_shadow=False
                )
                for k, (mesh, color) in enumerate(tiles)
            )
            for track in range(layout.count)
        ]

    def _add_batch(self, api: viser.SceneApi, batch: MeshBatch) -> viser.BatchedMeshHandle:
        worlds = self._layout.count
        instances = worlds * len(batch.body)
        opaque = bool((batch.color[:, 3] >= 1.0).all())
        return api.add_batched_meshes_simple(
            f"/robot/{batch.name}",
            batch.mesh.vertices,
            batch.mesh.faces,
            np.tile(IDENTITY, (instances, 1)),
            np.tile(ORIGIN, (instances, 1)),
            batched_scales=np.tile(batch.scale, (worlds, 1)),
            batched_colors=_to_linear(np.tile(batch.color[:, :3], (worlds, 1))),
            batched_opacities=None if opaque else np.tile(batch.color[:, 3], worlds),
            flat_shading=batch.mesh.flat,
            lod="off",
        )

    def _add_moving(self, api: viser.SceneApi, name: str, mesh: Triangles) -> viser.BatchedMeshHandle:
        return api.add_batched_meshes_simple(
            f"/{name}",
            mesh.vertices,
            mesh.faces,
            IDENTITY,
            ORIGIN,
            batched_scales=ORIGIN,
            batched_colors=_to_linear(np.array(ARROW_COLOR)),
            lod="off",
            cast_shadow=False,
            receive_shadow=False,
        )


def _to_linear(color: np.ndarray) -> NDArray[np.uint8]:
    """Convert sRGB colors to linear ones, which viser expects for instances."""
    return np.round(255.0 * np.clip(color, 0.0, 1.0) ** 2.2).astype(np.uint8)


def _stretch(handle: viser.BatchedMeshHandle, ends: np.ndarray, width: Callable[[np.ndarray], np.ndarray]) -> None:
    """Stretch a mesh that extends from z = 0 to 1 between pairs of points [A, 2, 3]; hide it if there are none."""
    direction = ends[:, 1] - ends[:, 0]
    length = np.linalg.norm(direction, axis=1)
    radius = np.broadcast_to(width(length), length.shape)
    empty = len(ends) == 0
    handle.batched_positions = ORIGIN if empty else ends[:, 0]
    handle.batched_wxyzs = IDENTITY if empty else align_z(direction)
    handle.batched_scales = ORIGIN if empty else np.stack([radius, radius, length], axis=1)
