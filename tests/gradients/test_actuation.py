"""Derivatives of a substep of actuated models by state, activations and controls, against central differences."""

import numpy as np
import pytest

from ahac.sim import load_model
from ahac.sim.compiler.program import adjoint, evaluate
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from support.driven import LIMB, TENDONS
from support.robots import mjcf

STEP = 0.004
WORLDS = 6
DIFFERENCES = (1e-4, 1e-5, 1e-6)
TOLERANCE = 1e-6

OBSTACLES = """
<body pos="0 0 1"><joint axis="0 1 0.2"/><geom name="ball" type="sphere" size="0.08" pos="0 0 0.15" mass="1"/>
  <geom name="rod" type="cylinder" size="0.07 0.2" pos="0.2 0 0.1" euler="1.3 0.2 0.1" mass="1"/>
  <site name="above ball" pos="0 0.05 0.35"/><site name="in rod" pos="0.21 0.01 0.1"/>
  <site name="middle" pos="0.1 0 0.3"/>
  <body pos="0.3 0 0"><joint axis="0.3 1 0"/><joint type="ball" pos="0.1 0 0"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.7"/><site name="tip" pos="0.2 0.05 0.1"/></body>
</body>
<site name="wall" pos="-0.3 0.02 1.2"/>
"""
WRAPPED = """
<tendon><spatial name="t" stiffness="30 20 10" springlength="0.5 0.6" damping="2 1 0.5" range="0.1 0.7" limited="true"
  frictionloss="0.3"><site site="wall"/><geom geom="ball" {side}/><site site="middle"/><geom geom="rod" {inside}/>
  <site site="tip"/></spatial></tendon>
<actuator><muscle tendon="t" lengthrange="0.3 1.2" force="40" tausmooth="0.3"/>
  <position tendon="t" kp="50" kv="3" gear="1.3"/></actuator>
"""
LIMB_ACTUATORS = """
<actuator>
  <muscle tendon="across" lengthrange="0.5 3" force="20"/><muscle joint="bend" lengthrange="-2 2" force="10"/>
  <intvelocity joint="yaw" kp="30" kv="1" actrange="-1 1"/><general joint="lift" dyntype="filterexact" dynprm="0.01"/>
  <damper joint="bend" kv="3" ctrlrange="0 1"/><position joint="neck" kp="5" kv="1" gear="1 -2 3"/>
  <position site="tip" refsite="eye" kp="20" kv="2" gear="1 2 3 0.5 0.4 0.3"/>
  <motor site="ring" gear="1 2 3 0.1 0.2 0.3"/>
  <position cranksite="knuckle" slidersite="base site" cranklength="3" kp="20" kv="2"/>
  <motor tendon="sum" gear="2" forcerange="-1 1"/><position tendon="sum" kp="9" kv="1" gear="2"/>
</actuator>
"""
MODELS = {
    "wrapped": mjcf(OBSTACLES, rest=WRAPPED.format(side="", inside="")),
    "wrapped by side site and inside": mjcf(
        OBSTACLES, rest=WRAPPED.format(side='sidesite="above ball"', inside='sidesite="in rod"')
    ),
    "all drives": mjcf(
        LIMB.format(base='gravcomp="0.3"', arm="", bend='stiffness="2 3 5" actuatorfrcrange="-9 9"', neck=""),
        rest=TENDONS.format(sum='actuatorfrcrange="-9 2" armature="0.1"', across='armature="0.2" damping="1 2"')
        + LIMB_ACTUATORS,
    ),
}


@pytest.mark.parametrize("implicit", [False, True], ids=["explicit", "implicit"])
@pytest.mark.parametrize("source", MODELS.values(), ids=MODELS.keys())
def test_substep_is_differentiated_exactly(source: str, implicit: bool) -> None:
    model = load_model(source)
    substep = Programs(model, ForceLaws(implicit=implicit), {}).step().substep
    rng = np.random.default_rng(2)
    x = {
        "q": np.array(model.rest_q) + 0.3 * rng.normal(size=(WORLDS, model.nq)),
        "v": rng.normal(size=(WORLDS, model.nv)),
        "u": rng.normal(size=(WORLDS, model.nu)),
        "act": rng.uniform(0.1, 0.9, size=(WORLDS, model.na)),
        "f": np.zeros((WORLDS, model.nv)),
        "h": np.full((WORLDS, 1), STEP),
    }
    groups = ["q", "v", "u", "act"]
    weights = {name: rng.normal(size=(WORLDS, len(group))) for name, group in substep.outputs.items()}
    back = evaluate(adjoint(substep, groups), {**x, **{f"{name}_bar": w for name, w in weights.items()}})
    along = {name: rng.normal(size=x[name].shape) for name in groups}

    def value(name: str, eps: float) -> np.ndarray:
        out = evaluate(substep, {**x, name: x[name] + eps * along[name]})
        return np.sum([(out[group] * w).sum(axis=-1) for group, w in weights.items()], axis=0)

    for name in groups:
        exact = (back[f"{name}_bar"] * along[name]).sum(axis=-1)
        errors = [np.abs((value(name, eps) - value(name, -eps)) / (2.0 * eps) - exact) for eps in DIFFERENCES]
        # The best of several differences: larger ones may cross a kink.
        worst = (np.min(errors, axis=0) / np.maximum(np.abs(exact), 1e-2)).max()
        assert worst < TOLERANCE, name
