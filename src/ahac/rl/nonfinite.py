"""Find the first non-finite value of a failed iteration and keep what is needed to reproduce it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.rl.diagnostics import action_gradients
from ahac.rl.rollout import Rollout
from ahac.rl.stepping import RolloutInterrupted

__all__ = [
    "MAX_MAGNITUDE",
    "NONFINITE_POLICY_GRADIENT",
    "NonFiniteReport",
    "describe",
    "diagnose_interruption",
    "diagnose_rollout",
    "earliest",
    "final_observation",
    "unusable_worlds",
    "usable_rollout",
]

NONFINITE_POLICY_GRADIENT = "the gradient of the policy is not finite, though every world's is"
SOFT_REWARD = "reward with its entropy bonus"
"""What messages call the sum, if the policy's entropy is part of the reward."""
MAX_MAGNITUDE = 1e12
"""Largest magnitude of rewards and observations that can be learned from. Beyond it, running variances and squared
errors in float32 would lose all smaller values, or overflow. No robot reaches it: its world diverges long before."""


@dataclass(frozen=True, eq=False)
class NonFiniteReport:
    """Why an update failed."""

    message: str
    """The first non-finite tensor, its step and world, and the action taken there."""
    worlds: Tensor
    """[N] bool, worlds with a non-finite value."""
    reproducer: dict[str, Tensor]
    """Initial state and actions of the rollout; stepping them again reproduces the failure."""


def _is_usable(values: Tensor) -> Tensor:
    """Return a bool for each number: finite and not too large."""
    return values.detach().abs() <= MAX_MAGNITUDE


def diagnose_rollout(
    rollout: Rollout,
    next_value: Tensor,
    otherwise: str = NONFINITE_POLICY_GRADIENT,
    reward_terms: Sequence[str] = (),
    gather: Callable[[Tensor], Tensor] = lambda x: x,
    entropy: Tensor | None = None,
    temperature: float = 0.0,
) -> NonFiniteReport:
    """Find the first non-finite value of a rollout and its backward pass, in the order of computation.

    Args:
        rollout: The rollout.
        next_value: [T, N] the critic's values of the states reached.
        otherwise: Message if all of these are finite.
        reward_terms: Names of the reward terms.
        gather: Collects [T, N, ...] tensors of several processes along the worlds.
        entropy: [T, N] entropies of the policy, if they are part of the rollout's reward.
        temperature: Their weight.
    """
    actions = gather(torch.stack([step.action.detach() for step in rollout.steps]))
    terms = gather(torch.stack([step.reward_terms.detach() for step in rollout.steps]))
    observed = {"observation": (rollout.raw_obs, rollout.obs)}
    if rollout.asymmetric:
        observed["critic observation"] = (rollout.raw_critic_obs, rollout.critic_obs)
    reward = rollout.reward if entropy is None else torch.stack([step.reward for step in rollout.steps])
    values = {name: gather(raw) for name, (raw, _) in observed.items()} | {"reward": gather(reward.detach())}
    bad = {name: gather(_nonfinite_worlds(x)) | unusable_worlds(values[name]) for name, (_, x) in observed.items()}
    bad |= {"action": _nonfinite_worlds(actions), "reward": unusable_worlds(values["reward"])}
    if rollout.stiffness is not None:
        bad["stiffness"] = gather(_nonfinite_worlds(rollout.stiffness))
    final = final_observation(rollout.asymmetric)
    bad[final] = gather(_nonfinite_worlds(rollout.final_critic_obs))
    own = torch.stack([*bad.values()]).flatten(0, 1).any(dim=0)
    # A non-finite value of a finite observation is the critic's fault, a huge entropy the policy's, not the world's.
    value = gather(_nonfinite_worlds(next_value)) & ~bad[final]
    learner = value
    if entropy is not None:
        values[SOFT_REWARD] = gather(rollout.reward.detach())
        bad[SOFT_REWARD] = unusable_worlds(values[SOFT_REWARD]) & ~bad["reward"]
        learner = value | (bad[SOFT_REWARD] & ~own)
    gradient = gather(_nonfinite_worlds(action_gradients(rollout.steps)))
    worlds = own if bool(learner.any()) else own | gradient.any(dim=0)
    message = otherwise
    if name := earliest(bad):
        place = bad[name].nonzero()[0]
        message = describe(name, actions, place, values.get(name), terms, reward_terms)
        if entropy is not None and name == SOFT_REWARD:
            message += _entropy_hint(float(gather(entropy.detach())[tuple(place)]), temperature)
    elif bool(value.any()):
        message = describe("critic's value after the action", actions, value.nonzero()[0])
    elif bool(gradient.any()):
        # Gradients are computed from the last step to the first.
        message = describe("gradient of the action", actions, gradient.nonzero()[-1])
    start = rollout.steps[0].state
    # Copies: when iterations are replayed, the next one overwrites its initial state.
    q, v = (gather(x.detach()[None])[0].clone() for x in (start.q, start.v))
    return NonFiniteReport(message, worlds, {"q": q, "v": v, "actions": actions})


