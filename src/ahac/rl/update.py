"""Dataclasses that the stages of a first-order algorithm's iteration exchange, on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ahac.rl.rollout import Rollout

__all__ = ["ActorUpdate", "RolloutBuffer"]


@dataclass(frozen=True, eq=False, kw_only=True)
class RolloutBuffer:
    """D in Algorithm 1: a rollout of the policy with the values of the states it reached."""

    rollout: Rollout
    noise: Tensor
    """[T, N, actions] standard normal noise of the actions."""
    next_value: Tensor
    """[T, N] V(s_{t+1}) of the actor's objective, zero where the task ended the episode; carries gradients."""
    target_value: Tensor
    """[T, N] the same for the critic's targets, without gradients."""
    entropy: Tensor | None
    """[T, N] −log π(a | s), part of the reward; carries gradients. None without a maximum-entropy objective."""
    stiffness: Tensor
    """[T, N], or [N] of the last step if stiffness is only logged; without gradients."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ActorUpdate:
    """Results of the backward pass and the actor's step."""

    valid: Tensor
    """Bool: whether everything the policy learned from is finite; if not, nothing was updated."""
    critic_obs: Tensor
    """[T N, critic_obs] normalized observations of all ranks, for the critic."""
    targets: Tensor
    """[T N] TD(λ) targets of all ranks, for the critic."""
    metrics: Mapping[str, Tensor]
    """Scalars to log, by name."""
    stiffness: Tensor | None
    """[T] mean over worlds, if it was measured at every step."""
    adjoint_norms: Tensor | None
    """[T − 1] norms of the adjoint of the state, if the horizon rule needs them."""
