"""Still pictures: projection, order, shading and contact points."""

import numpy as np
import pytest

from ahac.sim import load_model
from ahac.sim.inspection import rest_poses
from ahac.view.quaternions import from_matrix
from ahac.view.scene import scene_of
from ahac.view.still import Still, take_still

TWO_BOXES = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<body pos="2 0 1"><freejoint/><geom type="box" size="0.2 0.3 0.1" rgba="1 0 0 1"/></body>
<body pos="-2 0 1" euler="0 0 90"><freejoint/><geom type="box" size="0.2 0.3 0.1" rgba="0 0 1 1"/></body>
</worldbody></mujoco>"""


def still(azimuth: float, elevation: float) -> Still:
    model = load_model(TWO_BOXES)
    position, rotation = rest_poses(model)
    return take_still(scene_of(model), position, from_matrix(rotation), azimuth, elevation)


def test_view_along_x_has_y_to_the_left_and_z_up() -> None:
    seen = still(0.0, 0.0)
    corners = seen.triangles.reshape(-1, 2)
    assert np.ptp(corners[:, 0]) == pytest.approx(0.6, rel=0.05)
    assert (corners[:, 1].min(), corners[:, 1].max()) == pytest.approx((0.9, 1.1), abs=0.02)


def test_near_triangles_come_last() -> None:
    colors = still(0.0, 0.0).colors
    # The camera looks along x: the blue box, at x = -2, hides the red one.
    assert colors[0, 0] > colors[0, 2]
    assert colors[-1, 2] > colors[-1, 0]


def test_back_faces_are_not_drawn() -> None:
    assert len(still(0.0, 0.0).triangles) == 2 * 2, "one face of each box, two triangles each"


def test_view_from_above_shows_the_contact_points_at_the_corners() -> None:
    seen = still(np.pi / 2.0, np.pi / 2.0)  # x to the right, y up
    assert seen.contact_points.shape == (16, 2)
    corners = {(round(float(x), 5), round(float(y), 5)) for x, y in seen.contact_points}
    expected = {(2 + x, y) for x in (-0.2, 0.2) for y in (-0.3, 0.3)} | {
        (-2 + x, y) for x in (-0.3, 0.3) for y in (-0.2, 0.2)
    }
    assert corners == {(round(x, 5), round(y, 5)) for x, y in expected}
