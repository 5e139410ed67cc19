"""What controls do: motors and servos on joints, motors, servos and muscles along tendons.

    force = gain · control + bias₀ + bias₁ · length + bias₂ · speed

A muscle's force is minus its tension, activation · strength: it pulls its ends together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.operations import clip
from ahac.sim.model.types import Actuator, Model, Tendon
from ahac.sim.physics.algebra import ZERO_SPATIAL, Spatial
from ahac.sim.physics.dynamics import project_to_joints
from ahac.sim.physics.kinematics import Motion
from ahac.sim.physics.tendons import TendonForces

__all__ = ["ActuatorForces", "actuate"]


@dataclass
class ActuatorForces:
    """What all actuators do together."""

    force: list[Real]
    """In coordinates."""
    wrenches: dict[int, Spatial]
    """On links, about their tree's origin."""


def actuate(
    model: Model, motion: Motion, q: Sequence[Real], v: Sequence[Real], control: Sequence[Real]
) -> ActuatorForces:
    """Forces of all actuators under the given controls."""
    drive, pulls = ActuatorForces([0.0] * model.nv, {}), TendonForces(motion)
    for actuator, u in zip(model.actuators, control, strict=True):
        if actuator.tendon is None:
            length = sum((q[i] * gear for i, gear in actuator.coordinates), 0.0)
            speed = sum((v[k] * gear for k, gear in actuator.dofs), 0.0)
            force = _force(actuator, u, length, speed)
            for k, gear in actuator.dofs:
                drive.force[k] = drive.force[k] + force * gear
        else:
            _pull(actuator, actuator.tendon, u, pulls)
    drive.wrenches = pulls.wrenches()
    bounded = {joint.v: joint.force_range for joint in model.joints if joint.force_range is not None}
    if bounded and drive.wrenches:
        # Bounds are on what a joint feels, so what pulls along tendons must be known joint by joint.
        on_links = [drive.wrenches.get(i, ZERO_SPATIAL) for i in range(len(model.links))]
        along = project_to_joints(model, motion, on_links)
        drive = ActuatorForces([a + b for a, b in zip(drive.force, along, strict=True)], {})
    for k, bounds in bounded.items():
        drive.force[k] = clip(drive.force[k], *bounds)
    return drive


def _force(actuator: Actuator, control: Real, length: Real, speed: Real) -> Real:
    if actuator.control_range is not None:
        control = clip(control, *actuator.control_range)
    constant, by_length, by_speed = actuator.bias
    force = control * actuator.gain + constant + length * by_length + speed * by_speed
    return force if actuator.force_range is None else clip(force, *actuator.force_range)


def _pull(actuator: Actuator, tendon: Tendon, control: Real, pulls: TendonForces) -> None:
    constant, segments = pulls.segments(tendon)
    length = sum((segment.span for segment in segments), constant)
    speed = sum((segment.speed for segment in segments), 0.0)
    force = _force(actuator, control, length * actuator.gear, speed * actuator.gear) * actuator.gear
    for segment in segments:
        pulls.pull(segment, force)
