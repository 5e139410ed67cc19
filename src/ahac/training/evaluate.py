"""Evaluation of a policy over complete episodes with deterministic actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ahac.core.checks import check_int
from ahac.core.env import Env, Step
from ahac.stats.aggregate import bootstrap_interval, iqm

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of evaluation episodes."""

    returns: np.ndarray
    """Return of each episode `[episodes]`."""
    lengths: np.ndarray
    """Number of steps of each episode `[episodes]`."""

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())

    @property
    def iqm(self) -> float:
        """Interquartile mean of the returns."""
        return iqm(self.returns)

    def interval(self, seed: int = 0) -> tuple[float, float]:
        """Return the 95% bootstrap interval of the interquartile mean."""
        return bootstrap_interval(self.returns, np.random.default_rng(seed))

    def summary(self) -> dict[str, object]:
        """Return the statistics as a JSON-serializable dictionary."""
        low, high = self.interval()
        return {
            "episodes": len(self.returns),
            "mean": self.mean,
            "iqm": self.iqm,
            "interval": [low, high],
            "length": float(self.lengths.mean()),
        }

    def __str__(self) -> str:
        low, high = self.interval()
        return (
            f"{len(self.returns)} episodes: mean {self.mean:.1f}, interquartile mean {self.iqm:.1f} "
            f"[{low:.1f}, {high:.1f}], length {self.lengths.mean():.0f}"
        )


def evaluate(
    env: Env, act: Callable[[Tensor], Tensor], episodes: int, observers: Iterable[Callable[[Step], None]] = ()
) -> Evaluation:
    """Run at least the given number of episodes, the same number in every world, and return the first `episodes`.

    Taking the first episodes to finish over all worlds would favor short ones. Observers are called with every step.
    """
    check_int("episodes", episodes, 1)
    each = -(-episodes // env.spec.num_envs)
    obs = env.reset()
    returns = torch.zeros(each, env.spec.num_envs)
    lengths = torch.zeros(each, env.spec.num_envs)
    finished = torch.zeros(env.spec.num_envs, dtype=torch.long)
    with torch.no_grad():
        while bool((finished < each).any()):
            step = env.step(act(obs))
            obs = step.obs
            for observe in observers:
                observe(step)
            for world in np.flatnonzero(step.done.cpu().numpy()).tolist():
                if finished[world] < each:
                    returns[finished[world], world] = step.episode_return[world].cpu()
                    lengths[finished[world], world] = step.episode_length[world].cpu()
                    finished[world] += 1
    return Evaluation(returns.flatten()[:episodes].numpy(), lengths.flatten()[:episodes].numpy())
