"""The HTML player: one file that plays a trajectory offline in any browser, `player.html` with the data embedded.

viser can also export recordings, but its client alone is 0.8 MB, and its player has no following camera and no plots.
Ten seconds of one ant take 0.1 MB here, and the export needs nothing but ahac.
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
from ahac.view.camera import follow_path
from ahac.view.colors import ARROW_COLOR, CURVE_COLORS
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
from ahac.view.layout import TELEPORT_DISTANCE, TrackLayout
from ahac.view.shapes import Triangles, arrow, cylinder
from ahac.view.trajectory import Trajectory

__all__ = ["render_html", "save_html"]

FRAMES_PER_SECOND = 30.0
"""Maximum frame rate of the exported data; the player interpolates between frames."""

TEMPLATE = Path(__file__).with_name("player.html")


def save_html(trajectory: Trajectory, path: str | os.PathLike[str]) -> None:
    """Write an HTML player for a trajectory, with all its worlds side by side."""
    text = render_html(trajectory)
    with atomic_write(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def render_html(trajectory: Trajectory) -> str:
    """Return the text of an HTML player for a trajectory."""
    trajectory.check()
    subsampled = trajectory.subsample(max(1, int(1.0 / (FRAMES_PER_SECOND * trajectory.dt) + 1e-6)))
    data = base64.b64encode(gzip.compress(_pack(subsampled), compresslevel=9, mtime=0)).decode("ascii")
    values = {"__TITLE__": html.escape(f"ahac: {printable(trajectory.scene.name)}"), "__DATA__": data}
    # Substitute in a single pass, because a robot's name may contain a placeholder.
    return re.sub("|".join(values), lambda match: values[match[0]], TEMPLATE.read_text(encoding="utf-8"))


class _Store:
    """Concatenated arrays, each addressed by (dtype, offset, length)."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, array: np.ndarray, kind: str) -> tuple[str, int, int]:
        values = np.ascontiguousarray(array, dtype=f"<{kind}")
        offset = len(self.data)
        # JavaScript typed arrays must be aligned to the size of their elements.
        self.data += values.tobytes() + bytes(-values.nbytes % 4)
        return kind, offset, values.size


def _pack(trajectory: Trajectory) -> bytes:
    """Return the header's length, the header as JSON, and the arrays that the header refers to."""
    store = _Store()
    reach = bounding_radius(trajectory.scene, trajectory.frame(0))
    header = _static_data(trajectory, reach, store) | _motion_data(trajectory, reach, store)
    text = json.dumps(header, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "little") + text + bytes(-(4 + len(text)) % 4) + bytes(store.data)


def _static_data(trajectory: Trajectory, reach: float, store: _Store) -> dict[str, Any]:
    """Return what stays constant: meshes, planes, muscles, contact points, colors and sizes."""
    scene = trajectory.scene
    first = trajectory.frame(0)
    layout = TrackLayout(trajectory.num_worlds, reach)
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
        "curve_colors": CURVE_COLORS,
        "arrow_color": ARROW_COLOR,
        "weight_arrow": WEIGHT_ARROW,
        "longest_arrow": LONGEST_ARROW,
        "smallest_force": SMALLEST_FORCE,
        "reach": reach,
        "height": float(first.position[0, scene.root, 2]),
        "tile": layout.tile,
        "spacing": layout.spacing,
    }


def _motion_data(trajectory: Trajectory, reach: float, store: _Store) -> dict[str, Any]:
    """Return what changes: 16-bit positions relative to the root and quaternions, forces in units of the weight."""
    scene = trajectory.scene
    frames, worlds, bodies = trajectory.position.shape[:3]
    root = trajectory.position[:, :, scene.root]
    relative = trajectory.position - root[:, :, None]
    relative[:, :, 0] = trajectory.position[:, :, 0]
    position, position_unit = _quantize(relative)
    force, force_unit = _quantize(trajectory.force / scene.weight)
    length = np.linalg.norm(trajectory.quaternion, axis=-1, keepdims=True)
    curves = np.stack([*trajectory.channels.values()]) if trajectory.channels else np.zeros(0)
    return {
        "frames": frames,
        "worlds": worlds,
        "bodies": bodies,
        "dt": trajectory.dt,
        "root": store.add(root, "f4"),
        "anchor": store.add(follow_path(root[..., :2], trajectory.dt, TELEPORT_DISTANCE * reach), "f4"),
        "position": store.add(position, "i2"),
        "position_unit": position_unit,
        "quaternion": store.add(np.round(32767.0 * trajectory.quaternion / np.maximum(length, 1e-9)), "i2"),
        "force": store.add(force, "i2"),
        "force_unit": force_unit,
        "activation": store.add(np.round(255.0 * np.clip(trajectory.activation, 0.0, 1.0)), "u1"),
        "channels": list(trajectory.channels),
        "curves": store.add(curves, "f4"),
    }


def _quantize(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the values as 16-bit integers, and the size of one unit."""
    unit = float(np.abs(values).max(initial=0.0)) / 32767.0 or 1.0
    return np.round(values / unit), unit


def _mesh(mesh: Triangles, store: _Store) -> dict[str, Any]:
    return {
        "vertices": store.add(mesh.vertices, "f4"),
        "faces": store.add(mesh.faces, "u4"),
        "flat": mesh.flat,
    }


def _path_rows(paths: MusclePaths) -> list[list[Any]]:
    """Return [muscle, start body, start, end body, end] of every muscle segment."""
    columns = (paths.muscle, paths.start_body, paths.start, paths.end_body, paths.end)
    return [[_rounded(item) for item in row] for row in zip(*columns, strict=True)]


def _rounded(values: np.ndarray) -> object:
    return (np.round(np.asarray(values, dtype=np.float64), 5) if values.dtype.kind == "f" else values).tolist()
