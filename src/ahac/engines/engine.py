"""Interface of physics engines that evaluate policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

__all__ = ["Drive", "Engine", "EngineState"]


@dataclass(frozen=True)
class EngineState:
    """State of N worlds, in the coordinates of the task's model."""

    q: Tensor
    """[N, nq] positions."""
    v: Tensor
    """[N, nv] velocities."""
    act: Tensor | None = None
    """[N, na] activations; None in a model without activations."""


@dataclass(frozen=True)
class Drive:
    """What moves N worlds during a control step; all of it is constant during the step."""

    control: Tensor
    """[N, nu] controls of the task's model, which are clipped to [-1, 1]."""
    force: Tensor
    """[N, nv] generalized forces."""
    parameters: Tensor | None = None
    """[N, P] values of the task's randomized parameters; None without randomization."""


class Engine(Protocol):
    """Advances N worlds of a task's robot by one control step at a time, without gradients."""

    @property
    def name(self) -> str:
        """Name of the engine, for tables and files."""
        ...

    @property
    def num_worlds(self) -> int:
        """Number of worlds, N."""
        ...

    def step(self, state: EngineState, drive: Drive) -> EngineState:
        """Return the state one control step later. A world that diverges has non-finite or huge numbers in it."""
        ...
