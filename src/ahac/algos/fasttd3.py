"""FastTD3: TD3 with many worlds, large batches and critics that predict distributions of returns.

The policy is deterministic; every world explores with Gaussian noise of its own standard deviation. The loop and what
else it shares with other algorithms with a replay buffer are in `off_policy.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ahac.algos.algorithm import IterationResult
from ahac.algos.off_policy import Metrics, OffPolicy, OffPolicyConfig, mean_metrics
from ahac.algos.parts.twin_critic import CategoricalTwinCritic
from ahac.core.checks import check_finite, check_int, check_positive, check_range
from ahac.core.env import Env, EnvSpec, Step
from ahac.core.errors import InputError
from ahac.nets.deterministic_actor import DeterministicActor
from ahac.nets.mlp import Activation
from ahac.nets.optim import gradient_step, optimizer_tensors, scheduled_adam
from ahac.nets.policy_layers import policy_layers
from ahac.nets.q_ensemble import CategoricalQEnsemble
from ahac.rl.categorical import Support, lower_distribution, project
from ahac.rl.n_step import n_step_return
from ahac.rl.schedule import cosine_schedule, set_learning_rate

__all__ = ["FastTD3", "FastTD3Config", "smoothed_action"]

INIT_SCALE = 0.01
"""Standard deviation of the initial weights of the policy's last layer."""


