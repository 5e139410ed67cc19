"""Collect transitions for algorithms with a replay buffer: worlds stepped without gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ahac.algos.parts.replay import Replay
from ahac.core.env import Env, EnvSpec, Step
from ahac.rl.nonfinite import NonFiniteReport, final_observation
from ahac.rl.on_policy import diagnose_batch, nonfinite_worlds
from ahac.rl.stepping import step_env

__all__ = ["ReplayCollector"]


class ReplayCollector:
    """Fills a replay buffer with the steps of all worlds."""

    def __init__(
        self, spec: EnvSpec, *, buffer_size: int, steps: int, learning_starts: int, rng: torch.Generator
    ) -> None:
        """Create an empty replay buffer.

        Args:
            spec: Description of the environment.
            buffer_size: Capacity of the replay buffer in transitions.
            steps: Steps of each world per iteration.
            learning_starts: Environment steps with random actions; rounded up to whole iterations.
            rng: Generator of random actions and of samples.
        """
        widths: dict[str, int | None] = {
            "obs": spec.obs_size,
            "action": spec.action_size,
            "reward": None,
            "next_obs": spec.obs_size,
            "terminated": None,
            "done": None,
        }
        if spec.asymmetric:
            widths |= {"critic_obs": spec.critic_obs_size, "next_critic_obs": spec.critic_obs_size}
        self.replay = Replay(
            widths, spec.num_envs, buffer_size=buffer_size, spare=steps, device=spec.device, dtype=spec.dtype
        )
        self.steps = steps
        self.learning_starts = learning_starts
        self.rng = rng

    @property
    def warming_up(self) -> bool:
        """Whether the next iteration only fills the replay buffer."""
        return self.replay.added * self.replay.worlds < self.learning_starts or self.replay.added == 0

    @torch.no_grad()
    def step(self, env: Env, policy: Callable[[Tensor], Tensor] | None, steps: list[Step]) -> None:
        """Step all worlds into the replay buffer, with a policy of raw observations or with uniform random actions."""
        obs, critic_obs = env.obs, env.critic_obs
        step = step_env(env, self._random_action(env) if policy is None else policy(obs), steps)
        critic = {"critic_obs": critic_obs, "next_critic_obs": step.final_critic_obs} if env.spec.asymmetric else {}
        self.replay.add(
            obs=obs,
            action=step.action,
            reward=step.reward,
            next_obs=step.final_obs,
            terminated=step.terminated,
            done=step.done,
            **critic,
        )

    def sample_sequences(self, count: int, length: int) -> dict[str, Tensor]:
        """Sample [L, B, width] sequences of consecutive transitions of a world; they may span several episodes.

        A discarded iteration leaves a gap in the buffer. The step before it counts as the last one of its episode.
        """
        rows = self.replay.sample_sequences(count, length, self.rng)
        if length == 1:
            return rows
        gap = (rows["next_obs"][:-1] != rows["obs"][1:]).any(dim=-1)
        rows["done"] = torch.cat([torch.where(gap, 1.0, rows["done"][:-1]), rows["done"][-1:]])
        return rows

    def latest(self) -> dict[str, Tensor]:
        """Return the [T, N, ...] tensors that the last iteration added, in the order of computation."""
        rows = self.replay.named_rows(self.replay.rows(self.replay.added - self.steps, self.replay.added))
        names = {
            "obs": "observation",
            "critic_obs": "critic observation",
            "action": "action",
            "reward": "reward",
            "next_obs": "final observation",
            "next_critic_obs": final_observation(asymmetric=True),
        }
        return {name: rows[key] for key, name in names.items() if key in rows}

    def any_nonfinite(self) -> Tensor:
        """Return a scalar bool: whether the last iteration added a value that is not finite or too large."""
        return nonfinite_worlds(self.latest()).any()

    def discard_iteration(self, env: Env, steps: list[Step], otherwise: str) -> NonFiniteReport:
        """Discard the last iteration, reset the worlds that caused it to fail, and return the cause.

        Args:
            env: The environment.
            steps: All steps of the iteration.
            otherwise: Message if all tensors are finite.
        """
        report = diagnose_batch(self.latest(), steps, otherwise, env.spec.reward_terms)
        self.forget(self.steps)
        env.reset_worlds(report.worlds)
        return report

    def forget(self, rows: int) -> None:
        """Remove the latest rows from the replay buffer."""
        self.replay.rewind(self.replay.added - rows)

    def _random_action(self, env: Env) -> Tensor:
        shape = (env.spec.num_envs, env.spec.action_size)
        return 2.0 * torch.rand(shape, generator=self.rng, device=env.spec.device, dtype=env.spec.dtype) - 1.0
