"""Which derivative is taken exactly on a kink, where there is one on either side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ahac.sim import Model, load_model
from ahac.sim.compiler.program import evaluate
from ahac.sim.constants import with_constants
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from gradients import models
from gradients.cases import SOFT_LIMIT, SUBSTEP
from gradients.chains import Chain, Groups, relative
from support.integrators import IMPLICIT

ROUNDING = 1e-12
EXACT_STEP = 2**-11
"""Seconds of an implicit step in which products with powers of two are exact."""

BALL = models.robot(
    f'{models.GROUND.format(frame="")}<body><freejoint/><geom name="shape" type="sphere" size="0.125" mass="2"/></body>'
)
CLAMPED = models.robot(
    models.body(models.hinge()),
    '<actuator><motor joint="hinge" ctrllimited="true" ctrlrange="-0.5 0.5" gear="3"/></actuator>',
)


def gradients(model: Model, x: Groups, laws: ForceLaws | None = None, h: float = SUBSTEP) -> Groups:
    """Of the sum of all that a substep returns."""
    chain = Chain(model, laws)
    run = chain.run(x, h, 1)
    return chain.pull(x, run, {name: np.ones(value.shape) for name, value in run.end.items()})


def state(model: Model, q: np.ndarray, v: np.ndarray, u: float = 0.0) -> Groups:
    return {"q": q, "v": v, "u": np.full(model.nu, u), "f": np.zeros(model.nv)}


def same(a: Groups, b: Groups) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in a)


def close(a: Groups, b: Groups) -> bool:
    """Up to rounding: an implicit step adds the inertia of links in another way where one may touch."""
    return all(relative(a[name], b[name]) < ROUNDING for name in a if a[name].size)


def ball_at(model: Model, height: float, v: tuple[float, ...]) -> Groups:
    return state(model, np.array([0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0]), np.array(v))


def test_a_point_that_just_touches_has_the_derivative_of_a_free_one() -> None:
    model = load_model(BALL)
    free = replace(model, contact_candidates=())
    v = (0.4, -0.2, -0.3, 0.1, 0.2, 0.3)
    for height, alike in ((0.125, True), (0.125 - 2**-20, False)):
        x = ball_at(model, height, v)
        assert same(gradients(model, x), gradients(free, x)) is alike


def test_friction_at_rest_is_viscous() -> None:
    model = with_constants(load_model(BALL), implicit=False)
    x = ball_at(model, 0.125 - 2**-8, (0.0,) * 6)
    found = evaluate(Programs(model, ForceLaws(), {}).contacts(), {"q": x["q"], "v": x["v"]})
    viscosity = model.contact_candidates[0].material.viscosity
    assert viscosity is not None
    assert np.array_equal(found["force_by_velocity"].reshape(3, 3)[:2, :2], -viscosity * np.eye(2))


@pytest.mark.parametrize("bound", [0, 1], ids=["lower", "upper"])
def test_a_joint_on_its_bound_has_the_derivative_of_one_inside(bound: int) -> None:
    model = load_model(models.LIMITED, limit=SOFT_LIMIT)
    links = [replace(k, joints=tuple(replace(j, range=None) for j in k.joints)) for k in model.links]
    unlimited = replace(model, links=tuple(links))
    limits = np.array([joint.range[bound] for joint in model.joints if joint.range])
    for beyond, alike in ((0.0, True), (-1e-6, bound == 1), (1e-6, bound == 0)):
        x = state(model, limits + beyond, np.array([0.3, -0.2]))
        assert same(gradients(model, x), gradients(unlimited, x)) is alike


@pytest.mark.parametrize("control", [-0.5, 0.5])
def test_a_control_on_its_bound_still_has_a_derivative(control: float) -> None:
    model = load_model(CLAMPED)
    q, v = np.array([0.3]), np.array([0.2])
    inside, on, outside = (gradients(model, state(model, q, v, k * control))["u"] for k in (0.9, 1.0, 1.1))
    assert inside == on != 0.0
    assert outside == 0.0


def test_a_point_that_will_just_touch_has_the_derivative_of_a_free_one() -> None:
    """In an implicit step the depth ahead counts, d − h s."""
    model = with_constants(load_model(BALL), implicit=True)
    free = replace(model, contact_candidates=())
    v = (0.4, -0.2, -0.25, 0.1, 0.2, 0.3)
    for below, alike in ((0.0, True), (2**-30, False)):
        x = ball_at(model, 0.125 + 0.25 * EXACT_STEP - below, v)
        found, wanted = (gradients(m, x, IMPLICIT, EXACT_STEP) for m in (model, free))
        assert close(found, wanted) is alike


@pytest.mark.parametrize("bound", [0, 1], ids=["lower", "upper"])
def test_a_joint_that_will_be_on_its_bound_has_the_derivative_of_one_inside(bound: int) -> None:
    file = models.LIMITED.replace('"-0.5 0.4"', '"-0.5 0.5"').replace('"-0.2 0.3"', '"-0.25 0.25"')
    model = load_model(file, limit=SOFT_LIMIT)
    links = [replace(k, joints=tuple(replace(j, range=None) for j in k.joints)) for k in model.links]
    unlimited = replace(model, links=tuple(links))
    limits, v = np.array([joint.range[bound] for joint in model.joints if joint.range]), np.array([0.25, -0.5])
    for beyond, alike in ((0.0, True), (-1e-6, bound == 1), (1e-6, bound == 0)):
        x = state(model, limits - EXACT_STEP * v + beyond, v)
        found, wanted = (gradients(m, x, IMPLICIT, EXACT_STEP) for m in (model, unlimited))
        assert close(found, wanted) is alike


@pytest.mark.parametrize("control", [-0.5, 0.5])
def test_a_servo_on_its_bound_has_the_derivative_of_one_inside(control: float) -> None:
    """Force and implicit terms are those without a bound up to and including it; far beyond, control has no effect."""
    servo = '<actuator><position joint="hinge" kp="8" kv="0.5" {}/></actuator>'
    body = models.body(models.hinge())
    bounded = load_model(models.robot(body, servo.format('forcerange="-4 4"')))
    unbounded = load_model(models.robot(body, servo.format("")))
    q = v = np.zeros(1)
    for share, alike in ((0.75, True), (1.0, True), (1.25, False)):
        x = state(bounded, q, v, share * control)
        found, wanted = (gradients(m, x, IMPLICIT, EXACT_STEP) for m in (bounded, unbounded))
        assert close(found, wanted) is alike
    far = gradients(bounded, state(bounded, q, v, 100.0 * control), IMPLICIT, EXACT_STEP)
    assert far["u"] == 0.0
