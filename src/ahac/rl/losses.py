"""Actor losses of the first-order algorithms, pure functions of a rollout."""

from __future__ import annotations

from torch import Tensor

from ahac.rl.returns import segment_discounts
from ahac.rl.rollout import Rollout

__all__ = ["constraint", "short_horizon"]


def short_horizon(rollout: Rollout, next_value: Tensor, gamma: float) -> Tensor:
    """Return −J(θ) of the paper's eq:actor-update, averaged over steps and worlds:

        − 1/(T N) Σ over trajectories [ Σ_k γᵏ r_k + γᴸ V(s_L) ]

    A trajectory ends with its episode, where V is zero if the task terminated it, at a stiff step that truncates it
    (AHAC-1), or with the rollout.
    """
    weight = segment_discounts(rollout.cut, gamma, rollout.reward.dtype)
    ends = weight * rollout.cut * next_value
    return -(weight * rollout.reward + gamma * ends).mean()


def constraint(stiffness: Tensor, multipliers: Tensor, limit: float) -> Tensor:
    """Return −φᵀ (C − ‖∇f‖) of eq:lagrangian, averaged over steps and worlds like the objective."""
    return (multipliers[:, None] * (stiffness - limit)).mean()
