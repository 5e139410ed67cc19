"""Loops over contact points in explicit steps: the same step and the same gradients as point by point."""

import numpy as np
import pytest

from ahac.envs.variants import load_bundled_model
from ahac.sim import ContactLaw, Model, load_model
from ahac.sim.compiler.program import Program, adjoint, evaluate
from ahac.sim.physics import contact_loops
from ahac.sim.physics.contact import compliant, penalty
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from support.robots import gymnasium_file

ROUNDING = 1e-11
"""Relative to the largest number; the same forces in another order in float64."""

ROBOT = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><geom type="plane" size="1 1 1" euler="0 20 0"/>
  <body pos="0 0 .1"><freejoint/><geom type="box" size=".2 .1 .1"/><geom type="capsule" size=".1 .2" friction=".3"/>
    <body pos=".3 0 0"><joint name="j" axis="0 1 0"/><geom type="ellipsoid" size=".1 .15 .2"/>
      <geom size=".12"/>
  </body></body></worldbody><actuator><motor joint="j"/></actuator></mujoco>"""


def programs(model: Model, law: ContactLaw) -> tuple[Program, Program]:
    """Return an explicit substep and its adjoint."""
    substep = Programs(model, ForceLaws(law), {}).step().substep
    return substep, adjoint(substep, ["q", "v", "u", "f"])


@pytest.mark.parametrize("law", [penalty, compliant])
def test_loops_give_the_same_step_and_gradients(law: ContactLaw, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(ROBOT)
    unrolled = programs(model, law)
    monkeypatch.setattr(contact_loops, "EXPLICIT_FROM", 1)
    looped = programs(model, law)
    assert looped[0].graph.calls
    assert not unrolled[0].graph.calls
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(-0.2, 0.2, (3, len(group))) for name, group in looped[1].inputs.items()}
    values["q"] += model.rest_q
    for loop, plain in zip(looped, unrolled, strict=True):
        found, wanted = evaluate(loop, values), evaluate(plain, values)
        for name, expected in wanted.items():
            np.testing.assert_allclose(found[name], expected, rtol=0.0, atol=ROUNDING * np.abs(expected).max())


def test_only_a_model_with_many_points_is_looped() -> None:
    """The step of Gymnasium's humanoid, with 35 points, stays the same to the bit."""
    assert len(load_bundled_model("snu_humanoid").contact_candidates) >= contact_loops.EXPLICIT_FROM
    assert not programs(load_model(gymnasium_file("humanoid")), penalty)[0].graph.calls
