"""The paper's bounds on the error of first-order gradients (lem:bias-bound) and the variance of zeroth-order ones.

    B ≤ H B_r B_π ( ½ + B_f^(H−1) )                 ‖∇r‖ ≤ B_r,   ‖∇π‖ ≤ B_π,   ‖∇f‖ ≤ B_f

B_r and B_f are estimated as the largest norms over all samples up to step H. The true constants are at least as large,
and so is the true bound: where ours holds, so does the lemma's.

A single B_f for all steps and samples is very loose, since most steps are free flight. By the same proof,

    B ≤ H B_r B_π ( ½ + max_i Π_h ‖∇f(s_h,i, a_h,i)‖ )

with the largest product along the trajectory of any sample i; this bound shows when the error can grow, and how much.

The variance of one sample of the zeroth-order gradient is at most H B_r² B_π² / σ² (section 3).
"""

from __future__ import annotations

import numpy as np

__all__ = ["bound_along_trajectory", "bound_as_printed", "zeroth_order_variance_bound"]


def bound_as_printed(reward: np.ndarray, dynamics: np.ndarray, policy: float = 1.0) -> np.ndarray:
    """Return the bound at every horizon [H] from the largest ‖∇r‖ and ‖∇f‖ over samples at each step [H], and B_π."""
    steps = np.arange(1, len(reward) + 1)
    b_r, b_f = np.maximum.accumulate(reward), np.maximum.accumulate(dynamics)
    return steps * b_r * policy * (0.5 + b_f ** (steps - 1.0))


def bound_along_trajectory(reward: np.ndarray, gathered: np.ndarray, policy: float = 1.0) -> np.ndarray:
    """Return the bound at every horizon [H] from the largest product of ‖∇f‖ along a sample up to each step [H]."""
    steps = np.arange(1, len(reward) + 1)
    return steps * np.maximum.accumulate(reward) * policy * (0.5 + gathered)


def zeroth_order_variance_bound(reward: np.ndarray, sigma: float, policy: float = 1.0) -> np.ndarray:
    """Return the bound on the variance of one zeroth-order sample at every horizon [H] for actions with deviation σ."""
    steps = np.arange(1, len(reward) + 1)
    return steps * (np.maximum.accumulate(reward) * policy / sigma) ** 2
