"""Stiff forces on joints in long implicit steps, against the closed forms of linear equations."""

import math

import numpy as np
import pytest

from ahac.sim import JointLimit
from support.integrators import EXPLICIT, IMPLICIT
from support.numeric_physics import Numeric
from support.robots import mjcf

STEP = 1 / 240
"""Seconds of a substep of the default four per control step."""

ROUNDING = 1e-10
"""Relative; a few hundred float64 operations."""

FLOATING = 'gravity="0 0 0"'


def rotor(attributes: str = "", rest: str = "", inertia: float = 4e-3) -> str:
    """A wheel on a vertical hinge."""
    body = f'<inertial mass="1" pos="0 0 0" diaginertia="{inertia} {inertia} {inertia}"/>'
    return mjcf(f'<body><joint name="j" axis="0 0 1" {attributes}/>{body}</body>', rest=rest, option=FLOATING)


def lift(attributes: str) -> str:
    """A weight of 3 kg on a vertical slide."""
    joint = f'<joint type="slide" axis="0 0 1" {attributes}/>'
    return mjcf(f'<body>{joint}<inertial mass="3" pos="0 0 0" diaginertia="1 1 1"/></body>')


def test_strong_damper_slows_a_joint_monotonically_to_where_the_exact_one_stops() -> None:
    """v' = v / (1 + h b / I) at every step, and a total angle of v I / b: no error of the step is left of it."""
    inertia, damping = 0.1 * (0.05**2 + 0.4 * 0.02**2), 1.0
    body = '<body><joint damping="1"/><geom size="0.02" pos="0.05 0 0" mass="0.1"/></body>'
    ours = Numeric(mjcf(body, option=FLOATING), IMPLICIT)
    h = 100.0 * inertia / damping
    q, v = ours.path([0.0], [1.0], h, 20)
    np.testing.assert_allclose(v[:, 0], 101.0 ** -np.arange(21), rtol=ROUNDING)
    assert q[-1, 0] == pytest.approx(inertia / damping, rel=ROUNDING)


@pytest.mark.parametrize(("stiffness", "damping"), [(3e5, 0.0), (3e6, 40.0), (50.0, 0.1)])
def test_spring_is_the_linearly_implicit_one(stiffness: float, damping: float) -> None:
    """h √(k / m) is up to 4; an explicit step diverges beyond 2."""
    mass, rest, g = 3.0, 0.4, 9.81
    ours = Numeric(lift(f'stiffness="{stiffness}" springref="{rest}" damping="{damping}"'), IMPLICIT)
    q, v = ours.path([0.5], [0.3], STEP, 100)
    wanted = [(0.5, 0.3)]
    for _ in range(100):
        x, speed = wanted[-1]
        force = -stiffness * (x + STEP * speed - rest) - damping * speed - mass * g
        speed += STEP * force / (mass + STEP * damping + STEP**2 * stiffness)
        wanted.append((x + STEP * speed, speed))
    np.testing.assert_allclose(np.concatenate([q, v], axis=1), wanted, rtol=1e-7, atol=1e-9)
    assert np.abs(q).max() <= 0.6


def servo(kp: float, kv: float, extra: str = "", joint: str = "") -> str:
    return rotor(joint, f'<actuator><position joint="j" kp="{kp}" kv="{kv}" {extra}/></actuator>')


def test_stiff_servo_moves_as_the_overdamped_one() -> None:
    """h kv / I is 208, as for KUKA's iiwa 14; an explicit step multiplies the speed by −207."""
    kp, kv, command = 2000.0, 200.0, np.array([1.0])
    ours = Numeric(servo(kp, kv), IMPLICIT)
    q, _ = ours.path([0.0], [0.0], STEP, 480, u=command)
    time = STEP * np.arange(481)
    # The slow root of I s² + kv s + kp = 0 is 10.002 / s, and a step of first order is off by up to h · 10 / 2 / e.
    assert np.abs(q[:, 0] - (1.0 - np.exp(-10.002 * time))).max() < 0.02
    assert np.all(np.diff(q[:, 0]) >= 0.0)
    assert q[-1, 0] == pytest.approx(1.0, abs=1e-6)
    with np.errstate(all="ignore"):
        lost = Numeric(servo(kp, kv), EXPLICIT).path([0.0], [0.0], STEP, 480, u=command)[0]
    assert not np.all(np.isfinite(lost))


def test_servo_through_a_gear_is_the_linearly_implicit_one() -> None:
    """Length, speed and force of a servo are those of the joint times, times and by its gear."""
    kp, kv, gear, inertia, command = 300.0, 30.0, 2.5, 4e-3, 0.4
    ours = Numeric(servo(kp, kv, f'gear="{gear}"'), IMPLICIT)
    q, v = ours.path([0.1], [2.0], STEP, 1, u=np.array([command]))
    force = gear * (kp * (command - gear * (0.1 + STEP * 2.0)) - kv * gear * 2.0)
    speed = 2.0 + STEP * force / (inertia + gear**2 * (STEP * kv + STEP**2 * kp))
    np.testing.assert_allclose([q[1, 0], v[1, 0]], [0.1 + STEP * speed, speed], rtol=ROUNDING)


