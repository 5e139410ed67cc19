"""Rollouts of a policy through a differentiable environment: T steps of N worlds, time first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.bundle import BundleConfig
from ahac.core.env import Env, Step
from ahac.rl.stepping import step_env

__all__ = ["Rollout", "StiffnessMonitor", "roll_out"]

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class StiffnessMonitor:
    """How to measure stiffness along a rollout, and whether to truncate a world's trajectory at stiff steps."""

    signal: str
    """One of `ahac.core.env.STIFFNESS_SIGNALS`."""
    probes: int | None = None
    """Random probes for estimating the signal "dynamics"; None computes it exactly."""
    truncate_above: float | None = None
    """Truncate a world's trajectory, and its gradient, at steps stiffer than this; None never truncates."""
    min_steps: int = 0
    """Smallest number of steps before a trajectory may be truncated."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Rollout:
    """A short rollout of all worlds."""

    raw_obs: Tensor
    """[T, N, obs] observations before the action; without gradients."""
    obs: Tensor
    """[T, N, obs] normalized observations before the action; without gradients."""
    raw_critic_obs: Tensor
    """[T, N, critic_obs] the critics' observations before the action: `raw_obs` itself with one group."""
    critic_obs: Tensor
    """[T, N, critic_obs] the critics' normalized observations before the action: `obs` itself with one group."""
    final_critic_obs: Tensor
    """[T, N, critic_obs] the critics' normalized observations after the action, before any reset; carries gradients."""
    reward: Tensor
    """[T, N]; carries gradients."""
    terminated: Tensor
    """[T, N] bool, the task ended the episode, so no value follows."""
    cut: Tensor
    """[T, N] bool, the trajectory ends here: with its episode, at a stiff step, or with the rollout."""
    stiff: Tensor
    """[T, N] bool, truncated because the step was too stiff."""
    stiffness: Tensor | None
    """[T, N], or None if it was not measured; carries gradients if its signal does."""
    steps: list[Step]
    """The environment's steps."""

    @property
    def asymmetric(self) -> bool:
        """Whether critics have their own observations."""
        return self.raw_critic_obs is not self.raw_obs

    @property
    def shares(self) -> dict[str, Tensor]:
        """Fractions of the steps that were truncated as too stiff and, with bundled steps, that have branches."""
        bundled = [step.bundled for step in self.steps if step.bundled is not None]
        shares = {"share_cut": self.stiff, **({"share_bundled": torch.stack(bundled)} if bundled else {})}
        return {name: flags.float().mean() for name, flags in shares.items()}


def roll_out(
    env: Env,
    policy: Function,
    normalize: Function,
    length: int,
    monitor: StiffnessMonitor | None = None,
    normalize_critic: Function | None = None,
    bundle: BundleConfig | None = None,
) -> Rollout:
    """Roll out a policy from the environment's current state; no gradient flows into earlier steps.

    Args:
        env: The environment.
        policy: Computes actions from raw observations.
        normalize: Normalizes the observations of the rollout.
        length: Number of steps.
        monitor: How to measure stiffness; by default it is not measured.
        normalize_critic: Normalizes the critics' own observations; by default critics see what the policy sees.
        bundle: Bundled steps in hard contact; by default all steps are plain.
    """
    env.detach()
    raw: list[Tensor] = []
    raw_critic: list[Tensor] = []
    measured: list[Tensor] = []
    truncations: list[Tensor] = []
    steps: list[Step] = []
    age = torch.zeros(env.spec.num_envs, device=env.spec.device)
    never = torch.zeros_like(age, dtype=torch.bool)
    for _ in range(length):
        raw.append(env.obs.detach())
        if normalize_critic:
            raw_critic.append(env.critic_obs.detach())
        step = step_env(env, policy(env.obs), steps, bundle)
        stiff = never
        if monitor is not None:
            measured.append(env.stiffness(step, monitor.signal, monitor.probes))
        if monitor is not None and monitor.truncate_above is not None:
            age = age + 1.0
            done = step.done
            stiff = (measured[-1].detach() > monitor.truncate_above) & (age >= monitor.min_steps) & ~done
            env.detach(stiff)
            age.masked_fill_(stiff | done, 0.0)
        truncations.append(stiff)
    stiff = torch.stack(truncations)
    terminated = torch.stack([step.terminated for step in steps])
    cut = terminated | torch.stack([step.truncated for step in steps]) | stiff
    cut[-1] = True
    return Rollout(
        **_observations(raw, raw_critic, steps, normalize, normalize_critic),
        reward=torch.stack([step.reward for step in steps]),
        terminated=terminated,
        cut=cut,
        stiff=stiff,
        stiffness=torch.stack(measured) if measured else None,
        steps=steps,
    )


def _observations(
    raw: list[Tensor],
    raw_critic: list[Tensor],
    steps: list[Step],
    normalize: Function,
    normalize_critic: Function | None,
) -> dict[str, Tensor]:
    """Return the observations of a rollout by the names of `Rollout`; with one group, critics share the policy's."""
    raw_obs = torch.stack(raw)
    obs = normalize(raw_obs)
    if normalize_critic is None:
        final = normalize(torch.stack([step.final_obs for step in steps]))
        critic = {"raw_critic_obs": raw_obs, "critic_obs": obs, "final_critic_obs": final}
    else:
        raw_critic_obs = torch.stack(raw_critic)
        final = normalize_critic(torch.stack([step.final_critic_obs for step in steps]))
        critic_obs = normalize_critic(raw_critic_obs)
        critic = {"raw_critic_obs": raw_critic_obs, "critic_obs": critic_obs, "final_critic_obs": final}
    return {"raw_obs": raw_obs, "obs": obs, **critic}
