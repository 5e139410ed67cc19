"""An environment with scripted episode lengths and returns."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.env import EnvSpec, Step


@dataclass(frozen=True)
class Still:
    q: Tensor
    v: Tensor
    act: None = None


class Scripted:
    """World w's k-th episode lasts lengths[w][k] steps and returns 100 w + k; the last one repeats.

    An episode's return is paid evenly over its steps.
    """

    def __init__(self, lengths: list[list[int]]) -> None:
        self.lengths = lengths
        n = len(lengths)
        self.spec = EnvSpec(
            name="scripted",
            num_envs=n,
            obs_size=1,
            critic_obs_size=1,
            action_size=1,
            episode_steps=1000,
            dt=0.1,
            device=torch.device("cpu"),
            dtype=torch.float32,
        )
        self.obs = self.critic_obs = torch.zeros(n, 1)
        self.episode = [0] * n
        self.age = [0] * n
        self.steps = 0

    def reset(self, seed: int | None = None) -> Tensor:
        n = self.spec.num_envs
        self.episode = [0] * n
        self.age = [0] * n
        return self.obs

    def reset_worlds(self, worlds: Tensor) -> None:
        self.age = [0 if again else age for again, age in zip(worlds.tolist(), self.age, strict=True)]

    def step(self, action: Tensor) -> Step:
        n = self.spec.num_envs
        self.steps += 1
        self.age = [age + 1 for age in self.age]
        now = [min(self.episode[w], len(self.lengths[w]) - 1) for w in range(n)]
        ends = [self.age[w] >= self.lengths[w][now[w]] for w in range(n)]
        length = torch.tensor([float(age) for age in self.age])
        whole = torch.tensor([100.0 * w + self.episode[w] for w in range(n)])
        step = made_step(
            obs=self.obs,
            action=action,
            terminated=torch.tensor(ends),
            episode_return=whole * length / torch.tensor([float(self.lengths[w][now[w]]) for w in range(n)]),
            episode_length=length,
        )
        self.age = [0 if end else age for end, age in zip(ends, self.age, strict=True)]
        self.episode = [k + end for k, end in zip(self.episode, ends, strict=True)]
        return step

    def detach(self, worlds: Tensor | None = None) -> None:
        """Do nothing: there is no graph."""

    def stiffness(self, step: Step, signal: str = "dynamics", probes: int | None = None) -> Tensor:
        return torch.zeros(self.spec.num_envs)

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing."""


def made_step(
    *,
    terminated: Tensor,
    episode_return: Tensor,
    episode_length: Tensor,
    obs: Tensor | None = None,
    action: Tensor | None = None,
) -> Step:
    """A step with the given episode ends, and zeros otherwise."""
    n = len(terminated)
    one = torch.zeros(n, 1)
    still, never = Still(one, one), torch.zeros(n, dtype=torch.bool)
    return Step(
        obs=one if obs is None else obs,
        critic_obs=one if obs is None else obs,
        final_obs=one,
        final_critic_obs=one,
        reward=torch.zeros(n),
        terminated=terminated,
        truncated=never,
        diverged=never,
        reward_terms=one,
        episode_return=episode_return,
        episode_length=episode_length,
        action=one if action is None else action,
        state=still,
        next_state=still,
    )
