"""The traced physics of a model with parameters as float64 numpy functions: nothing is compiled."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

from ahac.sim import Model, World
from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.program import Program, adjoint, evaluate, trace
from ahac.sim.constants import with_constants
from ahac.sim.model.parameters import Parameters
from ahac.sim.physics import activation, dynamics, inertia
from ahac.sim.physics.integrate import normalize
from ahac.sim.physics.substep import ForceLaws, substep, total_forces

__all__ = ["CARRIED", "MUSCLE", "PLAIN", "STANDING", "WATER", "Parametrized"]

Group = Sequence[Real]


MUSCLE = '<muscle name="muscle" joint="hip" lengthrange="-1 1.5" force="30"/>'


def inertial(mass: float) -> str:
    """An oblique inertia."""
    return f'<inertial pos=".03 -.02 .05" mass="{mass}" fullinertia=".02 .03 .025 .003 -.002 .004"/>'


ROBOT = f"""<mujoco><compiler angle="radian"/><option gravity=".7 -.4 -9.81" {{option}}/><worldbody>
  <body name="trunk" pos="0 0 1"><freejoint name="root"/>{inertial(3.0)}
    <body name="pack" pos=".1 .05 .2" euler=".3 .2 .1">{inertial(1.2)}
      <body name="antenna" pos="0 .1 .2" euler="-.4 .1 .7">{inertial(0.3)}</body>
      <body name="tail" pos="-.2 0 .1" euler=".2 0 .5"{{more}}>
        <joint name="tail" type="ball" pos=".02 .01 0" damping=".3" armature=".02" stiffness="2"/>{inertial(0.4)}</body>
    </body>
    <body name="thigh" pos=".1 -.2 -.1" euler=".1 .4 -.3"{{more}}>
      <joint name="hip" axis=".3 1 -.5" pos=".1 .05 -.02" armature=".1" damping=".8" stiffness="9" springref=".3"/>
      {inertial(1.1)}
      <body name="shank" pos="0 .1 -.3" euler="0 -.3 .2"><joint name="knee" type="slide" axis="1 .4 .6"/>
        {inertial(0.6)}</body>
    </body></body>
  <body name="arm" pos=".5 .4 .3"><joint name="shoulder" axis="0 1 .2"/>{inertial(0.9)}</body></worldbody>
  <tendon><fixed name="cord" stiffness="5" damping=".7"><joint joint="hip" coef=".7"/>
    <joint joint="shoulder" coef="-1.2"/></fixed></tendon>
  <actuator><motor name="push" joint="knee" gear="4"/><position name="servo" joint="hip" kp="20" kv="1.5" gear="1.3"/>
    <velocity name="spin" joint="shoulder" kv="4" gear=".7"/>
    <position name="bounded" joint="knee" kp="50" kv="2" forcerange="-3 3"/>
    <position name="pull" tendon="cord" kp="8" kv=".4"/>
    {MUSCLE}</actuator></mujoco>"""

PLAIN = ROBOT.format(option="", more="")
WATER = ROBOT.format(option='density="1000" viscosity="2" wind=".4 -.3 .2"', more="")
CARRIED = ROBOT.format(option="", more=' gravcomp=".7"')
STANDING = """<mujoco><compiler angle="radian"/><custom><numeric name="ahac:contact" data="5000 2000 2000 .6"/></custom>
  <worldbody><geom name="floor" type="plane" size="1 1 1"/>
  <body name="trunk" pos="0 0 .1"><freejoint name="root"/><geom name="box" type="box" size=".2 .1 .1"/>
    <geom name="rod" type="capsule" size=".1 .2" euler=".2 1.2 .1"/><geom name="can" type="cylinder" size=".1 .1"/>
    <body name="pad" pos=".1 .2 0" euler=".3 .1 .2"><geom name="pad" size=".11" pos=".01 .02 .005"/></body>
    <body name="foot" pos=".3 0 0"><joint name="ankle" axis="0 1 0"/>
      <geom name="egg" type="ellipsoid" size=".1 .15 .12"/><geom name="ball" size=".12" pos=".02 .01 0"/>
  </body></body></worldbody></mujoco>"""
"""A robot of all shapes that touches a plane with all of them; its links consist of several geoms."""


class Parametrized:
    """A model whose declared constants are the input group `p`."""

    def __init__(self, model: Model, parameters: Parameters, laws: ForceLaws | None = None) -> None:
        self.laws = laws or ForceLaws()
        self.model = with_constants(model, self.laws.implicit)
        self.parameters = parameters

    @property
    def defaults(self) -> np.ndarray:
        """[P]."""
        return self.parameters.defaults(1, dtype=torch.float64)[0].numpy()

    @cached_property
    def substep(self) -> Program:
        """q, v, u, f, act, h, p -> q, v, act."""

        def advance(q: Group, v: Group, u: Group, f: Group, act: Group, h: Group, p: Group) -> dict[str, list[Real]]:
            model = self.parameters.apply(self.model, p)
            q1, v1 = substep(World(model, normalize(model, q), v, u, act=act), f, h[0], self.laws)
            return {"q": q1, "v": v1, "act": activation.advance(model, u, act, h[0], self.laws.implicit)}

        return trace(advance, {**self._sizes, "f": self.model.nv, "h": 1, "p": self.parameters.size})

    @cached_property
    def adjoint(self) -> Program:
        """Adjoint of the substep with respect to everything but its length."""
        return adjoint(self.substep, ["q", "v", "u", "f", "act", "p"])

    @cached_property
    def instant(self) -> Program:
        """q, v, u, act, p -> acceleration with actuators but without contact, mass matrix, bias force."""

        def answer(q: Group, v: Group, u: Group, act: Group, p: Group) -> dict[str, list[Real]]:
            model = self.parameters.apply(self.model, p)
            world = World(model, normalize(model, q), v, u, act=act)
            forces = total_forces(world, [0.0] * model.nv, ForceLaws(contact_enabled=False))
            inertias = inertia.link_inertias(model, world.motion)
            lower = inertia.mass_matrix(model, world.motion, inertias)
            full = {**lower, **{(j, k): x for (k, j), x in lower.items()}}
            return {
                "qacc": dynamics.acceleration(model, world.motion, forces),
                "matrix": [full.get((i, j), 0.0) for i in range(model.nv) for j in range(model.nv)],
                "bias": dynamics.bias_force(model, world.motion, {}, inertias),
            }

        return trace(answer, {**self._sizes, "p": self.parameters.size})

    @property
    def _sizes(self) -> dict[str, int]:
        m = self.model
        return {"q": m.nq, "v": m.nv, "u": m.nu, "act": m.na}

    def now(self, **groups: np.ndarray) -> dict[str, np.ndarray]:
        """`instant` with numbers; the mass matrix is [..., nv, nv]."""
        found = evaluate(self.instant, groups)
        matrix = found["matrix"]
        return {**found, "matrix": matrix.reshape(*matrix.shape[:-1], self.model.nv, self.model.nv)}
