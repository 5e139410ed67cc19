"""Environment of a task on a physics engine: `VecEnv` with other physics and without gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.engines.engine import Engine
from ahac.engines.simulator import CONTROLS, EngineSimulator
from ahac.envs import Task, VecEnv, tracing
from ahac.sim import Model, Simulator, World

__all__ = ["EngineEnv"]


class EngineEnv(VecEnv):
    """N worlds of a task on an engine.

    Observations, memory, random numbers, rewards, ends of episodes and resets are those of `VecEnv`: with the same
    seed, actions and physics, so are all results. There are two differences: `Task.control` and `Task.forces` act once
    per control step instead of in every substep, and there are no gradients.
    """

    def __init__(
        self,
        task: Task,
        engine: Engine,
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        early_termination: bool = True,
        num_threads: int | None = None,
    ) -> None:
        """Trace the task and start an episode in every world.

        Args:
            task: The task.
            engine: An engine for this task; it determines the number of worlds.
            seed: Random seed of all that the task draws.
            device: Where observations are computed, "cpu" or a CUDA device.
            dtype: torch.float32 or torch.float64.
            early_termination: Whether the task may end episodes before the time limit; diverged worlds always reset.
            num_threads: Number of CPU threads of observations and rewards; all cores by default.
        """
        self.engine = engine

        def outputs(world: World) -> dict[str, Any]:
            return tracing.step_outputs(task, world, early_termination, world.context[CONTROLS])

        def simulator(model: Model, **settings: Any) -> Simulator:  # noqa: ANN401 - as `Simulator`
            return EngineSimulator(model, engine=engine, **{**settings, "readouts": {"step": outputs}})

        self._simulator = simulator
        super().__init__(
            task,
            num_envs=engine.num_worlds,
            seed=seed,
            device=device,
            dtype=dtype,
            early_termination=early_termination,
            num_threads=num_threads,
        )

    def step(self, action: Tensor) -> Step:
        """Advance every world by one control step, and reset the worlds whose episode ended.

        Args:
            action: [N, action]; entries are clipped to [-1, 1].
        """
        with torch.no_grad():
            return super().step(action)

    @property
    def signals(self) -> dict[str, Tensor]:
        """The task's signals after the last step and before any reset, [N, size] each; empty before the first step."""
        assert isinstance(self.sim, EngineSimulator), "the constructor makes this simulator"
        prefix = "step.signals."
        return {n.removeprefix(prefix): x for n, x in self.sim.last_readouts.items() if n.startswith(prefix)}

    def stiffness(self, step: Step, signal: str = "dynamics", probes: int | None = None) -> Tensor:
        """Raise an InputError: an engine has no derivatives."""
        raise InputError("stiffness needs derivatives, which engines do not have; measure it in ahac.make(...)")
