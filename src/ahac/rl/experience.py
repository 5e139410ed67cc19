"""Worlds stepped without gradients: no graph is built, and the simulator keeps no substeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.env import Env, Step
from ahac.rl.halt import take_step
from ahac.rl.trouble import Trouble, first_of, sentence, unlearnable

__all__ = ["Experience", "collect", "flawed", "trouble_in"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Experience:
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
    def parts(self) -> dict[str, Tensor]:
        """What must be finite and not too large, in the order in which it came to be."""
        return {
            "observation": self.obs, "action": self.action, "reward": self.reward, "final observation": self.final_obs
        }  # fmt: skip


@torch.no_grad()
def collect(env: Env, policy: Callable[[Tensor], Tensor], length: int) -> Experience:
    """Go on from where the environment is, under a policy of raw observations."""
    env.detach()
    seen: list[Tensor] = []
    steps: list[Step] = []
    for _ in range(length):
        seen.append(env.obs)
        take_step(env, policy(env.obs), steps)
    return Experience(
        obs=torch.stack(seen),
        action=torch.stack([step.action for step in steps]),
        reward=torch.stack([step.reward for step in steps]),
        final_obs=torch.stack([step.final_obs for step in steps]),
        terminated=torch.stack([step.terminated for step in steps]),
        done=torch.stack([step.done for step in steps]),
        steps=steps,
    )


def flawed(parts: Mapping[str, Tensor]) -> Tensor:
    """[N] bool, worlds of [T, N, ...] in which something is not finite, or too large to learn from."""
    return torch.stack([unlearnable(part).any(dim=0) for part in parts.values()]).any(dim=0)


def trouble_in(
    parts: Mapping[str, Tensor], steps: Sequence[Step], otherwise: str, reward_terms: Sequence[str] = ()
) -> Trouble:
    """Where numbers stopped being finite: the first of `parts`, or `otherwise` where all of them are.

    Args:
        parts: [T, N, ...] by name, in the order in which they came to be.
        steps: All steps.
        otherwise: What is wrong where all parts are finite.
        reward_terms: Names of the reward's terms.
    """
    actions, start = torch.stack([step.action for step in steps]), steps[0].start
    bad, what = {name: unlearnable(x) for name, x in parts.items()}, otherwise
    if name := first_of(bad):
        terms = torch.stack([step.terms for step in steps])
        what = sentence(name, actions, bad[name].nonzero()[0], parts[name], terms, reward_terms)
    return Trouble(what, flawed(parts), {"q": start.q.detach(), "v": start.v.detach(), "actions": actions})
