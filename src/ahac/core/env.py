"""What an environment is to those who learn in it: N worlds, stepped together, differentiable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor

__all__ = ["STIFFNESS_SIGNALS", "Env", "EnvSpec", "GraphCapturable", "PhysicsState", "Step", "StiffnessSignal"]

StiffnessSignal = Literal["dynamics", "contact", "contact_normalised", "force"]
"""Name of a signal of `Env.stiffness`; `ahac.envs.stiffness` defines them."""

STIFFNESS_SIGNALS: tuple[StiffnessSignal, ...] = get_args(StiffnessSignal)
"""All signals of `Env.stiffness`."""


class PhysicsState(Protocol):
    """Positions and velocities of N worlds."""

    @property
    def q(self) -> Tensor:
        """[N, nq] positions."""
        ...

    @property
    def v(self) -> Tensor:
        """[N, nv] velocities."""
        ...


@dataclass(frozen=True, kw_only=True)
class EnvSpec:
    """Sizes and names, known before the first step."""

    name: str
    num_envs: int
    obs_size: int
    action_size: int
    episode_steps: int
    """After so many steps an episode is cut off."""
    dt: float
    """Seconds per step."""
    device: torch.device
    dtype: torch.dtype
    reward_terms: tuple[str, ...] = ()
    """Names of the parts that a reward is the sum of, in the order of `Step.reward_terms`; empty where they have none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """One step of N worlds. Worlds whose episode ended have been reset: `obs` is then the new episode's first."""

    obs: Tensor
    """[N, obs] what the next action is chosen from; the environment's own, not to be changed in place."""
    final_obs: Tensor
    """[N, obs] before any reset; carries gradients. Equals `obs` where no episode ended; zero in lost worlds."""
    reward: Tensor
    """[N] r(s, a), of the state before the step and the action."""
    terminated: Tensor
    """[N] bool, the task ended the episode: no value follows."""
    truncated: Tensor
    """[N] bool, the episode was cut off at its time limit, while it could have gone on."""
    diverged: Tensor
    """[N] bool, terminated because physics or action was not finite, or too large to be a robot's."""
    reward_terms: Tensor
    """[N, terms] the parts that the reward is the sum of, in the task's order; without gradients."""
    episode_return: Tensor
    """[N] sum of the rewards of the episode so far, this step included; without gradients."""
    episode_length: Tensor
    """[N] steps of the episode so far, this one included; whole numbers as floats."""
    action: Tensor
    """[N, action] as given."""
    state: PhysicsState
    """Before the step."""
    next_state: PhysicsState
    """After the step, before any reset."""

    @property
    def done(self) -> Tensor:
        """[N] bool, the episode ended, for either reason."""
        return self.terminated | self.truncated


class Env(Protocol):
    """N worlds of one task."""

    @property
    def spec(self) -> EnvSpec:
        """Sizes and names."""
        ...

    @property
    def obs(self) -> Tensor:
        """[N, obs] what the next action is chosen from."""
        ...

    def reset(self, seed: int | None = None) -> Tensor:
        """Start a new episode in every world; its first observation."""
        ...

    def reset_worlds(self, worlds: Tensor) -> None:
        """Start a new episode in some worlds, [N] bool."""
        ...

    def step(self, action: Tensor) -> Step:
        """Advance every world by one control step."""
        ...

    def detach(self, worlds: Tensor | None = None) -> None:
        """Cut the graph here, in all worlds or in some: no gradient flows further back."""
        ...

    def stiffness(self, step: Step, signal: str = "dynamics", probes: int | None = None) -> Tensor:
        """[N] how stiff a step was."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the future depends on."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on exactly from a saved state."""
        ...


@runtime_checkable
class GraphCapturable(Protocol):
    """An environment whose steps can be replayed: the same work every time, on memory that is known."""

    @property
    def buffers(self) -> list[Tensor]:
        """What the future depends on, but for chance."""
        ...

    def set_buffers(self, memory: list[Tensor]) -> None:
        """Go on from these tensors, without copying them."""
        ...

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """All chance."""
        ...
