"""Soft actor-critic: a squashed Gaussian policy, twin Q functions learned from replay, and a learned temperature.

One iteration takes some steps of all worlds without gradients and updates from the replay buffer after each of them. On
CUDA the host waits for the device once per iteration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ahac.algos.algorithm import IterationResult
from ahac.algos.finite_checks import UNDONE, check_learned, check_policy, finite_action, skip_iteration
from ahac.algos.parts.replay import Replay
from ahac.algos.parts.replay_collector import ReplayCollector
from ahac.algos.parts.temperature import Temperature
from ahac.algos.parts.twin_critic import TwinCritic
from ahac.core.checks import check_finite, check_int, check_positive, check_probability
from ahac.core.env import Env, EnvSpec, Step
from ahac.core.errors import InputError
from ahac.core.rng import restore_generator
from ahac.nets.mlp import Activation
from ahac.nets.normalizer import Normalizer
from ahac.nets.optim import gradient_step, make_adam, optimizer_tensors
from ahac.nets.policy_layers import first_outputs, policy_layers
from ahac.nets.q_ensemble import QEnsemble
from ahac.nets.sac_actor import SACActor
from ahac.nets.state_dicts import LearnedState, check_state, first_non_finite
from ahac.rl.nonfinite import NonFiniteReport
from ahac.rl.sac_losses import soft_target
from ahac.rl.stepping import RolloutInterrupted
from ahac.runtime.stages import stage
from ahac.runtime.timer import PhaseTimer
from ahac.runtime.transfer import fetch

__all__ = ["SAC", "Metrics", "SACConfig", "mean_metrics"]

Metrics = dict[str, Tensor]
"""Scalars by name, on the device."""


@dataclass(frozen=True, kw_only=True)
class SACConfig:
    """Soft actor-critic."""

    hidden: tuple[int, ...] = (128, 64, 32)
    """Hidden layer widths of the policy."""
    critic_hidden: tuple[int, ...] = (128, 64, 32)
    """Hidden layer widths of each Q function."""
    activation: Activation = "elu"
    """Activation function."""
    log_std_bounds: tuple[float, ...] = (-5.0, 2.0)
    """Smallest and largest log standard deviation of the policy."""
    learning_rate: float = 5e-4
    """Learning rate of the policy and the Q functions."""
    max_grad_norm: float | None = None
    """Clip the policy's gradient to this norm; None disables clipping."""
    init_alpha: float = 0.2
    """Initial temperature α."""
    alpha_learning_rate: float = 1e-4
    """Learning rate of log α; 0 keeps α fixed."""
    target_entropy: float | None = None
    """Target entropy of the policy; None means −1 per action dimension."""
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
            raise InputError(f"log_std_bounds must be two numbers, the smaller one first, got {self.log_std_bounds!r}")


