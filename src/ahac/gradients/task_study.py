"""First- and zeroth-order gradients of any task and policy against the horizon, with stiffness and gait."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

import numpy as np
import torch

from ahac.core.checks import check_int, check_non_empty
from ahac.envs import Task, make
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
GAIT_WORLDS = 4
"""Number of worlds in which the gait is measured."""


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """Settings of the study of a task."""

    samples: int = 256
    """Number of worlds N; all start in the same state, with independent noise."""
    horizons: tuple[int, ...] = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32)
    """Horizons H [control steps]."""
    after: int = 0
    """Control steps of the noise-free policy before the horizon begins."""
    gait_steps: int = 240
    """Control steps over which the gait is measured, starting at the same step; 0 to skip."""
    probes: int = 2
    """Number of random probes for estimating ‖∇f‖, per step and world."""
    seed: int = 0
    """Random seed of a fresh policy, the initial state and the noise."""

    def __post_init__(self) -> None:
        check_int("samples", self.samples, 2)
        for horizon in check_non_empty("horizons", self.horizons):
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
    """Measure gradients of the H-step return by the policy's parameters, and the stiffness of each step.

    Args:
        what: A run folder, for its task and trained policy; or a task as a name, FILE.py:NAME or `Task`, for a newly
            initialized policy.
        settings: Sizes and seed.
        checkpoint: Checkpoint of a run: last, best or iteration-NNNNNN.
        device: cpu, cuda or auto.
        track: Progress bar.

    Returns:
        Per horizon [K]: horizons, first_norm, zeroth_norm, error, expected, cosine, first_variance, zeroth_variance,
        first_esnr, zeroth_esnr, mean_return, noise_free_return. Per step [T]: stiffness, stiffness_max (mean and
        maximum of ‖∇f‖ over worlds), contact (fraction of worlds in contact), state_gradient, action_gradient (root
        mean squares over worlds of the gradient of the longest return). For the gait: gait_contact [S, G], gait_geoms
        [G], gait_stiffness [S], gait_period (scalar, in steps).
    """
    c = settings or TaskSettings()
    target = load_target(what, worlds=c.samples, checkpoint=checkpoint, seed=c.seed, device=device)
    start = reset_to_one_start(target, c.after, c.seed)
    baseline = noise_free_returns(target, start, c.horizons[-1])
    rollout = sample_rollout(target, start, c.horizons, c.seed)
    samples = sample_gradients(rollout, baseline, c.horizons)
    rows = [_compare_estimates(next(samples)) for _ in track(c.horizons, f"gradients on {target.env.spec.name}")]
    arrays = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    index = [h - 1 for h in c.horizons]
    arrays["mean_return"] = rollout.returns.detach()[index].mean(dim=1).cpu().double().numpy()
    arrays["noise_free_return"] = baseline[index].cpu().double().numpy()
    arrays |= _step_arrays(target, rollout, c.probes) | {"horizons": np.array(c.horizons)}
    if c.gait_steps:
        arrays |= _gait_arrays(target, c)
    return Study(KIND, {**asdict(c), **target.about}, arrays)


def _compare_estimates(samples: Samples) -> dict[str, float]:
    """Return statistics of both estimates at one horizon."""
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


def _step_arrays(target: StudyTarget, rollout: SampledRollout, probes: int) -> dict[str, np.ndarray]:
    """Return stiffness, contact and backpropagated gradients of each step of the rollout."""
    stiffness, contact = [], []
    for step in rollout.steps:
        with torch.no_grad():
            stiffness.append(target.env.stiffness(step, "dynamics", probes))
            contact.append(target.env.stiffness(step, "contact") > 0.0)
    stiff = torch.stack(stiffness)
    actions = action_gradients(rollout.steps).square().sum(dim=-1).mean(dim=1).sqrt()
    # The initial state is shared and fixed, so it has no gradient.
    states = torch.cat([actions.new_full((1,), torch.nan), adjoint_norms(rollout.steps)])[: len(rollout.steps)]
    arrays = {
        "stiffness": stiff.mean(dim=1),
        "stiffness_max": stiff.amax(dim=1),
        "contact": torch.stack(contact).double().mean(dim=1),
        "state_gradient": states,
        "action_gradient": actions,
    }
    return {name: x.detach().cpu().double().numpy() for name, x in arrays.items()}


def _gait_arrays(target: StudyTarget, c: TaskSettings) -> dict[str, np.ndarray]:
    spec = target.env.spec
    env = make(target.env.task, num_envs=GAIT_WORLDS, device=spec.device, seed=c.seed, early_termination=False)
    log = log_contacts(env, target.act, c.gait_steps, c.after, c.probes)
    world = int(log.whole.argmax())
    touching = np.flatnonzero(log.contact[:, world].any(axis=0))
    return {
        "gait_contact": log.contact[:, world][:, touching],
        "gait_geoms": np.array([log.geoms[k] for k in touching], dtype=np.str_),
        "gait_stiffness": log.stiffness[:, world],
        "gait_period": np.array(gait_period(log.contact[:, world])),
    }
