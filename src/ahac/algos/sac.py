"""Soft actor-critic: a squashed Gaussian policy climbs twin Q functions learnt from replay, at a learnt temperature.

One iteration: some steps of all worlds without gradients, each followed by updates from replay. On CUDA nothing waits
for the device before the numbers of the whole iteration are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from ahac.algos.algorithm import IterationResult
from ahac.algos.parts.replay import Replay
from ahac.algos.soft import Soft, SoftConfig, Told, averaged
from ahac.core.env import Env, EnvSpec
from ahac.nets.state_dicts import LearnedState

__all__ = ["SAC", "SACConfig"]


@dataclass(frozen=True, kw_only=True)
class SACConfig(SoftConfig):
    """Soft actor-critic."""


class SAC:
    """The policy climbs min Q(s, a) − α log π(a | s)."""

    def __init__(self, config: SoftConfig, spec: EnvSpec, seed: int, graphs: bool = True) -> None:
        self.config = config
        self.soft = Soft(config, spec, seed, graphs)

    @property
    def replay(self) -> Replay:
        """What it learns from."""
        return self.soft.worlds.replay

    def act(self, obs: Tensor) -> Tensor:
        """The policy's best action for raw observations."""
        return self.soft.act(obs)

    def iterate(self, env: Env, progress: float) -> IterationResult:
        """Step the worlds, and learn after every step."""
        return self.soft.iterate(env, self._learn, self.learned)

    @cached_property
    def learned(self) -> LearnedState:
        """All that an iteration changes, but for chance and replay."""
        return LearnedState(self._parts())

    def _parts(self) -> dict[str, Mapping[str, Tensor]]:
        return self.soft.parts()

    def _learn(self) -> Told:
        return averaged([self.soft.update(self._value) for _ in range(self.config.updates)])

    def _value(self, obs: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        action, density = self.soft.actor(obs, self.soft.noise(len(obs)))
        return self.soft.critic.q.min_q(obs, action) - alpha * density, density

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that was learned, and all chance; of the replay only how much was added to it."""
        return self.soft.state_dict(self.learned)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on exactly from a saved state, once the replay is filled as well."""
        self.soft.load_state_dict(state, self.learned)
