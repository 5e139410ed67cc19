"""Collect batches without gradients: no graph is built, and the simulator stores no substeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.env import Env, Step
from ahac.rl.nonfinite import NonFiniteReport, describe, earliest, final_observation, unusable_worlds
from ahac.rl.stepping import step_env

__all__ = ["Batch", "collect", "diagnose_batch", "nonfinite_worlds"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """T steps of N worlds, time first."""

    obs: Tensor
    """[T, N, obs] observations before the action."""
    critic_obs: Tensor
    """[T, N, critic_obs] the critics' observations before the action: `obs` itself with one group."""
    action: Tensor
    """[T, N, actions]."""
    reward: Tensor
    """[T, N]."""
    final_critic_obs: Tensor
    """[T, N, critic_obs] the critics' observations after the action, before any reset."""
    terminated: Tensor
    """[T, N] bool, the task ended the episode, so no value follows."""
    done: Tensor
    """[T, N] bool, the episode terminated or timed out."""
    steps: list[Step]
    """The environment's steps."""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Tensors that must be finite and not too large, in the order of computation."""
        asymmetric = self.critic_obs is not self.obs
        return {
            "observation": self.obs,
            **({"critic observation": self.critic_obs} if asymmetric else {}),
            "action": self.action,
            "reward": self.reward,
            final_observation(asymmetric): self.final_critic_obs,
        }


@torch.no_grad()
def collect(env: Env, policy: Callable[[Tensor], Tensor], length: int) -> Batch:
    """Step the environment from its current state, with a policy of raw observations."""
    env.detach()
    obs: list[Tensor] = []
    critic_obs: list[Tensor] = []
    steps: list[Step] = []
    for _ in range(length):
        obs.append(env.obs)
        if env.spec.asymmetric:
            critic_obs.append(env.critic_obs)
        step_env(env, policy(env.obs), steps)
    seen = torch.stack(obs)
    return Batch(
        obs=seen,
        critic_obs=torch.stack(critic_obs) if env.spec.asymmetric else seen,
        action=torch.stack([step.action for step in steps]),
        reward=torch.stack([step.reward for step in steps]),
        final_critic_obs=torch.stack([step.final_critic_obs for step in steps]),
        terminated=torch.stack([step.terminated for step in steps]),
        done=torch.stack([step.done for step in steps]),
        steps=steps,
    )


def nonfinite_worlds(parts: Mapping[str, Tensor]) -> Tensor:
    """Return [N] bool, the worlds of [T, N, ...] tensors with a value that is not finite or too large to learn from."""
    return torch.stack([unusable_worlds(part).any(dim=0) for part in parts.values()]).any(dim=0)


def diagnose_batch(
    parts: Mapping[str, Tensor], steps: Sequence[Step], otherwise: str, reward_terms: Sequence[str] = ()
) -> NonFiniteReport:
    """Find the first of `parts` that is not finite or too large.

    Args:
        parts: [T, N, ...] tensors by name, in the order of computation.
        steps: All steps.
        otherwise: Message if all parts are finite.
        reward_terms: Names of the reward terms.
    """
    actions = torch.stack([step.action for step in steps])
    start = steps[0].state
    bad = {name: unusable_worlds(x) for name, x in parts.items()}
    message = otherwise
    if name := earliest(bad):
        terms = torch.stack([step.reward_terms for step in steps])
        message = describe(name, actions, bad[name].nonzero()[0], parts[name], terms, reward_terms)
    return NonFiniteReport(
        message, nonfinite_worlds(parts), {"q": start.q.detach(), "v": start.v.detach(), "actions": actions}
    )
