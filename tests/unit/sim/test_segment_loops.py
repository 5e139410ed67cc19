"""Loops over tendon segments: the same step and the same gradients as segment by segment."""

import numpy as np
import pytest

from ahac.envs.variants import load_bundled_model
from ahac.sim import Model, Real, World, load_model
from ahac.sim.compiler.emit import FIXED_INPUTS
from ahac.sim.compiler.invariants import FIXED, split, sum_of
from ahac.sim.compiler.program import Program, adjoint, evaluate
from ahac.sim.physics import segment_loops
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from support.looped import assert_same_results, substep_and_adjoint

SITES = "".join(f'<site name="{{0}}{k}" pos=".0{k} {0.02 * k - 0.03} -.0{7 - k}"/>' for k in range(5))
PATHS = {  # of muscles: along the chain and back, twice between the same links, from the world, to another tree
    "long": "w0 a1 b2 c3", "back": "c1 b0 b4 a2", "twice": "a0 b1 a3", "world": "w1 b3", "other": "b2 d1",
    "alone": "a1 a4",
}  # fmt: skip
ROBOT = f"""<mujoco><custom><text name="ahac:muscles" data="linear"/></custom><worldbody>{SITES.format("w")}
  <body pos="0 0 1"><joint axis="0 1 0" damping="1"/><geom size=".1"/>{SITES.format("a")}
    <body pos=".1 0 -.3"><joint axis="0 1 .2" damping="1"/><geom size=".1"/>{SITES.format("b")}
      <body pos="0 .1 -.3"><joint type="ball" damping="1"/><geom size=".1"/>{SITES.format("c")}</body></body></body>
  <body pos="1 0 1"><freejoint/><geom size=".1"/>{SITES.format("d")}</body>
  </worldbody><tendon>{
    "".join(
        f'<spatial name="{name}">{"".join(f"<site site={chr(34)}{s}{chr(34)}/>" for s in path.split())}</spatial>'
        for name, path in PATHS.items()
    )
}</tendon><actuator>{
    "".join(f'<muscle tendon="{name}" force="{20 + 5 * k}" lengthrange="0 1"/>' for k, name in enumerate(PATHS))
}<position tendon="long" kp="15" kv="2" gear=".8"/><motor tendon="back" gear="3"/></actuator></mujoco>"""


def test_loops_give_the_same_step_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(ROBOT)
    unrolled = substep_and_adjoint(model, ForceLaws())
    monkeypatch.setattr(segment_loops, "MIN_LOOPED_SEGMENTS", 1)
    assert_same_results(substep_and_adjoint(model, ForceLaws()), unrolled, model, spread=0.5)


def test_only_a_model_with_many_segments_is_looped() -> None:
    assert segment_loops.worth_looping(load_bundled_model("snu_humanoid"))
    assert not segment_loops.worth_looping(load_model(ROBOT))


def test_the_code_of_looped_muscles_does_not_grow_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second set of muscles along the same paths adds a row and a force each, not another 50 operations."""
    start, end = ROBOT.index("<muscle"), ROBOT.index("<position")
    muscles = ROBOT[start:end]
    monkeypatch.setattr(segment_loops, "MIN_LOOPED_SEGMENTS", 1)
    models = [load_model(ROBOT.replace(muscles, muscles * k)) for k in (1, 2)]
    once, twice = (substep_and_adjoint(model, ForceLaws())[0] for model in models)
    assert len(twice.live()) - len(once.live()) < 6 * len(PATHS)


def with_inputs(model: Model) -> tuple[Program, Program]:
    """Return a substep and its adjoint, with the strengths of muscles as parameters and a gain in memory."""

    def scaled(world: World) -> list[Real]:
        return [u * world.memory["gain"][0] for u in world.control]

    parameters = model.parameters("actuator_strength:*")
    programs = Programs(model, ForceLaws(), {}, parameters=parameters, memory={"gain": 1}, controller=scaled)
    substep = programs.step().substep
    return substep, adjoint(substep, ["q", "v", "u", "f", "p", "m"])


def test_loops_with_parameters_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(ROBOT)
    unrolled = with_inputs(model)
    monkeypatch.setattr(segment_loops, "MIN_LOOPED_SEGMENTS", 1)
    looped = with_inputs(model)
    assert_same_results(looped, unrolled, model, spread=0.5)


def test_what_parameters_and_memory_fix_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(ROBOT)
    monkeypatch.setattr(segment_loops, "MIN_LOOPED_SEGMENTS", 1)
    backward = with_inputs(model)[1]
    sums = ["u_bar", "f_bar", "p_bar", "m_bar"]
    parts = split(backward, FIXED_INPUTS, sums)
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(0.1, 0.6, (3, len(group))) for name, group in backward.inputs.items()}
    values["q"] = values["q"] * 0.5 + model.rest_q
    values[FIXED] = evaluate(parts.before, values)[FIXED]
    inside = evaluate(parts.inside, values)
    found = evaluate(parts.after, {**values, **{sum_of(name): inside[name] for name in sums}})
    assert parts.before.outputs[FIXED]
    for name, expected in evaluate(backward, values).items():
        numbers = found[name] if name in sums else inside[name]
        np.testing.assert_allclose(numbers, expected, rtol=0.0, atol=1e-11 * np.abs(expected).max(), err_msg=name)
