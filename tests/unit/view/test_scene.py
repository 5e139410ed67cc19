import json

import numpy as np
import pytest

from ahac.core.errors import InputError
from ahac.envs import make_task
from ahac.sim import Simulator, load_model
from ahac.view.quaternions import from_matrix, rotate
from ahac.view.scene import Scene, scene_of
from ahac.view.trajectory import contact_points
from support.robots import FREE_SPHERE, MUSCLE_ARM, mjcf

MESHES = mjcf(
    """<body name="a"><freejoint/>
    <geom type="mesh" mesh="m" mass="1"/><geom type="mesh" mesh="m" pos="1 0 0" mass="1"/></body>""",
    rest='<asset><mesh name="m" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/></asset>',
)


def test_a_scene_has_bodies_in_the_order_of_poses() -> None:
    model = load_model(FREE_SPHERE)
    scene = scene_of(model)
    assert scene.bodies == tuple(model.bodies) == ("world", "ball")
    assert (scene.bodies[scene.root], scene.weight) == ("ball", pytest.approx(2.0 * 9.81))
    assert scene.contact_points == ((1, (0.0, 0.0, 0.0), 0.1, (0.0, 0.0, 1.0)),)


def test_muscles_are_the_actuators_along_tendons() -> None:
    model = load_model(MUSCLE_ARM)
    muscles = scene_of(model).muscles
    assert [m.name for m in muscles] == [a.name for a in model.actuators if a.tendon is not None]
    assert all(len(m.points) >= 2 for m in muscles)


@pytest.mark.parametrize("mjcf", [FREE_SPHERE, MUSCLE_ARM, MESHES])
def test_a_scene_survives_json(mjcf: str) -> None:
    scene = scene_of(load_model(mjcf))
    content = json.loads(json.dumps(scene.to_dict()))
    back = Scene.from_dict(content)
    assert json.dumps(back.to_dict()) == json.dumps(scene.to_dict())
    assert (back.planes, back.muscles, back.contact_points) == (scene.planes, scene.muscles, scene.contact_points)
    for a, b in zip(back.visuals, scene.visuals, strict=True):
        if a.mesh is not None and b.mesh is not None:
            assert np.array_equal(a.mesh.vertices, b.mesh.vertices)
            assert np.array_equal(a.mesh.faces, b.mesh.faces)


def test_a_shared_mesh_is_kept_once() -> None:
    scene = scene_of(load_model(MESHES))
    assert len(scene.visuals) == 2
    assert len(scene.to_dict()["meshes"]) == 1


def test_an_invalid_scene_is_refused() -> None:
    with pytest.raises(InputError, match="not a scene"):
        Scene.from_dict({"name": "x"})


def test_contact_points_are_as_deep_as_the_simulator_says() -> None:
    model = make_task("hopper").model
    sim = Simulator(model, num_worlds=1, dt=1 / 60, substeps=4)
    state = sim.rest_state()
    state.q[:, 2:] = 0.3
    poses = sim.poses(state.q)
    scene = scene_of(model)
    points = contact_points(scene, poses.position.numpy(), from_matrix(poses.rotation.numpy()))
    # float32 positions of about one meter
    assert np.allclose(-points[..., 2], sim.contacts(state).depth.numpy(), atol=1e-5)


def test_quaternions_rotate_like_their_matrices() -> None:
    rng = np.random.default_rng(0)
    q = rng.normal(size=(200, 4))
    q[:4] = np.eye(4)
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    matrices = np.stack([rotate(q, axis) for axis in np.eye(3)], axis=-1)
    result = from_matrix(matrices)
    assert np.allclose(result * np.sign((result * q).sum(axis=-1, keepdims=True)), q, atol=1e-12)