def diagnose_interruption(interruption: RolloutInterrupted) -> NonFiniteReport:
    """Diagnose a rollout that ended early because an observation was not finite."""
    actions = torch.stack([*(step.action.detach() for step in interruption.steps), interruption.action])
    bad = unusable_worlds(interruption.obs[None])[0]
    index = torch.tensor([len(interruption.steps), int(bad.int().argmax())])
    obs = interruption.obs.expand(len(actions), *interruption.obs.shape)
    reproducer = {"actions": actions}
    if interruption.steps:
        start = interruption.steps[0].state
        reproducer = {"q": start.q.detach(), "v": start.v.detach(), "actions": actions}
    return NonFiniteReport(describe("observation", actions, index, obs), bad, reproducer)


def final_observation(asymmetric: bool) -> str:
    """Return what messages call the critics' observation after the action."""
    return "final critic observation" if asymmetric else "final observation"


def earliest(bad: Mapping[str, Tensor]) -> str | None:
    """Return the name of the [T, N] flags that are set at the earliest step; ties go to the first name."""
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
    """Describe what is not finite or too large, where, and the action taken there.

    Args:
        name: Name of the value.
        actions: [T, N, actions].
        place: Step and world, [2].
        values: [T, N, ...] the values themselves.
        terms: [T, N, terms] reward terms; the message names those that are not finite or too large.
        reward_terms: Their names.
    """
    step, world = (int(i) for i in place)
    action = [round(float(x), 4) for x in actions[step, world]]
    how = "not finite"
    blamed = ""
    size = math.nan if values is None else float(values[step, world].abs().max())
    if MAX_MAGNITUDE < size < math.inf:
        how = f"{size:.3g} in magnitude, too large to learn from (at most {MAX_MAGNITUDE:g})"
    if terms is not None and name == "reward":
        numbers = [int(i) for i in (~_is_usable(terms[step, world])).nonzero()]
        names = ", ".join(repr(reward_terms[i]) if i < len(reward_terms) else str(i) for i in numbers)
        blamed = f", because of its term{'s' if len(numbers) > 1 else ''} {names}" if names else ""
    return f"the {name} of step {step} in world {world} is {how}{blamed}; the action there is {action}"


def _entropy_hint(entropy: float, temperature: float) -> str:
    """Return why a reward with the policy's entropy cannot be learned from, and what to change."""
    return (
        f"; the temperature is {temperature:.3g} and the entropy {entropy:.3g}: lower entropy.init_temperature or "
        "entropy.learning_rate, or actor.learning_rate if the entropy is large"
    )


def _nonfinite_worlds(values: Tensor) -> Tensor:
    """Return [T, N] bool, where a [T, N, ...] tensor is not finite."""
    return ~torch.isfinite(values.detach()).reshape(*values.shape[:2], -1).all(dim=-1)


def unusable_worlds(values: Tensor) -> Tensor:
    """Return [T, N] bool, where a [T, N, ...] tensor has a number that cannot be learned from."""
    return ~_is_usable(values).reshape(*values.shape[:2], -1).all(dim=-1)


def usable_rollout(rollout: Rollout) -> Tensor:
    """Whether rewards, observations and stiffness of a rollout are finite and not huge, as a bool on the device.

    An infinite or huge number may have a finite gradient, but would corrupt the critic, the normalizer or the horizon.
    """
    usable = ~(unusable_worlds(rollout.reward).any() | unusable_worlds(rollout.raw_obs).any())
    if rollout.asymmetric:
        usable = usable & ~unusable_worlds(rollout.raw_critic_obs).any()
    if rollout.stiffness is not None:
        usable = usable & torch.isfinite(rollout.stiffness.detach().sum())
    return usable
