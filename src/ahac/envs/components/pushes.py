"""Random pushes: a horizontal force on a body during one control step.

pushes = RandomPushes("trunk", velocity=0.5, every=(2.0, 5.0))
memory, forces = {**pushes.memory}, [pushes.force]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ahac.core.checks import check_finite
from ahac.envs.components.timing import Range, check_range, draw_from, is_due
from ahac.envs.draws import Draw
from ahac.envs.memory import Action, Memory, memory_of
from ahac.sim import AppliedForce, Real, Vec3, World, where

__all__ = ["RandomPushes"]


@dataclass(frozen=True)
class RandomPushes:
    """Pushes a body horizontally, at its origin, with the force that changes the robot's velocity by Δv in a step:

    force = total mass · Δv / dt        Δv uniform between −velocity and velocity, along x and along y
    """

    body: str
    """Name of the body that is pushed."""
    velocity: float = 0.5
    """Largest change of velocity along x and along y [m/s]."""
    every: Range = 5.0
    """Time between pushes [s]: a number, or a range from which each is drawn."""
    name: str = "push"
    """Name of its memory."""

    def __post_init__(self) -> None:
        check_finite("RandomPushes.velocity", self.velocity, least=0.0)
        object.__setattr__(self, "every", check_range("RandomPushes.every", self.every, positive=True))

    @property
    def memory(self) -> dict[str, Memory]:
        """Acceleration by the push along x and y [m/s²], Δv / dt, and time of the next push [s]."""
        return {self.name: Memory(3, start=self._start, update=self._update, owner=self)}

    def force(self, world: World) -> list[AppliedForce]:
        """Push the body: a force law."""
        x, y, _ = memory_of(self, world.memory, self.name)
        model, push = world.model, world.apply_force(self.body, Vec3(x, y, 0.0))
        root = model.chain(push.link)[-1]
        mass = sum(link.mass for i, link in enumerate(model.links) if model.chain(i)[-1] == root)
        return [replace(push, wrench=push.wrench * mass)]

    def observation(self, world: World, action: Action) -> list[Real]:
        """Observe the acceleration by the push of the next step [m/s²], e.g. for a critic."""
        return list(memory_of(self, world.memory, self.name)[:2])

    def _start(self, world: World, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        return [0.0, 0.0, draw_from(self.every, draw)]

    def _update(self, world: World, action: Action, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        assert world.before is not None, "memory is updated after a step"
        following = memory[self.name][2]
        due = is_due(world, following)
        dt = world.time - world.before.time
        x, y = (draw(-self.velocity, self.velocity) / dt for _ in range(2))
        later = world.time + draw_from(self.every, draw)
        return [where(due, x, 0.0), where(due, y, 0.0), where(due, later, following)]
