"""The return along a direction in the policy's parameter space, with both gradient estimates as slopes.

    J(t) = E[ R_H ] of θ + t d,   ‖d‖ = ‖θ‖                slope at t = 0: ∇J · d, from either estimate

J is the mean over N worlds whose noise is the same for every t. The landscape without noise
shows all kinks and cliffs.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ahac.core.checks import check_finite, check_int
from ahac.core.errors import InputError
from ahac.envs import Task
from ahac.gradients.policies import StudyTarget, load_target
from ahac.gradients.progress import Track, silent
from ahac.gradients.sampling import Samples, noise_free_returns, reset_to_one_start, sample_gradients, sample_rollout
from ahac.gradients.study import Study

__all__ = ["LandscapeSettings", "depends_on", "landscape"]

KIND = "landscape"
ESTIMATES = ("first", "zeroth")


@dataclass(frozen=True, kw_only=True)
class LandscapeSettings:
    """Settings of a landscape."""

    along: str = "random"
    """Direction: random, first or zeroth (the gradient estimate), or a .npy file with one number per parameter."""
    horizon: int = 16
    """Horizon H [control steps]."""
    reach: float = 0.1
    """Largest distance in either direction, in units of the norm of the parameter vector."""
    points: int = 41
    """Number of points along the direction."""
    samples: int = 256
    """Number of worlds N; all start in the same state, with independent noise."""
    after: int = 0
    """Control steps of the noise-free policy before the horizon begins."""
    seed: int = 0
    """Random seed of a fresh policy, the initial state, the noise and a random direction."""

    def __post_init__(self) -> None:
        if self.along not in ("random", *ESTIMATES) and not self.along.endswith(".npy"):
            raise InputError(f"along must be random, first, zeroth or a .npy file, got {self.along!r}")
        for name, least in (("horizon", 1), ("points", 2), ("samples", 2), ("after", 0), ("seed", 0)):
            check_int(name, getattr(self, name), least)
        if check_finite("reach", self.reach, 0.0) == 0.0:
            raise InputError(f"reach must be more than 0, got {self.reach!r}")


def depends_on(c: LandscapeSettings, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that a landscape depends on, JSON-compatible; `about` identifies task and policy."""
    settings = {**asdict(c), **about}
    if c.along.endswith(".npy"):
        settings["direction"] = hashlib.sha256(_content(Path(c.along))).hexdigest()
    return settings


def landscape(
    what: str | os.PathLike[str] | Task,
    settings: LandscapeSettings | None = None,
    *,
    checkpoint: str = "last",
    device: str = "cpu",
    track: Track = silent,
) -> Study:
    """Evaluate the return along a direction; for the arguments, see `ahac.gradients.task_study.study`.

    Returns:
        places [P], the values of t in units of the norm of the parameter vector; mean, low, high [P] of the return with
        noise (low and high: one standard error); noise_free [P]; first_slope, zeroth_slope, first_slope_error,
        zeroth_slope_error (scalars, per unit of t); direction [d].
    """
    c = settings or LandscapeSettings()
    target = load_target(what, worlds=c.samples, checkpoint=checkpoint, seed=c.seed, device=device)
    start = reset_to_one_start(target, c.after, c.seed)
    baseline = noise_free_returns(target, start, c.horizon)
    (samples,) = sample_gradients(sample_rollout(target, start, [c.horizon], c.seed), baseline, [c.horizon])
    theta = parameters_to_vector(target.actor.parameters()).detach().double()
    direction = _direction(c, samples, theta)
    arrays = {"direction": direction.cpu().numpy(), "places": np.linspace(-c.reach, c.reach, c.points)}
    for name in ESTIMATES:
        slopes = getattr(samples, name) @ direction
        arrays[f"{name}_slope"] = slopes.mean().cpu().numpy()
        arrays[f"{name}_slope_error"] = (slopes.std() / c.samples**0.5).cpu().numpy()
    rows = []
    for t in track(list(arrays["places"]), f"landscape of {target.env.spec.name}"):
        vector_to_parameters((theta + t * direction).to(target.env.spec.dtype), target.actor.parameters())
        rows.append(_returns(target, start, c))
    mean, error, free = np.array(rows).T
    arrays |= {"mean": mean, "low": mean - error, "high": mean + error, "noise_free": free}
    return Study(KIND, depends_on(c, target.about), arrays)


def _direction(c: LandscapeSettings, samples: Samples, theta: Tensor) -> Tensor:
    """Return the direction [d], scaled to the norm of the parameters."""
    if c.along in ESTIMATES:
        direction = getattr(samples, c.along).mean(dim=0)
    elif c.along == "random":
        rng = torch.Generator().manual_seed(c.seed)
        direction = torch.randn(len(theta), generator=rng, dtype=torch.float64).to(theta.device)
    else:
        direction = _from_file(Path(c.along), len(theta)).to(theta.device)
    length = direction.norm()
    if not float(length) > 0.0:
        raise InputError(f"the direction {c.along!r} is zero; expected at least one nonzero number")
    return direction * (theta.norm() / length)


def _from_file(path: Path, size: int) -> Tensor:
    content = io.BytesIO(_content(path))
    try:
        direction = np.load(content, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(
            f"the direction {str(path)!r} is not a .npy file of numbers: {error}; write it with np.save"
        ) from error
    if direction.shape != (size,) or not np.isfinite(direction).all():
        raise InputError(
            f"the direction in {path} must have {size} finite numbers, one per parameter, got shape {direction.shape}"
        )
    return torch.from_numpy(direction.astype(np.float64))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"the direction {str(path)!r} cannot be read: {error}; expected a .npy file of numbers"
        ) from error


@torch.no_grad()
def _returns(target: StudyTarget, start: Mapping[str, Tensor], c: LandscapeSettings) -> tuple[float, float, float]:
    """Return the mean return with noise, its standard error, and the return without noise."""
    env = target.env
    free = float(noise_free_returns(target, start, c.horizon)[-1])
    env.load_state_dict(start)
    rng = torch.Generator(env.spec.device).manual_seed(c.seed)
    shape = (env.spec.num_envs, env.spec.action_size)
    total = torch.zeros_like(env.obs[:, 0])
    alive = torch.ones(shape[0], dtype=torch.bool, device=env.spec.device)
    for _ in range(c.horizon):
        noise = torch.randn(shape, generator=rng, device=env.spec.device, dtype=env.spec.dtype)
        step = env.step(target.actor(target.normalize(env.obs), noise))
        total = total + torch.where(alive, step.reward, 0.0)
        alive = alive & ~step.done
    return float(total.double().mean()), float(total.double().std()) / c.samples**0.5, free
