"""A trajectory as one html file that plays in any browser, offline: `page.html` with the numbers packed into it.

viser can embed recordings of its own, too, but its client alone is 0.8 MB, and its player has no camera that follows
and no curves. Ten seconds of one ant are 0.1 MB here, and nothing but ahac is needed to make them.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from ahac.core.files import atomic_write
from ahac.core.text import printable
from ahac.view.geometry import (
    LONGEST_ARROW,
    PULLING,
    RESTING,
    SMALLEST_FORCE,
    WEIGHT_ARROW,
    MusclePaths,
    batches,
    bounding_radius,
)
from ahac.view.layout import TrackLayout
from ahac.view.shapes import Triangles, arrow, cylinder
from ahac.view.trajectory import Trajectory

__all__ = ["save_html"]

FRAMES_PER_SECOND = 30.0
"""Frames per second that are kept; the page draws those between by interpolation."""

TEMPLATE = Path(__file__).with_name("player.html")


def save_html(trajectory: Trajectory, path: str | os.PathLike[str]) -> None:
    """Write a page that plays a trajectory, all its worlds side by side."""
    trajectory.check()
    thinned = trajectory.subsample(max(1, int(1.0 / (FRAMES_PER_SECOND * trajectory.dt) + 1e-6)))
    data = base64.b64encode(gzip.compress(_packed(thinned), compresslevel=9, mtime=0)).decode("ascii")
    filled = {"__TITLE__": html.escape(f"ahac: {printable(trajectory.scene.name)}"), "__DATA__": data}
    # In one pass: a robot may be named like a place of the template.
    text = re.sub("|".join(filled), lambda place: filled[place[0]], TEMPLATE.read_text(encoding="utf-8"))
    with atomic_write(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


class _Store:
    """Arrays one after the other, each found again by (kind, offset, length)."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, array: np.ndarray, kind: str) -> tuple[str, int, int]:
        values = np.ascontiguousarray(array, dtype=f"<{kind}")
        offset = len(self.data)
        # JavaScript wants numbers at multiples of their size.
        self.data += values.tobytes() + bytes(-values.nbytes % 4)
        return kind, offset, values.size


def _packed(trajectory: Trajectory) -> bytes:
    """The length of a header, the header as JSON, and the arrays it speaks of."""
    store = _Store()
    header = _drawn(trajectory, store) | _moved(trajectory, store)
    text = json.dumps(header, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "little") + text + bytes(-(4 + len(text)) % 4) + bytes(store.data)


def _drawn(trajectory: Trajectory, store: _Store) -> dict[str, Any]:
    """What does not change: shapes, planes, muscles, points that may touch, and sizes."""
    scene, first = trajectory.scene, trajectory.frame(0)
    size = bounding_radius(scene, first)
    lanes = TrackLayout(trajectory.num_worlds, size)
    groups = batches(scene)
    paths = MusclePaths.of(scene)
    meshes = [*(batch.mesh for batch in groups), cylinder(), arrow()]
    return {
        "meshes": [_mesh(mesh, store) for mesh in meshes],
        "cylinder": len(groups),
        "arrow": len(groups) + 1,
        "batches": [
            {"mesh": number, "body": batch.body.tolist()}
            | {name: _rounded(getattr(batch, name)) for name in ("position", "quaternion", "scale", "color")}
            for number, batch in enumerate(groups)
        ],
        "planes": [{"normal": plane.normal, "offset": plane.offset} for plane in scene.planes],
        "touches": scene.contact_points,
        "paths": _path_rows(paths),
        "muscles": len(scene.muscles),
        "muscle_colors": [RESTING.tolist(), PULLING.tolist()],
        "weight_arrow": WEIGHT_ARROW,
        "longest_arrow": LONGEST_ARROW,
        "smallest_force": SMALLEST_FORCE,
        "reach": size,
        "height": float(first.position[0, scene.root, 2]),
        "tile": lanes.tile,
        "spacing": lanes.spacing,
    }


def _moved(trajectory: Trajectory, store: _Store) -> dict[str, Any]:
    """What changes: places relative to the root and turns in 16 bits each, forces in weights."""
    scene, (frames, worlds, bodies) = trajectory.scene, trajectory.position.shape[:3]
    root = trajectory.position[:, :, scene.root]
    relative = trajectory.position - root[:, :, None]
    relative[:, :, 0] = trajectory.position[:, :, 0]
    place, place_unit = _sixteen_bits(relative)
    force, force_unit = _sixteen_bits(trajectory.force / scene.weight)
    length = np.linalg.norm(trajectory.quaternion, axis=-1, keepdims=True)
    curves = np.stack([*trajectory.channels.values()]) if trajectory.channels else np.zeros(0)
    return {
        "frames": frames,
        "worlds": worlds,
        "bodies": bodies,
        "dt": trajectory.dt,
        "root": store.add(root, "f4"),
        "position": store.add(place, "i2"),
        "place_unit": place_unit,
        "quaternion": store.add(np.round(32767.0 * trajectory.quaternion / np.maximum(length, 1e-9)), "i2"),
        "force": store.add(force, "i2"),
        "force_unit": force_unit,
        "activation": store.add(np.round(255.0 * np.clip(trajectory.activation, 0.0, 1.0)), "u1"),
        "channels": list(trajectory.channels),
        "curves": store.add(curves, "f4"),
    }


def _sixteen_bits(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Whole numbers in 16 bits, and what one of them is worth."""
    unit = float(np.abs(values).max(initial=0.0)) / 32767.0 or 1.0
    return np.round(values / unit), unit


def _mesh(mesh: Triangles, store: _Store) -> dict[str, Any]:
    return {
        "vertices": store.add(mesh.vertices, "f4"),
        "faces": store.add(mesh.faces, "u4"),
        "flat": mesh.flat,
    }


def _path_rows(paths: MusclePaths) -> list[list[Any]]:
    """[muscle, body, point, body, point] of every straight piece."""
    columns = (paths.muscle, paths.start_body, paths.start, paths.end_body, paths.end)
    return [[_rounded(item) for item in row] for row in zip(*columns, strict=True)]


def _rounded(values: np.ndarray) -> object:
    return (np.round(np.asarray(values, dtype=np.float64), 5) if values.dtype.kind == "f" else values).tolist()
