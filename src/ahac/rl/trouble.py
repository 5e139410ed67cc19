"""When numbers stop being numbers: which, where, and enough to see it happen again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.ranks import ALONE, Ranks
from ahac.rl.diagnostics import action_gradients
from ahac.rl.rollout import Rollout

__all__ = ["Trouble", "find_trouble"]

POLICY = "the gradient of the policy is not finite, though every world's is"


@dataclass(frozen=True, eq=False)
class Trouble:
    """An update that could not be made."""

    what: str
    """The first tensor that is not finite, the step and world in which, and the action taken there."""
    worlds: Tensor
    """[N] bool, where anything is not finite."""
    reproducer: dict[str, Tensor]
    """Start of the rollout and all its actions: stepping them again shows it."""


def find_trouble(rollout: Rollout, next_value: Tensor, otherwise: str = POLICY, ranks: Ranks = ALONE) -> Trouble:
    """Look through what a rollout and its backward pass left behind, in the order in which it came to be.

    Args:
        rollout: The rollout.
        next_value: [T, N] what the critic said of the states that were reached.
        otherwise: What is wrong where nothing of this is.
        ranks: All of them look, and are told of all worlds.
    """
    actions = ranks.gather(torch.stack([step.action.detach() for step in rollout.steps]), dim=1)
    forward = {"observation": _bad(rollout.obs, ranks), "action": _bad(actions), "reward": _bad(rollout.reward, ranks)}
    if rollout.stiffness is not None:
        forward["stiffness"] = _bad(rollout.stiffness, ranks)
    bad = {**forward, "final observation": _bad(rollout.final_obs, ranks)}
    own = torch.stack([*bad.values()]).flatten(0, 1).any(dim=0)
    # Of worlds that are sound themselves: what the critic spoils is not theirs.
    value = _bad(next_value, ranks) & ~bad["final observation"]
    gradient = _bad(action_gradients(rollout.steps), ranks)
    worlds = own if bool(value.any()) else own | gradient.any(dim=0)
    first = {name: flags.any(dim=1).int().argmax().item() for name, flags in bad.items() if bool(flags.any())}
    what = otherwise
    if first:
        # Of the same step, what is listed first came first.
        name = min(first, key=first.__getitem__)
        what = _sentence(name, actions, bad[name].nonzero()[0])
    elif bool(value.any()):
        what = _sentence("critic's value after the action", actions, value.nonzero()[0])
    elif bool(gradient.any()):
        # A gradient is computed from the last step to the first.
        what = _sentence("gradient of the action", actions, gradient.nonzero()[-1])
    start = rollout.steps[0].start
    # Copies: where iterations are replayed, the next one overwrites what it began with.
    q, v = (ranks.gather(x.detach()).clone() for x in (start.q, start.v))
    return Trouble(what, worlds, {"q": q, "v": v, "actions": actions})


def _bad(values: Tensor, ranks: Ranks = ALONE) -> Tensor:
    """[T, N] bool, where a tensor of [T, N, ...] on each rank is not finite."""
    return ranks.gather(~torch.isfinite(values.detach()).reshape(*values.shape[:2], -1).all(dim=-1), dim=1)


def _sentence(name: str, actions: Tensor, place: Tensor) -> str:
    step, world = place.tolist()
    action = [round(x, 4) for x in actions[step, world].tolist()]
    return f"the {name} of step {step} in world {world} is not finite; the action there is {action}"
