"""Gaits: which shapes touch the ground when, and how long it takes until the pattern repeats."""

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
"""Steps that a period has at least."""
CLEAR = 0.4
"""Correlation from which on a pattern repeats."""
FIRST_PEAK = 0.85
"""Of the highest peak: the first one so high is the period, later ones are its multiples."""
BLUR = np.convolve(np.ones(5), np.ones(5)) / 25.0
"""Weights of neighbouring steps: no two strides are quite alike, and a foot may strike twice in one."""
RARE = 0.02
"""A shape that touches, or does not, for a smaller share of the time tells nothing."""


@dataclass(frozen=True, eq=False)
class ContactLog:
    """What touched the ground, step by step."""

    contact: np.ndarray
    """[T, N, G] bool, by shape."""
    stiffness: np.ndarray
    """[T, N] ‖∇f‖ of each step, by probes."""
    geoms: tuple[str, ...]
    """Names of the shapes."""
    whole: np.ndarray
    """[N] bool, worlds without the end of an episode in between."""


@torch.no_grad()
def log_contacts(
    env: VecEnv, act: Callable[[Tensor], Tensor], steps: int, skip: int = 0, probes: int = 2
) -> ContactLog:
    """Let a policy act, and look at the ground after the first `skip` steps."""
    geoms = tuple(dict.fromkeys(touch.geom for touch in env.sim.model.contact_candidates))
    owner = [geoms.index(touch.geom) for touch in env.sim.model.contact_candidates]
    whole = torch.ones(env.spec.num_envs, dtype=torch.bool, device=env.spec.device)
    contact, stiffness = [], []
    for k in range(skip + steps):
        step = env.step(act(env.obs))
        if k < skip:
            continue
        whole = whole & ~step.done
        depth = env.sim.contacts(env.state).depth
        shapes = [depth[:, [j for j, g in enumerate(owner) if g == k]].amax(dim=1) > 0.0 for k in range(len(geoms))]
        contact.append(torch.stack(shapes, dim=1) if shapes else depth > 0.0)
        stiffness.append(env.stiffness(step, "dynamics", probes))
    return ContactLog(
        torch.stack(contact).cpu().numpy(),
        torch.stack(stiffness).cpu().numpy().astype(np.float64),
        geoms,
        whole.cpu().numpy(),
    )


def gait_period(contact: np.ndarray) -> float:
    """Steps after which contacts [T, ...] repeat, by the first high peak of their autocorrelation, all taken together.

    Contacts are blurred by some steps before. Between steps a parabola through the peak and its neighbours decides. Not
    a number where nothing repeats clearly.
    """
    signals = np.asarray(contact, dtype=np.float64).reshape(len(contact), -1)
    share = signals.mean(axis=0)
    telling = signals[:, (share > RARE) & (share < 1.0 - RARE)]
    longest = (len(signals) - len(BLUR)) // 2
    if telling.shape[1] == 0 or longest <= SHORTEST:
        return math.nan
    signals = np.stack([np.convolve(column, BLUR, mode="valid") for column in telling.T], axis=1)
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
    """[bins, ...] mean of values [T, ...] by how far into the period their step is; not a number in empty bins."""
    phase = np.floor(np.arange(len(values)) % period / period * bins).astype(int)
    with np.errstate(invalid="ignore"):
        counts = np.bincount(phase, minlength=bins).reshape(-1, *(1,) * (values.ndim - 1))
        totals = np.zeros((bins, *values.shape[1:]))
        np.add.at(totals, phase, values)
        return totals / np.where(counts == 0, np.nan, counts)
