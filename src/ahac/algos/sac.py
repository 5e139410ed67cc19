"""Soft actor-critic: a squashed Gaussian policy that climbs twin Q functions learnt from replay, at a learnt temperature.

One iteration: some steps of all worlds without gradients, each followed by updates from replay. On CUDA nothing waits
for the device before the numbers of the whole iteration are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.algos.algorithm import Report
from ahac.core.checks import finite_number, fraction, positive_number, whole_number
from ahac.core.env import Env, EnvSpec
from ahac.core.errors import InputError
from ahac.nets.adam import moments, set_moments
from ahac.nets.mlp import Activation
from ahac.nets.normalizer import Normalizer, View
from ahac.nets.optimizer import optimizer, step_down
from ahac.nets.squashed_actor import SquashedActor
from ahac.nets.states import gathered, part
from ahac.nets.twin_q import TwinQ
from ahac.rl.laps import Laps
from ahac.rl.off_policy import Worlds
from ahac.rl.replay import Replay
from ahac.rl.soft import soft_target
from ahac.rl.soft_critic import SoftCritic
from ahac.rl.temperature import Temperature

__all__ = ["SAC", "SACConfig"]

TOLD = ("critic_loss", "actor_loss", "q", "entropy", "temperature")


@dataclass(frozen=True, kw_only=True)
class SACConfig:
    """Soft actor-critic."""

    hidden: tuple[int, ...] = (128, 64, 32)
    """Widths of the policy's hidden layers."""
    critic_hidden: tuple[int, ...] = (128, 64, 32)
    """Widths of those of each Q function."""
    activation: Activation = "elu"
    """Between layers."""
    log_std: tuple[float, ...] = (-5.0, 2.0)
    """Least and most logarithm of the standard deviation."""
    rate: float = 5e-4
    """Learning rate of policy and Q functions."""
    temperature: float = 0.2
    """The first α."""
    temperature_rate: float = 1e-4
    """Learning rate of log α; 0: it stays as it is."""
    target_entropy: float | None = None
    """That α sees to; by default −1 per action."""
    tau: float = 0.005
    """Share by which the target networks follow after each update."""
    capacity: int = 1_000_000
    """Transitions that the replay holds."""
    batch: int = 4096
    """Transitions per update."""
    steps: int = 128
    """Steps of every world per iteration."""
    updates: int = 1
    """After every step of all worlds."""
    seed_steps: int = 10_000
    """World-steps with random actions, before anything is learnt; rounded up to whole iterations."""
    normalize: bool = True
    """Whether observations are normalised by what has been seen so far."""
    reward_scale: float = 1.0
    """By which rewards are multiplied."""
    gamma: float = 0.99
    """Discount."""

    def __post_init__(self) -> None:
        for name in ("capacity", "batch", "steps", "updates"):
            whole_number(name, getattr(self, name), 1)
        whole_number("seed_steps", self.seed_steps, 0)
        for width in (*self.hidden, *self.critic_hidden):
            whole_number("the width of a hidden layer", width, 1)
        for name in ("temperature", "reward_scale"):
            positive_number(name, getattr(self, name))
        for name in ("rate", "temperature_rate"):
            finite_number(name, getattr(self, name), 0.0)
        for name in ("tau", "gamma"):
            fraction(name, getattr(self, name))
        if len(self.log_std) != 2 or not self.log_std[0] < self.log_std[1]:
            raise InputError(f"log_std must be two numbers, the lesser first, got {self.log_std!r}")


