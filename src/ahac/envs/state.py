"""State of an environment's worlds before a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ahac.sim import State

__all__ = ["TaskState", "select"]


@dataclass(frozen=True, eq=False)
class TaskState(State):
    """Physics state, with the other inputs of a step that last from step to step."""

    parameters: Tensor | None = None
    """[N, P] values of the randomized parameters; None without randomization."""
    memory: Tensor | None = None
    """[N, M] memory of the task, one entry after the other; None without memory."""

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> TaskState:
        """Return the state in tensors by name; those that a task does not have are missing."""
        act, past, parameters, memory = map(tensors.get, ("act", "past_controls", "parameters", "memory"))
        return cls(tensors["q"], tensors["v"], act=act, past_controls=past, parameters=parameters, memory=memory)

    def detach(self) -> TaskState:
        """Return the same state, detached from the autograd graph."""
        state = super().detach()
        assert isinstance(state, TaskState), "a detached state keeps its type"
        return replace(state, memory=None if self.memory is None else self.memory.detach())


def select(worlds: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Return `new` in the worlds of a mask [N], and `old` in the others."""
    return torch.where(worlds.view(-1, *(1 for _ in old.shape[1:])), new, old)
