"""Worlds stepped without gradients: no graph is built, and the simulator keeps no substeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.env import Env, Step
from ahac.rl.trouble import Trouble

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
        """What must be finite, in the order in which it came to be."""
        return {
            "observation": self.obs, "action": self.action, "reward": self.reward, "final observation": self.final_obs
        }  # fmt: skip


@torch.no_grad()
def collect(env: Env, policy: Callable[[Tensor], Tensor], length: int) -> Experience:
    """Go on from where the environment is, under a policy of raw observations."""
    env.detach()
    seen, steps = [], []
    for _ in range(length):
        seen.append(env.obs)
        steps.append(env.step(policy(env.obs)))
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
    """[N] bool, worlds of [T, N, ...] in which something is not finite."""
    return torch.stack([_bad(part).any(dim=0) for part in parts.values()]).any(dim=0)


def trouble_in(parts: Mapping[str, Tensor], steps: Sequence[Step], otherwise: str) -> Trouble:
    """Where numbers stopped being numbers: the first of `parts`, or `otherwise` where all of them are finite."""
    first = {
        name: flags.any(dim=1).int().argmax().item() for name, x in parts.items() if bool((flags := _bad(x)).any())
    }
    actions, start = torch.stack([step.action for step in steps]), steps[0].start
    what = otherwise
    if first:
        # Of the same step, what is listed first came first.
        name = min(first, key=first.__getitem__)
        time, world = _bad(parts[name]).nonzero()[0].tolist()
        given = [round(x, 4) for x in actions[time, world].tolist()]
        what = f"the {name} of step {time} in world {world} is not finite; the action there is {given}"
    return Trouble(what, flawed(parts), {"q": start.q.detach(), "v": start.v.detach(), "actions": actions})


def _bad(values: Tensor) -> Tensor:
    """[T, N] bool."""
    return ~torch.isfinite(values).reshape(*values.shape[:2], -1).all(dim=-1)
