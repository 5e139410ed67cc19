"""Checks for non-finite policies and observations, with errors that say how to recover."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ahac.algos.algorithm import IterationResult
from ahac.core.env import Env
from ahac.core.errors import NonFiniteError
from ahac.nets.state_dicts import first_non_finite
from ahac.rl.nonfinite import MAX_MAGNITUDE, diagnose_interruption
from ahac.rl.stepping import RolloutInterrupted

__all__ = ["check_learned", "check_policy", "finite_action", "skip_iteration"]

REMEDY = "evaluate or resume from another checkpoint: --checkpoint best or iteration-NNNNNN"
UNDONE = "the iteration was undone"


def check_policy(policy: Mapping[str, Tensor]) -> None:
    """Raise if the policy's weights or observation statistics are not finite."""
    name = first_non_finite(policy)
    if name is not None:
        what = "observation statistics" if name.startswith("normalizer.") else "weights"
        raise NonFiniteError(f"the policy's {what} are not finite ({name}); {REMEDY}")


def check_learned(learned: Mapping[str, Tensor]) -> None:
    """Raise if the state before an iteration was not finite already: no iteration could ever succeed."""
    name = first_non_finite(learned)
    if name is not None:
        raise NonFiniteError(f"the learned state is not finite ({name}), so nothing can be learned; {REMEDY}")


def finite_action(action: Tensor, obs: Tensor, policy: Mapping[str, Tensor]) -> Tensor:
    """Return the action for [N, obs] observations; if it is not finite, raise an error that names the cause."""
    finite = torch.isfinite(action).all(dim=-1)
    if bool(finite.all()):
        return action
    check_policy(policy)
    unusable = ~(obs.abs() <= MAX_MAGNITUDE)
    if bool((finite | unusable.any(dim=-1)).all()):
        world, entry = (int(i) for i in unusable.nonzero()[0])
        raise NonFiniteError(
            f"observation [{world}, {entry}] is {obs[world, entry].item():g}; a policy needs finite numbers, at most "
            f"{MAX_MAGNITUDE:g} in magnitude: check the task's observation functions"
        )
    name = max(policy, key=lambda key: float(policy[key].abs().max()))
    size = float(policy[name].abs().max())
    raise NonFiniteError(
        f"the policy's action is not finite, though its weights are: they are too large ({name} is up to {size:.3g}); "
        f"{REMEDY}"
    )


def skip_iteration(
    interruption: RolloutInterrupted, env: Env, policy: Mapping[str, Tensor], metrics: Mapping[str, float]
) -> IterationResult:
    """Skip an iteration that ended early because of a non-finite observation, and reset the worlds that caused it.

    Raises if the policy itself is not finite.
    """
    check_policy(policy)
    report = diagnose_interruption(interruption)
    sound = ~report.worlds
    finite_action(interruption.action[sound], interruption.obs[sound], policy)
    env.reset_worlds(report.worlds)
    return IterationResult(len(interruption.steps) * env.spec.num_envs, metrics, interruption.steps, failure=report)
