"""Springs, dampers, limits, muscles and drag at the level of one joint, against closed forms."""

import math

import numpy as np
import pytest
import torch

from ahac.sim import Integrator, JointLimit, load_model
from support.integrators import INTEGRATORS
from support.numeric_physics import Numeric
from support.robots import FREE_SPHERE, mjcf
from support.simulated import rollout

ROUNDING = 1e-11
"""Relative; a handful of float64 operations on numbers of order one, and sums of a few hundred."""

LIMIT = JointLimit(stiffness=2e3, damping=60.0)


def lift(attributes: str) -> str:
    """A weight of 3 kg on a vertical slide."""
    joint = f'<joint type="slide" axis="0 0 1" {attributes}/>'
    return mjcf(f'<body>{joint}<geom type="sphere" size="0.1" mass="3"/></body>')


def test_undamped_spring_swings_as_the_exact_discrete_oscillator(device: torch.device) -> None:
    mass = 3.0
    stiffness = 50.0
    rest = 0.4
    h = 1e-2
    center = rest - mass * 9.81 / stiffness
    model = load_model(lift(f'stiffness="{stiffness}" springref="{rest}"'))
    start, still = np.array([[center + 0.1]]), np.zeros((1, 1))
    q, v = rollout(model, start, still, h=h, frames=300, device=device, integrator="explicit")
    # x_{n+1} = (2 − ω²h²) x_n − x_{n−1}, from x_0 = 0.1 and v_0 = 0.
    turn = math.acos(1.0 - stiffness / mass * h * h / 2.0)
    n = np.arange(301)
    wanted = 0.1 * (np.cos(turn * n) - math.tan(turn / 2.0) * np.sin(turn * n))
    np.testing.assert_allclose(q[:, 0, 0] - center, wanted, atol=ROUNDING)
    np.testing.assert_allclose(v[1:, 0, 0], np.diff(wanted) / h, atol=ROUNDING / h)


@pytest.mark.parametrize("source", [lift('stiffness="50" springref="0.4"'), lift('stiffness="50" ref="0.2"')])
def test_weight_hangs_still_where_its_spring_carries_it(source: str) -> None:
    ours = Numeric(source)
    rest = ours.model.joints[0].spring_reference[0]
    balance = np.array([rest - 3.0 * 9.81 / 50.0])
    assert abs(ours.acceleration(balance, np.zeros(1), np.zeros(1))[0]) < ROUNDING * 9.81
    # One metre above the balance the spring pulls with its stiffness; a damper would pull at any speed, there is none.
    assert ours.acceleration(balance + 1.0, np.ones(1), np.zeros(1))[0] == pytest.approx(-50.0 / 3.0, rel=ROUNDING)


def test_damper_slows_in_proportion_to_speed() -> None:
    ours = Numeric(lift('damping="6"'))
    rate = ours.acceleration(np.zeros((2, 1)), np.array([[0.0], [5.0]]), np.zeros((2, 1)))
    assert rate[1, 0] - rate[0, 0] == pytest.approx(-5.0 * 6.0 / 3.0, rel=ROUNDING)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_limit_holds_a_weight_outside_the_range_by_its_stiffness(integrator: Integrator, device: torch.device) -> None:
    model = load_model(lift('range="-0.2 0.3" limited="true"'), limit=LIMIT)
    lowest = -0.2 - 3.0 * 9.81 / 2e3
    start, still = np.array([[0.1]]), np.zeros((1, 1))
    q, v = rollout(model, start, still, h=1e-3, frames=10, every=300, device=device, integrator=integrator)
    assert q[-1, 0, 0] == pytest.approx(lowest, rel=1e-6)
    assert abs(v[-1, 0, 0]) < 1e-6


