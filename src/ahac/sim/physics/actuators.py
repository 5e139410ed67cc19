"""Actuator forces: motors and servos on joints; motors, servos and muscles along tendons.

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
    """Sum of the forces of all actuators."""

    force: list[Real]
    """Generalized force of each velocity coordinate."""
    wrenches: dict[int, Spatial]
    """Wrench on each link that feels one, about its tree's origin."""


def actuate(
    model: Model, motion: Motion, q: Sequence[Real], v: Sequence[Real], control: Sequence[Real]
) -> ActuatorForces:
    """Return the forces of all actuators under the given controls."""
    total = ActuatorForces([0.0] * model.nv, {})
    tendons = TendonForces(motion)
    for actuator, u in zip(model.actuators, control, strict=True):
        if actuator.tendon is None:
            length = sum((q[i] * gear for i, gear in actuator.coordinates), 0.0)
            speed = sum((v[k] * gear for k, gear in actuator.dofs), 0.0)
            force = _force(actuator, u, length, speed)
            for k, gear in actuator.dofs:
                total.force[k] = total.force[k] + force * gear
        else:
            _pull(actuator, actuator.tendon, u, tendons)
    total.wrenches = tendons.wrenches()
    bounded = {joint.v: joint.force_range for joint in model.joints if joint.force_range is not None}
    if bounded and total.wrenches:
        # Bounds apply to the total force on a joint, so tendon forces must be projected to joints first.
        on_links = [total.wrenches.get(i, ZERO_SPATIAL) for i in range(len(model.links))]
        along = project_to_joints(model, motion, on_links)
        total = ActuatorForces([a + b for a, b in zip(total.force, along, strict=True)], {})
    for k, bounds in bounded.items():
        total.force[k] = clip(total.force[k], *bounds)
    return total


def _force(actuator: Actuator, control: Real, length: Real, speed: Real) -> Real:
    if actuator.control_range is not None:
        control = clip(control, *actuator.control_range)
    constant, by_length, by_speed = actuator.bias
    force = control * actuator.gain + constant + length * by_length + speed * by_speed
    return force if actuator.force_range is None else clip(force, *actuator.force_range)


def _pull(actuator: Actuator, tendon: Tendon, control: Real, tendons: TendonForces) -> None:
    constant, segments = tendons.segments(tendon)
    length = sum((segment.span for segment in segments), constant)
    speed = sum((segment.speed for segment in segments), 0.0)
    force = _force(actuator, control, length * actuator.gear, speed * actuator.gear) * actuator.gear
    for segment in segments:
        tendons.pull(segment, force)
