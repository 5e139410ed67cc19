"""What SAC and SVG share: settings, parts, and the loop of stepping all worlds and learning from replay in between."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.algos.algorithm import IterationResult
from ahac.algos.finite_checks import KEPT, check_learned, check_policy, finite_action, skipped
from ahac.algos.parts.replay_collector import ReplayCollector
from ahac.algos.parts.temperature import Temperature
from ahac.algos.parts.twin_critic import TwinCritic
from ahac.core.checks import check_finite, check_int, check_positive, check_probability
from ahac.core.env import Env, EnvSpec
from ahac.core.errors import InputError
from ahac.core.rng import restore_generator
from ahac.nets.mlp import Activation
from ahac.nets.normalizer import Normalizer
from ahac.nets.optim import gradient_step, make_adam, optimizer_tensors
from ahac.nets.q_ensemble import QEnsemble
from ahac.nets.sac_actor import SACActor
from ahac.nets.state_dicts import LearnedState, check_state, first_non_finite, flatten
from ahac.rl.sac_losses import soft_target
from ahac.rl.stepping import RolloutInterrupted
from ahac.runtime.cuda_graphs import EagerExecutor, Executor, GraphCache
from ahac.runtime.timer import PhaseTimer

__all__ = ["Soft", "SoftConfig", "averaged"]

Told = dict[str, Tensor]
"""Numbers by name, on the device."""
NONFINITE_UPDATE = "a loss is not finite"


@dataclass(frozen=True, kw_only=True)
class SoftConfig:
    """Policy, twin Q functions, temperature and replay."""

    hidden: tuple[int, ...] = (128, 64, 32)
    """Widths of the policy's hidden layers."""
    critic_hidden: tuple[int, ...] = (128, 64, 32)
    """Widths of those of each Q function."""
    activation: Activation = "elu"
    """Between layers."""
    log_std_bounds: tuple[float, ...] = (-5.0, 2.0)
    """Least and most logarithm of the standard deviation."""
    learning_rate: float = 5e-4
    """Learning rate of policy and Q functions."""
    max_grad_norm: float | None = None
    """Norm to which the policy's gradient is clipped."""
    init_alpha: float = 0.2
    """The first α."""
    alpha_learning_rate: float = 1e-4
    """Learning rate of log α; 0: it stays as it is."""
    target_entropy: float | None = None
    """That α sees to; by default −1 per action."""
    tau: float = 0.005
    """Share by which the slow copies of the Q functions follow after each update."""
    buffer_size: int = 1_000_000
    """Transitions that the replay holds."""
    batch_size: int = 4096
    """Transitions per update."""
    steps_per_env: int = 128
    """Steps of every world per iteration."""
    updates: int = 1
    """Of Q functions and policy, after every step of all worlds."""
    learning_starts: int = 10_000
    """World-steps with random actions, before anything is learnt; rounded up to whole iterations."""
    normalize_obs: bool = True
    """Whether observations are normalised by what has been seen so far."""
    reward_scale: float = 1.0
    """By which rewards are multiplied."""
    gamma: float = 0.99
    """Discount."""

    def __post_init__(self) -> None:
        for name in ("buffer_size", "batch_size", "steps_per_env", "updates"):
            check_int(name, getattr(self, name), 1)
        check_int("learning_starts", self.learning_starts, 0)
        for width in (*self.hidden, *self.critic_hidden):
            check_int("the width of a hidden layer", width, 1)
        for name in ("init_alpha", "reward_scale"):
            check_positive(name, getattr(self, name))
        if self.max_grad_norm is not None:
            check_positive("max_grad_norm", self.max_grad_norm)
        for name in ("learning_rate", "alpha_learning_rate"):
            check_finite(name, getattr(self, name), 0.0)
        for name in ("tau", "gamma"):
            check_probability(name, getattr(self, name))
        if self.target_entropy is not None:
            check_finite("target_entropy", self.target_entropy)
        for bound in self.log_std_bounds:
            check_finite("log_std_bounds", bound)
        if len(self.log_std_bounds) != 2 or not self.log_std_bounds[0] < self.log_std_bounds[1]:
            raise InputError(f"log_std_bounds must be two numbers, the lesser first, got {self.log_std_bounds!r}")


