"""Meshes, their poses, the ground and the camera, by hand-worked cases."""

from collections.abc import Callable

import numpy as np
import pytest

from ahac.sim.model.types import Plane
from ahac.view import shapes
from ahac.view.camera import follow_path
from ahac.view.geometry import (
    Z_FIGHT_SCALE,
    MusclePaths,
    arrows,
    batches,
    bounding_radius,
    muscle_colors,
)
from ahac.view.layout import TrackLayout, checker
from ahac.view.quaternions import align_z, multiply, rotate
from support.sample_scene import falling_ball, small_scene


@pytest.mark.parametrize("make", [shapes.sphere, shapes.cylinder, shapes.arrow, shapes.box])
def test_unit_meshes_enclose_what_they_should(make: Callable[[], shapes.Triangles]) -> None:
    mesh = make()
    corners = mesh.vertices[mesh.faces].astype(np.float64)
    # The volume inside a closed surface with counterclockwise faces: Σ a · (b × c) / 6.
    volume = np.einsum("fi,fi->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6.0
    arrow = np.pi * (0.42**2 * 0.68 + 0.32 / 3.0)
    expected = {"sphere": 4.0 / 3.0 * np.pi, "cylinder": 2.0 * np.pi, "arrow": arrow, "box": 8.0}
    # Circles with 32 vertices are slightly too small.
    assert volume == pytest.approx(expected[make.__name__], rel=0.04)


def test_a_capsule_is_a_cylinder_and_two_spheres_on_its_body() -> None:
    groups = {batch.name: batch for batch in batches(small_scene())}
    assert groups["balls"].body.tolist() == [1, 2, 2]
    assert groups["cylinders"].scale[0] == pytest.approx(np.array([0.05, 0.05, 0.3]) * (1 - Z_FIGHT_SCALE))
    assert groups["balls"].position[1:, 2] == pytest.approx([-0.2, 0.4])
    upside_down = np.array([[[1.0, 0, 0, 0], [1.0, 0, 0, 0], [0.0, 1.0, 0, 0]]], dtype=np.float32)
    position, _ = groups["balls"].poses(np.zeros((1, 3, 3), dtype=np.float32), upside_down)
    assert position[0, 1:, 2] == pytest.approx([0.2, -0.4])


def test_reach_is_the_farthest_shape_from_the_root() -> None:
    trajectory = falling_ball()
    # The capsule's lower end: 0.5 m aside and 0.6 m below the ball, and its radius.
    assert bounding_radius(trajectory.scene, trajectory.frame(0)) == pytest.approx(np.hypot(0.5, 0.6) + 0.05, abs=0.005)


def test_arrows_begin_where_forces_act_and_grow_with_them() -> None:
    trajectory = falling_ball()
    ends, _ = arrows(trajectory.scene, trajectory.frame(0), 1.0)
    assert ends[0, 0] == pytest.approx([0.0, 0.0, 0.8])
    assert ends[0, 1] == pytest.approx([0.0, 0.0, 0.8 + 1.5])  # The force is the weight.
    trajectory.force[0] *= 1e-3
    assert len(arrows(trajectory.scene, trajectory.frame(0), 1.0)[0]) == 0
    trajectory.force[0] *= 1e6
    huge, _ = arrows(trajectory.scene, trajectory.frame(0), 1.0)
    assert np.linalg.norm(huge[0, 1] - huge[0, 0]) == pytest.approx(3.0)


def test_muscles_are_drawn_between_their_points_and_redden() -> None:
    trajectory = falling_ball()
    start, end = MusclePaths.of(trajectory.scene).ends(trajectory.position[0], trajectory.quaternion[0])
    assert start[0] == pytest.approx(np.array([[0.0, 0.2, 1.0], [0.0, 0.55, 0.6]]))
    assert end[0] == pytest.approx(np.array([[0.0, 0.55, 0.6], [0.0, 0.5, 0.9]]))
    rest, pull = muscle_colors(np.array([0.0, 1.0]))
    assert rest[2] > rest[0]
    assert pull[0] > pull[2]


@pytest.mark.parametrize("direction", [(0, 0, 2), (0, 0, -3), (1, 0, 0), (-1, 2, 0.5)])
def test_align_z_rotates_z_onto_the_direction(direction: tuple[float, float, float]) -> None:
    expected = np.array(direction) / np.linalg.norm(direction)
    assert rotate(align_z(np.array(direction)), np.array([0.0, 0.0, 1.0])) == pytest.approx(expected, abs=1e-6)


def test_multiply_composes_rotations() -> None:
    a = align_z(np.array([1.0, 2.0, 3.0]))
    b = align_z(np.array([-1.0, 0.5, 0.0]))
    v = np.array([0.3, -0.2, 0.9])
    assert rotate(multiply(a, b), v) == pytest.approx(rotate(a, rotate(b, v)), abs=1e-6)


@pytest.mark.parametrize("anchor", [(0.0, 0.0, 0.0), (7.3, -2.2, 0.0), (-31.9, 5.51, 0.0)])
def test_the_ground_moves_by_whole_tiles_of_the_same_color(anchor: tuple[float, float, float]) -> None:
    layout = TrackLayout(3, 1.0)
    position, _ = layout.ground(
        Plane(name="floor", normal=(0.0, 0.0, 1.0), offset=0.25), np.tile(np.array(anchor), (3, 1))
    )
    tiles = (position + np.array(anchor) - layout.offsets())[:, :2] / layout.tile
    assert tiles == pytest.approx(np.round(tiles), abs=1e-4)
    assert (np.round(tiles).sum(axis=1) % 2 == 0).all()
    assert position[:, 2] == pytest.approx(0.25)
    # Tracks never overlap, wherever their robots are.
    across = np.abs(position[:, 1] - layout.offsets()[:, 1]) + layout.half_tiles[1] * layout.tile
    assert (across <= layout.spacing).all()


def test_a_checkerboard_has_equally_many_tiles_of_both_colors() -> None:
    light, dark = checker(4, 2, 0.5)
    assert len(light.faces) == len(dark.faces) == 2 * 8 * 4 / 2
    assert np.abs(light.vertices).max(axis=0).tolist() == [2.0, 1.0, 0.0]


def test_the_camera_lags_and_jumps_after_a_reset() -> None:
    layout = TrackLayout(1, 1.0)
    here = np.zeros((1, 3), dtype=np.float32)
    near = layout.smoothed_anchor(here, np.array([[1.0, 0.0, 5.0]]))
    assert 0.0 < near[0, 0] < 1.0
    assert near[0, 2] == 0.0
    assert layout.smoothed_anchor(here, np.array([[50.0, 0.0, 1.0]]))[0].tolist() == [50.0, 0.0, 0.0]


def test_the_players_camera_starts_at_the_robot_lags_and_jumps_after_a_reset() -> None:
    path = np.array([1.0, 2.0, 2.0, 80.0], dtype=np.float32)[:, None, None] * np.ones((1, 2, 2), dtype=np.float32)
    anchor = follow_path(path, dt=0.1, teleport_distance=3.0)
    gain = 1.0 - np.exp(-0.6)
    assert anchor.shape == (4, 2, 2)
    assert anchor[:, 0, 0] == pytest.approx([1.0, 1.0 + gain, 2.0 - (1.0 - gain) ** 2, 80.0])
