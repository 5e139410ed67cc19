# pyright: reportAttributeAccessIssue=false
"""One interface to MuJoCo and to both integrators: roll out a scene from given states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import mujoco
import numpy as np
import torch

from ahac.sim import Integrator, Simulator, State, load_model
from behavior.scenes import Scene

__all__ = ["ENGINES", "IMPLICIT", "MUJOCO", "Control", "Engine", "Motion", "simulator"]

Control = Callable[[float], np.ndarray]
"""Controls [nu] at a time [s]."""


@dataclass(frozen=True)
class Motion:
    """States after every step: positions [T, N, nq] and velocities [T, N, nv]."""

    h: float
    q: np.ndarray
    v: np.ndarray

    def at(self, time: float) -> int:
        """Return the index of the step that ends at a time [s]."""
        return round(time / self.h) - 1


@dataclass(frozen=True)
class Engine:
    """A way to simulate scenes, with steps of h seconds."""

    kind: Literal["mujoco"] | Integrator
    h: float
    stiff_friction: bool = False
    """Whether MuJoCo has elliptic cones with an impratio of 100, which makes feet creep less."""

    @property
    def name(self) -> str:
        """Name in the tables."""
        name = "MuJoCo" if self.kind == "mujoco" else self.kind
        return f"{name}, {1 / self.h:.0f} Hz{', impratio 100' * self.stiff_friction}"

    def roll(self, scene: Scene, seconds: float, control: Control | None = None, settle: float = 0.0) -> Motion:
        """Simulate all worlds of a scene; `settle` seconds before, without velocities and applied forces."""
        advance = _mujoco if self.kind == "mujoco" else _ours
        q, v, force = scene.start()
        if settle:
            found = advance(self, scene, (q, np.zeros_like(v), np.zeros_like(force)), round(settle / self.h), None)
            q, v = found[0][-1], found[1][-1] + v
        return Motion(self.h, *advance(self, scene, (q, v, force), round(seconds / self.h), control))


MUJOCO = Engine("mujoco", 1 / 960)
IMPLICIT = Engine("implicit", 1 / 240)
ENGINES = (MUJOCO, Engine("mujoco", 1 / 500), Engine("implicit", 1 / 960), IMPLICIT, Engine("explicit", 1 / 960))


@cache
def simulator(scene: Scene, kind: Integrator, worlds: int) -> Simulator:
    """Return a float64 simulator of a scene, whose `dt` is set by its user."""
    model = load_model(scene.source(), contact=scene.material)
    return Simulator(model, num_worlds=worlds, dt=1.0, substeps=1, dtype=torch.float64, integrator=kind)


def _ours(
    engine: Engine, scene: Scene, start: tuple[np.ndarray, ...], steps: int, control: Control | None
) -> tuple[np.ndarray, np.ndarray]:
    assert engine.kind != "mujoco"
    q, v, push = map(torch.tensor, start)
    sim = simulator(scene, engine.kind, len(q))
    sim.dt = engine.h
    states = [State(q, v)]
    with torch.no_grad():
        for step in range(steps):
            u = None if control is None else torch.tensor(np.tile(control(step * engine.h), (len(q), 1)))
            states.append(sim.step(states[-1], u, push))
    return torch.stack([s.q for s in states[1:]]).numpy(), torch.stack([s.v for s in states[1:]]).numpy()


def _mujoco(
    engine: Engine, scene: Scene, start: tuple[np.ndarray, ...], steps: int, control: Control | None
) -> tuple[np.ndarray, np.ndarray]:
    model = scene.compiled()
    model.opt.timestep = engine.h
    if engine.stiff_friction:
        model.opt.cone, model.opt.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 100.0
    data = mujoco.MjData(model)
    worlds = len(start[0])
    found = np.empty((steps, worlds, model.nq)), np.empty((steps, worlds, model.nv))
    for world in range(worlds):
        mujoco.mj_resetData(model, data)
        data.qpos, data.qvel, data.qfrc_applied = (x[world] for x in start)
        for step in range(steps):
            if control is not None:
                data.ctrl = control(data.time)
            mujoco.mj_step(model, data)
            found[0][step, world], found[1][step, world] = data.qpos, data.qvel
    return found