class Soft:
    """A policy, twin Q functions with slow copies, a temperature, and worlds that fill a replay."""

    def __init__(self, config: SoftConfig, spec: EnvSpec, seed: int, graphs: bool) -> None:
        """On CUDA, `graphs` lets updates be recorded and replayed."""
        c = config
        self.config = config
        self.first = torch.Generator().manual_seed(seed)
        """`first` is the chance that networks begin with."""
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.normalizer = Normalizer(spec.obs_size, c.normalize_obs, spec.dtype).to(spec.device)
        sizes = (spec.obs_size, spec.action_size)
        bounds = (c.log_std_bounds[0], c.log_std_bounds[1])
        actor = SACActor(*sizes, hidden=c.hidden, function=c.activation, log_std=bounds, rng=self.first)
        self.actor = actor.to(spec.device, spec.dtype)
        self.optimizer = make_adam(self.actor.parameters(), c.learning_rate)
        self._policy_state = flatten({"actor": self.actor.state_dict(), "normalizer": self.normalizer.state_dict()})
        q = QEnsemble(*sizes, hidden=c.critic_hidden, function=c.activation, rng=self.first)
        self.critic = TwinCritic(q.to(spec.device, spec.dtype), c.learning_rate, c.tau)
        wanted = -float(spec.action_size) if c.target_entropy is None else c.target_entropy
        self.temperature = Temperature(c.init_alpha, c.alpha_learning_rate, wanted, spec.device, spec.dtype)
        self.worlds = ReplayCollector(
            spec,
            buffer_size=c.buffer_size,
            steps=c.steps_per_env,
            learning_starts=c.learning_starts,
            rng=self.generator,
        )
        self._actions = spec.action_size
        self.view = self.normalizer.frozen()
        """What observations are seen through in this iteration; always in the same place."""
        self._sums: Told = {}
        self._graphs = graphs and spec.device.type == "cuda"
        self._player: Executor | None = None

    def act(self, obs: Tensor) -> Tensor:
        """The policy's best action for raw observations."""
        with torch.no_grad():
            return finite_action(self.actor.mode(self.normalizer.frozen()(obs)), obs, self._policy_state)

    def iterate(self, env: Env, learn: Callable[[], Told], learned: LearnedState) -> IterationResult:
        """Step the worlds, and learn after every step; where that is not sound, nothing is."""
        learned.save()
        laps = PhaseTimer(env.spec.device)
        times = 0 if self.worlds.warming_up else self.config.steps_per_env
        self.view.copy_from(self.normalizer.frozen())
        for total in self._sums.values():
            total.zero_()

        def policy(obs: Tensor) -> Tensor:
            return self.actor.sample(self.view(obs), self.noise(len(obs)))

        try:
            steps = self.worlds.run(env, policy, lambda: self._play(learn))
        except RolloutInterrupted as halt:
            learned.restore()
            self.worlds.forget(len(halt.steps))
            return skipped(halt, env, self._policy_state)
        self.normalizer.update(self.worlds.latest()["observation"].flatten(0, 1))
        means = {name: total / times for name, total in self._sums.items() if times}
        means["flaws"] = (self.worlds.nonfinite_worlds() | ~learned.is_finite()).to(env.spec.dtype)
        numbers = torch.stack([*means.values()]).tolist()  # the one wait for the device
        laps.lap("learning")
        values = dict(zip(means, numbers, strict=True))
        count = env.spec.num_envs * len(steps)
        if values.pop("flaws") or not all(map(math.isfinite, numbers)):
            name = first_non_finite(learned.tensors)
            learned.restore()
            check_learned(learned.tensors)
            what = f"{NONFINITE_UPDATE if name is None else f'{name} would not be finite'}; {KEPT}"
            return IterationResult(count, {}, steps, laps.seconds, self.worlds.discard_iteration(env, steps, what))
        values["replay"] = float(self.worlds.replay.size * env.spec.num_envs)
        return IterationResult(count, values, steps, laps.seconds)

    def _play(self, learn: Callable[[], Told]) -> None:
        """Learn once, by a recording where there may be one; the first time directly, which makes what lasts."""

        def work(_: object) -> None:
            told = learn()
            if not self._sums:
                self._sums = {name: torch.zeros_like(x) for name, x in told.items()}
            torch._foreach_add_(list(self._sums.values()), list(told.values()))

        if self._player is None:
            EagerExecutor().run("learn", {"learn": work}, _unnoticed)
            self._player = GraphCache([self.generator]) if self._graphs else EagerExecutor()
        else:
            self._player.run("learn", {"learn": work}, _unnoticed)

    def update(self, value: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Told:
        """One of Q functions, policy, temperature and slow copies.

        Args:
            value: [B] what the policy climbs, of normalised observations and α; and [B] log densities of its actions.
        """
        c = self.config
        view = self.view
        batch = self.worlds.replay.sample(self.config.batch_size, self.generator)
        obs = view(batch["obs"])
        next_obs = view(batch["next_obs"])
        alpha = self.temperature.alpha
        with torch.no_grad():
            next_action, next_density = self.actor(next_obs, self.noise(c.batch_size))
            next_q = self.critic.target.min_q(next_obs, next_action)
            reward = c.reward_scale * batch["reward"]
            target = soft_target(reward, batch["terminated"], next_q, next_density, alpha, c.gamma)
        critic_loss, q = self.critic.update(obs, batch["action"], target)
        climbed, density = value(obs, alpha)
        loss = -climbed.mean()
        norm = gradient_step(self.optimizer, loss, c.max_grad_norm)
        self.temperature.update(density)
        self.critic.polyak_update()
        return {
            "critic_loss": critic_loss,
            "actor_loss": loss.detach(),
            "q": q,
            "entropy": -density.detach().mean(),
            "temperature": alpha,
            "actor_grad_norm": norm,
        }

    def noise(self, *counts: int) -> Tensor:
        """[..., actions] standard normal."""
        like, shape = self.normalizer.mean, (*counts, self._actions)
        return torch.randn(shape, generator=self.generator, device=like.device, dtype=like.dtype)

    def parts(self) -> dict[str, Mapping[str, Tensor]]:
        """What learning changes: the tensors themselves."""
        return {
            "actor": self.actor.state_dict(),
            "normalizer": self.normalizer.state_dict(),
            "optimizer": optimizer_tensors(self.optimizer),
            "critic": self.critic.state_dict(),
            "temperature": self.temperature.state_dict(),
        }

    def state_dict(self, learned: LearnedState) -> dict[str, Tensor]:
        """What was learned, the generator, and how much was added to the replay, whose rows are saved elsewhere."""
        chance = {"generator": self.generator.get_state(), "replay.added": torch.tensor(self.worlds.replay.added)}
        return learned.copies() | chance

    def load_state_dict(self, state: Mapping[str, Tensor], learned: LearnedState) -> None:
        """Go on exactly from there, once the replay is filled; what does not fit, or is not finite, changes nothing."""
        check_state(self.state_dict(learned), state)
        check_policy({name: state[name] for name in self._policy_state})
        added = check_int("the saved 'replay.added'", int(state["replay.added"]), 0)
        restore_generator(self.generator, state["generator"])
        self.worlds.replay.added = added
        learned.load(state)
        self._player = None


def _unnoticed(name: str) -> None:
    """Updates are not timed one by one."""


def averaged(told: list[Told]) -> Told:
    """Means by name."""
    if len(told) < 2:
        return told[0] if told else {}
    means = torch.stack([torch.stack([*x.values()]) for x in told]).mean(dim=0)
    return dict(zip(told[0], means, strict=True))
