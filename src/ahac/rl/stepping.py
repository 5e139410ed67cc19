"""Step the environment, and interrupt rollouts whose action is not finite."""

from __future__ import annotations

import torch
from torch import Tensor

from ahac.core.bundle import BundleConfig
from ahac.core.env import Bundling, Env, Step
from ahac.core.errors import InputError

__all__ = ["RolloutInterrupted", "step_env"]


class RolloutInterrupted(Exception):
    """The environment rejected a non-finite action (CPU only); its state is that before the step."""

    def __init__(self, steps: list[Step], obs: Tensor, action: Tensor) -> None:
        super().__init__(f"action {len(steps)} of a rollout is not finite")
        self.steps = steps
        """Steps taken so far."""
        self.obs = obs.detach()
        """[N, obs] observations that the action was computed from."""
        self.action = action.detach()
        """[N, actions] the rejected action."""


def step_env(env: Env, action: Tensor, steps: list[Step], bundle: BundleConfig | None = None) -> Step:
    """Take one step, bundled if it is given, and append it to `steps`."""
    try:
        step = env.step(action) if bundle is None or not bundle.enabled else _bundled_step(env, action, bundle)
    except InputError as error:
        if bool(torch.isfinite(action).all()):
            raise
        raise RolloutInterrupted(steps, env.obs, action) from error
    steps.append(step)
    return step


def _bundled_step(env: Env, action: Tensor, bundle: BundleConfig) -> Step:
    if not isinstance(env, Bundling):
        raise InputError(
            f"bundle.branches is {bundle.branches}, but {env.spec.name!r} is a {type(env).__name__} without bundled "
            "steps; set it to 0, or use an environment from ahac.make"
        )
    return env.bundled_step(action, bundle)
