"""Actuator forces: motors and servos on joints; motors, servos and muscles along tendons.

    force = gain · control + bias₀ + bias₁ · length + bias₂ · speed

In an implicit step of h seconds, a servo on joints takes the predicted length.
A muscle's force is minus its tension, activation · strength: it pulls its ends together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import clip
from ahac.sim.model.types import Actuator, Model, Tendon
from ahac.sim.physics.algebra import ZERO_SPATIAL, Spatial
from ahac.sim.physics.dynamics import project_to_joints
from ahac.sim.physics.forces import Dashpot, clipped_coefficient, implicit_coefficient
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
    inertias = {k: joint.inertia for joint in model.joints for k in joint.dofs}
    for actuator, u in zip(model.actuators, control, strict=True):
        if actuator.tendon is None:
            length = sum((q[i] * gear for i, gear in actuator.coordinates), 0.0)
            speed = sum((v[k] * gear for k, gear in actuator.dofs), 0.0)
            force, coefficient = _force(actuator, u, length, speed, h, _inertia(actuator.dofs, inertias))
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
    for k, bounds in bounded.items():
        total.dashpots = [_clipped(dashpot, k, total.force[k], bounds, inertias) for dashpot in total.dashpots]
        total.force[k] = clip(total.force[k], *bounds)
    return total


def _force(
    actuator: Actuator, control: Real, length: Real, speed: Real, h: Real, inertia: float = 0.0
) -> tuple[Real, Real]:
    """Return the force of an actuator that moves `inertia`, and its implicit coefficient."""
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
    coefficient = clipped_coefficient(coefficient, force, actuator.force_range, inertia)
    return clip(force, *actuator.force_range), coefficient


def _inertia(gears: Iterable[tuple[int, float]], inertias: Mapping[int, float]) -> float:
    """Return the inertia that a force moves through gears in the reference pose; couplings of joints are neglected."""
    return 1.0 / sum(gear * gear / inertias[k] for k, gear in gears)


def _clipped(
    dashpot: Dashpot, k: int, force: Real, bounds: tuple[float, float], inertias: Mapping[int, float]
) -> Dashpot:
    """Return a servo's dashpot where the total force on coordinate k is clipped."""
    if k not in dashpot.jacobian:
        return dashpot
    inertia = _inertia(dashpot.jacobian.items(), inertias)  # pyright: ignore[reportArgumentType]
    return replace(dashpot, coefficient=clipped_coefficient(dashpot.coefficient, force, bounds, inertia))


def _pull(actuator: Actuator, tendon: Tendon, control: Real, tendons: TendonForces) -> None:
    constant, segments = tendons.segments(tendon)
    length = sum((segment.span for segment in segments), constant)
    speed = sum((segment.speed for segment in segments), 0.0)
    force, _ = _force(actuator, control, length * actuator.gear, speed * actuator.gear, 0.0)
    for segment in segments:
        tendons.pull(segment, force * actuator.gear)
