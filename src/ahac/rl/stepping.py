"""Rollouts that end early: on the CPU an environment refuses actions that are not finite."""

from __future__ import annotations

import torch
from torch import Tensor

from ahac.core.env import Env, Step
from ahac.core.errors import InputError

__all__ = ["RolloutInterrupted", "step_env"]


class RolloutInterrupted(Exception):
    """The environment refused an action that is not finite; it is as it was before that step."""

    def __init__(self, steps: list[Step], obs: Tensor, action: Tensor) -> None:
        super().__init__(f"action {len(steps)} of a rollout is not finite")
        self.steps = steps
        self.obs = obs.detach()
        self.action = action.detach()
        """Steps taken before; [N, obs] what the action was chosen from; [N, actions] the action."""


def step_env(env: Env, action: Tensor, steps: list[Step]) -> Step:
    """One step, added to those taken before."""
    try:
        step = env.step(action)
    except InputError as error:
        if bool(torch.isfinite(action).all()):
            raise
        raise RolloutInterrupted(steps, env.obs, action) from error
    steps.append(step)
    return step
