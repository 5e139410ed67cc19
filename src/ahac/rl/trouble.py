"""When numbers stop being numbers: which, where, and enough to see it happen again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.rl.diagnostics import action_gradients
from ahac.rl.rollout import Rollout

__all__ = ["Trouble", "find_trouble"]


@dataclass(frozen=True, eq=False)
class Trouble:
    """An update that could not be made."""

    what: str
    """The first tensor that is not finite, the step and world in which, and the action taken there."""
    worlds: Tensor
    """[N] bool, where anything is not finite."""
    reproducer: dict[str, Tensor]
    """Start of the rollout and all its actions: stepping them again shows it."""


def find_trouble(rollout: Rollout) -> Trouble:
    """Look through what a rollout and its backward pass left behind, in the order in which it came to be."""
    gradients = action_gradients(rollout.steps)
    tensors = {
        "observation": rollout.obs, "action": torch.stack([step.action.detach() for step in rollout.steps]),
        "reward": rollout.reward.detach(), "final observation": rollout.final_obs.detach(),
        "gradient of the action": gradients,
    }  # fmt: skip
    if rollout.stiffness is not None:
        tensors["stiffness"] = rollout.stiffness.detach()
    bad = {name: ~torch.isfinite(x).reshape(*x.shape[:2], -1).all(dim=-1) for name, x in tensors.items()}
    worlds = torch.stack([flags.any(dim=0) for flags in bad.values()]).any(dim=0)
    found = next((name for name, flags in bad.items() if bool(flags.any())), None)
    what = "the gradient of the policy is not finite, though every world's is"
    if found is not None:
        # A gradient is computed from the last step to the first.
        places = bad[found].nonzero()
        step, world = places[-1 if found.startswith("gradient") else 0].tolist()
        action = [round(x, 4) for x in rollout.steps[step].action[world].tolist()]
        what = f"the {found} of step {step} in world {world} is not finite; the action there is {action}"
    first = rollout.steps[0].start
    reproducer = {"q": first.q.detach(), "v": first.v.detach(), "actions": tensors["action"]}
    return Trouble(what, worlds, reproducer)
