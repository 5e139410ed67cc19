"""Both gradients on a robot: any task, any policy, against the horizon, with stiffness and gait beside them."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

import numpy as np
import torch

from ahac.core.checks import check_int
from ahac.envs import Task, make
from ahac.gradients.checks import non_empty
from ahac.gradients.estimators import agreement, estimate
from ahac.gradients.gait import gait_period, log_contacts
from ahac.gradients.policies import StudyTarget, load_target
from ahac.gradients.progress import Track, silent
from ahac.gradients.sampling import (
    SampledRollout,
    Samples,
    noise_free_returns,
    reset_to_one_start,
    sample_gradients,
    sample_rollout,
)
from ahac.gradients.study import Study
from ahac.rl.diagnostics import action_gradients, adjoint_norms

__all__ = ["TaskSettings", "study"]

KIND = "task"
WATCHED = 4
"""Worlds whose gait is looked at."""


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """Of the study of a task."""

    samples: int = 256
    """Worlds N, all from the same state, each with noise of its own."""
    horizons: tuple[int, ...] = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32)
    """Steps H over which rewards are summed."""
    after: int = 0
    """Steps into an episode, under the policy without noise, at which the horizon begins."""
    gait_steps: int = 240
    """Steps over which contacts are watched, from there on; 0 leaves that out."""
    probes: int = 2
    """Random probes with which ‖∇f‖ is estimated, per step and world."""
    seed: int = 0
    """Of a fresh policy, the start, and all noise."""

    def __post_init__(self) -> None:
        check_int("samples", self.samples, 2)
        for horizon in non_empty("horizons", self.horizons):
            check_int("a horizon", horizon, 1)
        object.__setattr__(self, "horizons", tuple(sorted(set(self.horizons))))
        for name, least in (("after", 0), ("gait_steps", 0), ("probes", 1), ("seed", 0)):
            check_int(name, getattr(self, name), least)


def study(
    what: str | os.PathLike[str] | Task,
    settings: TaskSettings | None = None,
    *,
    checkpoint: str = "last",
    device: str = "cpu",
    track: Track = silent,
) -> Study:
    """Gradients of the H-step return by the policy's parameters, and where stiffness sits.

    Args:
        what: The folder of a run, whose policy then acts in its task; or a task, by name, as FILE.py:NAME or as it is,
            with a fresh policy.
        settings: Sizes and seeds.
        checkpoint: Of a run: last, best or iteration-NNNNNN.
        device: cpu, cuda or auto.
        track: Shows how far it is.

    Returns:
        By horizon [K]: horizons, first_norm, zeroth_norm, error, expected, cosine, first_variance, zeroth_variance,
        first_esnr, zeroth_esnr, mean_return, noise_free_return. By step [T]: stiffness, stiffness_max (over worlds,
        ‖∇f‖), contact (share of worlds that touch), state_gradient, action_gradient (root mean squares over worlds of
        the gradient of the longest return). Of the gait: gait_contact [S, G], gait_geoms [G], gait_stiffness [S],
        gait_period (steps, one number).
    """
    c = settings or TaskSettings()
    found = load_target(what, worlds=c.samples, checkpoint=checkpoint, seed=c.seed, device=device)
    start = reset_to_one_start(found, c.after, c.seed)
    baseline = noise_free_returns(found, start, c.horizons[-1])
    trial = sample_rollout(found, start, c.horizons, c.seed)
    samples = sample_gradients(trial, baseline, c.horizons)
    rows = [_compared(next(samples)) for _ in track(c.horizons, f"gradients on {found.env.spec.name}")]
    arrays = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    chosen = [h - 1 for h in c.horizons]
    arrays["mean_return"] = trial.returns.detach()[chosen].mean(dim=1).cpu().double().numpy()
    arrays["noise_free_return"] = baseline[chosen].cpu().double().numpy()
    arrays |= _by_step(found, trial, c.probes) | {"horizons": np.array(c.horizons)}
    if c.gait_steps:
        arrays |= _gait(found, c)
    return Study(KIND, {**asdict(c), **found.about}, arrays)


def _compared(samples: Samples) -> dict[str, float]:
    """Both estimates at one horizon."""
    first, zeroth = estimate(samples.first), estimate(samples.zeroth)
    both = agreement(first, zeroth)
    return {
        "first_norm": float(first.mean.norm()),
        "zeroth_norm": float(zeroth.mean.norm()),
        "error": both.error,
        "expected": both.expected,
        "cosine": both.cosine,
        "first_variance": first.variance,
        "zeroth_variance": zeroth.variance,
        "first_esnr": first.esnr,
        "zeroth_esnr": zeroth.esnr,
    }


def _by_step(found: StudyTarget, trial: SampledRollout, probes: int) -> dict[str, np.ndarray]:
    """What each step of the trial was like, and what it did to the gradient that came back through it."""
    stiffness, contact = [], []
    for step in trial.steps:
        with torch.no_grad():
            stiffness.append(found.env.stiffness(step, "dynamics", probes))
            contact.append(found.env.stiffness(step, "contact") > 0.0)
    stiff = torch.stack(stiffness)
    actions = action_gradients(trial.steps).square().sum(dim=-1).mean(dim=1).sqrt()
    # The first state is where all begin: nothing flows to it.
    states = torch.cat([actions.new_full((1,), torch.nan), adjoint_norms(trial.steps)])[: len(trial.steps)]
    found_here = {
        "stiffness": stiff.mean(dim=1),
        "stiffness_max": stiff.amax(dim=1),
        "contact": torch.stack(contact).double().mean(dim=1),
        "state_gradient": states,
        "action_gradient": actions,
    }
    return {name: x.detach().cpu().double().numpy() for name, x in found_here.items()}


def _gait(found: StudyTarget, c: TaskSettings) -> dict[str, np.ndarray]:
    spec = found.env.spec
    few = make(found.env.task, num_envs=WATCHED, device=spec.device, seed=c.seed, early_termination=False)
    feet = log_contacts(few, found.act, c.gait_steps, c.after, c.probes)
    world = int(feet.whole.argmax())
    touching = np.flatnonzero(feet.contact[:, world].any(axis=0))
    return {
        "gait_contact": feet.contact[:, world][:, touching],
        "gait_geoms": np.array([feet.geoms[k] for k in touching], dtype=np.str_),
        "gait_stiffness": feet.stiffness[:, world],
        "gait_period": np.array(gait_period(feet.contact[:, world])),
    }
