"""Whether learning curves are flat at their end."""

from __future__ import annotations

import math

import numpy as np

from ahac.stats.across_tasks import interquartile_mean

__all__ = ["FLAT", "last_tenth_change"]

FLAT = 0.01
"""A curve is flat if its return changes by at most this fraction in the last tenth of training."""


def last_tenth_change(steps: np.ndarray, returns: np.ndarray) -> float:
    """Return by which fraction the return rises from the tenth of training before the last tenth to the last.

    Args:
        steps: Environment steps `[n]`, ascending; training ends with the last.
        returns: Return of each run there `[runs, n]`; the interquartile mean over runs counts.

    Returns:
        The difference of the two mean returns, divided by the absolute value of the first; NaN if either tenth has no
        point or if the first mean is zero.
    """
    if len(steps) == 0:
        return math.nan
    curve = interquartile_mean([returns.T])
    end = steps[-1]
    last = curve[steps > 0.9 * end]
    before = curve[(steps > 0.8 * end) & (steps <= 0.9 * end)]
    if len(before) == 0 or before.mean() == 0.0:
        return math.nan
    return float((last.mean() - before.mean()) / abs(before.mean()))