@dataclass(frozen=True, kw_only=True)
class FastTD3Config(OffPolicyConfig):
    """FastTD3."""

    hidden: tuple[int, ...] = (512, 256, 128)
    """Hidden layer widths of the policy."""
    critic_hidden: tuple[int, ...] = (1024, 512, 256)
    """Hidden layer widths of each Q function."""
    activation: Activation = "relu"
    """Activation function."""
    learning_rate: float = 3e-4
    """Initial learning rate of the policy and the Q functions."""
    final_learning_rate: float = 3e-5
    """Learning rate at the end of the run; it falls along a cosine."""
    weight_decay: float = 0.1
    """Decoupled weight decay (AdamW) of the policy and the Q functions."""
    tau: float = 0.1
    """Polyak factor of the target Q functions, per update."""
    buffer_size: int = 2_097_152
    """Capacity of the replay buffer in transitions."""
    batch_size: int = 32_768
    """Transitions per update."""
    steps_per_env: int = 32
    """Steps of each world per iteration."""
    updates: int = 2
    """Updates of the Q functions after each step of all worlds; a multiple of policy_delay."""
    policy_delay: int = 2
    """Updates of the Q functions per update of the policy."""
    num_atoms: int = 101
    """Number of atoms of the distributions of returns."""
    v_min: float = -250.0
    """Smallest discounted return that the Q functions can predict, after reward_scale."""
    v_max: float = 250.0
    """Largest discounted return that the Q functions can predict, after reward_scale."""
    clipped_double_q: bool = True
    """Use the lower of the two Q functions; otherwise their mean."""
    n_steps: int = 1
    """Steps of the returns that the Q functions learn from."""
    target_noise: float = 0.001
    """Standard deviation of the noise on the actions of targets."""
    target_noise_clip: float = 0.5
    """Clip the noise on the actions of targets to ± this."""
    exploration_std: tuple[float, ...] = (0.001, 0.4)
    """Smallest and largest standard deviation of exploration; every world draws its own for each episode."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("policy_delay", "n_steps"):
            check_int(name, getattr(self, name), 1)
        check_int("num_atoms", self.num_atoms, 2)
        for name in ("final_learning_rate", "weight_decay", "target_noise"):
            check_finite(name, getattr(self, name), 0.0)
        check_positive("target_noise_clip", self.target_noise_clip)
        check_range("exploration_std", self.exploration_std, 0.0)
        if not check_finite("v_min", self.v_min) < check_finite("v_max", self.v_max):
            raise InputError(f"v_max must be more than v_min, got v_min {self.v_min:g} and v_max {self.v_max:g}")
        if self.updates % self.policy_delay:
            raise InputError(
                "updates must be a multiple of policy_delay, because each step of all worlds ends with an update of "
                f"the policy, got {self.updates} and {self.policy_delay}; use policy_delay {self.updates} or 1"
            )
        if self.n_steps > self.steps_per_env:
            raise InputError(f"n_steps must not exceed steps_per_env, got {self.n_steps} and {self.steps_per_env}")

    @property
    def sequence(self) -> tuple[str, int]:
        """See `OffPolicyConfig`."""
        return "returns", self.n_steps


class FastTD3(OffPolicy):
    """A deterministic policy that maximizes the expected value of the lower of two distributions of returns."""

    config: FastTD3Config

    def __init__(self, config: FastTD3Config, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, spec, seed)
        c = config
        self.support = Support(c.v_min, c.v_max, c.num_atoms)
        actor = DeterministicActor(
            spec.obs_size,
            spec.action_size,
            hidden=c.hidden,
            function=c.activation,
            init_scale=INIT_SCALE,
            rng=self.init_rng,
        )
        self.actor = actor.to(spec.device, spec.dtype)
        self.optimizer = scheduled_adam(self.actor, c.learning_rate, weight_decay=c.weight_decay)
        q = CategoricalQEnsemble(
            spec.critic_obs_size,
            spec.action_size,
            hidden=c.critic_hidden,
            function=c.activation,
            rng=self.init_rng,
            outputs=c.num_atoms,
        ).to(spec.device, spec.dtype)
        critic_optimizer = scheduled_adam(q, c.learning_rate, weight_decay=c.weight_decay)
        self.critic = CategoricalTwinCritic(q, critic_optimizer, c.tau, self.support)
        self.exploration_std = self._draw_std(spec.num_envs)
        """[N, 1] standard deviation of each world's exploration in its current episode."""
        self._track(
            {
                "actor": self.actor.state_dict(),
                "optimizer": optimizer_tensors(self.optimizer),
                "critic": self.critic.state_dict(),
                "exploration": {"std": self.exploration_std},
            }
        )

    def policy_layers(self) -> nn.Sequential:
        """Return the policy as layers, from raw observations to actions."""
        return policy_layers(self.normalizer, self.actor.net, nn.Tanh())

    def iterate(self, env: Env, progress: float) -> IterationResult:
        """Set the learning rate, step all worlds and update after each step."""
        rate = cosine_schedule(self.config.learning_rate, progress, self.config.final_learning_rate)
        set_learning_rate([self.optimizer, self.critic.optimizer], rate)
        return super().iterate(env, progress)

    def _mode(self, obs: Tensor) -> Tensor:
        return self.actor(obs)

    def _sample_action(self, obs: Tensor) -> Tensor:
        mode = self.actor(self.frozen(obs))
        return torch.addcmul(mode, self.exploration_std, self._noise(len(obs))).clamp(-1.0, 1.0)

    def _end_step(self, step: Step) -> None:
        """Draw a new standard deviation of exploration in each world whose episode ended."""
        std = torch.where(step.done[:, None], self._draw_std(len(step.done)), self.exploration_std)
        self.exploration_std.copy_(std)

    def _draw_std(self, count: int) -> Tensor:
        low, high = self.config.exploration_std
        like = self.normalizer.mean
        share = torch.rand((count, 1), generator=self.generator, device=like.device, dtype=like.dtype)
        return low + (high - low) * share

    def _update_networks(self) -> Metrics:
        c = self.config
        critic: list[Metrics] = []
        policy: list[Metrics] = []
        for k in range(1, c.updates + 1):
            batch = self._sample_batch()
            obs, critic_obs = self._normalized(batch["obs"], batch.get("critic_obs"))
            target, beyond = self._target(batch)
            loss, q = self.critic.update(critic_obs, batch["action"], target)
            critic.append({"critic_loss": loss, "q": q, "share_beyond": beyond.mean()})
            if k % c.policy_delay == 0:
                policy.append(self._update_policy(obs, critic_obs))
            self.critic.polyak_update()
        return mean_metrics(critic) | mean_metrics(policy)

    def _sample_batch(self) -> dict[str, Tensor]:
        """Sample transitions, with the return of n steps as "reward" and the discount of what follows as "discount"."""
        c = self.config
        rows = self.collector.sample_sequences(c.batch_size, c.n_steps)
        reward = c.reward_scale * rows["reward"]
        total, discount, last = n_step_return(reward, rows["terminated"], rows["done"], c.gamma)
        batch = {name: x[0] for name, x in rows.items()} | {"reward": total, "discount": discount}
        for name in ("next_obs", "next_critic_obs"):
            if name in rows:
                width = rows[name].shape[-1]
                batch[name] = rows[name].gather(0, last[None, :, None].expand(1, -1, width))[0]
        return batch

    @torch.no_grad()
    def _target(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the [B, K] target distributions, and the [B] probability of returns beyond the support."""
        c = self.config
        obs, critic_obs = self._normalized(batch["next_obs"], batch.get("next_critic_obs"))
        noise = c.target_noise * self._noise(c.batch_size)
        action = smoothed_action(self.actor(obs), noise, c.target_noise_clip)
        both = self.critic.target.probabilities(critic_obs, action)
        following = lower_distribution(both, self.support) if c.clipped_double_q else both.mean(dim=0)
        return project(following, batch["reward"], batch["discount"], self.support, c.gamma**c.n_steps)

    def _update_policy(self, obs: Tensor, critic_obs: Tensor) -> Metrics:
        """Take a gradient step up the expected returns of the policy's actions."""
        values = self.critic.values(critic_obs, self.actor(obs))
        value = values.amin(dim=0) if self.config.clipped_double_q else values.mean(dim=0)
        loss = -value.mean()
        norm = gradient_step(self.optimizer, loss)
        return {"actor_loss": loss.detach(), "actor_grad_norm": norm}


def smoothed_action(action: Tensor, noise: Tensor, clip: float) -> Tensor:
    """Return clip(a + clip(ε, −c, c), −1, 1): target policy smoothing."""
    return (action + noise.clamp(-clip, clip)).clamp(-1.0, 1.0)
