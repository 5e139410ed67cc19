"""The reference pose of a file: lifted out of the ground, and checked for a singular mass matrix."""

import numpy as np
import pytest

from ahac.sim import load_model
from ahac.sim.model.notes import log_once
from support.mujoco_oracle import compiled
from support.numeric_physics import Numeric
from support.robots import GYMNASIUM, SHAPES, SMALL_ROBOTS, URDF_ARM, gymnasium_file, mjcf

LEGGED = """<robot name="legged">
<link name="base"><inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><geometry><box size="0.4 0.2 0.1"/></geometry></collision></link>
<link name="leg"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin xyz="0 0 -0.3"/><geometry><sphere radius="0.05"/></geometry></collision></link>
<joint name="hip" type="revolute"><parent link="base"/><child link="leg"/><axis xyz="0 1 0"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>"""


@pytest.fixture(autouse=True)
def _nothing_was_reported_yet() -> None:
    log_once.cache_clear()


def test_rest_state_of_a_floating_urdf_stands_on_the_ground(caplog: pytest.LogCaptureFixture) -> None:
    model = load_model(LEGGED, floating=True, ground=True)
    assert model.rest_q[:3] == pytest.approx((0.0, 0.0, 0.35))
    depths = Numeric(LEGGED, floating=True, ground=True).contacts(np.array(model.rest_q), np.zeros(model.nv))["depth"]
    assert depths.max() == pytest.approx(0.0, abs=1e-12)
    assert "0.35 m below the ground: the rest state is lifted to stand on it" in caplog.text
    assert [note for note in model.notes if "lifted" in note]


def test_rest_state_above_the_ground_stays_and_keyframes_always_do() -> None:
    body = '<body pos="0 0 {}"><freejoint/><geom size="0.1"/></body>'
    floor = '<geom type="plane" size="1 1 1" conaffinity="1"/>'
    key = '<keyframe><key name="deep" qpos="0 0 -1 1 0 0 0"/></keyframe>'
    for height, rest in ((0.5, 0.5), (0.095, 0.095), (-0.3, 0.1)):
        model = load_model(mjcf(floor + body.format(height), rest=key))
        assert model.rest_q[2] == pytest.approx(rest)
        assert model.keyframes["deep"].q[2] == -1.0


def test_two_robots_are_lifted_one_by_one() -> None:
    body = '<body pos="{}"><freejoint/><geom type="box" size="0.1 0.1 {}"/></body>'
    model = load_model(mjcf(body.format("0 0 0", 0.2) + body.format("1 0 0.05", 0.3)), ground=True)
    assert (model.rest_q[2], model.rest_q[9]) == pytest.approx((0.2, 0.3))


def test_arm_on_a_fixed_base_does_not_lift_another_robot() -> None:
    arm = '<body name="base"><body><joint axis="0 1 0"/><geom size="0.1" pos="0 0 -1"/></body></body>'
    model = load_model(mjcf(arm + '<body pos="1 0 0.5"><freejoint/><geom size="0.1"/></body>'), ground=True)
    assert model.rest_q[3] == 0.5
    assert not [note for note in model.notes if "lifted" in note]


def test_robot_on_a_slope_is_lifted_until_it_touches() -> None:
    slope = '<geom type="plane" size="1 1 1" euler="0 0.5 0" conaffinity="1"/>'
    source = mjcf(slope + '<body pos="0.3 0 -1"><freejoint/><geom size="0.1"/></body>')
    model = load_model(source)
    depth = Numeric(source).contacts(np.array(model.rest_q), np.zeros(6))["depth"]
    assert depth == pytest.approx(0.0, abs=1e-12)
    assert model.rest_q[:2] == (0.3, 0.0)


def test_singular_mass_matrix_names_the_joints(caplog: pytest.LogCaptureFixture) -> None:
    twice = '<joint name="one" axis="0 1 0"/><joint name="two" axis="0 1 0"/>'
    outer = (
        '<body><joint name="root" axis="1 0 0"/><geom size="0.1" pos="1 0 0"/><body>{}<geom size="0.1" pos="0.3 0 0"/>'
    )
    load_model(mjcf(outer.format(twice) + "</body></body>"))
    assert "the mass matrix is singular in the reference pose" in caplog.text
    assert (
        "the joints 'one', 'two' can move without moving any mass; remove one of them, or set armature" in caplog.text
    )
    caplog.clear()
    apart = twice.replace('name="two"', 'name="two" armature="0.01"')
    load_model(mjcf(outer.format(apart) + "</body></body>"))
    assert not caplog.records


@pytest.mark.parametrize("source", [*SMALL_ROBOTS.values(), *map(gymnasium_file, GYMNASIUM)])
def test_no_ordinary_robot_is_singular_or_moved(source: str) -> None:
    model = load_model(source)
    assert not [note for note in model.notes if "singular" in note]
    if source is not SHAPES:  # which are all at the origin
        np.testing.assert_array_equal(model.rest_q, compiled(source).qpos0)


@pytest.mark.parametrize(
    ("bits", "ground", "warned"),
    [
        ('contype="2" conaffinity="2"', True, True),
        ('contype="0" conaffinity="0"', True, True),
        ('contype="1" conaffinity="0"', True, False),
        ('contype="2" conaffinity="2"', False, False),
    ],
)
def test_ground_that_nothing_can_touch_is_reported(
    bits: str, ground: bool, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    source = f'<mujoco><worldbody><body><freejoint/><geom name="skin" size="0.1" {bits}/></body></worldbody></mujoco>'
    model = load_model(source, ground=ground)
    line = "no geom can touch a plane: contype and conaffinity of the 1 geoms on moving bodies, such as 'skin', do not"
    assert bool([note for note in model.notes if note.startswith(line)]) == warned
    assert (line in caplog.text) == warned


def test_fixed_arm_without_contact_is_not_reported() -> None:
    assert not load_model(URDF_ARM, ground=False).notes
