"""Loops over contact points in explicit steps: the same step and the same gradients as point by point."""

import pytest

from ahac.envs.variants import load_bundled_model
from ahac.sim import ContactLaw, load_model
from ahac.sim.physics import contact_loops
from ahac.sim.physics.contact import compliant, penalty
from ahac.sim.physics.substep import ForceLaws
from support.looped import assert_same_results, substep_and_adjoint
from support.robots import gymnasium_file

ROBOT = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><geom type="plane" size="1 1 1" euler="0 20 0"/>
  <body pos="0 0 .1"><freejoint/><geom type="box" size=".2 .1 .1"/><geom type="capsule" size=".1 .2" friction=".3"/>
    <body pos=".3 0 0"><joint name="j" axis="0 1 0"/><geom type="ellipsoid" size=".1 .15 .2"/>
      <geom size=".12"/>
  </body></body></worldbody><actuator><motor joint="j"/></actuator></mujoco>"""


@pytest.mark.parametrize("law", [penalty, compliant])
def test_loops_give_the_same_step_and_gradients(law: ContactLaw, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(ROBOT)
    unrolled = substep_and_adjoint(model, ForceLaws(law))
    monkeypatch.setattr(contact_loops, "EXPLICIT_FROM", 1)
    assert_same_results(substep_and_adjoint(model, ForceLaws(law)), unrolled, model, spread=0.2)


def test_only_a_model_with_many_points_is_looped() -> None:
    """The step of Gymnasium's humanoid, with 35 points, stays the same to the bit."""
    assert len(load_bundled_model("snu_humanoid").contact_candidates) >= contact_loops.EXPLICIT_FROM
    assert not substep_and_adjoint(load_model(gymnasium_file("humanoid")), ForceLaws())[0].graph.calls
