"""State of an environment's worlds before a step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from ahac.sim import State

__all__ = ["TaskState"]


@dataclass(frozen=True, eq=False)
class TaskState(State):
    """Physics state, with the other inputs of a step that last from step to step."""

    parameters: Tensor | None = None
    """[N, P] values of the randomized parameters; None without randomization."""
    memory: Tensor | None = None
    """[N, M] memory of the task, one entry after the other; None without memory."""

    def detach(self) -> TaskState:
        """Return the same state, detached from the autograd graph."""
        state = super().detach()
        assert isinstance(state, TaskState), "a detached state keeps its type"
        return replace(state, memory=None if self.memory is None else self.memory.detach())
