"""Policies that are not finite: said as such, with the way out, wherever they are loaded, asked or rolled out."""

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

__all__ = ["check_learned", "check_policy", "finite_action", "skipped"]

WAY_OUT = "evaluate or resume from another checkpoint: --checkpoint best or iteration-NNNNNN"
KEPT = "everything learned is as it was before this iteration"


def check_policy(policy: Mapping[str, Tensor]) -> None:
    """Refuse a policy with weights, or statistics of what it sees, that are not finite."""
    name = first_non_finite(policy)
    if name is not None:
        what = "observation statistics" if name.startswith("normalizer.") else "weights"
        raise NonFiniteError(f"the policy's {what} are not finite ({name}); {WAY_OUT}")


def check_learned(learned: Mapping[str, Tensor]) -> None:
    """Refuse to go on where what was learned before an iteration was not finite: no iteration would ever succeed."""
    name = first_non_finite(learned)
    if name is not None:
        raise NonFiniteError(f"the learned state is not finite ({name}), so nothing can be learned; {WAY_OUT}")


def finite_action(action: Tensor, obs: Tensor, policy: Mapping[str, Tensor]) -> Tensor:
    """The action of [N, obs] observations, unless it is not finite: then an error that says whose fault it is."""
    finite = torch.isfinite(action).all(dim=-1)
    if bool(finite.all()):
        return action
    check_policy(policy)
    odd = ~(obs.abs() <= MAX_MAGNITUDE)
    if bool((finite | odd.any(dim=-1)).all()):
        world, entry = odd.nonzero()[0].tolist()
        raise NonFiniteError(
            f"observation [{world}, {entry}] is {obs[world, entry].item():g}; a policy needs finite numbers, at most "
            f"{MAX_MAGNITUDE:g} in magnitude: check the task's observation functions"
        )
    name = max(policy, key=lambda key: float(policy[key].abs().max()))
    size = float(policy[name].abs().max())
    raise NonFiniteError(
        f"the policy's action is not finite, though its weights are: they are too large ({name} is up to {size:.3g}); "
        f"{WAY_OUT}"
    )


def skipped(halt: RolloutInterrupted, env: Env, policy: Mapping[str, Tensor]) -> IterationResult:
    """Of an iteration that ended early because of an observation that is not finite; its worlds begin anew.

    Raises where it is the policy that is not finite.
    """
    check_policy(policy)
    trouble = diagnose_interruption(halt)
    innocent = ~trouble.worlds
    finite_action(halt.action[innocent], halt.obs[innocent], policy)
    env.reset_worlds(trouble.worlds)
    return IterationResult(len(halt.steps) * env.spec.num_envs, {}, halt.steps, failure=trouble)
