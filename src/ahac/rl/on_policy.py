"""Worlds stepped without gradients: no graph is built, and the simulator keeps no substeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.env import Env, Step
from ahac.rl.nonfinite import NonFiniteReport, describe, earliest, unusable_worlds
from ahac.rl.stepping import step_env

__all__ = ["Batch", "collect", "diagnose_batch", "nonfinite_worlds"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """T steps of N worlds, time first."""

    obs: Tensor
    """[T, N, obs] before the action."""
    action: Tensor
    """[T, N, actions]."""
    reward: Tensor
    """[T, N]."""
    final_obs: Tensor
    """[T, N, obs] after the action, before any reset."""
    terminated: Tensor
    """[T, N] bool, no value follows."""
    done: Tensor
    """[T, N] bool, the episode ended, for either reason."""
    steps: list[Step]
    """What the environment answered, step by step."""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """What must be finite and not too large, in the order in which it came to be."""
        return {
            "observation": self.obs,
            "action": self.action,
            "reward": self.reward,
            "final observation": self.final_obs,
        }


@torch.no_grad()
def collect(env: Env, policy: Callable[[Tensor], Tensor], length: int) -> Batch:
    """Go on from where the environment is, under a policy of raw observations."""
    env.detach()
    seen: list[Tensor] = []
    steps: list[Step] = []
    for _ in range(length):
        seen.append(env.obs)
        step_env(env, policy(env.obs), steps)
    return Batch(
        obs=torch.stack(seen),
        action=torch.stack([step.action for step in steps]),
        reward=torch.stack([step.reward for step in steps]),
        final_obs=torch.stack([step.final_obs for step in steps]),
        terminated=torch.stack([step.terminated for step in steps]),
        done=torch.stack([step.done for step in steps]),
        steps=steps,
    )


def nonfinite_worlds(parts: Mapping[str, Tensor]) -> Tensor:
    """[N] bool, worlds of [T, N, ...] in which something is not finite, or too large to learn from."""
    return torch.stack([unusable_worlds(part).any(dim=0) for part in parts.values()]).any(dim=0)


def diagnose_batch(
    parts: Mapping[str, Tensor], steps: Sequence[Step], otherwise: str, reward_terms: Sequence[str] = ()
) -> NonFiniteReport:
    """Where numbers stopped being finite: the first of `parts`, or `otherwise` where all of them are.

    Args:
        parts: [T, N, ...] by name, in the order in which they came to be.
        steps: All steps.
        otherwise: What is wrong where all parts are finite.
        reward_terms: Names of the reward's terms.
    """
    actions = torch.stack([step.action for step in steps])
    start = steps[0].state
    bad = {name: unusable_worlds(x) for name, x in parts.items()}
    what = otherwise
    if name := earliest(bad):
        terms = torch.stack([step.reward_terms for step in steps])
        what = describe(name, actions, bad[name].nonzero()[0], parts[name], terms, reward_terms)
    return NonFiniteReport(
        what, nonfinite_worlds(parts), {"q": start.q.detach(), "v": start.v.detach(), "actions": actions}
    )
