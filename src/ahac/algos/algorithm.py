"""What an algorithm is to the trainer: it iterates, reports numbers, and can be saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from torch import Tensor

from ahac.algos.parts.replay import Replay
from ahac.core.env import Env, Step
from ahac.rl.nonfinite import NonFiniteReport

__all__ = ["Algorithm", "HasReplayBuffer", "IterationResult"]


@dataclass(frozen=True)
class IterationResult:
    """What one iteration did."""

    env_steps: int
    """World-steps taken: rollout length times worlds."""
    metrics: Mapping[str, float]
    """Numbers to log, by name."""
    steps: list[Step] = field(default_factory=list)
    """What the environment answered; where iterations are replayed, good until the next one."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What its parts took."""
    failure: NonFiniteReport | None = None
    """Why the policy was not updated, where it was not."""


class Algorithm(Protocol):
    """Learns a policy in an environment."""

    def iterate(self, env: Env, progress: float) -> IterationResult:
        """One rollout and what is learnt from it; `progress` runs from 0 to 1 over the training."""
        ...

    def act(self, obs: Tensor) -> Tensor:
        """The policy's best action for raw observations."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that was learnt, and all chance."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on exactly from a saved state."""
        ...


@runtime_checkable
class HasReplayBuffer(Protocol):
    """An algorithm that learns from replay. Its `state_dict` has the number of rows, "replay.added", not the rows."""

    @property
    def replay(self) -> Replay:
        """What it learns from."""
        ...