class SAC:
    """A policy that maximizes min Q(s, a) − α log π(a | s)."""

    def __init__(self, config: SACConfig, spec: EnvSpec, seed: int) -> None:
        c = config
        self.config = config
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.init_rng = torch.Generator().manual_seed(seed)
        """Initializes the networks."""
        self.normalizer = Normalizer(spec.obs_size, c.normalize_obs, spec.dtype).to(spec.device)
        self.critic_normalizer = self.normalizer.like(spec.critic_obs_size) if spec.asymmetric else None
        bounds = (c.log_std_bounds[0], c.log_std_bounds[1])
        actor = SACActor(
            spec.obs_size,
            spec.action_size,
            hidden=c.hidden,
            function=c.activation,
            log_std=bounds,
            rng=self.init_rng,
        )
        self.actor = actor.to(spec.device, spec.dtype)
        self.optimizer = make_adam(self.actor.parameters(), c.learning_rate)
        q = QEnsemble(
            spec.critic_obs_size, spec.action_size, hidden=c.critic_hidden, function=c.activation, rng=self.init_rng
        )
        self.critic = TwinCritic(q.to(spec.device, spec.dtype), c.learning_rate, c.tau)
        target_entropy = -float(spec.action_size) if c.target_entropy is None else c.target_entropy
        self.temperature = Temperature(c.init_alpha, c.alpha_learning_rate, target_entropy, spec.device, spec.dtype)
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
        self.learned = LearnedState(self._sections())
        """Everything an iteration changes, except the generator and the replay buffer."""
        self.policy_state = self.learned.select("actor.", "normalizer.")
        """Tensors on which `act` depends."""

    @property
    def replay(self) -> Replay:
        """The replay buffer."""
        return self.collector.replay

    def act(self, obs: Tensor) -> Tensor:
        """Return the mode of the policy for raw observations."""
        with torch.no_grad():
            return finite_action(self.actor.mode(self.normalizer.frozen()(obs)), obs, self.policy_state)

    def policy_layers(self) -> nn.Sequential:
        """Return the mode of the policy as layers, from raw observations to actions."""
        return policy_layers(self.normalizer, first_outputs(self.actor.net, self._action_size), nn.Tanh())

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

    def _sample_action(self, obs: Tensor) -> Tensor:
        return self.actor.sample(self.frozen(obs), self._noise(len(obs)))

    @stage
    def _update(self) -> None:
        """Update after one step of all worlds, and add the metrics to the sums of this iteration."""
        metrics = self._update_networks()
        if not self._sums:
            self._sums = {name: torch.zeros_like(x) for name, x in metrics.items()}
        torch._foreach_add_(  # pyright: ignore[reportPrivateUsage,reportPrivateImportUsage]
            list(self._sums.values()), list(metrics.values())
        )

    def _update_networks(self) -> Metrics:
        return mean_metrics([self._update_from_replay() for _ in range(self.config.updates)])

    def _update_from_replay(self) -> Metrics:
        """Update Q functions, policy, temperature and target Q functions once."""
        c = self.config
        batch = self.replay.sample(c.batch_size, self.generator)
        obs, critic_obs = self._normalized(batch["obs"], batch.get("critic_obs"))
        next_obs, next_critic_obs = self._normalized(batch["next_obs"], batch.get("next_critic_obs"))
        alpha = self.temperature.alpha
        with torch.no_grad():
            next_action, next_log_prob = self.actor(next_obs, self._noise(c.batch_size))
            next_q = self.critic.target.min_q(next_critic_obs, next_action)
            reward = c.reward_scale * batch["reward"]
            target = soft_target(reward, batch["terminated"], next_q, next_log_prob, alpha, c.gamma)
        critic_loss, q = self.critic.update(critic_obs, batch["action"], target)
        value, log_prob = self._policy_value(obs, critic_obs, alpha)
        loss = -value.mean()
        norm = gradient_step(self.optimizer, loss, c.max_grad_norm)
        self.temperature.update(log_prob)
        self.critic.polyak_update()
        return {
            "critic_loss": critic_loss,
            "actor_loss": loss.detach(),
            "q": q,
            "entropy": -log_prob.detach().mean(),
            "temperature": alpha,
            "actor_grad_norm": norm,
        }

    def _normalized(self, obs: Tensor, critic_obs: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the normalized observations of policy and critics, the same tensor with one observation group."""
        obs = self.frozen(obs)
        return obs, obs if critic_obs is None else self.frozen_critic(critic_obs)

    def _policy_value(self, obs: Tensor, critic_obs: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return [B] values that the policy maximizes, for normalized observations, and [B] log π of its actions."""
        action, log_prob = self.actor(obs, self._noise(len(obs)))
        return self.critic.q.min_q(critic_obs, action) - alpha * log_prob, log_prob

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

    def _sections(self) -> dict[str, Mapping[str, Tensor]]:
        sections: dict[str, Mapping[str, Tensor]] = {
            "actor": self.actor.state_dict(),
            "normalizer": self.normalizer.state_dict(),
            "optimizer": optimizer_tensors(self.optimizer),
            "critic": self.critic.state_dict(),
            "temperature": self.temperature.state_dict(),
        }
        if self.critic_normalizer is not None:
            sections["critic_normalizer"] = self.critic_normalizer.state_dict()
        return sections

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
