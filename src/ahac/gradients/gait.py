"""Gaits: which geoms touch the ground when, and the period of the pattern."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ahac.envs import VecEnv

__all__ = ["ContactLog", "gait_period", "log_contacts", "phase_means"]

SHORTEST = 3
"""Shortest period [steps]."""
CLEAR = 0.4
"""Smallest autocorrelation that counts as repetition."""
FIRST_PEAK = 0.85
"""The period is the first peak above this fraction of the highest one; later peaks are its multiples."""
BLUR = np.convolve(np.ones(5), np.ones(5)) / 25.0
"""Weights of neighboring steps; strides vary slightly, and a foot may strike twice per stride."""
RARE = 0.02
"""Geoms that are in contact for less than this fraction of the time, or for more than the rest, are ignored."""


@dataclass(frozen=True, eq=False)
class ContactLog:
    """Ground contacts and stiffness, step by step."""

    contact: np.ndarray
    """[T, N, G] bool, whether each geom is in contact."""
    stiffness: np.ndarray
    """[T, N] ‖∇f‖ of each step, estimated with random probes."""
    geoms: tuple[str, ...]
    """Names of the G geoms."""
    whole: np.ndarray
    """[N] bool, worlds in which no episode ended."""


@torch.no_grad()
def log_contacts(
    env: VecEnv, act: Callable[[Tensor], Tensor], steps: int, skip: int = 0, probes: int = 2
) -> ContactLog:
    """Run a policy and log contacts after the first `skip` steps."""
    candidates = env.sim.model.contact_candidates
    geoms = tuple(dict.fromkeys(candidate.geom for candidate in candidates))
    owner = [geoms.index(candidate.geom) for candidate in candidates]
    whole = torch.ones(env.spec.num_envs, dtype=torch.bool, device=env.spec.device)
    contact, stiffness = [], []
    for k in range(skip + steps):
        step = env.step(act(env.obs))
        if k < skip:
            continue
        whole = whole & ~step.done
        depth = env.sim.contacts(env.state, env.state.parameters).depth
        touching = [depth[:, [j for j, g in enumerate(owner) if g == k]].amax(dim=1) > 0.0 for k in range(len(geoms))]
        contact.append(torch.stack(touching, dim=1) if touching else depth > 0.0)
        stiffness.append(env.stiffness(step, "dynamics", probes))
    return ContactLog(
        torch.stack(contact).cpu().numpy(),
        torch.stack(stiffness).cpu().numpy().astype(np.float64),
        geoms,
        whole.cpu().numpy(),
    )


def gait_period(contact: np.ndarray) -> float:
    """Return the period of contacts [T, ...] in steps, or NaN if they do not clearly repeat.

    The period is the first high peak of the joint autocorrelation of all contacts, after blurring them over a few
    steps; a parabola through the peak and its neighbors gives the fraction of a step.
    """
    signals = np.asarray(contact, dtype=np.float64).reshape(len(contact), -1)
    share = signals.mean(axis=0)
    informative = signals[:, (share > RARE) & (share < 1.0 - RARE)]
    longest = (len(signals) - len(BLUR)) // 2
    if informative.shape[1] == 0 or longest <= SHORTEST:
        return math.nan
    signals = np.stack([np.convolve(column, BLUR, mode="valid") for column in informative.T], axis=1)
    signals = signals - signals.mean(axis=0)
    power = float(np.square(signals).mean())
    correlation = np.array([float((signals[: len(signals) - k] * signals[k:]).mean()) for k in range(longest + 1)])
    correlation = correlation / power
    inner = correlation[1:-1]
    peaks = 1 + np.flatnonzero((inner >= correlation[:-2]) & (inner > correlation[2:]))
    peaks = peaks[(peaks >= SHORTEST) & (correlation[peaks] > CLEAR)]
    if len(peaks) == 0:
        return math.nan
    k = int(peaks[correlation[peaks] >= FIRST_PEAK * correlation[peaks].max()][0])
    before, at, after = correlation[k - 1 : k + 2]
    return k + 0.5 * float((before - after) / (before - 2.0 * at + after))


def phase_means(values: np.ndarray, period: float, bins: int = 24) -> np.ndarray:
    """Return the mean of values [T, ...] per phase bin of the period, [bins, ...]; NaN in empty bins."""
    phase = np.floor(np.arange(len(values)) % period / period * bins).astype(int)
    with np.errstate(invalid="ignore"):
        counts = np.bincount(phase, minlength=bins).reshape(-1, *(1,) * (values.ndim - 1))
        totals = np.zeros((bins, *values.shape[1:]))
        np.add.at(totals, phase, values)
        return totals / np.where(counts == 0, np.nan, counts)
