"""Contact with default constants behaves like MuJoCo's: rest, impact, friction, rolling, and legged robots.

`python -m behavior` prints all figures; docs/contact.md discusses them.
"""

from importlib.util import find_spec

import numpy as np
import pytest

from behavior import anticipation, bodies, joints, legged, random_actions, steps
from behavior.engines import IMPLICIT, MUJOCO, Engine
from behavior.scenes import G1, GO1, GO1_STIFF, GRAVITY, Legged, Robot
from support.marks import extended, keep

FINE = Engine("implicit", 1 / 960)
STEPS = [IMPLICIT, *extended(FINE)]
"""Most requirements hold for both; the fine step is slow."""

needs_mjlab = pytest.mark.skipif(find_spec("mjlab") is None, reason="the robot files come with mjlab")


def named(value: object) -> str | None:
    return value.name if isinstance(value, Engine) else None


@pytest.mark.parametrize("engine", STEPS, ids=named)
@pytest.mark.parametrize("mass", [0.1, 50.0, *extended(1.0, 10.0)])
def test_a_sphere_of_any_mass_sinks_by_a_millimeter_and_hardly_rebounds(engine: Engine, mass: float) -> None:
    drop = bodies.drop(engine, "sphere", mass)
    assert drop.rest == pytest.approx(1.0, rel=0.01)
    assert drop.rebound < 5.0
    assert drop.settled < 0.5
    assert drop.deepest < 25.0  # MuJoCo: 23


@pytest.mark.parametrize("engine", STEPS, ids=named)
@pytest.mark.parametrize("shape", keep(2, ["box", "cylinder", "capsule"]))
def test_every_shape_settles(engine: Engine, shape: str) -> None:
    drop = bodies.drop(engine, shape)
    assert drop.rest == pytest.approx(1.0, rel=0.05)
    assert drop.rebound < 5.0
    assert drop.settled < 0.5


@pytest.mark.parametrize("engine", STEPS, ids=named)
def test_a_box_slides_like_coulomb_friction_says(engine: Engine) -> None:
    assert bodies.slide(engine, 0.8) == pytest.approx(2.0**2 / (2 * 0.8 * GRAVITY), rel=0.05)


@pytest.mark.parametrize("engine", STEPS, ids=named)
def test_a_box_creeps_inside_the_friction_cone_and_slides_outside(engine: Engine) -> None:
    creep, near, slow, fast = bodies.slopes(engine, (20.0, 38.0, 40.0, 45.0))
    theory = [2.0 * GRAVITY * (np.sin(a) - 0.8 * np.cos(a)) for a in np.radians([40.0, 45.0])]
    assert 0.0 < creep < 1e-3
    assert near < 2e-3
    assert slow == pytest.approx(theory[0], rel=0.25)  # MuJoCo with 960 and 500 Hz: 0.66 and 0.55; theory 0.59
    assert fast == pytest.approx(theory[1], rel=0.1)


@pytest.mark.parametrize("engine", STEPS, ids=named)
def test_a_standing_cylinder_does_not_drift(engine: Engine) -> None:
    drift, speed = bodies.stand(engine)
    assert drift < 1e-3
    assert speed < 1e-6


@pytest.mark.parametrize("engine", STEPS, ids=named)
def test_a_tilted_box_lands_on_the_same_face_as_in_mujoco(engine: Engine) -> None:
    place, face = bodies.landing(engine)
    expected_place, expected_face = bodies.landing(MUJOCO)
    assert face == expected_face
    assert np.linalg.norm(place - expected_place) < 0.05


@pytest.mark.parametrize("engine", STEPS, ids=named)
def test_a_wheel_rolls(engine: Engine) -> None:
    distance, speed, bounce = bodies.roll(engine)
    expected_distance, expected_speed, _ = bodies.roll(MUJOCO)
    assert distance == pytest.approx(expected_distance, rel=0.02)
    assert speed == pytest.approx(expected_speed, rel=0.02)
    assert bounce < 0.1


def test_a_falling_sphere_feels_the_ground_at_most_one_step_ahead() -> None:
    height, bound = anticipation.touch_down(IMPLICIT)
    assert 0.0 < height < 1.02 * bound


def test_a_saturated_servo_does_not_chatter() -> None:
    assert joints.reversals(IMPLICIT, joints.Servo()) <= 2


@pytest.mark.extended
def test_a_closed_loop_holds_together_as_well_as_in_mujoco() -> None:
    gap, _ = joints.closure_gap(IMPLICIT)
    expected, _ = joints.closure_gap(Engine("mujoco", IMPLICIT.h))
    assert gap < 1.2 * expected


@needs_mjlab
@pytest.mark.parametrize("engine", STEPS, ids=named)
def test_a_go1_on_a_slope_drifts_less_than_in_mujoco(engine: Engine) -> None:
    assert legged.slope_drift(engine) < 0.01 < legged.slope_drift(MUJOCO)


@needs_mjlab
@pytest.mark.extended
def test_a_go1_jumps_about_as_high_as_in_mujoco() -> None:
    expected = legged.jump_height(MUJOCO)
    assert legged.jump_height(IMPLICIT) == pytest.approx(expected, rel=0.1)
    assert legged.jump_height(FINE) == pytest.approx(expected, rel=0.04)


@needs_mjlab
@pytest.mark.extended
def test_the_ground_hardly_pulls_on_a_trotting_go1() -> None:
    forces = steps.applied_forces(Legged(GO1), legged.motion(IMPLICIT, legged.trot))
    weight = GRAVITY * float(Legged(GO1).compiled().body_mass.sum())
    assert forces.impulse_of_tension() < 0.01
    assert np.quantile(forces.cone_ratios(weight), 0.9) < 1.2
    assert forces.normal.sum(axis=1).mean() == pytest.approx(weight, rel=0.02)


@needs_mjlab
@pytest.mark.extended
@pytest.mark.parametrize("robot", [GO1, GO1_STIFF, G1], ids=["go1", "go1 with armature", "g1"])
def test_no_world_diverges_under_random_actions(robot: Robot) -> None:
    for scale in (0.3, 1.0):
        lost, _ = random_actions.diverged(robot, scale)
        assert lost == 0


@needs_mjlab
@pytest.mark.extended
@pytest.mark.parametrize("robot", [GO1_STIFF, G1], ids=["go1 with armature", "g1"])
def test_gradients_over_a_second_of_random_actions_are_bounded(robot: Robot) -> None:
    assert random_actions.sensitivity(robot, 0.3).max() < 1e3


def test_rest_is_not_a_special_state_of_friction() -> None:
    """A body at rest, pushed sideways inside the cone, starts to creep at once, at the speed it will have later."""
    first, last = (bodies.push(IMPLICIT, count) for count in (1, 100))
    assert first == pytest.approx(last, rel=0.1)
