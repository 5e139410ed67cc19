"""What methods that learn from replay share: worlds stepped without gradients, and learnt from in between."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ahac.core.env import Env, EnvSpec, Step
from ahac.rl.experience import flawed, trouble_in
from ahac.rl.halt import take_step
from ahac.rl.replay import Replay
from ahac.rl.trouble import Trouble

__all__ = ["Worlds"]


class Worlds:
    """N worlds that fill a replay, some steps per iteration."""

    def __init__(self, spec: EnvSpec, *, capacity: int, steps: int, seed_steps: int, rng: torch.Generator) -> None:
        """Actions are uniform until `seed_steps` world-steps were taken, in whole iterations."""
        widths = {"obs": spec.obs_size, "action": spec.action_size, "reward": None, "next_obs": spec.obs_size,
                  "terminated": None, "done": None}  # fmt: skip
        self.replay = Replay(
            widths, spec.num_envs, capacity=capacity, spare=steps, device=spec.device, dtype=spec.dtype
        )
        self.steps, self.seed_steps, self.rng = steps, seed_steps, rng

    @property
    def seeding(self) -> bool:
        """Whether the coming iteration only fills the replay."""
        return self.replay.added * self.replay.worlds < self.seed_steps or self.replay.added == 0

    def run(self, env: Env, policy: Callable[[Tensor], Tensor], learn: Callable[[], None]) -> list[Step]:
        """One iteration under a policy of raw observations; `learn` is called after every step of all worlds."""
        env.detach()
        seeding = self.seeding
        steps: list[Step] = []
        for _ in range(self.steps):
            with torch.no_grad():
                seen = env.obs
                step = take_step(env, self._anything(env) if seeding else policy(seen), steps)
                self.replay.add(obs=seen, action=step.action, reward=step.reward, next_obs=step.final_obs,
                                terminated=step.terminated, done=step.done)  # fmt: skip
            if not seeding:
                learn()
        return steps

    def latest(self) -> dict[str, Tensor]:
        """What the last iteration added, in the order in which it came to be, [T, N, ...]."""
        found = self.replay.parts(self.replay.rows(self.replay.added - self.steps, self.replay.added))
        names = {"obs": "observation", "action": "action", "reward": "reward", "next_obs": "final observation"}
        return {name: found[key] for key, name in names.items()}

    def flawed(self) -> Tensor:
        """[] bool, whether anything of it is not finite."""
        return flawed(self.latest()).any()

    def undo(self, env: Env, steps: list[Step], otherwise: str) -> Trouble:
        """Say what went wrong, forget the last iteration, and begin anew where it happened.

        Args:
            env: The environment.
            steps: All steps of the iteration.
            otherwise: What is wrong where all that was seen is finite.
        """
        trouble = trouble_in(self.latest(), steps, otherwise, env.spec.reward_terms)
        self.forget(self.steps)
        env.restart(trouble.worlds)
        return trouble

    def forget(self, rows: int) -> None:
        """Take the latest rows out of the replay."""
        self.replay.rewind(self.replay.added - rows)

    def _anything(self, env: Env) -> Tensor:
        shape = (env.spec.num_envs, env.spec.action_size)
        return 2.0 * torch.rand(shape, generator=self.rng, device=env.spec.device, dtype=env.spec.dtype) - 1.0
