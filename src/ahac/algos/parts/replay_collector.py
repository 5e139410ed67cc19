"""What methods that learn from replay share: worlds stepped without gradients, and learnt from in between."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ahac.algos.parts.replay import Replay
from ahac.core.env import Env, EnvSpec, Step
from ahac.rl.nonfinite import NonFiniteReport
from ahac.rl.on_policy import diagnose_batch, nonfinite_worlds
from ahac.rl.stepping import step_env

__all__ = ["ReplayCollector"]


class ReplayCollector:
    """N worlds that fill a replay, some steps per iteration."""

    def __init__(
        self, spec: EnvSpec, *, buffer_size: int, steps: int, learning_starts: int, rng: torch.Generator
    ) -> None:
        """Actions are uniform until `learning_starts` world-steps were taken, in whole iterations."""
        widths = {
            "obs": spec.obs_size,
            "action": spec.action_size,
            "reward": None,
            "next_obs": spec.obs_size,
            "terminated": None,
            "done": None,
        }
        self.replay = Replay(
            widths, spec.num_envs, buffer_size=buffer_size, spare=steps, device=spec.device, dtype=spec.dtype
        )
        self.steps = steps
        self.learning_starts = learning_starts
        self.rng = rng

    @property
    def warming_up(self) -> bool:
        """Whether the coming iteration only fills the replay."""
        return self.replay.added * self.replay.worlds < self.learning_starts or self.replay.added == 0

    @torch.no_grad()
    def step(self, env: Env, policy: Callable[[Tensor], Tensor] | None, steps: list[Step]) -> None:
        """Step all worlds into the replay buffer, with a policy of raw observations or with uniform random actions."""
        obs = env.obs
        step = step_env(env, self._random_action(env) if policy is None else policy(obs), steps)
        self.replay.add(
            obs=obs,
            action=step.action,
            reward=step.reward,
            next_obs=step.final_obs,
            terminated=step.terminated,
            done=step.done,
        )

    def latest(self) -> dict[str, Tensor]:
        """What the last iteration added, in the order in which it came to be, [T, N, ...]."""
        found = self.replay.named_rows(self.replay.rows(self.replay.added - self.steps, self.replay.added))
        names = {"obs": "observation", "action": "action", "reward": "reward", "next_obs": "final observation"}
        return {name: found[key] for key, name in names.items()}

    def nonfinite_worlds(self) -> Tensor:
        """[] bool, whether anything of it is not finite."""
        return nonfinite_worlds(self.latest()).any()

    def discard_iteration(self, env: Env, steps: list[Step], otherwise: str) -> NonFiniteReport:
        """Say what went wrong, forget the last iteration, and begin anew where it happened.

        Args:
            env: The environment.
            steps: All steps of the iteration.
            otherwise: What is wrong where all that was seen is finite.
        """
        trouble = diagnose_batch(self.latest(), steps, otherwise, env.spec.reward_terms)
        self.forget(self.steps)
        env.reset_worlds(trouble.worlds)
        return trouble

    def forget(self, rows: int) -> None:
        """Take the latest rows out of the replay."""
        self.replay.rewind(self.replay.added - rows)

    def _random_action(self, env: Env) -> Tensor:
        shape = (env.spec.num_envs, env.spec.action_size)
        return 2.0 * torch.rand(shape, generator=self.rng, device=env.spec.device, dtype=env.spec.dtype) - 1.0
