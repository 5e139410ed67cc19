# pyright: reportAttributeAccessIssue=false
"""Joints: a servo that saturates, and a loop that a constraint closes."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from behavior.engines import Engine
from behavior.scenes import Scene

__all__ = ["FourBar", "Servo", "closure_gap", "reversals"]

NOTICEABLE = 1e-3
"""Changes of speed below this part of the largest speed are not counted."""


class Joints(Scene):
    """A scene that starts in the model's rest pose."""

    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return one world at rest."""
        model = self.compiled()
        return model.qpos0[None].copy(), np.zeros((1, model.nv)), np.zeros((1, model.nv))


@dataclass(frozen=True)
class Servo(Joints):
    """A hinge with a position servo of limited force."""

    inertia: float = 0.05
    kp: float = 2000.0
    kv: float = 200.0
    bound: float = 39.0

    def source(self) -> str:
        """Return the MJCF text; the integrator is for MuJoCo."""
        return f"""<mujoco><option gravity="0 0 0" integrator="implicitfast"/><worldbody><body>
            <joint name="hinge" axis="0 1 0" armature="{self.inertia}"/><geom size="0.01" mass="1e-4"/></body>
            </worldbody>
            <actuator><position joint="hinge" kp="{self.kp}" kv="{self.kv}" forcerange="-{self.bound} {self.bound}"/>
            </actuator></mujoco>"""


def reversals(engine: Engine, scene: Servo) -> int:
    """Return how often the acceleration changes its sign in the second after a step of the target by 1 rad."""
    speed = engine.roll(scene, 1.0, lambda time: np.ones(1)).v[:, 0, 0]
    change = np.diff(speed)
    large = np.abs(change) > NOTICEABLE * np.abs(speed).max()
    return int(((change[1:] * change[:-1] < 0.0) & large[1:]).sum())


@dataclass(frozen=True)
class FourBar(Joints):
    """A crank, a coupler and a rocker; a ball joint between the last two closes the loop."""

    def source(self) -> str:
        """Return the MJCF text."""
        return """<mujoco><worldbody>
            <body name="crank" pos="0 0 1"><joint axis="0 1 0"/>
              <geom type="capsule" fromto="0 0 0 0 0 0.1" size="0.01" mass="0.2"/>
              <body name="coupler" pos="0 0 0.1"><joint axis="0 1 0"/>
                <geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.01" mass="0.5"/></body></body>
            <body name="rocker" pos="0.3 0 1"><joint axis="0 1 0"/>
              <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.01" mass="0.4"/></body></worldbody>
            <equality><connect body1="coupler" body2="rocker" anchor="0.3 0 0.1"/></equality></mujoco>"""


def closure_gap(engine: Engine) -> tuple[float, float]:
    """Return the largest gap of a four-bar linkage that swings for 2 s [mm], and the change of its energy [J]."""
    scene = FourBar()
    path = engine.roll(scene, 2.0)
    model = scene.compiled()
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data = mujoco.MjData(model)
    gaps, energies = [], []
    for q, v in zip(path.q[:, 0], path.v[:, 0], strict=True):
        data.qpos, data.qvel = q, v
        mujoco.mj_forward(model, data)
        gaps.append(np.linalg.norm(data.efc_pos[:3]))
        energies.append(data.energy.sum())
    return 1e3 * max(gaps), float(energies[-1] - energies[0])
