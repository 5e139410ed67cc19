"""A gait clock: a phase for each foot that advances with time.

clock = GaitClock(frequency=2.0, offsets=(0.0, 0.5, 0.5, 0.0))           # a trot
memory = {**clock.memory}
observation = {"clock": clock.observation}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ahac.core.checks import check_finite, check_non_empty
from ahac.core.errors import InputError
from ahac.envs.components.sensors import FootContacts
from ahac.envs.components.timing import Range, check_range, draw_from
from ahac.envs.draws import Draw
from ahac.envs.memory import Action, Memory, memory_of
from ahac.envs.task import RewardTerm
from ahac.sim import Real, World, cos, sin, where

__all__ = ["GaitClock"]


@dataclass(frozen=True, kw_only=True)
class GaitClock:
    """Phases of feet in a periodic gait: phase = start + offset + frequency · time, in cycles.

    A foot should stand in the first half of its cycle and swing in the second.
    """

    frequency: Range = 2.0
    """Cycles per second [Hz]: a number, or a range from which it is drawn for each episode."""
    offsets: Sequence[float] = (0.0,)
    """Phase of each foot relative to the clock, in cycles."""
    random_start: bool = True
    """Whether episodes begin at a random phase, or at zero."""
    name: str = "gait"
    """Name of its memory."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "frequency", check_range("GaitClock.frequency", self.frequency, positive=True))
        if not isinstance(self.offsets, Sequence) or isinstance(self.offsets, str):
            raise InputError(
                f"GaitClock.offsets must be a list of numbers, one per foot, e.g. (0.0, 0.5), got {self.offsets!r}"
            )
        offsets = check_non_empty("GaitClock.offsets", self.offsets)
        object.__setattr__(self, "offsets", tuple(check_finite("GaitClock.offsets", offset) for offset in offsets))

    @property
    def memory(self) -> dict[str, Memory]:
        """Phase at the start of the episode, and frequency."""
        return {self.name: Memory(2, start=self._start, owner=self)}

    def phases(self, world: World) -> list[Real]:
        """Return the phase of each foot, in cycles since the episode began."""
        start, frequency = memory_of(self, world.memory, self.name)
        clock = start + frequency * world.time
        return [clock + offset for offset in self.offsets]

    def observation(self, world: World, action: Action) -> list[Real]:
        """Observe sine and cosine of each foot's phase."""
        angles = [phase * (2.0 * math.pi) for phase in self.phases(world)]
        return [f(angle) for angle in angles for f in (sin, cos)]

    def track_contacts(self, contacts: FootContacts) -> RewardTerm:
        """Reward contact of feet that should stand and no contact of those that should swing: 0 to 1."""
        if len(contacts.geoms) != len(self.offsets):
            raise InputError(f"the clock has {len(self.offsets)} offsets for {len(contacts.geoms)} feet; use one each")

        def term(world: World, action: Action) -> Real:
            feet = zip(self.phases(world), contacts.values(world), strict=True)
            matches = [where(sin(phase * (2.0 * math.pi)) > 0.0, touch, 1.0 - touch) for phase, touch in feet]
            return sum(matches, 0.0) / len(matches)

        return term

    def _start(self, world: World, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        return [draw(0.0, 1.0) if self.random_start else 0.0, draw_from(self.frequency, draw)]
