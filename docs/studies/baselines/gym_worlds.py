"""Any Gymnasium task with a box of actions as `ahac.core.env.Env`: N copies, one after the other, without gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from torch import Tensor

from ahac.core.env import EnvSpec, Step


def make(name: str) -> gymnasium.Env:
    """The task, with actions in [-1, 1]; both sides of the comparison see it like this."""
    env = gymnasium.make(name)
    ones = np.ones(env.action_space.shape or (1,), dtype=np.float32)
    return gymnasium.wrappers.RescaleAction(env, -ones, ones)


@dataclass(frozen=True)
class Nowhere:
    """Positions and velocities, which Gymnasium does not tell."""

    q: Tensor
    v: Tensor
    act: None = None


class GymWorlds:
    """N copies of a task; where an episode ends, the next begins."""

    def __init__(self, name: str, num_envs: int, seed: int, made: Callable[[str], gymnasium.Env] = make) -> None:
        self.envs = [made(name) for _ in range(num_envs)]
        first = self.envs[0]
        limit = first.spec.max_episode_steps if first.spec is not None else None
        self.spec = EnvSpec(
            name=name,
            num_envs=num_envs,
            obs_size=int(np.prod(first.observation_space.shape or (1,))),
            action_size=int(np.prod(first.action_space.shape or (1,))),
            episode_steps=limit or 10**9,
            dt=0.05,
            device=torch.device("cpu"),
            dtype=torch.float32,
        )
        self.nowhere = Nowhere(torch.zeros(num_envs, 0), torch.zeros(num_envs, 0))
        self.reset(seed)

    def reset(self, seed: int | None = None) -> Tensor:
        """New episodes everywhere."""
        seeds = [None if seed is None else seed + k for k in range(len(self.envs))]
        self.obs = self.critic_obs = _tensor([env.reset(seed=s)[0] for env, s in zip(self.envs, seeds, strict=True)])
        self.total = np.zeros(len(self.envs))
        self.length = np.zeros(len(self.envs))
        return self.obs

    def step(self, action: Tensor) -> Step:
        """All copies, one after the other; actions are clipped."""
        given = action.clamp(-1.0, 1.0).numpy()
        found = [env.step(a) for env, a in zip(self.envs, given, strict=True)]
        final = _tensor([x[0] for x in found])
        reward = np.array([x[1] for x in found])
        ended, cut = (np.array([bool(x[k]) for x in found]) for k in (2, 3))
        total, length = self.total + reward, self.length + 1.0
        self.obs = self.critic_obs = final.clone()
        for k in np.flatnonzero(ended | cut):
            self.obs[k] = _tensor([self.envs[k].reset()[0]])[0]
        over = ended | cut
        self.total = np.where(over, 0.0, total)
        self.length = np.where(over, 0.0, length)
        ends, cuts = torch.from_numpy(ended), torch.from_numpy(cut & ~ended)
        return Step(
            obs=self.obs,
            critic_obs=self.obs,
            final_obs=final,
            final_critic_obs=final,
            reward=torch.tensor(reward, dtype=torch.float32),
            terminated=ends,
            truncated=cuts,
            diverged=torch.zeros_like(ends),
            reward_terms=torch.zeros(len(self.envs), 0),
            episode_return=torch.tensor(total, dtype=torch.float32),
            episode_length=torch.tensor(length),
            action=action,
            state=self.nowhere,
            next_state=self.nowhere,
        )

    def reset_worlds(self, worlds: Tensor) -> None:
        """New episodes in some of them."""
        for k in np.flatnonzero(worlds.numpy()):
            self.obs[k] = _tensor([self.envs[k].reset()[0]])[0]
            self.total[k] = self.length[k] = 0.0

    def detach(self, worlds: Tensor | None = None) -> None:
        """There is no graph."""

    def stiffness(self, step: Step, signal: str = "dynamics", probes: int | None = None) -> Tensor:
        """Not known."""
        return torch.zeros(len(self.envs))

    def state_dict(self) -> dict[str, Tensor]:
        """Gymnasium does not tell."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to load."""


def _tensor(rows: list[np.ndarray]) -> Tensor:
    return torch.tensor(np.array(rows), dtype=torch.float32).reshape(len(rows), -1)
