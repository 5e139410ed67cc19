"""Contact sensors of feet, and the time that each of them spends in the air.

feet = FootContacts(("FL_foot*", "FR_foot*"))
memory = {**feet.memory}                                                # for air times only
observation = {"contacts": feet.observation}
reward = {"feet_air_time": feet.feet_air_time(target=0.3)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce

from ahac.core.checks import check_finite, check_positive
from ahac.core.errors import InputError
from ahac.envs.components.commands import VelocityCommand
from ahac.envs.draws import Draw
from ahac.envs.memory import Action, Memory, memory_of
from ahac.envs.task import RewardTerm
from ahac.sim import Real, World, maximum, tanh, where
from ahac.sim.physics.contact import ContactPoint

__all__ = ["FootContacts", "foot_depths", "foot_points"]


@dataclass(frozen=True)
class FootContacts:
    """Whether feet touch the ground, from the depth of their contact points; and since when they do not."""

    geoms: Sequence[str]
    """The geoms of each foot, one name per foot; the wildcards * and ? are allowed."""
    threshold: float = 0.0
    """Depth above which a foot is in contact [m]. A robot at rest sinks in by about 1 mm."""
    smooth: float | None = None
    """Depth [m] over which the sensor changes from 0 to 1; None switches at once, without a gradient."""
    name: str = "feet"
    """Name of its memory."""

    def __post_init__(self) -> None:
        if isinstance(self.geoms, str) or not self.geoms or not all(isinstance(name, str) for name in self.geoms):
            raise InputError(f"FootContacts.geoms must be a list of geom names, one per foot, got {self.geoms!r}")
        object.__setattr__(self, "geoms", tuple(self.geoms))
        check_finite("FootContacts.threshold", self.threshold)
        if self.smooth is not None:
            check_positive("FootContacts.smooth", self.smooth)

    @property
    def memory(self) -> dict[str, Memory]:
        """For each foot, whether it is in contact, then for each foot the time of its last contact [s]."""
        return {self.name: Memory(2 * len(self.geoms), start=self._start, update=self._update, owner=self)}

    def depths(self, world: World) -> list[Real]:
        """Return the depth of each foot's deepest point [m]; negative is clearance."""
        return foot_depths(world, self.geoms)

    def values(self, world: World) -> list[Real]:
        """Return the sensor of each foot: 1 in contact, 0 in the air."""
        if self.smooth is None:
            return self._touches(world)
        return [0.5 + 0.5 * tanh((depth - self.threshold) * (2.0 / self.smooth)) for depth in self.depths(world)]

    def observation(self, world: World, action: Action) -> list[Real]:
        """Observe the sensor of each foot."""
        return self.values(world)

    def air_times(self, world: World, action: Action) -> list[Real]:
        """Observe the time since each foot's last contact [s]."""
        return [world.time - last for last in self._memory(world)[1]]

    def feet_air_time(
        self, target: float = 0.5, command: VelocityCommand | None = None, min_command: float = 0.1
    ) -> RewardTerm:
        """Reward each foot that lands with its air time − target [s].

        Args:
            target: Air time below which a landing costs [s].
            command: If given, landings do not count while the horizontal command is slower than `min_command`.
            min_command: Speed [m/s].
        """

        def term(world: World, action: Action) -> Real:
            assert world.after is not None, "reward terms see the world after the step"
            (before, last), (now, _) = self._memory(world), self._memory(world.after)
            time = world.after.time
            steps = [b * (1.0 - a) * (time - t - target) for a, b, t in zip(before, now, last, strict=True)]
            total = sum(steps, 0.0)
            if command is None:
                return total
            x, y, _ = command.value(world)
            return where(x * x + y * y > min_command**2, total, 0.0)

        return term

    def _memory(self, world: World) -> tuple[Sequence[Real], Sequence[Real]]:
        numbers, feet = memory_of(self, world.memory, self.name), len(self.geoms)
        return numbers[:feet], numbers[feet:]

    def _touches(self, world: World) -> list[Real]:
        return [where(depth > self.threshold, 1.0, 0.0) for depth in self.depths(world)]

    def _start(self, world: World, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        return [*self._touches(world), *[0.0] * len(self.geoms)]

    def _update(self, world: World, action: Action, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        touches, last = self._touches(world), memory[self.name][len(self.geoms) :]
        return [*touches, *(where(touch > 0.5, world.time, t) for touch, t in zip(touches, last, strict=True))]


def foot_points(world: World, feet: Sequence[str]) -> list[list[ContactPoint]]:
    """Return the contact points of each foot, given the names of its geoms."""
    points = world.contact_points
    found = [[point for point in points if fnmatchcase(point.candidate.geom, pattern)] for pattern in feet]
    for pattern, matched in zip(feet, found, strict=True):
        if not matched:
            geoms = ", ".join(dict.fromkeys(point.candidate.geom for point in points))
            geoms = geoms or "none, since the model has no ground; load_model(..., ground=True) adds one"
            raise InputError(f"no contact point is on a geom named {pattern!r}; geoms with contact points: {geoms}")
    return found


def foot_depths(world: World, feet: Sequence[str]) -> list[Real]:
    """Return the depth of each foot's deepest point [m]; negative is clearance."""
    return [reduce(maximum, (point.depth for point in points)) for points in foot_points(world, feet)]