class SAC:
    """A policy, twin Q functions with slow copies, a temperature, and a replay."""

    def __init__(self, config: SACConfig, spec: EnvSpec, seed: int) -> None:
        c, cpu = config, torch.Generator().manual_seed(seed)
        self.config = config
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.normalizer = Normalizer(spec.obs_size, c.normalize, spec.dtype).to(spec.device)
        sizes = (spec.obs_size, spec.action_size)
        actor = SquashedActor(*sizes, hidden=c.hidden, function=c.activation, log_std=_pair(c.log_std), rng=cpu)
        self.actor = actor.to(spec.device, spec.dtype)
        self.optimizer = optimizer(self.actor.parameters(), c.rate)
        q = TwinQ(*sizes, hidden=c.critic_hidden, function=c.activation, rng=cpu).to(spec.device, spec.dtype)
        self.critic = SoftCritic(q, c.rate, c.tau)
        wanted = -float(spec.action_size) if c.target_entropy is None else c.target_entropy
        self.temperature = Temperature(c.temperature, c.temperature_rate, wanted, spec.device, spec.dtype)
        self.worlds = Worlds(
            spec, capacity=c.capacity, steps=c.steps, seed_steps=c.seed_steps, rng=self.generator
        )

    @property
    def replay(self) -> Replay:
        """What it learns from."""
        return self.worlds.replay

    def act(self, obs: Tensor) -> Tensor:
        """The policy's best action for raw observations."""
        with torch.no_grad():
            return self.actor.mode(self.normalizer.view()(obs))

    def iterate(self, env: Env, progress: float) -> Report:
        """Step the worlds, and learn after every step."""
        laps, before, view = Laps(), self._learnt(), self.normalizer.view()
        told: list[Tensor] = []

        def policy(obs: Tensor) -> Tensor:
            return self.actor(view(obs), self._noise(len(obs)))[0]

        def learn() -> None:
            told.extend(self._update(view) for _ in range(self.config.updates))

        steps = self.worlds.run(env, policy, learn)
        self.normalizer.update(self.worlds.latest()["observation"].flatten(0, 1))
        flaws = self.worlds.flawed().to(env.spec.dtype)
        means = [flaws[None]] if not told else [flaws[None], torch.stack(told).mean(dim=0)]
        spoilt, *numbers = torch.cat(means).tolist()  # the one wait for the device
        laps.mark("rollout_and_learning")
        count = env.spec.num_envs * len(steps)
        if spoilt or not all(map(math.isfinite, numbers)):
            self._set_learnt(before)
            return Report(count, {}, steps, laps.seconds, self.worlds.undo(env, steps))
        values = dict(zip(TOLD, numbers, strict=False)) | {"replay": float(self.replay.size * env.spec.num_envs)}
        return Report(count, values, steps, laps.seconds)

    def _update(self, view: View) -> Tensor:
        """One of Q, policy, temperature and slow copies; what it tells, on the device."""
        c, batch = self.config, self.replay.sample(self.config.batch, self.generator)
        obs, next_obs, alpha = view(batch["obs"]), view(batch["next_obs"]), self.temperature.alpha
        with torch.no_grad():
            next_action, next_density = self.actor(next_obs, self._noise(c.batch))
            next_q = self.critic.target.least(next_obs, next_action)
            reward = c.reward_scale * batch["reward"]
            target = soft_target(reward, batch["terminated"], next_q, next_density, alpha, c.gamma)
        critic_loss, q = self.critic.update(obs, batch["action"], target)
        action, density = self.actor(obs, self._noise(c.batch))
        actor_loss = (alpha * density - self.critic.q.least(obs, action)).mean()
        step_down(self.optimizer, actor_loss)
        self.temperature.update(density)
        self.critic.follow()
        return torch.stack([critic_loss, actor_loss.detach(), q, -density.detach().mean(), alpha])

    def _noise(self, count: int) -> Tensor:
        like = self.normalizer.mean
        shape = (count, self.replay.widths["action"] or 0)
        return torch.randn(shape, generator=self.generator, device=like.device, dtype=like.dtype)

    def _learnt(self) -> dict[str, Tensor]:
        """Everything but chance and replay."""
        return gathered({
            "actor": self.actor.state_dict(), "normalizer": self.normalizer.state_dict(),
            "optimizer": moments(self.optimizer), "critic": self.critic.state_dict(),
            "temperature": self.temperature.state_dict(),
        })  # fmt: skip

    def _set_learnt(self, state: Mapping[str, Tensor]) -> None:
        self.actor.load_state_dict(part(state, "actor"))
        self.normalizer.load_state_dict(part(state, "normalizer"))
        set_moments(self.optimizer, part(state, "optimizer"))
        self.critic.load_state_dict(part(state, "critic"))
        self.temperature.load_state_dict(part(state, "temperature"))

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that was learnt, and all chance; of the replay only how much was added to it."""
        return {**self._learnt(), "generator": self.generator.get_state(), "replay.added": torch.tensor(self.replay.added)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on exactly from a saved state, once the replay is filled as well."""
        self._set_learnt(state)
        self.generator.set_state(state["generator"].cpu())
        self.replay.added = int(state["replay.added"])


def _pair(bounds: tuple[float, ...]) -> tuple[float, float]:
    return bounds[0], bounds[1]
