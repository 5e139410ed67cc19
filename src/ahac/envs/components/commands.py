"""Velocity commands that change during an episode, and rewards for following them.

command = VelocityCommand(lin_vel_x=(-1.0, 2.0), resample_every=(3.0, 8.0))
memory = {**command.memory}
observation = {"command": command.observation}
reward = {"track_lin_vel_xy": command.track_lin_vel_xy("trunk")}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ahac.core.checks import check_positive, check_probability
from ahac.core.errors import InputError
from ahac.envs.components.timing import Range, bounds_of, check_range, draw_from, is_due
from ahac.envs.draws import Draw
from ahac.envs.memory import Action, Memory, memory_of
from ahac.envs.observations import yaw_frame_velocity
from ahac.envs.task import RewardTerm
from ahac.sim import Real, World, exp, where

__all__ = ["NEVER", "VelocityCommand"]

NEVER = 1e9
"""A time that no episode reaches [s]: a command that ends then was set by hand, see `steering.py`."""


@dataclass(frozen=True, kw_only=True)
class VelocityCommand:
    """Commanded velocity of a robot on the ground: forward and sideways [m/s], in its yaw frame, and yaw rate [rad/s].

    The yaw frame has the robot's heading as its x axis and is always level.
    """

    lin_vel_x: Range = (-1.0, 1.0)
    """Range of the forward velocity [m/s]."""
    lin_vel_y: Range = (-0.5, 0.5)
    """Range of the velocity to the left [m/s]."""
    ang_vel_z: Range = (-1.0, 1.0)
    """Range of the yaw rate [rad/s]."""
    resample_every: Range = 5.0
    """Time until the next command [s]: a number, or a range from which it is drawn for each command."""
    standing: float = 0.1
    """Fraction of commands that are zero."""
    level: str | None = None
    """Memory whose first number scales all drawn commands, such as the level of a `Curriculum`."""
    name: str = "command"
    """Name of its memory."""

    def __post_init__(self) -> None:
        for name in ("lin_vel_x", "lin_vel_y", "ang_vel_z", "resample_every"):
            values = check_range(f"VelocityCommand.{name}", getattr(self, name), positive=name == "resample_every")
            object.__setattr__(self, name, values)
        if bounds_of(self.resample_every)[1] >= NEVER / 2.0:
            raise InputError(
                f"VelocityCommand.resample_every must be less than {NEVER / 2.0:g} s, got {self.resample_every!r}; a "
                "time longer than the episode gives each episode one command"
            )
        check_probability("VelocityCommand.standing", self.standing)

    @property
    def memory(self) -> dict[str, Memory]:
        """The command before scaling, and the time at which it ends."""
        return {self.name: Memory(4, start=self._start, update=self._update, owner=self)}

    def value(self, world: World) -> list[Real]:
        """Return the command (v_x, v_y, yaw rate)."""
        *command, end = memory_of(self, world.memory, self.name)
        if self.level is None:
            return command
        scale = where(end < NEVER, world.memory[self.level][0], 1.0)
        return [x * scale for x in command]

    def observation(self, world: World, action: Action) -> list[Real]:
        """Observe the command."""
        return self.value(world)

    def track_lin_vel_xy(self, body: str, std: float = 0.5) -> RewardTerm:
        """Reward the horizontal velocity: exp(−e² / std²), where e² is the squared error in the yaw frame [m²/s²]."""
        check_positive("std", std)
        return lambda world, action: exp(self.lin_vel_xy_l2(body)(world, action) * (-1.0 / std**2))

    def track_ang_vel_z(self, body: str, std: float = 0.5) -> RewardTerm:
        """Reward the yaw rate: exp(−e² / std²), where e is the error [rad/s]."""
        check_positive("std", std)
        return lambda world, action: exp(self.ang_vel_z_l2(body)(world, action) * (-1.0 / std**2))

    def lin_vel_xy_l2(self, body: str) -> RewardTerm:
        """Squared error of the horizontal velocity in the yaw frame [m²/s²]; give it a negative weight."""

        def term(world: World, action: Action) -> Real:
            velocity, (x, y, _) = yaw_frame_velocity(world, body), self.value(world)
            return (velocity.x - x) ** 2 + (velocity.y - y) ** 2

        return term

    def ang_vel_z_l2(self, body: str) -> RewardTerm:
        """Squared error of the yaw rate [rad²/s²]; give it a negative weight."""
        return lambda world, action: (world.angular_velocity(body).z - self.value(world)[2]) ** 2

    def _start(self, world: World, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        ranges = (self.lin_vel_x, self.lin_vel_y, self.ang_vel_z)
        command = [draw_from(values, draw) for values in ranges]
        if self.standing:
            moving = 1.0 - draw.chance(self.standing)
            command = [x * moving for x in command]
        return [*command, world.time + draw_from(self.resample_every, draw)]

    def _update(self, world: World, action: Action, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        now, following = memory[self.name], self._start(world, memory, draw)
        due = is_due(world, now[3])
        return [where(due, b, a) for a, b in zip(now, following, strict=True)]
