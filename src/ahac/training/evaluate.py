"""Evaluation: whole episodes under the policy's best actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ahac.core.checks import check_int
from ahac.core.env import Env
from ahac.stats.aggregate import bootstrap_interval, iqm

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation:
    """Returns of finished episodes."""

    returns: np.ndarray
    """[episodes]."""
    lengths: np.ndarray
    """[episodes]."""

    @property
    def mean(self) -> float:
        """Of the returns."""
        return float(self.returns.mean())

    @property
    def iqm(self) -> float:
        """Interquartile mean of the returns."""
        return iqm(self.returns)

    def interval(self, seed: int = 0) -> tuple[float, float]:
        """95 % bootstrap interval of the interquartile mean."""
        return bootstrap_interval(self.returns, np.random.default_rng(seed))

    def summary(self) -> dict[str, object]:
        """Its numbers by name, ready for JSON."""
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


def evaluate(env: Env, act: Callable[[Tensor], Tensor], episodes: int) -> Evaluation:
    """The first episode of each world, and the next ones of all worlds until there are enough.

    Every world contributes the same number of episodes: taking the first that finish would favour short ones.
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
            for world in step.done.nonzero().flatten().tolist():
                if finished[world] < each:
                    returns[finished[world], world] = step.episode_return[world].cpu()
                    lengths[finished[world], world] = step.episode_length[world].cpu()
                    finished[world] += 1
    return Evaluation(returns.flatten()[:episodes].numpy(), lengths.flatten()[:episodes].numpy())
