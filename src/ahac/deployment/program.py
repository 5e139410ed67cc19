"""The program that is exported: observations in; actions and, where they are known, controls out."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

__all__ = ["PolicyProgram"]


class PolicyProgram(nn.Module):
    """A policy on the CPU in float32: actions = layers(obs), controls = middle + half_range · actions."""

    middle: Tensor
    half_range: Tensor

    def __init__(
        self, layers: nn.Sequential, ranges: Sequence[tuple[float, float]] | None, obs_size: int, action_size: int
    ) -> None:
        """Combine the layers of a policy with the control range of each actuator; None if controls are unknown."""
        super().__init__()
        self.obs_size = obs_size
        """Size of an observation."""
        self.action_size = action_size
        """Number of actions."""
        self.layers = deepcopy(layers)  # the algorithm keeps its own, on its device
        self.has_controls = ranges is not None
        bounds = torch.tensor(ranges or [], dtype=torch.float64).reshape(-1, 2)
        low, high = bounds.unbind(dim=-1)
        self.register_buffer("middle", 0.5 * (low + high))
        self.register_buffer("half_range", 0.5 * (high - low))
        self.to("cpu", torch.float32).eval().requires_grad_(False)

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["actions", "controls"] if self.has_controls else ["actions"]

    def forward(self, obs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return [batch, action_size] actions in [-1, 1] for [batch, obs_size] observations, and the controls."""
        actions = self.layers(obs)
        return (actions, self.middle + self.half_range * actions) if self.has_controls else actions
