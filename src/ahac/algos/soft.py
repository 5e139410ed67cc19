"""What SAC and SVG share: settings, parts, and the loop of stepping all worlds and learning from replay in between."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.algos.algorithm import Report
from ahac.algos.soundness import KEPT, check_learned, check_policy, finite_action, skipped
from ahac.core.chance import go_on
from ahac.core.checks import finite_number, fraction, positive_number, whole_number
from ahac.core.env import Env, EnvSpec
from ahac.core.errors import InputError
from ahac.nets.adam import moments, optimizer, step_down
from ahac.nets.mlp import Activation
from ahac.nets.normalizer import Normalizer
from ahac.nets.squashed_actor import SquashedActor
from ahac.nets.states import Learned, check_state, first_non_finite, named
from ahac.nets.twin_q import TwinQ
from ahac.rl.halt import Halted
from ahac.rl.laps import Laps
from ahac.rl.off_policy import Worlds
from ahac.rl.recordings import Direct, Player, Recordings
from ahac.rl.soft import soft_target
from ahac.rl.soft_critic import SoftCritic
from ahac.rl.temperature import Temperature

__all__ = ["Soft", "SoftConfig", "averaged"]

Told = dict[str, Tensor]
"""Numbers by name, on the device."""
SPOILT = "a loss is not finite"


@dataclass(frozen=True, kw_only=True)
class SoftConfig:
    """Policy, twin Q functions, temperature and replay."""

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
    max_norm: float | None = None
    """Norm to which the policy's gradient is clipped."""
    temperature: float = 0.2
    """The first α."""
    temperature_rate: float = 1e-4
    """Learning rate of log α; 0: it stays as it is."""
    target_entropy: float | None = None
    """That α sees to; by default −1 per action."""
    tau: float = 0.005
    """Share by which the slow copies of the Q functions follow after each update."""
    capacity: int = 1_000_000
    """Transitions that the replay holds."""
    batch: int = 4096
    """Transitions per update."""
    steps: int = 128
    """Steps of every world per iteration."""
    updates: int = 1
    """Of Q functions and policy, after every step of all worlds."""
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
        if self.max_norm is not None:
            positive_number("max_norm", self.max_norm)
        for name in ("rate", "temperature_rate"):
            finite_number(name, getattr(self, name), 0.0)
        for name in ("tau", "gamma"):
            fraction(name, getattr(self, name))
        if self.target_entropy is not None:
            finite_number("target_entropy", self.target_entropy)
        for bound in self.log_std:
            finite_number("log_std", bound)
        if len(self.log_std) != 2 or not self.log_std[0] < self.log_std[1]:
            raise InputError(f"log_std must be two numbers, the lesser first, got {self.log_std!r}")


