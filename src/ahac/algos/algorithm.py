"""The interface between algorithms and the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ahac.algos.parts.replay import Replay
from ahac.core.env import Env, Step
from ahac.rl.nonfinite import NonFiniteReport

__all__ = ["Algorithm", "HasReplayBuffer", "IterationResult"]


@dataclass(frozen=True)
class IterationResult:
    """Result of one iteration."""

    env_steps: int
    """Environment steps taken: rollout length times number of worlds."""
    metrics: Mapping[str, float]
    """Numbers to log, by name."""
    steps: list[Step] = field(default_factory=list[Step])
    """The environment's steps; with CUDA graphs, valid until the next iteration."""
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds per phase."""
    failure: NonFiniteReport | None = None
    """Why the policy was not updated, if it was not."""


class Algorithm(Protocol):
    """Learns a policy in an environment."""

    @property
    def generator(self) -> torch.Generator:
        """Random generator of the training."""
        ...

    @property
    def policy_state(self) -> Mapping[str, Tensor]:
        """Tensors on which `act` depends, by their names in `state_dict`: policy and observation normalizer."""
        ...

    def iterate(self, env: Env, progress: float) -> IterationResult:
        """Roll out once and learn from it; `progress` runs from 0 to 1 over the training."""
        ...

    def act(self, obs: Tensor) -> Tensor:
        """Return the mode of the policy for raw observations."""
        ...

    def policy_layers(self) -> nn.Sequential:
        """Return the mode of the policy as layers, from raw observations to actions, to export it."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything learned, and the state of the generator."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume exactly from a saved state."""
        ...


@runtime_checkable
class HasReplayBuffer(Protocol):
    """An algorithm with a replay buffer.

    Its `state_dict` has the number of rows added, "replay.added", but not the rows.
    """

    @property
    def replay(self) -> Replay:
        """The replay buffer."""
        ...
