"""Our own simulator as an engine."""

from __future__ import annotations

import torch

from ahac.engines.engine import Drive, EngineState
from ahac.envs import Task
from ahac.sim import Simulator, State

__all__ = ["NativeEngine"]


class NativeEngine:
    """The simulator with which the task trains."""

    name = "ahac"

    def __init__(
        self,
        task: Task,
        *,
        num_worlds: int,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        num_threads: int | None = None,
    ) -> None:
        """Trace the physics of a task's robot.

        Args:
            task: The task.
            num_worlds: Number of worlds.
            device: "cpu" or a CUDA device.
            dtype: torch.float32 or torch.float64.
            num_threads: Number of CPU threads; all cores by default.
        """
        self.num_worlds = num_worlds
        self._sim = Simulator(
            task.model,
            num_worlds=num_worlds,
            dt=task.dt,
            substeps=task.substeps,
            integrator=task.integrator,
            device=device,
            dtype=dtype,
            num_threads=num_threads,
            parameters=None if task.randomization is None else task.randomization.parameters,
            validate_parameters=False,  # the task has checked the bounds of their distributions
        )

    @torch.no_grad()
    def step(self, state: EngineState, drive: Drive) -> EngineState:
        """Return the state one control step later."""
        # Controls are delayed already: without earlier controls, the simulator takes those of the step for them.
        start = State(state.q, state.v, act=state.act)
        end = self._sim.step(start, drive.control, drive.force, parameters=drive.parameters)
        return EngineState(end.q, end.v, end.act)
