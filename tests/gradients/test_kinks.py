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
from gradients.chains import Chain, Groups

BALL = models.robot(
    f'{models.GROUND.format(frame="")}<body><freejoint/><geom name="shape" type="sphere" size="0.125" mass="2"/></body>'
)
CLAMPED = models.robot(
    models.body(models.hinge()),
    '<actuator><motor joint="hinge" ctrllimited="true" ctrlrange="-0.5 0.5" gear="3"/></actuator>',
)


def gradients(model: Model, x: Groups) -> Groups:
    """Of the sum of all that a substep returns."""
    chain = Chain(model)
    run = chain.run(x, SUBSTEP, 1)
    return chain.pull(x, run, {name: np.ones(value.shape) for name, value in run.end.items()})


def state(model: Model, q: np.ndarray, v: np.ndarray, u: float = 0.0) -> Groups:
    return {"q": q, "v": v, "u": np.full(model.nu, u), "f": np.zeros(model.nv)}


def same(a: Groups, b: Groups) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in a)


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
