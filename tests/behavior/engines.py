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

    @property
    def name(self) -> str:
        """Name in the tables."""
        return f"{'MuJoCo' if self.kind == 'mujoco' else self.kind}, {1 / self.h:.0f} Hz"

    def roll(self, scene: Scene, seconds: float, control: Control | None = None) -> Motion:
        """Simulate all worlds of a scene."""
        steps = round(seconds / self.h)
        q, v = (_mujoco if self.kind == "mujoco" else _ours)(self, scene, steps, control)
        return Motion(self.h, q, v)


MUJOCO = Engine("mujoco", 1 / 960)
IMPLICIT = Engine("implicit", 1 / 240)
ENGINES = (MUJOCO, Engine("mujoco", 1 / 500), Engine("implicit", 1 / 960), IMPLICIT, Engine("explicit", 1 / 960))


@cache
def simulator(scene: Scene, kind: Integrator, worlds: int) -> Simulator:
    """Return a float64 simulator of a scene, whose `dt` is set by its user."""
    model = load_model(scene.source(), contact=scene.material)
    return Simulator(model, num_worlds=worlds, dt=1.0, substeps=1, dtype=torch.float64, integrator=kind)


def _ours(engine: Engine, scene: Scene, steps: int, control: Control | None) -> tuple[np.ndarray, np.ndarray]:
    assert engine.kind != "mujoco"
    q, v, force = scene.start()
    sim = simulator(scene, engine.kind, len(q))
    sim.dt = engine.h
    state, push = State(torch.tensor(q), torch.tensor(v)), torch.tensor(force)
    states: list[State] = []
    with torch.no_grad():
        for step in range(steps):
            u = None if control is None else torch.tensor(np.tile(control(step * engine.h), (len(q), 1)))
            state = sim.step(state, u, push)
            states.append(state)
    return torch.stack([s.q for s in states]).numpy(), torch.stack([s.v for s in states]).numpy()


def _mujoco(engine: Engine, scene: Scene, steps: int, control: Control | None) -> tuple[np.ndarray, np.ndarray]:
    model = scene.compiled()
    model.opt.timestep = engine.h
    runs = [_mujoco_world(model, *start, steps, control) for start in zip(*scene.start(), strict=True)]
    return np.stack([q for q, _ in runs], axis=1), np.stack([v for _, v in runs], axis=1)


def _mujoco_world(  # noqa: PLR0913, PLR0917 - one start, unpacked
    model: mujoco.MjModel, q: np.ndarray, v: np.ndarray, force: np.ndarray, steps: int, control: Control | None
) -> tuple[np.ndarray, np.ndarray]:
    data = mujoco.MjData(model)
    data.qpos, data.qvel, data.qfrc_applied = q, v, force
    found = np.empty((steps, model.nq)), np.empty((steps, model.nv))
    for step in range(steps):
        if control is not None:
            data.ctrl = control(data.time)
        mujoco.mj_step(model, data)
        found[0][step], found[1][step] = data.qpos, data.qvel
    return found