@pytest.mark.parametrize(
    ("position", "speed", "push"),
    [(-0.25, 2.0, 0.05 * 2e3 - 120.0), (-0.1, 2.0, 0.0), (0.29, -3.0, 0.0), (0.32, -3.0, -0.02 * 2e3 + 180.0)],
)
def test_limit_is_a_spring_and_damper_outside_the_range_alone(position: float, speed: float, push: float) -> None:
    ours = Numeric(lift('range="-0.2 0.3" limited="true"'), limit=LIMIT)
    rate = ours.acceleration(np.array([position]), np.array([speed]), np.zeros(1), contact=True)
    assert rate[0] == pytest.approx(push / 3.0 - 9.81, rel=ROUNDING)


def test_hinge_leans_on_its_limit() -> None:
    mass = 2.0
    reach = 0.5
    angle = 0.3
    # The weight's torque at `angle` below the horizontal, carried by a violation of 0.1 rad.
    limit = JointLimit(stiffness=mass * 9.81 * reach * math.cos(angle) / 0.1, damping=1.0)
    joint = '<joint axis="0 1 0" range="-1 0.2" limited="true"/>'
    ours = Numeric(
        mjcf(f'<body>{joint}<geom type="sphere" size="0.05" mass="{mass}" pos="{reach} 0 0"/></body>'), limit=limit
    )
    still = np.zeros(1)
    assert abs(ours.acceleration(np.array([angle]), still, still, contact=True)[0]) < ROUNDING * 9.81 / reach
    assert ours.acceleration(np.array([angle]), still, still)[0] > 1.0


@pytest.mark.parametrize("angle", [0.4, 1.2, 2.5])
def test_muscle_pulls_a_hinge_with_the_triangles_moment_arm(angle: float) -> None:
    up = 0.3
    along = 0.2
    strength = 40.0
    arm = f"""
    <site name="origin" pos="0 0 {up}"/>
    <body><joint name="j" axis="0 1 0"/><geom type="sphere" size="0.05" mass="1" pos="0 0 0.4"/>
      <site name="insertion" pos="0 0 {along}"/></body>
    """
    path = '<tendon><spatial name="t"><site site="origin"/><site site="insertion"/></spatial></tendon>'
    muscle = f'<actuator><muscle tendon="t" force="{strength}" lengthrange="0.1 0.5"/></actuator>'
    muscle += '<custom><text name="ahac:muscles" data="linear"/></custom>'
    ours = Numeric(mjcf(arm, rest=path + muscle, option='gravity="0 0 0"'))
    span = math.sqrt(up**2 + along**2 - 2.0 * up * along * math.cos(angle))
    # dL/dθ = a b sin θ / L, and the muscle shortens its tendon.
    torque = -0.5 * strength * up * along * math.sin(angle) / span
    rate = ours.step(np.array([angle]), np.zeros(1), 1.0, u=np.array([0.5]))[1]
    assert rate[0] == pytest.approx(torque / (0.4**2 + 0.4 * 0.05**2), rel=ROUNDING)


@pytest.mark.parametrize(("density", "viscosity"), [(0.0, 0.8), (1.2, 0.0), (1000.0, 0.1)])
def test_sinking_ball_reaches_its_terminal_speed(density: float, viscosity: float, device: torch.device) -> None:
    medium = f'<option density="{density}" viscosity="{viscosity}" wind="2 0 0"/></mujoco>'
    source = FREE_SPHERE.replace("</mujoco>", medium).replace('pos="0 0 1"', 'pos="0 0 1000"')
    model = load_model(source)
    # A ball's inertia is that of a cube with edges √2.4 times its radius.
    edge = math.sqrt(2.4) * 0.1
    linear, square = 3.0 * math.pi * viscosity * edge, density * edge**2 / 2.0
    weight = 2.0 * 9.81
    speed = 2.0 * weight / (linear + math.sqrt(linear**2 + 4.0 * square * weight))
    sinking = np.array([2.0, 0.0, -speed, 0.0, 0.0, 0.0])
    assert np.abs(Numeric(source).acceleration(np.array(model.rest_q), sinking, np.zeros(6))).max() < ROUNDING * 9.81
    _, v = rollout(model, np.array([model.rest_q]), np.zeros((1, 6)), h=5e-3, frames=1, every=4000, device=device)
    assert v[-1, 0, 2] == pytest.approx(-speed, rel=1e-3)
