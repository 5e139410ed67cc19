"""Footsteps: where each foot should be during a gait cycle, as rewards that have gradients with and without contact.

steps = Footsteps(("left_foot", "right_foot"), clock, command, "pelvis", footholds=((0.0, 0.1), (0.0, -0.1)))
reward = {"swing_height": rewards.weighted(-30.0, steps.swing_height_l2)}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ahac.core.checks import check_positive
from ahac.core.errors import InputError
from ahac.envs.components.commands import VelocityCommand
from ahac.envs.components.gait import GaitClock
from ahac.envs.components.sensors import foot_depths, foot_points
from ahac.envs.memory import Action
from ahac.envs.observations import to_yaw_frame
from ahac.sim import Real, Vec3, World, abs_, atan2, clip, cos, exp, maximum, minimum, sin

__all__ = ["Footsteps"]

SLOW = 0.1
"""Commands below this speed [m/s] lower the swing height, in proportion to speed²: at zero the robot stands."""
TURNING = 0.3
"""Lever arm that converts yaw rates to speeds [m]."""
ROUNDING = 0.1
"""Rounds the corners of the triangle wave of footholds."""


@dataclass(frozen=True)
class Footsteps:
    """Heights, slip and footholds of feet that follow a gait clock.

    Heights and slip are those of the contact points of a foot, so that a flat foot stays level.
    """

    feet: Sequence[str]
    """The geoms of each foot, one name per foot; the wildcards * and ? are allowed."""
    clock: GaitClock
    """Gait clock, with an offset for each foot."""
    command: VelocityCommand
    """Commanded velocity."""
    base: str
    """Body whose velocity is commanded."""
    footholds: Sequence[tuple[float, float]]
    """Horizontal position of each foot relative to the base in the stance, in the yaw frame [m]."""
    swing_height: float = 0.08
    """Height of a foot in the middle of its swing [m]."""
    min_gap: float = 0.8
    """Smallest sideways distance between a left and a right foot, as a fraction of that in the stance."""
    contact_height: float = 0.01
    """Above the ground, slip counts in proportion to exp(−(height / contact_height)²) [m]."""

    def __post_init__(self) -> None:
        for name in ("swing_height", "min_gap", "contact_height"):
            check_positive(f"Footsteps.{name}", getattr(self, name))
        for name, values in {"clock.offsets": self.clock.offsets, "footholds": self.footholds}.items():
            if len(values) != len(self.feet):
                raise InputError(f"Footsteps has {len(self.feet)} feet but {len(values)} {name}; use one each")

    def heights(self, world: World, action: Action) -> list[Real]:
        """Observe the height of each foot's lowest point [m]."""
        return [-depth for depth in foot_depths(world, self.feet)]

    def swing_height_l2(self, world: World, action: Action) -> Real:
        """Sum over feet of the squared distance of points from the desired height [m²]; use a negative weight."""
        amplitude = self.swing_height * self._moving(world)
        total: Real = 0.0
        for points, swing in zip(foot_points(world, self.feet), self._swings(world), strict=True):
            errors = [(-point.depth - amplitude * swing) ** 2 for point in points]
            total = total + sum(errors, 0.0) * (1.0 / len(errors))
        return total

    def slip_l2(self, world: World, action: Action) -> Real:
        """Sum over feet of the squared horizontal velocity of points near the ground [m²/s²]; use a negative weight."""
        total: Real = 0.0
        for points in foot_points(world, self.feet):
            speeds = [
                exp((minimum(point.depth, 0.0) * (1.0 / self.contact_height)) ** 2 * -1.0)
                * (point.velocity.x**2 + point.velocity.y**2)
                for point in points
            ]
            total = total + sum(speeds, 0.0) * (1.0 / len(speeds))
        return total

    def foothold_l2(self, world: World, action: Action) -> Real:
        """Sum over feet of the squared horizontal distance from where they should be [m²]; use a negative weight.

        A foot touches down half a step ahead of its position in the stance and lifts off half a step behind it, where
        a step is how far the base moves in half a cycle at the commanded velocity.
        """
        x, y, yaw = self.command.value(world)
        _, frequency = world.memory[self.clock.name]
        total: Real = 0.0
        for found, phase, (ahead, left) in zip(
            self._places(world), self.clock.phases(world), self.footholds, strict=True
        ):
            reach = _triangle(phase) * 0.25 / frequency
            total = total + (found.x - ahead - reach * (x - yaw * left)) ** 2
            total = total + (found.y - left - reach * (y + yaw * ahead)) ** 2
        return total

    def feet_apart_l2(self, world: World, action: Action) -> Real:
        """Sum over pairs (left, right) of how much closer than `min_gap` they are sideways, squared [m²].

        Bodies of the robot do not collide in this simulator; use a negative weight to keep feet from crossing.
        """
        places = self._places(world)
        total: Real = 0.0
        for i in range(0, len(places) - 1, 2):
            wanted = self.min_gap * (self.footholds[i][1] - self.footholds[i + 1][1])
            total = total + maximum(0.0, wanted - (places[i].y - places[i + 1].y)) ** 2
        return total

    def _places(self, world: World) -> list[Vec3]:
        """Return the center of each foot relative to the base, in the yaw frame [m]."""
        base = world.model.bodies[self.base]
        center = world.motion.position[base.link] + world.motion.rotation[base.link] @ Vec3.of(base.position)
        places = []
        for points in foot_points(world, self.feet):
            mean = sum((point.position for point in points[1:]), points[0].position) * (1.0 / len(points))
            places.append(to_yaw_frame(world, self.base, mean - center))
        return places

    def _moving(self, world: World) -> Real:
        """Return 1 while the robot should move, 0 at a command of zero."""
        x, y, yaw = self.command.value(world)
        return clip((x * x + y * y + (TURNING * yaw) ** 2) * (1.0 / SLOW**2), 0.0, 1.0)

    def _swings(self, world: World) -> list[Real]:
        """Return the desired height of each foot as a fraction of the swing height; zero in the first half cycle."""
        return [maximum(0.0, sin(phase * (-2.0 * math.pi))) for phase in self.clock.phases(world)]


def _triangle(phase: Real) -> Real:
    """Return a triangle wave with rounded corners: 1 at phase 0, −1 half a cycle later."""
    angle = phase * (2.0 * math.pi)
    return atan2(cos(angle), abs_(sin(angle)) + ROUNDING) * (2.0 / math.pi)
