"""Robots in free flight: no contact, no joint at its limit, where MuJoCo and our simulator agree."""

from __future__ import annotations

from dataclasses import replace

import torch

from ahac.engines import Drive, Engine, EngineState
from ahac.envs import Task
from ahac.sim import JointKind

__all__ = ["DT", "WORLDS", "flying", "small_steps", "step_of"]

WORLDS, DT = 3, 0.01
HEIGHT = 5.0


def small_steps(task: Task, substeps: int) -> Task:
    return replace(task, dt=DT, substeps=substeps)


def flying(task: Task, seed: int = 0) -> EngineState:
    """Random velocities in the middle of all joints' ranges, high above the ground."""
    model = task.model
    q = torch.tensor(model.rest_q, dtype=torch.float64).repeat(WORLDS, 1)
    generator = torch.Generator().manual_seed(seed)
    for joint in model.joints:
        if joint.kind is not JointKind.BALL and joint.range is not None:
            q[:, joint.q] = 0.5 * sum(joint.range)
    vertical = [j for j in model.links[0].joints if j.kind is JointKind.SLIDE and abs(j.axis[2]) > 0.5]
    if vertical and model.planes:
        q[:, vertical[0].q] += HEIGHT
    v = 0.5 * torch.randn(WORLDS, model.nv, generator=generator, dtype=torch.float64)
    return EngineState(q, v, torch.zeros(WORLDS, model.na, dtype=torch.float64) if model.na else None)


def step_of(task: Task, engine: Engine, parameters: torch.Tensor | None = None) -> EngineState:
    """State after one step with small random controls and forces."""
    generator = torch.Generator().manual_seed(1)
    control = 0.2 * (2.0 * torch.rand(WORLDS, task.model.nu, generator=generator, dtype=torch.float64) - 1.0)
    force = torch.randn(WORLDS, task.model.nv, generator=generator, dtype=torch.float64)
    return engine.step(flying(task), Drive(control, force, parameters))
