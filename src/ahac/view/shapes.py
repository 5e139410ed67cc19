"""Triangle meshes of primitive shapes at unit size, to be scaled, rotated and translated.

Vertices are shared where a surface is smooth and duplicated at edges, so averaged normals look right.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["Triangles", "arrow", "box", "cylinder", "sphere"]

AROUND = 32
"""Number of vertices of a circle."""


@dataclass(frozen=True, eq=False)
class Triangles:
    """A triangle mesh."""

    vertices: NDArray[np.float32]
    """[V, 3] vertex positions."""
    faces: NDArray[np.uint32]
    """[F, 3] vertex indices, counterclockwise seen from outside."""
    flat: bool = False
    """Whether each face is shaded with its own normal."""


def _surface(vertices: list[NDArray[np.float64]], faces: list[tuple[int, int, int]]) -> Triangles:
    return Triangles(np.array(vertices, dtype=np.float32), np.array(faces, dtype=np.uint32))


def _circle() -> NDArray[np.float64]:
    angle = np.arange(AROUND) * (2.0 * np.pi / AROUND)
    return np.stack([np.cos(angle), np.sin(angle), np.zeros(AROUND)], axis=1)


@cache
def sphere() -> Triangles:
    """Return a sphere of radius 1."""
    rings, up = AROUND // 2, np.array([0.0, 0.0, 1.0])
    vertices = [-up]
    for i in range(1, rings):
        latitude = np.pi * (i / rings - 0.5)
        vertices += list(np.cos(latitude) * _circle() + np.sin(latitude) * up)
    vertices.append(up)
    top, last = len(vertices) - 1, 1 + (rings - 2) * AROUND
    faces: list[tuple[int, int, int]] = []
    for j in range(AROUND):
        k = (j + 1) % AROUND
        faces += [(0, 1 + k, 1 + j), (top, last + j, last + k)]
        for row in range(1, last, AROUND):
            faces += [(row + j, row + k, row + AROUND + j), (row + k, row + AROUND + k, row + AROUND + j)]
    return _surface(vertices, faces)


@cache
def cylinder() -> Triangles:
    """Return a closed cylinder along z with radius 1 and half-length 1."""
    up, ring = np.array([0.0, 0.0, 1.0]), _circle()
    vertices = [*(ring - up), *(ring + up), *(ring - up), *(ring + up), -up, up]
    faces: list[tuple[int, int, int]] = []
    for j in range(AROUND):
        k = (j + 1) % AROUND
        faces += [(j, k, AROUND + j), (k, AROUND + k, AROUND + j)]
        faces += [(4 * AROUND, 2 * AROUND + k, 2 * AROUND + j), (4 * AROUND + 1, 3 * AROUND + j, 3 * AROUND + k)]
    return _surface(vertices, faces)


@cache
def arrow() -> Triangles:
    """Return an arrow from z = 0 to z = 1; its head has radius 1, its shaft radius 0.42."""
    ring = _circle()
    head = np.array([0.0, 0.0, 0.68])
    shaft = 0.42
    up = np.array([0.0, 0.0, 1.0])
    # Each side has a separate tip vertex; a shared one would average all normals to point up.
    rings = [ring + head, np.tile(up, (AROUND, 1)), ring + head, shaft * ring + head, shaft * ring, shaft * ring + head]
    vertices = [*np.concatenate(rings), *(shaft * ring), np.zeros(3)]
    faces: list[tuple[int, int, int]] = []
    for j in range(AROUND):
        k = (j + 1) % AROUND
        side, tip, under, inner, foot, neck, sole = (j + i * AROUND for i in range(7))
        side_, _, under_, inner_, foot_, neck_, sole_ = (k + i * AROUND for i in range(7))
        faces += [(side, side_, tip), (under, inner, under_), (under_, inner, inner_)]
        faces += [(foot, foot_, neck), (foot_, neck_, neck), (7 * AROUND, sole_, sole)]
    return _surface(vertices, faces)


@cache
def box() -> Triangles:
    """Return a cube with half-edges of length 1."""
    vertices: list[NDArray[np.float64]] = []
    faces: list[tuple[int, int, int]] = []
    for axis in range(3):
        for side in (-1.0, 1.0):
            normal = np.roll([side, 0.0, 0.0], axis)
            right = np.roll([0.0, 1.0, 0.0], axis)
            up, first = np.cross(normal, right), len(vertices)
            vertices += [normal - right - up, normal + right - up, normal + right + up, normal - right + up]
            faces += [(first, first + 1, first + 2), (first, first + 2, first + 3)]
    return _surface(vertices, faces)
