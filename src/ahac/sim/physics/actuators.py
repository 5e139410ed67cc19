"""Actuator forces: motors and servos on joints; motors, servos and muscles along tendons.

    force = gain · control + bias₀ + bias₁ · length + bias₂ · speed

In an implicit step of h seconds, a servo on joints takes the predicted length. Where its force is clipped to a part of
itself, its gains count for that part: the step stays continuous, and a strongly damped servo does not chatter between
both bounds.
A muscle's force is minus its tension, activation · strength: it pulls its ends together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import clip, maximum, minimum, where
from ahac.sim.model.types import Actuator, Model, Tendon
from ahac.sim.physics.algebra import ZERO_SPATIAL, Spatial
from ahac.sim.physics.dynamics import project_to_joints
from ahac.sim.physics.forces import Dashpot, implicit_coefficient
from ahac.sim.physics.kinematics import Motion
from ahac.sim.physics.segment_loops import needs_length, worth_looping
from ahac.sim.physics.tendons import TendonForces

__all__ = ["ActuatorForces", "actuate"]


@dataclass
class ActuatorForces:
    """Sum of the forces of all actuators."""

    force: list[Real]
    """Generalized force of each velocity coordinate."""
    wrenches: dict[int, Spatial]
    """Wrench on each link that feels one, about its tree's origin."""
    dashpots: list[Dashpot] = field(default_factory=list)
    """Implicit terms of servos."""


def actuate(
    model: Model, motion: Motion, q: Sequence[Real], v: Sequence[Real], control: Sequence[Real], h: Real = 0.0
) -> ActuatorForces:
    """Return the forces of all actuators under the given controls, as an implicit step of `h` seconds takes them."""
    total = ActuatorForces([0.0] * model.nv, {})
    tendons = TendonForces(motion)
    servos: list[Dashpot] = []
    looping = worth_looping(model)
    for actuator, u in zip(model.actuators, control, strict=True):
        if actuator.tendon is None:
            length = sum((q[i] * gear for i, gear in actuator.coordinates), 0.0)
            speed = sum((v[k] * gear for k, gear in actuator.dofs), 0.0)
            force, coefficient = _force(actuator, u, length, speed, h)
            for k, gear in actuator.dofs:
                total.force[k] = total.force[k] + force * gear
            if isinstance(coefficient, Scalar):
                servos.append(Dashpot(dict(actuator.dofs), coefficient))
        elif looping and not needs_length(actuator):
            force, _ = _force(actuator, u, 0.0, 0.0, 0.0)
            tendons.loops.pull(actuator.tendon, force * actuator.gear)
        else:
            _pull(actuator, actuator.tendon, u, tendons)
    total.wrenches = tendons.wrenches()
    total.dashpots = servos
    bounded = {joint.v: joint.force_range for joint in model.joints if joint.force_range is not None}
    if bounded and total.wrenches:
        # Bounds apply to the total force on a joint, so tendon forces must be projected to joints first.
        on_links = [total.wrenches.get(i, ZERO_SPATIAL) for i in range(len(model.links))]
        along = project_to_joints(model, motion, on_links)
        total = ActuatorForces([a + b for a, b in zip(total.force, along, strict=True)], {}, servos)
    shares: dict[int, Real] = {}
    for k, bounds in bounded.items():
        shares[k] = _share(total.force[k], bounds)
        total.force[k] = clip(total.force[k], *bounds)
    total.dashpots = [_scaled(dashpot, shares) for dashpot in total.dashpots]
    return total


def _force(actuator: Actuator, control: Real, length: Real, speed: Real, h: Real) -> tuple[Real, Real]:
    """Return the force and its implicit coefficient."""
    if actuator.control_range is not None:
        control = clip(control, *actuator.control_range)
    constant, by_length, by_speed = actuator.bias
    # A force that grows with length or speed does not oppose motion and stays explicit.
    stiffness, damping = (max(-x, 0.0) for x in (by_length, by_speed))
    ahead = length + speed * h if stiffness else length
    force = control * actuator.gain + constant + ahead * by_length + speed * by_speed
    coefficient = implicit_coefficient(h, damping, stiffness)
    if actuator.force_range is None:
        return force, coefficient
    share = _share(force, actuator.force_range)
    return clip(force, *actuator.force_range), coefficient * share


def _share(force: Real, bounds: tuple[float, float]) -> Real:
    """Return which part of a force its bounds leave: 1 inside."""
    low, high = bounds
    if low < 0.0 < high:
        return low / minimum(force, low) * (high / maximum(force, high))
    return where(force < low, 0.0, where(force > high, 0.0, 1.0))


def _scaled(dashpot: Dashpot, shares: Mapping[int, Real]) -> Dashpot:
    """Return a servo's dashpot, scaled where the force on one of its joints is clipped."""
    coefficient = dashpot.coefficient
    for k in dashpot.jacobian:
        if k in shares:
            coefficient = coefficient * shares[k]
    return replace(dashpot, coefficient=coefficient)


def _pull(actuator: Actuator, tendon: Tendon, control: Real, tendons: TendonForces) -> None:
    constant, segments = tendons.segments(tendon)
    length = sum((segment.span for segment in segments), constant)
    speed = sum((segment.speed for segment in segments), 0.0)
    force, _ = _force(actuator, control, length * actuator.gear, speed * actuator.gear, 0.0)
    for segment in segments:
        tendons.pull(segment, force * actuator.gear)
