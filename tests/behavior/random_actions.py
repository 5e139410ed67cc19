"""Robots under random actions: worlds that diverge, and how much the state depends on the initial velocity."""

from __future__ import annotations

import numpy as np
import torch

from ahac.sim import Simulator, State, load_model
from behavior.scenes import Legged, Robot

__all__ = ["DT", "SUBSTEPS", "diverged", "sensitivity"]

DT = 0.02
SUBSTEPS = 4
DIFFERENCE = 1e-9
"""Change of a velocity for finite differences, in float64. Unlike the adjoint, these see discontinuities too."""


def _simulator(scene: Legged, worlds: int) -> Simulator:
    return Simulator(load_model(scene.source()), num_worlds=worlds, dt=DT, substeps=SUBSTEPS, dtype=torch.float64)


def _rollout(sim: Simulator, state: State, robot: Robot, scale: float, seconds: float, copies: int) -> State:
    """Step under servo targets that are drawn around the stance with a standard deviation `scale` [rad]."""
    random = torch.Generator().manual_seed(5)
    stance = torch.tensor(robot.targets())
    with torch.no_grad():
        for _ in range(round(seconds / DT)):
            noise = torch.randn(sim.num_worlds // copies, len(stance), generator=random, dtype=torch.float64)
            state = sim.step(state, (stance + scale * noise).repeat_interleave(copies, 0))
    return state


def diverged(robot: Robot, scale: float, worlds: int = 64, seconds: float = 10.0) -> tuple[int, float]:
    """Return how many worlds are not finite after some time, and the largest speed of any joint at the end."""
    scene = Legged(robot, worlds=worlds, noise=0.02)
    q, v, _ = scene.start()
    state = _rollout(_simulator(scene, worlds), State(torch.tensor(q), torch.tensor(v)), robot, scale, seconds, 1)
    finite = torch.isfinite(state.q).all(1) & torch.isfinite(state.v).all(1)
    return int((~finite).sum()), float(state.v.abs().max())


def sensitivity(robot: Robot, scale: float, worlds: int = 16, seconds: float = 1.0) -> np.ndarray:
    """Return the Frobenius norm of ∂(q, v) / ∂(initial velocity) for every world; the first starts exactly at rest."""
    scene = Legged(robot, worlds=worlds, noise=0.02)
    q, v, _ = scene.start()
    copies = v.shape[1] + 1
    changed = np.repeat(v[:, None], copies, axis=1)
    changed[:, 1:] += DIFFERENCE * np.eye(copies - 1)
    start = State(torch.tensor(np.repeat(q, copies, axis=0)), torch.tensor(changed.reshape(-1, copies - 1)))
    end = _rollout(_simulator(scene, worlds * copies), start, robot, scale, seconds, copies)
    found = torch.cat([end.q, end.v], dim=1).view(worlds, copies, -1)
    return ((found[:, 1:] - found[:, :1]) / DIFFERENCE).flatten(1).norm(dim=1).numpy()