class Soft:
    """A policy, twin Q functions with slow copies, a temperature, and worlds that fill a replay."""

    def __init__(self, config: SoftConfig, spec: EnvSpec, seed: int, graphs: bool) -> None:
        """On CUDA, `graphs` lets updates be recorded and replayed."""
        c = config
        self.config, self.first = config, torch.Generator().manual_seed(seed)
        """`first` is the chance that networks begin with."""
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.normalizer = Normalizer(spec.obs_size, c.normalize, spec.dtype).to(spec.device)
        sizes, bounds = (spec.obs_size, spec.action_size), (c.log_std[0], c.log_std[1])
        actor = SquashedActor(*sizes, hidden=c.hidden, function=c.activation, log_std=bounds, rng=self.first)
        self.actor = actor.to(spec.device, spec.dtype)
        self.optimizer = optimizer(self.actor.parameters(), c.rate)
        self._policy_state = named({"actor": self.actor.state_dict(), "normalizer": self.normalizer.state_dict()})
        q = TwinQ(*sizes, hidden=c.critic_hidden, function=c.activation, rng=self.first)
        self.critic = SoftCritic(q.to(spec.device, spec.dtype), c.rate, c.tau)
        wanted = -float(spec.action_size) if c.target_entropy is None else c.target_entropy
        self.temperature = Temperature(c.temperature, c.temperature_rate, wanted, spec.device, spec.dtype)
        self.worlds = Worlds(spec, capacity=c.capacity, steps=c.steps, seed_steps=c.seed_steps, rng=self.generator)
        self._actions = spec.action_size
        self.view = self.normalizer.view()
        """What observations are seen through in this iteration; always in the same place."""
        self._sums: Told = {}
        self._graphs = graphs and spec.device.type == "cuda"
        self._player: Player | None = None

    def act(self, obs: Tensor) -> Tensor:
        """The policy's best action for raw observations."""
        with torch.no_grad():
            return finite_action(self.actor.mode(self.normalizer.view()(obs)), obs, self._policy_state)

    def iterate(self, env: Env, learn: Callable[[], Told], learned: Learned) -> Report:
        """Step the worlds, and learn after every step; where that is not sound, nothing is."""
        learned.keep()
        laps, times = Laps(env.spec.device), 0 if self.worlds.seeding else self.config.steps
        self.view.take(self.normalizer.view())
        for total in self._sums.values():
            total.zero_()

        def policy(obs: Tensor) -> Tensor:
            return self.actor.play(self.view(obs), self.noise(len(obs)))

        try:
            steps = self.worlds.run(env, policy, lambda: self._play(learn))
        except Halted as halt:
            learned.take_back()
            self.worlds.forget(len(halt.steps))
            return skipped(halt, env, self._policy_state)
        self.normalizer.update(self.worlds.latest()["observation"].flatten(0, 1))
        means = {name: total / times for name, total in self._sums.items() if times}
        means["flaws"] = (self.worlds.flawed() | ~learned.finite()).to(env.spec.dtype)
        numbers = torch.stack([*means.values()]).tolist()  # the one wait for the device
        laps.mark("learning")
        values, count = dict(zip(means, numbers, strict=True)), env.spec.num_envs * len(steps)
        if values.pop("flaws") or not all(map(math.isfinite, numbers)):
            name = first_non_finite(learned.tensors)
            learned.take_back()
            check_learned(learned.tensors)
            what = f"{SPOILT if name is None else f'{name} would not be finite'}; {KEPT}"
            return Report(count, {}, steps, laps.seconds, self.worlds.undo(env, steps, what))
        values["replay"] = float(self.worlds.replay.size * env.spec.num_envs)
        return Report(count, values, steps, laps.seconds)

    def _play(self, learn: Callable[[], Told]) -> None:
        """Learn once, by a recording where there may be one; the first time directly, which makes what lasts."""

        def work(_: object) -> None:
            told = learn()
            if not self._sums:
                self._sums = {name: torch.zeros_like(x) for name, x in told.items()}
            torch._foreach_add_(list(self._sums.values()), list(told.values()))

        if self._player is None:
            Direct().play("learn", {"learn": work}, _unnoticed)
            self._player = Recordings([self.generator]) if self._graphs else Direct()
        else:
            self._player.play("learn", {"learn": work}, _unnoticed)

    def update(self, value: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Told:
        """One of Q functions, policy, temperature and slow copies.

        Args:
            value: [B] what the policy climbs, of normalised observations and α; and [B] log densities of its actions.
        """
        c, view, batch = self.config, self.view, self.worlds.replay.sample(self.config.batch, self.generator)
        obs, next_obs, alpha = view(batch["obs"]), view(batch["next_obs"]), self.temperature.alpha
        with torch.no_grad():
            next_action, next_density = self.actor(next_obs, self.noise(c.batch))
            next_q = self.critic.target.least(next_obs, next_action)
            reward = c.reward_scale * batch["reward"]
            target = soft_target(reward, batch["terminated"], next_q, next_density, alpha, c.gamma)
        critic_loss, q = self.critic.update(obs, batch["action"], target)
        climbed, density = value(obs, alpha)
        loss = -climbed.mean()
        norm = step_down(self.optimizer, loss, c.max_norm)
        self.temperature.update(density)
        self.critic.follow()
        return {
            "critic_loss": critic_loss, "actor_loss": loss.detach(), "q": q, "entropy": -density.detach().mean(),
            "temperature": alpha, "actor_grad_norm": norm,
        }  # fmt: skip

    def noise(self, *counts: int) -> Tensor:
        """[..., actions] standard normal."""
        like, shape = self.normalizer.mean, (*counts, self._actions)
        return torch.randn(shape, generator=self.generator, device=like.device, dtype=like.dtype)

    def parts(self) -> dict[str, Mapping[str, Tensor]]:
        """What learning changes: the tensors themselves."""
        return {
            "actor": self.actor.state_dict(), "normalizer": self.normalizer.state_dict(),
            "optimizer": moments(self.optimizer), "critic": self.critic.state_dict(),
            "temperature": self.temperature.state_dict(),
        }  # fmt: skip

    def state_dict(self, learned: Learned) -> dict[str, Tensor]:
        """What was learned, the generator, and how much was added to the replay, whose rows are saved elsewhere."""
        chance = {"generator": self.generator.get_state(), "replay.added": torch.tensor(self.worlds.replay.added)}
        return learned.copies() | chance

    def load_state_dict(self, state: Mapping[str, Tensor], learned: Learned) -> None:
        """Go on exactly from there, once the replay is filled; what does not fit, or is not finite, changes nothing."""
        check_state(self.state_dict(learned), state)
        check_policy({name: state[name] for name in self._policy_state})
        added = whole_number("the saved 'replay.added'", int(state["replay.added"]), 0)
        go_on(self.generator, state["generator"])
        self.worlds.replay.added = added
        learned.write(state)
        self._player = None


def _unnoticed(name: str) -> None:
    """Updates are not timed one by one."""


def averaged(told: list[Told]) -> Told:
    """Means by name."""
    if len(told) < 2:
        return told[0] if told else {}
    means = torch.stack([torch.stack([*x.values()]) for x in told]).mean(dim=0)
    return dict(zip(told[0], means, strict=True))
