"""Predicted stability of substeps: closed forms, and what simulations do just below and above the bound."""

from math import sqrt

import numpy as np
import pytest

from ahac.sim import ContactMaterial, Simulator, load_model
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.stability import check_stability, warn_if_unstable
from support.numeric_physics import Numeric
from support.robots import mjcf

INERTIA = 0.1 * 0.05**2 + 0.4 * 0.1 * 0.02**2
"""Of the hinge below [kg m²]."""


FLOOR = '<geom type="plane" size="1 1 1" conaffinity="1"/>'


def hinge(attributes: str, rest: str = "", option: str = "") -> str:
    body = f'<body><joint name="knee" {attributes}/><geom size="0.02" pos="0.05 0 0" mass="0.1"/></body>'
    return mjcf(body, rest=rest, option=f'gravity="0 0 0" {option}')


def free(geom: str) -> str:
    return mjcf(f'{FLOOR}<body pos="0 0 0.1"><freejoint/><geom name="foot" mass="0.2" {geom}/></body>')


def test_overdamped_joint_is_named_with_the_substeps_it_needs() -> None:
    found = check_stability(load_model(hinge('damping="1"')), 1 / 960, "explicit")
    assert found.growth == pytest.approx(1 / 960 / INERTIA - 1.0)
    assert (found.cause, found.stable_step) == ("joint 'knee'", 1 / 1920)
    assert found.message(1 / 60) == (
        "joint 'knee' is unstable with substeps of 16.7 ms / 16 (it grows 2.92-fold in each): use at least 32 substeps"
    )


@pytest.mark.parametrize(
    ("attributes", "rest", "bound"),
    [
        ('damping="0.01"', "", 2.0 * INERTIA / 0.01),
        ('stiffness="2"', "", 2.0 * sqrt(INERTIA / 2.0)),
        ("", '<actuator><position joint="knee" kp="3" ctrlrange="-1 1"/></actuator>', 2.0 * sqrt(INERTIA / 3.0)),
        ("", '<actuator><velocity joint="knee" kv="0.02" forcerange="-1 1"/></actuator>', 2.0 * INERTIA / 0.02),
    ],
)
def test_bound_is_where_simulations_become_unstable(attributes: str, rest: str, bound: float) -> None:
    text = hinge(attributes, rest)
    numeric = Numeric(text, ForceLaws())
    for factor, stable in ((0.95, True), (1.05, False)):
        assert check_stability(numeric.model, factor * bound, "explicit").stable is stable
        q, v = np.array([0.0]), np.array([1e-6])
        for _ in range(200):
            q, v = numeric.step(q, v, factor * bound)
        assert bool(abs(v[0]) < 1e-5) is stable


def test_saturated_servo_counts_as_unsaturated() -> None:
    rest = (
        '<actuator><position joint="knee" kp="100" forcerange="-1e-9 1e-9"/></actuator>'
        '<keyframe><key name="bent" qpos="1"/></keyframe>'
    )
    assert check_stability(load_model(hinge("", rest)), 1 / 240, "explicit").cause == "joint 'knee'"


@pytest.mark.parametrize(
    ("actuator", "tau"),
    [
        ('<general joint="knee" dyntype="filter" dynprm="0.001"/>', 1e-3),
        ('<muscle joint="knee" lengthrange="-1 1" force="1e-3" timeconst="0.003 0.04"/>', 1.5e-3),
        ('<muscle joint="knee" lengthrange="-1 1" force="1e-3" timeconst="0.03 0.004" tausmooth="0.1"/>', 2e-3),
    ],
)
def test_activations_overshoot_in_explicit_steps_only(actuator: str, tau: float) -> None:
    named = actuator.replace("joint", 'name="biceps" joint')
    model = load_model(hinge('damping="1e-5"', f"<actuator>{named}</actuator>"))
    for h in (1.9 * tau, 2.1 * tau):
        found = check_stability(model, h, "explicit")
        assert found.cause == (None if h < 2.0 * tau else "the activation of actuator 'biceps'")
    assert found.growth == pytest.approx(1.1)
    assert check_stability(model, 2.1 * tau).stable


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize(
    "actuator",
    [
        '<general joint="knee" dyntype="filter" dynprm="0.001"/>',
        '<muscle joint="knee" lengthrange="-1 1" force="1e-3" timeconst="0.001 0.002"/>',
    ],
)
def test_fast_activations_follow_their_control_in_implicit_steps(actuator: str, implicit: bool) -> None:
    numeric = Numeric(hinge("", f"<actuator>{actuator}</actuator>"), ForceLaws(implicit=implicit))
    act, furthest = np.array([0.0]), 0.0
    for k in range(60):
        act = numeric.activations(np.array([0.8 if k < 30 else 0.2]), act, 1 / 240)
        furthest = max(furthest, abs(act[0]))
    assert bool(furthest <= 0.8) is implicit
    assert bool(abs(act[0] - 0.2) < 1e-6) is implicit


@pytest.mark.parametrize(
    ("joint", "rest", "cause", "mobility"),
    [
        ('type="ball" range="0 1" limited="true"', "", "joint 'knee'", 1.0 / (0.4 * 0.1 * 0.02**2)),
        (
            "",
            '<tendon><fixed name="strap" range="-1 1" limited="true"><joint joint="knee" coef="3"/></fixed></tendon>',
            "tendon 'strap'",
            9.0 / INERTIA,
        ),
    ],
)
def test_limits_of_balls_and_tendons_count(joint: str, rest: str, cause: str, mobility: float) -> None:
    # By default explicit limits have a stiffness of 1e3 and a damping of 1: unstable where (2 h + 1e3 h²) g > 4.
    bound = (sqrt(1.0 + 4e3 / mobility) - 1.0) / 1e3
    model = load_model(hinge(joint, rest))
    assert check_stability(model, 0.99 * bound, "explicit").stable
    assert check_stability(model, 1.02 * bound, "explicit").cause == f"the limit of {cause}"


