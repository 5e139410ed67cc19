# pyright: reportAttributeAccessIssue=false
"""Accelerations and activations of actuated models on random states: ours in numpy, and MuJoCo's."""

from dataclasses import dataclass

import mujoco
import numpy as np

from support.mujoco_oracle import compiled, random_states
from support.numeric_physics import Numeric

__all__ = ["LIMB", "TENDONS", "Driven"]

STEP = 0.004
"""[s] Substep, for activations at its end."""

LIMB = """
<site name="base site" pos="-0.3 0.2 0.4" euler="0.3 0.2 0.1"/>
<body name="base" pos="0 0 1" {base}>
  <joint name="lift" type="slide" axis="0 0 1"/><joint name="yaw" axis="0 0 1"/>
  <geom type="box" size="0.1 0.2 0.1" mass="2"/>
  <site name="eye" pos="0.1 0.1 0"/>
  <body name="arm" pos="0.3 0 0" {arm}>
    <joint name="bend" axis="0 1 0" {bend}/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.7"/>
    <site name="knuckle" pos="0.1 0.02 0.05"/><site name="tip" pos="0.3 0.05 0.1" euler="0.2 0 0.4"/>
  </body>
</body>
<body name="rover" pos="0 1 1" euler="0.3 0.2 0.1">
  <freejoint name="root"/><geom type="box" size="0.1 0.2 0.05" mass="1"/><site name="ring" pos="0.1 0 0.1"/>
  <body name="head" pos="0.2 0 0"><joint name="neck" type="ball" {neck}/>
    <geom type="sphere" size="0.1" mass="0.5" pos="0.1 0 0"/></body>
</body>
"""
"""A limb of a slide and two hinges, and a free body with a ball joint."""

TENDONS = """
<tendon>
  <fixed name="sum" {sum}>
    <joint joint="yaw" coef="0.7"/><joint joint="bend" coef="-1.3"/><joint joint="lift" coef="2"/>
  </fixed>
  <spatial name="across" {across}>
    <site site="eye"/><site site="knuckle"/><site site="tip"/><site site="ring"/>
  </spatial>
</tendon>
"""


@dataclass(frozen=True)
class Driven:
    """Random states of a model, our numbers and MuJoCo's."""

    qacc: np.ndarray
    mujocos_qacc: np.ndarray
    act: np.ndarray
    """Activations after a step."""
    mujocos_act: np.ndarray
    data: list[mujoco.MjData]

    @classmethod
    def of(cls, source: str, states: int = 12, seed: int = 0, spread: float = 1.0) -> "Driven":
        """Evaluate both on the same states; controls reach far outside any range."""
        model = compiled(source, actuation=True)
        model.opt.timestep = STEP
        rng = np.random.default_rng(seed)
        q, v = random_states(model, states, seed)
        if spread != 1.0:
            q = np.tile(model.qpos0, (states, 1))
            for row in q:
                mujoco.mj_integratePos(model, row, spread * rng.normal(size=model.nv), 1.0)
        control = 2.0 * rng.normal(size=(states, model.nu))
        act = rng.uniform(-0.2, 1.2, size=(states, model.na))
        ours = Numeric(source)
        data, later = [], []
        for row in zip(q, v, control, act, strict=True):
            found = mujoco.MjData(model)
            found.qpos[:], found.qvel[:], found.ctrl[:], found.act[:] = row
            mujoco.mj_forward(model, found)
            data.append(found)
            stepped = mujoco.MjData(model)
            stepped.qpos[:], stepped.qvel[:], stepped.ctrl[:], stepped.act[:] = row
            mujoco.mj_step(model, stepped)
            later.append(stepped.act.copy())
        return cls(
            ours.actuated(q, v, control, act, STEP),
            np.stack([found.qacc for found in data]),
            ours.activations(control, act, STEP),
            np.stack(later),
            data,
        )

    def assert_equal(self, tolerance: float = 1e-10) -> None:
        """Compare both: accelerations relative to the largest of their state."""
        scale = np.abs(self.mujocos_qacc).max(axis=-1, keepdims=True)
        assert np.abs((self.qacc - self.mujocos_qacc) / scale).max() < tolerance
        np.testing.assert_allclose(self.act, self.mujocos_act, rtol=1e-12, atol=1e-12)
