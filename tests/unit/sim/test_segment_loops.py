"""Loops over tendon segments: the same step and the same gradients as segment by segment."""

import numpy as np
import pytest

from ahac.envs.variants import load_bundled_model
from ahac.sim import Model, load_model
from ahac.sim.compiler.program import Program, adjoint, evaluate
from ahac.sim.physics import segment_loops
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs

ROUNDING = 1e-11
"""Relative to the largest number; the same forces in another order in float64."""

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


def programs(model: Model) -> tuple[Program, Program]:
    """Return a substep and its adjoint."""
    substep = Programs(model, ForceLaws(), {}).step().substep
    return substep, adjoint(substep, ["q", "v", "u", "f"])


def test_loops_give_the_same_step_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(ROBOT)
    unrolled = programs(model)
    monkeypatch.setattr(segment_loops, "MIN_LOOPED_SEGMENTS", 1)
    looped = programs(model)
    assert looped[0].graph.calls
    assert not unrolled[0].graph.calls
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(-0.5, 0.5, (3, len(group))) for name, group in looped[1].inputs.items()}
    values["q"] += model.rest_q
    for loop, plain in zip(looped, unrolled, strict=True):
        found, wanted = evaluate(loop, values), evaluate(plain, values)
        for name, expected in wanted.items():
            np.testing.assert_allclose(found[name], expected, rtol=0.0, atol=ROUNDING * np.abs(expected).max())


def test_only_a_model_with_many_segments_is_looped() -> None:
    assert segment_loops.worth_looping(load_bundled_model("snu_humanoid"))
    assert not segment_loops.worth_looping(load_model(ROBOT))


def test_the_code_of_looped_muscles_does_not_grow_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second set of muscles along the same paths adds a row and a force each, not another 50 operations."""
    start, end = ROBOT.index("<muscle"), ROBOT.index("<position")
    muscles = ROBOT[start:end]
    monkeypatch.setattr(segment_loops, "MIN_LOOPED_SEGMENTS", 1)
    once, twice = (programs(load_model(ROBOT.replace(muscles, muscles * k)))[0] for k in (1, 2))
    assert len(twice.live()) - len(once.live()) < 6 * len(PATHS)
