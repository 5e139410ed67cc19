"""When numbers stop being finite, or small enough to learn from: which, where, and enough to see it happen again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.env import Step
from ahac.rl.diagnostics import action_gradients
from ahac.rl.rollout import Rollout
from ahac.rl.stepping import RolloutInterrupted

__all__ = [
    "MAX_MAGNITUDE",
    "NonFiniteReport",
    "describe",
    "diagnose_interruption",
    "diagnose_rollout",
    "earliest",
    "unusable_worlds",
]

NONFINITE_POLICY_GRADIENT = "the gradient of the policy is not finite, though every world's is"
MAX_MAGNITUDE = 1e12
"""Magnitude of rewards and observations beyond which nothing is learned from them: running variances and squared errors
in float32 would forget everything else, or overflow. No robot gets there: its world is lost long before."""


@dataclass(frozen=True, eq=False)
class NonFiniteReport:
    """An update that could not be made."""

    message: str
    """The first tensor that is not finite, the step and world in which, and the action taken there."""
    worlds: Tensor
    """[N] bool, where anything is not finite."""
    reproducer: dict[str, Tensor]
    """Start of the rollout and all its actions: stepping them again shows it."""


def _is_usable(values: Tensor) -> Tensor:
    """Bool for each number: finite, and not too large."""
    return values.detach().abs() <= MAX_MAGNITUDE


def diagnose_rollout(
    rollout: Rollout,
    next_value: Tensor,
    otherwise: str = NONFINITE_POLICY_GRADIENT,
    ranks: ProcessGroup = SINGLE_PROCESS,
    reward_terms: Sequence[str] = (),
) -> NonFiniteReport:
    """Look through what a rollout and its backward pass left behind, in the order in which it came to be.

    Args:
        rollout: The rollout.
        next_value: [T, N] what the critic said of the states that were reached.
        otherwise: What is wrong where nothing of this is.
        ranks: All of them look, and are told of all worlds.
        reward_terms: Names of the reward's terms.
    """
    actions = ranks.gather(torch.stack([step.action.detach() for step in rollout.steps]), dim=1)
    terms = ranks.gather(_terms(rollout.steps), dim=1)
    seen = {"observation": rollout.raw_obs, "reward": rollout.reward}
    values = {name: ranks.gather(x.detach(), dim=1) for name, x in seen.items()}
    bad = {
        "observation": _nonfinite_worlds(rollout.obs, ranks) | unusable_worlds(values["observation"]),
        "action": _nonfinite_worlds(actions),
        "reward": unusable_worlds(values["reward"]),
    }
    if rollout.stiffness is not None:
        bad["stiffness"] = _nonfinite_worlds(rollout.stiffness, ranks)
    bad["final observation"] = _nonfinite_worlds(rollout.final_obs, ranks)
    own = torch.stack([*bad.values()]).flatten(0, 1).any(dim=0)
    # Of worlds that are sound themselves: what the critic spoils is not theirs.
    value = _nonfinite_worlds(next_value, ranks) & ~bad["final observation"]
    gradient = _nonfinite_worlds(action_gradients(rollout.steps), ranks)
    worlds = own if bool(value.any()) else own | gradient.any(dim=0)
    what = otherwise
    if name := earliest(bad):
        what = describe(name, actions, bad[name].nonzero()[0], values.get(name), terms, reward_terms)
    elif bool(value.any()):
        what = describe("critic's value after the action", actions, value.nonzero()[0])
    elif bool(gradient.any()):
        # A gradient is computed from the last step to the first.
        what = describe("gradient of the action", actions, gradient.nonzero()[-1])
    start = rollout.steps[0].state
    # Copies: where iterations are replayed, the next one overwrites what it began with.
    q, v = (ranks.gather(x.detach()).clone() for x in (start.q, start.v))
    return NonFiniteReport(what, worlds, {"q": q, "v": v, "actions": actions})


def diagnose_interruption(halt: RolloutInterrupted) -> NonFiniteReport:
    """Of a rollout that ended early because of what the policy was given to see."""
    actions = torch.stack([*(step.action.detach() for step in halt.steps), halt.action])
    bad = unusable_worlds(halt.obs[None])[0]
    place = torch.tensor([len(halt.steps), int(bad.int().argmax())])
    seen = halt.obs.expand(len(actions), *halt.obs.shape)
    start = {"q": halt.steps[0].state.q.detach(), "v": halt.steps[0].state.v.detach()} if halt.steps else {}
    return NonFiniteReport(describe("observation", actions, place, seen), bad, {**start, "actions": actions})


def earliest(bad: Mapping[str, Tensor]) -> str | None:
    """Of [T, N] flags by name, the name of those that are set first; of the same step, what is listed first."""
    first = {name: flags.any(dim=1).int().argmax().item() for name, flags in bad.items() if bool(flags.any())}
    return min(first, key=first.__getitem__) if first else None


def describe(
    name: str,
    actions: Tensor,
    place: Tensor,
    values: Tensor | None = None,
    terms: Tensor | None = None,
    reward_terms: Sequence[str] = (),
) -> str:
    """What is not finite or too large, where, and what was done there.

    Args:
        name: What it is.
        actions: [T, N, actions].
        place: Step and world.
        values: [T, N, ...] of what it is.
        terms: [T, N, terms] of the reward; those that are not finite or too large are named.
        reward_terms: Their names.
    """
    step, world = place.tolist()
    action = [round(x, 4) for x in actions[step, world].tolist()]
    how, blamed = "not finite", ""
    size = math.nan if values is None else float(values[step, world].abs().max())
    if MAX_MAGNITUDE < size < math.inf:
        how = f"{size:.3g} in magnitude, too large to learn from (at most {MAX_MAGNITUDE:g})"
    if terms is not None and name == "reward":
        numbers = (~_is_usable(terms[step, world])).nonzero().flatten().tolist()
        names = ", ".join(repr(reward_terms[i]) if i < len(reward_terms) else str(i) for i in numbers)
        blamed = f", because of its term{'s' if len(numbers) > 1 else ''} {names}" if names else ""
    return f"the {name} of step {step} in world {world} is {how}{blamed}; the action there is {action}"


def _terms(steps: Sequence[Step]) -> Tensor:
    return torch.stack([step.reward_terms.detach() for step in steps])


def _nonfinite_worlds(values: Tensor, ranks: ProcessGroup = SINGLE_PROCESS) -> Tensor:
    """[T, N] bool, where a tensor of [T, N, ...] on each rank is not finite."""
    return ranks.gather(~torch.isfinite(values.detach()).reshape(*values.shape[:2], -1).all(dim=-1), dim=1)


def unusable_worlds(values: Tensor) -> Tensor:
    """[T, N] bool, where a tensor of [T, N, ...] has a number that nothing can be learned from."""
    return ~_is_usable(values).reshape(*values.shape[:2], -1).all(dim=-1)
