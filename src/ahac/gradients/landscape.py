"""The return along a direction of the policy's parameters, with both gradient estimates as slopes.

    J(t) = E[ R_H ] of θ + t d,   ‖d‖ = ‖θ‖                slope at t = 0: ∇J · d, by either estimate

J is the mean over N worlds whose noise is the same for every t; without noise, the landscape is that of the policy's
best actions, kinks and cliffs included.
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
    """Of a walk along a direction."""

    along: str = "random"
    """Direction: random, first or zeroth (that estimate's own), or a .npy file with one number per parameter."""
    horizon: int = 16
    """Steps H over which rewards are summed."""
    reach: float = 0.1
    """How far it goes on either side, in lengths of the parameter vector."""
    points: int = 41
    """Places along the way."""
    samples: int = 256
    """Worlds N, all from the same state, each with noise of its own."""
    after: int = 0
    """Steps into an episode, under the policy without noise, at which the horizon begins."""
    seed: int = 0
    """Of a fresh policy, the start, all noise, and a random direction."""

    def __post_init__(self) -> None:
        if self.along not in ("random", *ESTIMATES) and not self.along.endswith(".npy"):
            raise InputError(f"along must be random, first, zeroth or a .npy file, got {self.along!r}")
        for name, least in (("horizon", 1), ("points", 2), ("samples", 2), ("after", 0), ("seed", 0)):
            check_int(name, getattr(self, name), least)
        if check_finite("reach", self.reach, 0.0) == 0.0:
            raise InputError(f"reach must be more than 0, got {self.reach!r}")


def depends_on(c: LandscapeSettings, about: Mapping[str, Any]) -> dict[str, Any]:
    """All that a landscape depends on, as JSON has it; `about` is which task and policy it is of."""
    found = {**asdict(c), **about}
    if c.along.endswith(".npy"):
        found["direction"] = hashlib.sha256(_content(Path(c.along))).hexdigest()
    return found


def landscape(
    what: str | os.PathLike[str] | Task,
    settings: LandscapeSettings | None = None,
    *,
    checkpoint: str = "last",
    device: str = "cpu",
    track: Track = silent,
) -> Study:
    """Walk along a direction; arguments as of `ahac.gradients.task_study.study`.

    Returns:
        places [P] t, in lengths of the parameter vector; mean, low, high [P] of the return with noise (low and high:
        one standard error); noise_free [P]; first_slope, zeroth_slope and first_slope_error, zeroth_slope_error (one
        number each, by t); direction [d].
    """
    c = settings or LandscapeSettings()
    found = load_target(what, worlds=c.samples, checkpoint=checkpoint, seed=c.seed, device=device)
    start = reset_to_one_start(found, c.after, c.seed)
    baseline = noise_free_returns(found, start, c.horizon)
    (samples,) = sample_gradients(sample_rollout(found, start, [c.horizon], c.seed), baseline, [c.horizon])
    theta = parameters_to_vector(found.actor.parameters()).detach().double()
    direction = _direction(c, samples, theta)
    arrays = {"direction": direction.cpu().numpy(), "places": np.linspace(-c.reach, c.reach, c.points)}
    for name in ESTIMATES:
        slopes = getattr(samples, name) @ direction
        arrays[f"{name}_slope"] = slopes.mean().cpu().numpy()
        arrays[f"{name}_slope_error"] = (slopes.std() / c.samples**0.5).cpu().numpy()
    rows = []
    for place in track(list(arrays["places"]), f"landscape of {found.env.spec.name}"):
        vector_to_parameters((theta + place * direction).to(found.env.spec.dtype), found.actor.parameters())
        rows.append(_returns(found, start, c))
    mean, error, free = np.array(rows).T
    arrays |= {"mean": mean, "low": mean - error, "high": mean + error, "noise_free": free}
    return Study(KIND, depends_on(c, found.about), arrays)


def _direction(c: LandscapeSettings, samples: Samples, theta: Tensor) -> Tensor:
    """[d] of the parameters' own length."""
    if c.along in ESTIMATES:
        wanted = getattr(samples, c.along).mean(dim=0)
    elif c.along == "random":
        rng = torch.Generator().manual_seed(c.seed)
        wanted = torch.randn(len(theta), generator=rng, dtype=torch.float64).to(theta.device)
    else:
        wanted = _from_file(Path(c.along), len(theta)).to(theta.device)
    length = wanted.norm()
    if not float(length) > 0.0:
        raise InputError(f"the direction {c.along!r} has no length: nothing changes along it")
    return wanted * (theta.norm() / length)


def _from_file(path: Path, size: int) -> Tensor:
    content = io.BytesIO(_content(path))
    try:
        found = np.load(content, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(
            f"the direction {str(path)!r} is no .npy file of numbers: {error}; np.save makes one"
        ) from error
    if found.shape != (size,) or not np.isfinite(found).all():
        raise InputError(f"the direction in {path} must be {size} finite numbers, one per parameter, got {found.shape}")
    return torch.from_numpy(found.astype(np.float64))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"the direction {str(path)!r} cannot be read: {error}; wanted a .npy file of numbers"
        ) from error


@torch.no_grad()
def _returns(found: StudyTarget, start: Mapping[str, Tensor], c: LandscapeSettings) -> tuple[float, float, float]:
    """Mean with noise, its standard error, and without noise."""
    env = found.env
    free = float(noise_free_returns(found, start, c.horizon)[-1])
    env.load_state_dict(start)
    rng = torch.Generator(env.spec.device).manual_seed(c.seed)
    shape = (env.spec.num_envs, env.spec.action_size)
    total = torch.zeros_like(env.obs[:, 0])
    on = torch.ones(shape[0], dtype=torch.bool, device=env.spec.device)
    for _ in range(c.horizon):
        noise = torch.randn(shape, generator=rng, device=env.spec.device, dtype=env.spec.dtype)
        step = env.step(found.actor(found.normalize(env.obs), noise))
        total, on = total + torch.where(on, step.reward, 0.0), on & ~step.done
    return float(total.double().mean()), float(total.double().std()) / c.samples**0.5, free
