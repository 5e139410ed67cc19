import numpy as np
import pytest

from ahac.envs import make_task, tasks
from ahac.sim import load_model
from ahac.sim.model.tree import rotation_matrix
from support.robots import SHAPES, mjcf

BALL = '<freejoint/><geom name="ball" type="sphere" size="0.1" {}/>'


def visuals(geoms: str, rest: str = "") -> dict:
    model = load_model(mjcf(f'<body name="trunk"><freejoint/>{geoms}</body>', rest=rest))
    return {visual.geom: visual for visual in model.visuals}


def test_shapes_are_kept_as_the_file_has_them() -> None:
    found = visuals(
        '<geom name="a" type="sphere" size="0.1" rgba="1 0.5 0.25 0.5"/>'
        '<geom name="b" type="capsule" size="0.02 0.3" pos="1 2 3" quat="0 1 0 0"/>'
        '<geom name="c" type="box" size="0.1 0.2 0.3"/>'
    )
    assert [(k, visual.kind, visual.size) for k, visual in found.items()] == [
        ("a", "sphere", (0.1, 0.0, 0.0)),
        ("b", "capsule", (0.02, 0.3, 0.0)),
        ("c", "box", (0.1, 0.2, 0.3)),
    ]
    assert found["a"].color == (1.0, 0.5, 0.25, 0.5)
    assert (found["b"].position, found["b"].quaternion) == ((1.0, 2.0, 3.0), (0.0, 1.0, 0.0, 0.0))
    assert {visual.body for visual in found.values()} == {"trunk"}


def test_geoms_of_hidden_groups_are_drawn_only_where_a_body_has_no_others() -> None:
    shown = '<geom name="shell" size="0.1" group="2"/>'
    hidden = '<geom name="skin" size="0.1" group="3"/>'
    assert list(visuals(shown + hidden)) == ["shell"]
    assert list(visuals(hidden)) == ["skin"]


def test_invisible_geoms_are_not_drawn() -> None:
    found = visuals('<geom name="seen" size="0.1"/><geom name="unseen" size="0.1" rgba="1 1 1 0"/>')
    assert list(found) == ["seen"]


def test_a_material_colors_geoms_without_a_color_of_their_own() -> None:
    steel = '<asset><material name="steel" rgba="0.1 0.2 0.3 1"/></asset>'
    found = visuals(
        '<geom name="a" size="0.1" material="steel"/><geom name="b" size="0.1" material="steel" rgba="1 0 0 1"/>', steel
    )
    assert found["a"].color == pytest.approx((0.1, 0.2, 0.3, 1.0))
    assert found["b"].color == (1.0, 0.0, 0.0, 1.0)


def test_a_mesh_stands_where_its_vertices_do() -> None:
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    asset = f'<asset><mesh name="m" vertex="{" ".join(map(str, corners.ravel()))}"/></asset>'
    visual = visuals('<geom name="a" type="mesh" mesh="m" mass="1"/>', asset)["a"]
    assert visual.mesh is not None
    assert visual.mesh.faces.shape == (4, 3)
    placed = visual.mesh.vertices @ rotation_matrix(np.array(visual.quaternion)).T + visual.position
    assert np.allclose(sorted(placed.round(6).tolist()), sorted(corners.tolist()), atol=1e-6)


def test_looks_do_not_tell_models_apart() -> None:
    red, blue = (load_model(mjcf(f"<body>{BALL.format(c)}</body>")) for c in ('rgba="1 0 0 1"', 'rgba="0 0 1 1"'))
    assert red.visuals != blue.visuals
    assert red == blue


@pytest.mark.parametrize("name", tasks())
def test_every_moving_body_of_every_task_is_seen(name: str) -> None:
    model = make_task(name).model
    assert {link.name for link in model.links} <= {visual.body for visual in model.visuals}


def test_planes_are_no_looks() -> None:
    assert all(visual.kind != "plane" for visual in load_model(SHAPES).visuals)
