"""Proximal policy optimization: clipped surrogate, generalized advantages, learning rate adapted to the KL divergence.

One iteration takes T steps of all worlds without gradients, then some epochs over them in minibatches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ahac.algos.algorithm import IterationResult
from ahac.algos.finite_checks import UNDONE, check_learned, check_policy, finite_action, skip_iteration
from ahac.core.checks import check_finite, check_int, check_positive, check_probability, check_widths
from ahac.core.env import Env, EnvSpec
from ahac.core.errors import InputError
from ahac.core.rng import restore_generator
from ahac.nets.gaussian import entropy, kl, log_prob
from ahac.nets.mlp import Activation
from ahac.nets.normalizer import FrozenNormalizer, Normalizer
from ahac.nets.optim import gradient_step, make_adam, optimizer_tensors
from ahac.nets.policy_layers import policy_layers
from ahac.nets.ppo_actor_critic import PPOActorCritic
from ahac.nets.state_dicts import LearnedState, check_state, first_non_finite
from ahac.rl.gae import gae
from ahac.rl.nonfinite import NonFiniteReport
from ahac.rl.on_policy import Batch, collect, diagnose_batch, nonfinite_worlds
from ahac.rl.ppo_losses import action_bound_loss, adaptive_learning_rate, clipped_surrogate, clipped_value_loss
from ahac.rl.stepping import RolloutInterrupted
from ahac.runtime.stages import stage
from ahac.runtime.timer import PhaseTimer
from ahac.runtime.transfer import fetch

__all__ = ["PPO", "PPOConfig"]

LEARNING_RATE_BOUNDS = (1e-6, 1e-2)
"""Bounds of the adaptive learning rate."""
ADAM_EPS = 1e-5
NONFINITE_UPDATE = f"a loss or gradient is not finite; {UNDONE}"


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Proximal policy optimization."""

    hidden: tuple[int, ...] = (128, 64, 32)
    """Hidden layer widths of the policy."""
    critic_hidden: tuple[int, ...] | None = (64, 64)
    """Hidden layer widths of the critic; None shares the policy's layers."""
    activation: Activation = "elu"
    """Activation function."""
    init_log_std: float = 0.0
    """Initial log standard deviation of the policy."""
    steps_per_env: int = 32
    """Steps of each world per iteration."""
    epochs: int = 5
    """Epochs over the batch."""
    minibatches: int = 4
    """Minibatches per epoch."""
    learning_rate: float = 5e-4
    """Learning rate; the initial one if target_kl is set."""
    target_kl: float | None = 0.008
    """KL divergence per iteration that the learning rate adapts to; None keeps it fixed."""
    clip_range: float = 0.2
    """Clipping range ε of the surrogate objective."""
    clip_range_vf: float | None = 0.2
    """Clipping range of (normalized) values per iteration; None does not clip."""
    value_coef: float = 4.0
    """Coefficient of the value loss."""
    entropy_coef: float = 0.0
    """Coefficient of the entropy bonus."""
    action_bound_coef: float = 1e-4
    """Coefficient of the penalty on action means outside their range."""
    max_grad_norm: float = 1.0
    """Clip the gradient to this norm."""
    normalize_obs: bool = True
    """Normalize observations by running statistics."""
    normalize_value: bool = True
    """Normalize the critic's targets by running statistics."""
    reward_scale: float = 0.01
    """Factor applied to rewards."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """λ of generalized advantage estimation."""

    def __post_init__(self) -> None:
        for name in ("steps_per_env", "epochs", "minibatches"):
            check_int(name, getattr(self, name), 1)
        check_widths("hidden", self.hidden)
        if self.critic_hidden is not None:
            check_widths("critic_hidden", self.critic_hidden)
        for name in ("clip_range", "max_grad_norm", "reward_scale"):
            check_positive(name, getattr(self, name))
        for name in ("target_kl", "clip_range_vf"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        for name in ("learning_rate", "value_coef", "entropy_coef", "action_bound_coef"):
            check_finite(name, getattr(self, name), 0.0)
        check_finite("init_log_std", self.init_log_std)
        check_probability("gamma", self.gamma)
        check_probability("gae_lambda", self.gae_lambda)
        if self.critic_hidden is None and not self.hidden:
            raise InputError(
                "critic_hidden=None shares the policy's hidden layers, but hidden is empty; give hidden layer widths"
            )


class PPO:
    """A Gaussian policy and a critic."""

    def __init__(self, config: PPOConfig, spec: EnvSpec, seed: int) -> None:
        self.config = config
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.normalizer = Normalizer(spec.obs_size, config.normalize_obs, spec.dtype).to(spec.device)
        self.critic_normalizer = self.normalizer.like(spec.critic_obs_size) if spec.asymmetric else None
        self.value_normalizer = Normalizer(1, config.normalize_value, spec.dtype).to(spec.device)
        net = PPOActorCritic(
            spec.obs_size,
            spec.action_size,
            hidden=config.hidden,
            critic_hidden=config.critic_hidden,
            function=config.activation,
            log_std=config.init_log_std,
            rng=torch.Generator().manual_seed(seed),
            critic_obs=spec.critic_obs_size if spec.asymmetric else None,
        )
        self.net = net.to(spec.device, spec.dtype)
        self.learning_rate = torch.tensor(config.learning_rate, device=spec.device, dtype=torch.float32)
        self.optimizer = make_adam(self.net.parameters(), self.learning_rate, eps=ADAM_EPS)
        sections: dict[str, Mapping[str, Tensor]] = {
            "net": self.net.state_dict(),
            "normalizer": self.normalizer.state_dict(),
            "value_normalizer": self.value_normalizer.state_dict(),
            "optimizer": optimizer_tensors(self.optimizer),
            "adaptive": {"rate": self.learning_rate},
        }
        if self.critic_normalizer is not None:
            sections["critic_normalizer"] = self.critic_normalizer.state_dict()
        self.learned = LearnedState(sections)
        """Everything an iteration changes, except the generator."""
        self.policy_state = self.learned.select("net.trunk.", "net.policy.", "net.log_std", "normalizer.")
        """Tensors on which `act` depends."""

    def act(self, obs: Tensor) -> Tensor:
        """Return the mode of the policy for raw observations."""
        with torch.no_grad():
            action = self.net.mean(self.normalizer.frozen()(obs)).clamp(-1.0, 1.0)
            return finite_action(action, obs, self.policy_state)

    def policy_layers(self) -> nn.Sequential:
        """Return the mode of the policy as layers, from raw observations to actions."""
        return policy_layers(self.normalizer, self.net.trunk, self.net.policy, nn.Hardtanh(-1.0, 1.0))

    def iterate(self, env: Env, progress: float) -> IterationResult:
        """Collect a batch and learn from it; if anything is not finite, undo the iteration."""
        self.learned.save()
        timer = PhaseTimer(env.spec.device)
        try:
            batch, normalize, normalize_critic = self._collect(env)
        except RolloutInterrupted as interruption:
            return skip_iteration(interruption, env, self.policy_state, {})
        timer.lap("rollout")
        update = self._learn(batch, normalize, normalize_critic)
        timer.lap("learning")
        metrics = {name: float(x) for name, x in fetch(update).items()}
        failure = None
        if metrics.pop("invalid") or not all(map(math.isfinite, metrics.values())):
            metrics = {}
            failure = self._undo(env, batch)
        return IterationResult(batch.reward.numel(), metrics, batch.steps, timer.seconds, failure)

    def _undo(self, env: Env, batch: Batch) -> NonFiniteReport:
        """Undo an iteration, reset the worlds that caused it to fail, and return the cause."""
        name = first_non_finite(self.learned.tensors)
        self.learned.restore()
        check_learned(self.learned.tensors)
        message = NONFINITE_UPDATE if name is None else f"{name} would not be finite; {UNDONE}"
        report = diagnose_batch(batch.tensors, batch.steps, message, env.spec.reward_terms)
        env.reset_worlds(report.worlds)
        return report

    @stage
    def _collect(self, env: Env) -> tuple[Batch, FrozenNormalizer, FrozenNormalizer | None]:
        """Collect a batch with the current policy; also return the current normalizers of policy and critic."""
        normalize = self.normalizer.frozen()

        def policy(obs: Tensor) -> Tensor:
            mean = self.net.mean(normalize(obs))
            noise = torch.randn(mean.shape, generator=self.generator, device=mean.device, dtype=mean.dtype)
            return torch.addcmul(mean, self.net.log_std.exp(), noise)

        batch = collect(env, policy, self.config.steps_per_env)
        return batch, normalize, None if self.critic_normalizer is None else self.critic_normalizer.frozen()

    @stage
    def _learn(
        self, batch: Batch, normalize: FrozenNormalizer, normalize_critic: FrozenNormalizer | None
    ) -> dict[str, Tensor]:
        """Take gradient steps over the batch, and return metrics on the device."""
        c = self.config
        log_std = self.net.log_std.detach().clone()
        widths, rows = self._rows(batch, normalize, normalize_critic)
        steps: list[tuple[Tensor, ...]] = []
        for _ in range(c.epochs):
            order = torch.randperm(len(rows), generator=self.generator, device=rows.device)
            for indices in order.tensor_split(c.minibatches):
                steps.append(self._gradient_step(torch.split(rows[indices], widths, dim=-1), log_std))
        self.normalizer.update(batch.obs.flatten(0, 1))
        if self.critic_normalizer is not None:
            self.critic_normalizer.update(batch.critic_obs.flatten(0, 1))
        names = ("actor_loss", "critic_loss", "kl", "share_clipped", "actor_grad_norm")
        means = torch.stack([torch.stack(x) for x in steps]).mean(dim=0)
        return {
            **dict(zip(names, means, strict=True)),
            "rate": self.learning_rate,
            "entropy": entropy(self.net.log_std.detach()),
            "invalid": nonfinite_worlds(batch.tensors).any() | ~self.learned.is_finite(),
        }

    @torch.no_grad()
    def _rows(
        self, batch: Batch, normalize: FrozenNormalizer, normalize_critic: FrozenNormalizer | None = None
    ) -> tuple[list[int], Tensor]:
        """Return the widths and the [T N, ...] concatenation of what a gradient step reads.

        Observation, action, action mean, log π, advantage, target, value and the critic's own observation, if any.
        """
        c = self.config
        obs = normalize(batch.obs)
        critic_obs = [] if normalize_critic is None else [normalize_critic(batch.critic_obs)]
        mean, value = self.net(obs, *critic_obs)
        scale = self.value_normalizer.frozen()
        value = scale.denormalize(value)
        next_value = scale.denormalize(self.net.value((normalize_critic or normalize)(batch.final_critic_obs)))
        next_value = torch.where(batch.terminated, 0.0, next_value)
        advantage = gae(c.reward_scale * batch.reward, value, next_value, batch.done, c.gamma, c.gae_lambda)
        target = advantage + value
        self.value_normalizer.update(target.reshape(-1, 1))
        scale = self.value_normalizer.frozen()
        std, mean_advantage = torch.std_mean(advantage)
        old_log_prob = log_prob(batch.action, mean, self.net.log_std)
        scalars = [old_log_prob, (advantage - mean_advantage) / (std + 1e-8), scale(target), scale(value)]
        columns = [obs, batch.action, mean, *(x[..., None] for x in scalars), *critic_obs]
        return [x.shape[-1] for x in columns], torch.cat(columns, dim=-1).flatten(0, 1)

    def _gradient_step(self, minibatch: Sequence[Tensor], log_std: Tensor) -> tuple[Tensor, ...]:
        """Take one step; return the losses, the KL divergence, the share of clipped ratios and the gradient norm."""
        c = self.config
        obs, action, old_mean = minibatch[:3]
        old_log_prob, advantage, target, old_value = (x.squeeze(-1) for x in minibatch[3:7])
        mean, value = self.net(obs, *minibatch[7:])
        log_ratio = log_prob(action, mean, self.net.log_std) - old_log_prob
        actor_loss = clipped_surrogate(log_ratio, advantage, c.clip_range)
        critic_loss = clipped_value_loss(value, old_value, target, c.clip_range_vf)
        loss = actor_loss + c.value_coef * critic_loss + c.action_bound_coef * action_bound_loss(mean)
        if c.entropy_coef > 0.0:
            loss = loss - c.entropy_coef * entropy(self.net.log_std)
        with torch.no_grad():
            divergence = kl(old_mean, log_std, mean, self.net.log_std).mean()
            clipped = (log_ratio.exp() - 1.0).abs() > c.clip_range
            if c.target_kl is not None:
                self.learning_rate.copy_(
                    adaptive_learning_rate(self.learning_rate, divergence, c.target_kl, LEARNING_RATE_BOUNDS)
                )
        norm = gradient_step(self.optimizer, loss, c.max_grad_norm)
        return actor_loss.detach(), critic_loss.detach(), divergence, clipped.to(divergence.dtype).mean(), norm

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything learned, and the state of the generator."""
        return {**self.learned.copies(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume exactly from a saved state; raise and change nothing if it does not fit or is not finite."""
        check_state(self.state_dict(), state)
        check_policy({name: state[name] for name in self.policy_state})
        restore_generator(self.generator, state["generator"])
        self.learned.load(state)
