"""What a robot is asked to do: a record of plain functions, traced together with the physics.

Senses and terms look at a `World`, a start draws numbers; all are plain Python on scalars. Nothing here knows tensors,
batches or devices, and no derivative is written: see `ahac.sim` for what such functions may do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ahac.core.checks import check_int
from ahac.core.errors import InputError
from ahac.sim import Actuator, Model, Real, Vec3, World

__all__ = ["Action", "Draw", "ObsTerm", "ResetFn", "RewardTerm", "Task"]

Action = Sequence[Real]
"""One world's action, clipped to [-1, 1]."""

ObsTerm = Callable[[World, Action], "Real | Vec3 | Sequence[Real]"]
"""Part of an observation: from a world and the action that led to it."""

RewardTerm = Callable[[World, Action], Real]
"""Part of a reward: from the world before a step and the action taken in it; `world.after` is the world it led to."""

Draw = Callable[[float, float], Real]
"""A number drawn uniformly between two bounds, anew at each call."""

ResetFn = Callable[[Model, Draw], tuple[Sequence[Real], Sequence[Real]]]
"""Draws the positions and velocities with which an episode starts."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A robot and what it is asked to do. Variations are made with `dataclasses.replace`."""

    name: str
    model: Model
    """The robot. An action in [-1, 1] spans each actuator's control range."""
    observation: Mapping[str, ObsTerm]
    """What the policy sees, part by part."""
    reward: Mapping[str, RewardTerm]
    """What it is paid for: the sum of all parts."""
    reset: ResetFn
    """How episodes begin."""
    alive: Callable[[World], Real] | None = None
    """The episode goes on while this is not negative; without it, until the time is up."""
    dt: float = 1.0 / 60.0
    """Seconds per control step."""
    substeps: int = 16
    """Integration steps per control step."""
    episode_steps: int = 1000
    """Control steps after which an episode is cut off."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise InputError(f"model must be what load_model returned, got {type(self.model).__name__}")
        for name in ("observation", "reward"):
            parts = getattr(self, name)
            if not isinstance(parts, Mapping) or not parts:
                raise InputError(f"{name} must map names to functions of (world, action), at least one, got {parts!r}")
            for key, part in parts.items():
                if not callable(part):
                    raise InputError(f"{name} {key!r} must be a function of (world, action), got {part!r}")
        object.__setattr__(self, "episode_steps", check_int("episode_steps", self.episode_steps, 1))
        if not callable(self.reset):
            raise InputError(f"reset must be a function of (model, draw), NoisyReset() say, got {self.reset!r}")
        if self.alive is not None and not callable(self.alive):
            raise InputError(f"alive must be a function of a world, MinHeight('torso', 0.3) say, got {self.alive!r}")
        if not self.model.actuators:
            raise InputError(f"{self.model.name!r} has no actuators: load it with motors=Motor(strength=...)")
        object.__setattr__(self, "model", _with_unit_controls(self.model))


def _with_unit_controls(model: Model) -> Model:
    """The model with every actuator's control range mapped onto [-1, 1], inside the actuator."""
    if all(actuator.control_range == (-1.0, 1.0) for actuator in model.actuators):
        return model
    return replace(model, actuators=tuple(_with_unit_control(actuator) for actuator in model.actuators))


def _with_unit_control(actuator: Actuator) -> Actuator:
    """force = gain · (middle + half · action) + bias₀ + ... of the same actuator."""
    if actuator.control_range is None:
        raise InputError(
            f"actuator {actuator.name!r} has no control range for an action in [-1, 1] to span: give it a ctrlrange in "
            "the file, or load the robot with motors=Motor(strength=...)"
        )
    low, high = actuator.control_range
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    constant, by_length, by_speed = actuator.bias
    bias = (constant + actuator.gain * middle, by_length, by_speed)
    return replace(actuator, gain=actuator.gain * half, bias=bias, control_range=(-1.0, 1.0))