@pytest.mark.parametrize("joint", ["", 'actuatorfrcrange="-12 12"'], ids=["of the servo", "of the joint"])
def test_servo_at_its_bound_pushes_with_it_and_arrives(joint: str) -> None:
    """A bound of 12 N m on a servo that asks for 6000: full acceleration first, then rest at the target."""
    source = servo(2000.0, 200.0, "" if joint else 'forcerange="-12 12"', joint)
    q, v = Numeric(source, IMPLICIT).path([0.0], [0.0], STEP, 480, u=np.array([3.0]))
    assert v[1, 0] == pytest.approx(STEP * 12.0 / 4e-3, rel=ROUNDING)
    # Never faster than kp / kv times the distance left, at which the servo would brake.
    assert np.all(v[1:, 0] <= 10.0 * (3.0 - q[:-1, 0]) + ROUNDING)
    assert np.all(np.diff(q[:, 0]) >= 0.0)
    assert q[-1, 0] == pytest.approx(3.0, abs=1e-6)


@pytest.mark.parametrize("joint", ["", 'actuatorfrcrange="-12 12"'], ids=["of the servo", "of the joint"])
def test_bounded_servo_brings_a_disturbed_joint_to_rest(joint: str) -> None:
    """A servo that is beyond its bound at the start of a step, but not at its end, stops the joint as without one."""
    source = servo(2000.0, 200.0, "" if joint else 'forcerange="-12 12"', joint)
    q, v = Numeric(source, IMPLICIT).path([0.0], [0.1], STEP, 240, u=np.zeros(1))
    assert np.abs(v).max() <= 0.1
    assert np.abs(v[-1, 0]) < 1e-6
    assert np.abs(q).max() < 1e-3


def test_dry_friction_stops_a_joint_without_reversing_it() -> None:
    """At any step: friction of 2 N m stops 4e-3 kg m² at 10 rad/s within 20 ms, a tenth of the longest step."""
    ours = Numeric(rotor('frictionloss="2"'), IMPLICIT)
    for h in (1e-4, STEP, 0.2):
        _, v = ours.path([0.0], [10.0], h, 400)
        assert np.all(v >= 0.0)
        assert np.all(np.diff(v[:, 0]) <= 0.0)
        assert v[-1, 0] < 1e-6
    _, v = ours.path([0.0], [10.0], 1e-5, 1000)
    assert v[-1, 0] == pytest.approx(10.0 - 0.01 * 2.0 / 4e-3, rel=1e-3)


@pytest.mark.parametrize("share", [0.5, 0.9, 1.5])
def test_dry_friction_holds_a_smaller_force_and_yields_to_a_larger_one(share: float) -> None:
    """Below the loss the joint creeps at v with loss · v / √(v² + v₀²) = force, v₀ = 0.01 rad/s."""
    loss = 2.0
    ours = Numeric(rotor(f'frictionloss="{loss}"'), IMPLICIT)
    _, v = ours.path([0.0], [0.0], STEP, 400, f=np.array([share * loss]))
    if share < 1.0:
        assert v[-1, 0] == pytest.approx(0.01 * share / math.sqrt(1.0 - share**2), rel=1e-6)
        assert v.max() < 0.03
    else:
        rate = (v[-1, 0] - v[-2, 0]) / STEP
        assert rate == pytest.approx((share - 1.0) * loss / 4e-3, rel=0.01)


def test_dry_friction_of_a_slide_creeps_by_a_millimeter_per_second() -> None:
    ours = Numeric(lift('frictionloss="40"'), IMPLICIT)
    share = 3.0 * 9.81 / 40.0
    _, v = ours.path([0.0], [0.0], STEP, 200)
    assert v[-1, 0] == pytest.approx(-1e-3 * share / math.sqrt(1.0 - share**2), rel=1e-6)


@pytest.mark.parametrize("h", [1e-3, STEP, 1 / 60])
def test_default_limit_holds_a_weight_at_any_step(h: float) -> None:
    """Its stiffness is m ω² with ω = 200 / s: the weight leans g / ω² = 0.25 mm out of its range."""
    ours = Numeric(lift('range="-0.2 0.3" limited="true"'), IMPLICIT)
    q, v = ours.path([-0.1], [-3.0], h, round(2.0 / h))
    assert q[-1, 0] == pytest.approx(-0.2 - 9.81 / 200.0**2, abs=1e-6)
    assert abs(v[-1, 0]) < 1e-6
    # It runs into its limit at 3.3 m/s and may go on for about v / (e ω).
    assert q.min() > -0.2 - 1.5 * 3.3 / (math.e * 200.0)
    assert np.abs(v).max() < 3.5


def test_hard_limit_does_not_throw_a_joint_back() -> None:
    """h² k / m is 5800 here."""
    ours = Numeric(lift('range="-0.2 0.3" limited="true"'), IMPLICIT, limit=JointLimit(stiffness=1e9, damping=0.0))
    q, v = ours.path([-0.19], [-3.0], STEP, 50)
    assert v.max() < 0.1
    assert q[-1, 0] == pytest.approx(-0.2, abs=1e-4)


def test_ball_limit_holds_a_hanging_weight() -> None:
    """A rod that starts sideways at 1.2 rad comes to lean on its limit of 0.5 rad."""
    joint = '<joint type="ball" range="0 0.5" limited="true"/>'
    body = f'<body euler="1.5707963267948966 0 0">{joint}<geom size="0.05" pos="0 0 0.4" mass="2"/></body>'
    ours = Numeric(mjcf(body), IMPLICIT)
    q, v = ours.path([1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0], STEP, 960)
    angle = 2.0 * np.arccos(np.clip(q[:, 0], -1.0, 1.0))
    limit = ours.model.joints[0].limit
    assert limit.stiffness is not None
    lean = 2.0 * 9.81 * 0.4 * math.cos(0.5) / limit.stiffness
    assert angle[-1] == pytest.approx(0.5 + lean, rel=0.02)
    assert np.abs(v[-1]).max() < 1e-3
