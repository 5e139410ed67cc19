"""A robot at rest: gradients of implicit steps stay bounded, also where nothing slips at all."""

import numpy as np
import pytest

from ahac.sim import Vec3, load_model
from ahac.sim.compiler.program import adjoint, evaluate
from ahac.sim.physics.contact import ContactLaw, compliant, penalty
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from support.robots import mjcf

BOX = mjcf(
    '<geom type="plane" size="1 1 1" conaffinity="1"/>'
    '<body pos="0 0 0.049"><freejoint/><geom type="box" size="0.1 0.1 0.05" mass="1"/></body>'
)
STEPS = 20
SLIPS = np.array([0.0, 1e-8, 1e-7, 1e-6, 1e-5])
"""Speeds at which the box slips [m/s]."""
BOUND = 1e3
"""Without friction that is implicit at rest, the norm exceeds 1e20."""


def own_law(depth, velocity, normal, material):  # noqa: ANN001, ANN201
    """The compliant law, as a user could write it."""
    force = compliant(depth, velocity, normal, material)
    return Vec3(force.x, force.y, force.z)


@pytest.mark.parametrize("law", [compliant, penalty, own_law])
def test_gradient_at_rest_is_bounded(law: ContactLaw) -> None:
    model = load_model(BOX)
    program = Programs(model, ForceLaws(law, implicit=True), {}).step().substep
    back = adjoint(program, ["q", "v"])
    rng = np.random.default_rng(0)
    values = {name: np.zeros(len(group)) for name, group in back.inputs.items()}
    values |= {"q": np.array(model.rest_q), "h": np.array([1 / 240]), "v": np.zeros((len(SLIPS), model.nv))}
    values["v"][:, 0], values["v"][:, 1] = 0.8 * SLIPS, 0.6 * SLIPS
    values |= {name: rng.normal(size=(len(SLIPS), values[name].shape[-1])) for name in ("q_bar", "v_bar")}
    for _ in range(STEPS):
        values |= evaluate(back, values)
    norms = np.linalg.norm(np.concatenate([values["q_bar"], values["v_bar"]], axis=-1), axis=-1)
    assert (norms < BOUND).all(), dict(zip(SLIPS, norms, strict=True))