def test_falling_is_not_an_instability() -> None:
    upright = mjcf('<body><joint axis="0 1 0"/><geom size="0.1" pos="0 0 0.5"/></body>')
    assert check_stability(load_model(upright), 1 / 60, "explicit").stable


@pytest.mark.parametrize("kind", ["ball", "free"])
def test_rotations_are_linearized_in_the_tangent_space(kind: str) -> None:
    joint = f'<joint name="root" type="{kind}" damping="0.1"/>'
    turned = mjcf(f'<body quat="0.5 0.5 -0.5 0.5">{joint}<geom type="box" size="0.1 0.2 0.3" mass="1"/></body>')
    smallest = (0.1**2 + 0.2**2) / 3.0
    found = check_stability(load_model(turned), 40.0 * smallest, "explicit")
    assert found.growth == pytest.approx(40.0 * smallest * 0.1 / smallest - 1.0, rel=1e-5)
    assert found.cause is not None
    assert "root" in found.cause


def test_implicit_dampers_and_servos_are_stable() -> None:
    stiff = hinge('damping="1" stiffness="1e4"', '<actuator><position joint="knee" kp="1e5" kv="1e3"/></actuator>')
    assert check_stability(load_model(stiff), 1 / 60).stable
    assert not check_stability(load_model(stiff), 1 / 60, "explicit").stable


@pytest.mark.parametrize(
    ("material", "bound"),
    [
        (ContactMaterial(stiffness=1e3, damping=0.0, viscosity=0.0), 2.0 * sqrt(0.2 / 1e3)),
        # Friction at the lowest point also turns the ball: g = 1/m + r²/I.
        (ContactMaterial(stiffness=0.0, damping=0.0, viscosity=50.0), 2.0 * 0.2 / (50.0 * 3.5)),
    ],
)
def test_contact_of_a_point_has_a_bound(material: ContactMaterial, bound: float) -> None:
    model = load_model(free('size="0.1"'), contact=material)
    assert check_stability(model, 0.99 * bound, "explicit").stable
    assert check_stability(model, 1.01 * bound, "explicit").cause == "contact of geom 'foot'"
    assert check_stability(model, 1.01 * bound).stable


def test_points_that_a_robot_stands_on_act_together() -> None:
    box = free('type="box" size="0.01 0.01 0.1"')
    model = load_model(box, contact=ContactMaterial(stiffness=1e3, damping=0.0, viscosity=0.0))
    bound = 2.0 * sqrt(0.2 / 4e3)
    assert check_stability(model, 0.99 * bound, "explicit").stable
    assert check_stability(model, 1.01 * bound, "explicit").cause == "contact of geom 'foot'"


def test_joint_limit_has_a_bound() -> None:
    model = load_model(hinge('range="-1 1"'))
    h = 2.1 * INERTIA / 1.0  # the default damping of an explicit limit is 1
    assert check_stability(model, h, "explicit").cause == "the limit of joint 'knee'"
    assert check_stability(model, h).stable


def test_drag_stays_explicit(caplog: pytest.LogCaptureFixture) -> None:
    wet = load_model(hinge("", option='viscosity="1e4"'))
    assert check_stability(wet, 1 / 60).cause == "joint 'knee'"
    warn_if_unstable(wet, 1 / 60, 1, "implicit")
    assert "joint 'knee'" in caplog.text


def test_simulator_warns_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    model = load_model(hinge('damping="1"'))
    Simulator(model, num_worlds=1, dt=1 / 60, substeps=16)
    Simulator(model, num_worlds=1, dt=1 / 60, substeps=32, integrator="explicit")
    assert not caplog.messages
    Simulator(model, num_worlds=1, dt=1 / 60, substeps=16, integrator="explicit")
    (line,) = caplog.messages
    assert line.startswith("model 'model': joint 'knee' is unstable with substeps of 16.7 ms / 16")


def test_points_off_the_ground_need_not_be_checked() -> None:
    arm = '<body pos="0 0 0.5"><joint/><geom name="hand" size="0.01" pos="0.05 0 0.02" mass="0.001"/></body>'
    body = f'<body pos="0 0 0.1"><freejoint/><geom name="foot" size="0.1" mass="20"/>{arm}</body>'
    model = load_model(mjcf(FLOOR + body))
    assert check_stability(model, 1e-3, "explicit").cause == "contact of geom 'hand'"
    assert check_stability(model, 1e-3, "explicit", standing_only=True).stable


def test_force_law_stays_explicit() -> None:
    model = load_model(hinge(""))

    def damper(world):  # noqa: ANN001, ANN202
        return [world.apply_joint_force("knee", -world.joint_velocity("knee"))]

    assert check_stability(model, 1 / 960).stable
    assert check_stability(model, 1 / 960, forces=[damper]).cause == "joint 'knee'"


def test_singular_mass_matrix_is_reported() -> None:
    twice = mjcf('<body><joint axis="0 1 0"/><joint axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/></body>')
    found = check_stability(load_model(twice), 1 / 240, "explicit")
    assert found.cause is not None
    assert "singular" in found.message(1 / 60)
