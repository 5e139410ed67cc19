"""What algorithms with a replay buffer share: settings, the loop of an iteration, saving and undoing.

One iteration takes some steps of all worlds without gradients and updates from the replay buffer after each of them. On
CUDA the updates are captured as a graph, and the host waits for the device once per iteration.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.algos.algorithm import IterationResult
from ahac.algos.finite_checks import UNDONE, check_learned, check_policy, finite_action, skip_iteration
from ahac.algos.parts.replay import Replay
from ahac.algos.parts.replay_collector import ReplayCollector
from ahac.core.checks import check_finite, check_int, check_positive, check_probability, check_widths
from ahac.core.env import Env, EnvSpec, Step
from ahac.core.errors import InputError
from ahac.core.rng import restore_generator
from ahac.nets.mlp import Activation
from ahac.nets.normalizer import Normalizer
from ahac.nets.state_dicts import LearnedState, check_state, first_non_finite
from ahac.rl.nonfinite import NonFiniteReport
from ahac.rl.stepping import RolloutInterrupted
from ahac.runtime.stages import stage
from ahac.runtime.timer import PhaseTimer
from ahac.runtime.transfer import fetch

__all__ = ["Metrics", "OffPolicy", "OffPolicyConfig", "mean_metrics"]

Metrics = dict[str, Tensor]
"""Scalars by name, on the device."""


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig:
    """Settings of every algorithm with a replay buffer."""

    hidden: tuple[int, ...] = (128, 64, 32)
    """Hidden layer widths of the policy."""
    critic_hidden: tuple[int, ...] = (128, 64, 32)
    """Hidden layer widths of each Q function."""
    activation: Activation = "elu"
    """Activation function."""
    learning_rate: float = 5e-4
    """Learning rate of the policy and the Q functions."""
    tau: float = 0.005
    """Polyak factor of the target Q functions, per update."""
    buffer_size: int = 1_000_000
    """Capacity of the replay buffer in transitions."""
    batch_size: int = 4096
    """Transitions per update."""
    steps_per_env: int = 128
    """Steps of each world per iteration."""
    updates: int = 1
    """Updates of the Q functions and the policy after each step of all worlds."""
    learning_starts: int = 10_000
    """Environment steps with random actions before learning starts; rounded up to whole iterations."""
    normalize_obs: bool = True
    """Normalize observations by running statistics."""
    reward_scale: float = 1.0
    """Factor applied to rewards."""
    gamma: float = 0.99
    """Discount factor."""

    def __post_init__(self) -> None:
        for name in ("buffer_size", "batch_size", "steps_per_env", "updates"):
            check_int(name, getattr(self, name), 1)
        check_int("learning_starts", self.learning_starts, 0)
        check_widths("hidden", self.hidden)
        check_widths("critic_hidden", self.critic_hidden)
        check_positive("reward_scale", self.reward_scale)
        check_finite("learning_rate", self.learning_rate, 0.0)
        for name in ("tau", "gamma"):
            check_probability(name, getattr(self, name))

    @property
    def sequence(self) -> tuple[str, int]:
        """What is sampled from the replay buffer, as messages name it, and its length in steps."""
        return "transitions", 1

    def check_worlds(self, worlds: int) -> None:
        """Raise if the replay buffer is too small for what is sampled from this many worlds."""
        name, steps = self.sequence
        if steps > 1 and self.buffer_size < steps * worlds:
            raise InputError(
                f"buffer_size must be at least {steps * worlds} for {name} of {steps} steps in {worlds} worlds, got "
                f"{self.buffer_size}"
            )


class OffPolicy(ABC):
    """An algorithm that learns from a replay buffer; subclasses create the networks and define the update."""

    learned: LearnedState
    """Everything an iteration changes, except the generator and the replay buffer."""
    policy_state: dict[str, Tensor]
    """Tensors on which `act` depends."""

    def __init__(self, config: OffPolicyConfig, spec: EnvSpec, seed: int) -> None:
        c = config
        c.check_worlds(spec.num_envs)
        self.config = config
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.init_rng = torch.Generator().manual_seed(seed)
        """Initializes the networks."""
        self.normalizer = Normalizer(spec.obs_size, c.normalize_obs, spec.dtype).to(spec.device)
        self.critic_normalizer = self.normalizer.like(spec.critic_obs_size) if spec.asymmetric else None
        self.collector = ReplayCollector(
            spec,
            buffer_size=c.buffer_size,
            steps=c.steps_per_env,
            learning_starts=c.learning_starts,
            rng=self.generator,
        )
        self._action_size = spec.action_size
        self.frozen = self.normalizer.frozen()
        """Normalizes observations during one iteration; always the same tensors, because captured updates read them."""
        self.frozen_critic = self.frozen if self.critic_normalizer is None else self.critic_normalizer.frozen()
        """The same for the critics' observations; `frozen` itself with one observation group."""
        self._sums: Metrics = {}

    @property
    def replay(self) -> Replay:
        """The replay buffer."""
        return self.collector.replay

    def act(self, obs: Tensor) -> Tensor:
        """Return the mode of the policy for raw observations."""
        with torch.no_grad():
            return finite_action(self._mode(self.normalizer.frozen()(obs)), obs, self.policy_state)

    def iterate(self, env: Env, progress: float) -> IterationResult:
        """Step all worlds and update after each step; if anything is not finite, undo the iteration."""
        self.learned.save()
        timer = PhaseTimer(env.spec.device)
        self.frozen.copy_from(self.normalizer.frozen())
        if self.critic_normalizer is not None:
            self.frozen_critic.copy_from(self.critic_normalizer.frozen())
        for total in self._sums.values():
            total.zero_()
        learning = not self.collector.warming_up
        steps: list[Step] = []
        env.detach()
        try:
            for _ in range(self.config.steps_per_env):
                self.collector.step(env, self._sample_action if learning else None, steps)
                self._end_step(steps[-1])
                if learning:
                    self._update()
        except RolloutInterrupted as interruption:
            self.learned.restore()
            self.collector.forget(len(interruption.steps))
            return skip_iteration(interruption, env, self.policy_state, {})
        latest = self.collector.latest()
        self.normalizer.update(latest["observation"].flatten(0, 1))
        if self.critic_normalizer is not None:
            self.critic_normalizer.update(latest["critic observation"].flatten(0, 1))
        metrics, failure = self._fetch(env, steps, learning)
        timer.lap("learning")
        return IterationResult(env.spec.num_envs * len(steps), metrics, steps, timer.seconds, failure)

    @abstractmethod
    def _mode(self, obs: Tensor) -> Tensor:
        """Return [..., actions] of the policy without noise, for normalized observations."""

    @abstractmethod
    def _sample_action(self, obs: Tensor) -> Tensor:
        """Return [N, actions] to explore with, for raw observations."""

    @abstractmethod
    def _update_networks(self) -> Metrics:
        """Update everything learned `updates` times from the replay buffer."""

    def _end_step(self, step: Step) -> None:  # noqa: B027 - optional
        """Called after each step of all worlds, also while the replay buffer fills."""

    @stage
    def _update(self) -> None:
        """Update after one step of all worlds, and add the metrics to the sums of this iteration."""
        metrics = self._update_networks()
        if not self._sums:
            self._sums = {name: torch.zeros_like(x) for name, x in metrics.items()}
        torch._foreach_add_(  # pyright: ignore[reportPrivateUsage,reportPrivateImportUsage]
            list(self._sums.values()), list(metrics.values())
        )

    def _normalized(self, obs: Tensor, critic_obs: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the normalized observations of policy and critics, the same tensor with one observation group."""
        obs = self.frozen(obs)
        return obs, obs if critic_obs is None else self.frozen_critic(critic_obs)

    def _noise(self, *counts: int) -> Tensor:
        """Draw [..., actions] standard normal noise."""
        like = self.normalizer.mean
        shape = (*counts, self._action_size)
        return torch.randn(shape, generator=self.generator, device=like.device, dtype=like.dtype)

    def _fetch(self, env: Env, steps: list[Step], learned: bool) -> tuple[dict[str, float], NonFiniteReport | None]:
        """Copy the metrics to the host; if anything is not finite, undo the iteration and return the cause."""
        means = {name: total / len(steps) for name, total in self._sums.items() if learned}
        invalid = self.collector.any_nonfinite() | ~self.learned.is_finite()
        metrics = {name: float(x) for name, x in fetch({**means, "invalid": invalid}).items()}
        if not metrics.pop("invalid") and all(map(math.isfinite, metrics.values())):
            return {**metrics, "replay": float(self.replay.size * env.spec.num_envs)}, None
        name = first_non_finite(self.learned.tensors)
        self.learned.restore()
        check_learned(self.learned.tensors)
        cause = "a loss is not finite" if name is None else f"{name} would not be finite"
        return {}, self.collector.discard_iteration(env, steps, f"{cause}; {UNDONE}")

    def _track(self, sections: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Define what is learned in addition to the normalizers, once all of it exists; "actor" is the policy."""
        normalizers = {"normalizer": self.normalizer.state_dict()}
        if self.critic_normalizer is not None:
            normalizers["critic_normalizer"] = self.critic_normalizer.state_dict()
        self.learned = LearnedState({**sections, **normalizers})
        self.policy_state = self.learned.select("actor.", "normalizer.")

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything learned, the generator, and the number of rows added to replay (saved elsewhere)."""
        added = torch.tensor(self.replay.added)
        return {**self.learned.copies(), "generator": self.generator.get_state(), "replay.added": added}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume exactly from a saved state, once the replay buffer is filled.

        Raises and changes nothing if the state does not fit or is not finite.
        """
        check_state(self.state_dict(), state)
        check_policy({name: state[name] for name in self.policy_state})
        added = check_int("the saved 'replay.added'", int(state["replay.added"]), 0)
        restore_generator(self.generator, state["generator"])
        self.replay.added = added
        self.learned.load(state)


def mean_metrics(metrics: Sequence[Metrics]) -> Metrics:
    """Return the means by name."""
    if len(metrics) < 2:
        return metrics[0] if metrics else {}
    means = torch.stack([torch.stack([*x.values()]) for x in metrics]).mean(dim=0)
    return dict(zip(metrics[0], means, strict=True))
