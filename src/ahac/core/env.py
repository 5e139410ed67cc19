"""Environment interface for learning algorithms: N worlds, stepped together and differentiable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor

from ahac.core.bundle import BundleConfig
from ahac.core.errors import InputError

__all__ = [
    "STIFFNESS_SIGNALS",
    "Bundling",
    "Env",
    "EnvSpec",
    "GraphCapturable",
    "PhysicsState",
    "Step",
    "StiffnessSignal",
]

StiffnessSignal = Literal["dynamics", "contact", "contact_normalized", "force"]
"""Name of a signal of `Env.stiffness`; `ahac.envs.stiffness` defines them."""

STIFFNESS_SIGNALS: tuple[StiffnessSignal, ...] = get_args(StiffnessSignal)
"""All signals of `Env.stiffness`."""


class PhysicsState(Protocol):
    """Positions, velocities and activations of N worlds."""

    @property
    def q(self) -> Tensor:
        """[N, nq] positions."""
        ...

    @property
    def v(self) -> Tensor:
        """[N, nv] velocities."""
        ...

    @property
    def act(self) -> Tensor | None:
        """[N, na] activations; None in a model without activations."""
        ...


@dataclass(frozen=True, kw_only=True)
class EnvSpec:
    """Sizes and names of an environment, known before the first step."""

    name: str
    """Name of the task."""
    num_envs: int
    """Number of worlds, N."""
    obs_size: int
    """Size of the policy's observation."""
    action_size: int
    """Size of an action."""
    episode_steps: int
    """Time limit of an episode, in steps."""
    dt: float
    """Seconds per step."""
    device: torch.device
    """Device of all tensors."""
    dtype: torch.dtype
    """Type of all floating-point tensors."""
    critic_obs_size: int = 0
    """Size of the critics' observation; by default `obs_size`, as with one observation group."""
    asymmetric: bool = False
    """Whether critics have their own observation group. If not, `critic_obs` and `obs` are the same tensor."""
    reward_terms: tuple[str, ...] = ()
    """Names of the reward terms, in the order of `Step.reward_terms`; empty if they have no names."""

    def __post_init__(self) -> None:
        if not self.critic_obs_size:
            object.__setattr__(self, "critic_obs_size", self.obs_size)
        if not self.asymmetric and self.critic_obs_size != self.obs_size:
            raise InputError(
                f"with one observation group, critic_obs_size must be obs_size = {self.obs_size}, got "
                f"{self.critic_obs_size}; set asymmetric=True if critics have their own group"
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """One step of N worlds. Worlds whose episode ended have been reset: their `obs` is the first of the new episode."""

    obs: Tensor
    """[N, obs] observation for the next action; owned by the environment, do not modify it in place."""
    critic_obs: Tensor
    """[N, critic_obs] what critics see at the same time as `obs`; the same tensor with one observation group."""
    final_obs: Tensor
    """[N, obs] observation before any reset, with gradients. Equals `obs` unless an episode ended; zero if diverged."""
    final_critic_obs: Tensor
    """[N, critic_obs] what critics see at the same time as `final_obs`; the same tensor with one observation group."""
    reward: Tensor
    """[N] r(s, a), where s is the state before the step."""
    terminated: Tensor
    """[N] bool, the task ended the episode: the value after it is zero."""
    truncated: Tensor
    """[N] bool, the episode ended at its time limit but could have continued."""
    diverged: Tensor
    """[N] bool, terminated because the physics or the action was non-finite or implausibly large."""
    reward_terms: Tensor
    """[N, terms] terms whose sum is the reward, in the task's order; without gradients."""
    episode_return: Tensor
    """[N] sum of the episode's rewards up to and including this step; without gradients."""
    episode_length: Tensor
    """[N] number of the episode's steps up to and including this one, as floats."""
    action: Tensor
    """[N, action] action as passed to `step`."""
    state: PhysicsState
    """State before the step."""
    next_state: PhysicsState
    """State after the step, before any reset."""
    bundled: Tensor | None = None
    """[N] bool, the step is the mean of several branches; None in a plain step."""

    @property
    def done(self) -> Tensor:
        """[N] bool, the episode was terminated or truncated."""
        return self.terminated | self.truncated


class Env(Protocol):
    """N worlds of one task."""

    @property
    def spec(self) -> EnvSpec:
        """Sizes and names of the environment."""
        ...

    @property
    def obs(self) -> Tensor:
        """[N, obs] observation for the next action: the policy's input."""
        ...

    @property
    def critic_obs(self) -> Tensor:
        """[N, critic_obs] observation of the same states for critics; `obs` itself with one observation group."""
        ...

    def reset(self, seed: int | None = None) -> Tensor:
        """Start a new episode in every world and return the first observations, [N, obs]."""
        ...

    def reset_worlds(self, worlds: Tensor) -> None:
        """Start a new episode in the worlds selected by a mask, [N] bool."""
        ...

    def step(self, action: Tensor) -> Step:
        """Advance every world by one control step."""
        ...

    def detach(self, worlds: Tensor | None = None) -> None:
        """Stop gradients from flowing further back, in all worlds or in those selected by a mask, [N] bool."""
        ...

    def stiffness(self, step: Step, signal: str = "dynamics", probes: int | None = None) -> Tensor:
        """Return the stiffness of a step, [N]."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return the complete state, including the RNG state."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state exactly."""
        ...


@runtime_checkable
class Bundling(Protocol):
    """An environment with bundled steps."""

    def bundled_step(self, action: Tensor, config: BundleConfig) -> Step:
        """Advance every world by one control step, in hard contact by the mean of several branches."""
        ...


@runtime_checkable
class GraphCapturable(Protocol):
    """An environment whose steps can be captured in a CUDA graph: every step does the same work on the same memory."""

    @property
    def buffers(self) -> list[Tensor]:
        """Tensors that hold the complete state, except the RNG state."""
        ...

    def set_buffers(self, memory: list[Tensor]) -> None:
        """Use these tensors as the state, without copying them."""
        ...

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """All random number generators of the environment."""
        ...
