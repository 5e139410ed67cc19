"""Soft actor-critic: a squashed Gaussian policy, twin Q functions learned from replay, and a learned temperature.

The loop and what else it shares with other algorithms with a replay buffer are in `off_policy.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ahac.algos.off_policy import Metrics, OffPolicy, OffPolicyConfig, mean_metrics
from ahac.algos.parts.temperature import Temperature
from ahac.algos.parts.twin_critic import TwinCritic
from ahac.core.checks import check_finite, check_positive, check_range
from ahac.core.env import EnvSpec
from ahac.nets.optim import gradient_step, make_adam, optimizer_tensors
from ahac.nets.policy_layers import first_outputs, policy_layers
from ahac.nets.q_ensemble import QEnsemble
from ahac.nets.sac_actor import SACActor
from ahac.rl.sac_losses import soft_target

__all__ = ["SAC", "SACConfig"]


@dataclass(frozen=True, kw_only=True)
class SACConfig(OffPolicyConfig):
    """Soft actor-critic."""

    log_std_bounds: tuple[float, float] = (-5.0, 2.0)
    """Smallest and largest log standard deviation of the policy."""
    max_grad_norm: float | None = None
    """Clip the policy's gradient to this norm; None disables clipping."""
    init_alpha: float = 0.2
    """Initial temperature α."""
    alpha_learning_rate: float = 1e-4
    """Learning rate of log α; 0 keeps α fixed."""
    target_entropy: float | None = None
    """Target entropy of the policy; None means −1 per action dimension."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("init_alpha", self.init_alpha)
        if self.max_grad_norm is not None:
            check_positive("max_grad_norm", self.max_grad_norm)
        check_finite("alpha_learning_rate", self.alpha_learning_rate, 0.0)
        if self.target_entropy is not None:
            check_finite("target_entropy", self.target_entropy)
        check_range("log_std_bounds", self.log_std_bounds, distinct=True)


class SAC(OffPolicy):
    """A policy that maximizes min Q(s, a) − α log π(a | s)."""

    def __init__(self, config: SACConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, spec, seed)
        self.config = c = config
        actor = SACActor(
            spec.obs_size,
            spec.action_size,
            hidden=c.hidden,
            function=c.activation,
            log_std=c.log_std_bounds,
            rng=self.init_rng,
        )
        self.actor = actor.to(spec.device, spec.dtype)
        self.optimizer = make_adam(self.actor.parameters(), c.learning_rate)
        q = QEnsemble(
            spec.critic_obs_size, spec.action_size, hidden=c.critic_hidden, function=c.activation, rng=self.init_rng
        ).to(spec.device, spec.dtype)
        self.critic = TwinCritic(q, make_adam(q.parameters(), c.learning_rate), c.tau)
        target_entropy = -float(spec.action_size) if c.target_entropy is None else c.target_entropy
        self.temperature = Temperature(c.init_alpha, c.alpha_learning_rate, target_entropy, spec.device, spec.dtype)
        self._track(self._sections())

    def policy_layers(self) -> nn.Sequential:
        """Return the mode of the policy as layers, from raw observations to actions."""
        return policy_layers(self.normalizer, first_outputs(self.actor.net, self._action_size), nn.Tanh())

    def _mode(self, obs: Tensor) -> Tensor:
        return self.actor.mode(obs)

    def _sample_action(self, obs: Tensor) -> Tensor:
        return self.actor.sample(self.frozen(obs), self._noise(len(obs)))

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

    def _policy_value(self, obs: Tensor, critic_obs: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return [B] values that the policy maximizes, for normalized observations, and [B] log π of its actions."""
        action, log_prob = self.actor(obs, self._noise(len(obs)))
        return self.critic.q.min_q(critic_obs, action) - alpha * log_prob, log_prob

    def _sections(self) -> dict[str, Mapping[str, Tensor]]:
        return {
            "actor": self.actor.state_dict(),
            "optimizer": optimizer_tensors(self.optimizer),
            "critic": self.critic.state_dict(),
            "temperature": self.temperature.state_dict(),
        }
