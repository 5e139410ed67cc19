"""Rollouts of a policy through a differentiable environment: T steps of N worlds, time first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.env import Env, Step
from ahac.rl.stepping import step_env

__all__ = ["Rollout", "StiffnessMonitor", "roll_out"]

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class StiffnessMonitor:
    """How stiffness is measured along a rollout, and whether stiff steps end a world's trajectory."""

    signal: str
    """One of `ahac.envs.SIGNALS`."""
    probes: int | None = None
    """Random probes of the signal "dynamics"; exact without."""
    truncate_above: float | None = None
    """A world's trajectory ends where it is stiffer than this, and no gradient crosses that point."""
    min_steps: int = 0
    """Steps that a trajectory has at least before it may end so."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Rollout:
    """One short-horizon trajectory of all worlds."""

    raw_obs: Tensor
    """[T, N, obs] before the action; without gradients."""
    obs: Tensor
    """[T, N, obs] the same, normalised."""
    final_obs: Tensor
    """[T, N, obs] normalised, after the action and before any reset; carries gradients."""
    reward: Tensor
    """[T, N] carries gradients."""
    terminated: Tensor
    """[T, N] bool, no value follows."""
    cut: Tensor
    """[T, N] bool, the trajectory ends here: its episode ended, it was too stiff, or the rollout ended."""
    stiff: Tensor
    """[T, N] bool, cut because it was too stiff."""
    stiffness: Tensor | None
    """[T, N] where it was measured; carries gradients if its signal does."""
    steps: list[Step]
    """What the environment answered, step by step."""


def roll_out(
    env: Env, policy: Function, normalize: Function, length: int, monitor: StiffnessMonitor | None = None
) -> Rollout:
    """Go on from where the environment is, cut off from what came before.

    Args:
        env: The environment.
        policy: Actions by observations as they are.
        normalize: Normalizes the observations of the rollout.
        length: Steps.
        monitor: How stiffness is measured; not measured by default.
    """
    env.detach()
    raw = []
    measured = []
    cuts = []
    steps: list[Step] = []
    age = torch.zeros(env.spec.num_envs, device=env.spec.device)
    never = torch.zeros_like(age, dtype=torch.bool)
    for _ in range(length):
        raw.append(env.obs.detach())
        step = step_env(env, policy(env.obs), steps)
        stiff = never
        if monitor is not None:
            measured.append(env.stiffness(step, monitor.signal, monitor.probes))
        if monitor is not None and monitor.truncate_above is not None:
            age, done = age + 1.0, step.done
            stiff = (measured[-1].detach() > monitor.truncate_above) & (age >= monitor.min_steps) & ~done
            env.detach(stiff)
            age.masked_fill_(stiff | done, 0.0)
        cuts.append(stiff)
    stiff = torch.stack(cuts)
    terminated = torch.stack([step.terminated for step in steps])
    cut = terminated | torch.stack([step.truncated for step in steps]) | stiff
    cut[-1] = True
    raw_obs = torch.stack(raw)
    return Rollout(
        raw_obs=raw_obs,
        obs=normalize(raw_obs),
        final_obs=normalize(torch.stack([step.final_obs for step in steps])),
        reward=torch.stack([step.reward for step in steps]),
        terminated=terminated,
        cut=cut,
        stiff=stiff,
        stiffness=torch.stack(measured) if measured else None,
        steps=steps,
    )
