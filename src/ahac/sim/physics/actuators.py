"""Actuator forces: motors, servos and muscles on joints, along tendons and on sites.

    force = gain · signal + bias₀ + bias₁ · length + bias₂ · speed

The signal is the control, or the actuator's activation. A muscle's force is minus its tension: it pulls its ends
together. In an implicit step of h seconds, a force that opposes motion takes the predicted length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import atan2, clip, cos, maximum, nonzero, sin, where
from ahac.sim.model.types import Actuator, Model, Tendon
from ahac.sim.physics.activation import drive_signal
from ahac.sim.physics.algebra import ZERO_SPATIAL, Spatial
from ahac.sim.physics.dynamics import project_to_joints
from ahac.sim.physics.forces import Dashpot, clipped_coefficient, implicit_coefficient
from ahac.sim.physics.kinematics import Motion
from ahac.sim.physics.muscles import muscle_tension
from ahac.sim.physics.paths import Path, tendon_path
from ahac.sim.physics.segment_loops import needs_length, worth_looping
from ahac.sim.physics.tendons import TendonForces
from ahac.sim.physics.transmissions import drive_path

__all__ = ["ActuatorForces", "Inputs", "actuate"]


@dataclass
class ActuatorForces:
    """Sum of the forces of all actuators."""

    force: list[Real]
    """Generalized force of each velocity coordinate."""
    wrenches: dict[int, Spatial]
    """Wrench on each link that feels one, about its tree's origin."""
    dashpots: list[Dashpot] = field(default_factory=list)
    """Implicit terms of servos and muscles."""


@dataclass(frozen=True)
class Inputs:
    """What the actuators of a world see."""

    control: Sequence[Real]
    """Controls, before clipping."""
    act: Sequence[Real] = ()
    """Activations."""
    duration: Real = 0.0
    """Duration of the substep [s], for actuators that use the activation at its end."""
    h: Real = 0.0
    """The same for an implicit step; the constant zero for an explicit one."""


def actuate(
    model: Model,
    motion: Motion,
    q: Sequence[Real],
    v: Sequence[Real],
    inputs: Inputs,
    compensation: Sequence[Real] | None = None,
) -> ActuatorForces:
    """Return the forces of all actuators, and of the gravity compensation that counts as theirs."""
    total = ActuatorForces([0.0] * model.nv, {})
    q = _measured(model, q)
    tendons = TendonForces(motion)
    looping = worth_looping(model)
    implicit = isinstance(inputs.h, Scalar)
    shared = {i: tendon for tendon in model.tendons if tendon.force_range is not None for i in tendon.actuators}
    pulls: list[tuple[Path, _Force]] = []
    for i, actuator in enumerate(model.actuators):
        if actuator.disabled or i in shared:
            continue
        if actuator.tendon is None and actuator.drive is None:
            length = sum((q[j] * gear for j, gear in actuator.coordinates), 0.0)
            speed = sum((v[k] * gear for k, gear in actuator.dofs), 0.0)
            found = _bounded(model, i, _force(model, i, inputs, length, speed), dict(actuator.dofs))
            for k, gear in actuator.dofs:
                total.force[k] = total.force[k] + found.force * gear
            if isinstance(found.coefficient, Scalar):
                total.dashpots.append(Dashpot(dict(actuator.dofs), found.coefficient))
        elif actuator.tendon is not None and actuator.tendon.straight and not (implicit and needs_length(actuator)):
            if looping and not needs_length(actuator):
                force = _bounded(model, i, _force(model, i, inputs, 0.0, 0.0)).force
                tendons.loops.pull(actuator.tendon, force * actuator.gear)
            else:
                _pull(model, i, actuator.tendon, inputs, tendons)
        else:
            path = _path(model, motion, actuator, q)
            found = _path_force(model, i, inputs, path, path.speed(v))
            pulls.append((path, _bounded(model, i, found, _geared(path, actuator.gear)).times(actuator.gear)))
    for tendon in dict.fromkeys(shared.values()):
        path = tendon_path(model, motion, tendon, q)
        pulls.append((path, _shared_force(model, tendon, inputs, path, path.speed(v))))
    total.wrenches = tendons.wrenches()
    for path, found in pulls:
        path.add_force(total.force, found.force)
        if isinstance(found.coefficient, Scalar):
            total.dashpots.append(Dashpot(path.jacobian, found.coefficient))
    if compensation is not None:
        total.force = [a + b for a, b in zip(total.force, compensation, strict=True)]
    return _bound_joints(model, motion, total)


def _measured(model: Model, q: Sequence[Real]) -> Sequence[Real]:
    """Return positions as encoders measure them."""
    if not model.joint_offsets:
        return q
    return [x + model.joint_offsets[i] if i in model.joint_offsets else x for i, x in enumerate(q)]


def _bound_joints(model: Model, motion: Motion, total: ActuatorForces) -> ActuatorForces:
    """Clip the total force on each joint to its range."""
    bounded = {joint.v: joint.force_range for joint in model.joints if joint.force_range is not None}
    if bounded and total.wrenches:
        # Bounds apply to the total force on a joint, so tendon forces must be projected to joints first.
        on_links = [total.wrenches.get(i, ZERO_SPATIAL) for i in range(len(model.links))]
        along = project_to_joints(model, motion, on_links)
        force = [a + b for a, b in zip(total.force, along, strict=True)]
        total = ActuatorForces(force, {}, total.dashpots)
    for k, bounds in bounded.items():
        total.dashpots = [_clipped(model, dashpot, k, total.force[k], bounds) for dashpot in total.dashpots]
        total.force[k] = clip(total.force[k], *bounds)
    return total


def _clipped(model: Model, dashpot: Dashpot, k: int, force: Real, bounds: tuple[float, float]) -> Dashpot:
    """Return a servo's dashpot where the total force on coordinate k is clipped."""
    if k not in dashpot.jacobian:
        return dashpot
    inertia = _inertia(model, dashpot.jacobian)
    return replace(dashpot, coefficient=clipped_coefficient(dashpot.coefficient, force, bounds, inertia))


def _inertia(model: Model, jacobian: Mapping[int, Real]) -> Real:
    """Return the inertia that a force moves in the reference pose; the coupling of joints is neglected."""
    inertias = {k: joint.inertia for joint in model.joints for k in joint.dofs}
    mobility = sum((j * j / inertias[k] for k, j in jacobian.items() if inertias[k] > 0.0), 0.0)
    return 1.0 / mobility if nonzero(mobility) else 0.0


@dataclass(frozen=True)
class _Force:
    """A force along a transmission, and its implicit coefficient."""

    force: Real
    coefficient: Real = 0.0

    def times(self, gear: float) -> _Force:
        """Return the force on the other side of a gear."""
        return _Force(self.force * gear, self.coefficient * gear**2)


def _force(model: Model, i: int, inputs: Inputs, length: Real, speed: Real) -> _Force:
    """Return the force of an actuator at the length and speed of its transmission, before its bounds."""
    actuator = model.actuators[i]
    h = inputs.h
    signal = drive_signal(actuator, inputs.control[i], inputs.act, inputs.duration, isinstance(h, Scalar))
    if actuator.period is not None:
        length = signal - _shortest(signal - length, actuator.period)
    constant, by_length, by_speed = actuator.bias
    # A force that grows with length or speed does not oppose motion and stays explicit.
    stiffness = maximum(-by_length, 0.0)
    damping = maximum(0.0, -(signal * actuator.gain_slopes[1] + by_speed))
    ahead = length + speed * h if nonzero(stiffness) else length
    gain: Real = actuator.gain
    if any(actuator.gain_slopes):
        gain = length * actuator.gain_slopes[0] + speed * actuator.gain_slopes[1] + gain
    driven = 0.0 if actuator.gain_curves is not None else signal * gain
    force = driven + constant + ahead * by_length + speed * by_speed
    if actuator.gain_curves is not None or actuator.bias_curves is not None:
        tension = muscle_tension(actuator.gain_curves, actuator.bias_curves, signal, length + speed * h, speed)
        force = force - tension.force
        stiffness, damping = stiffness + maximum(0.0, tension.by_length), damping + maximum(0.0, tension.by_speed)
    strength = actuator.strength
    return _Force(force * strength, implicit_coefficient(h, damping, stiffness) * strength)


def _shortest(error: Real, period: float) -> Real:
    """Return the error of smallest magnitude that differs by a multiple of the period."""
    angle = error * (2.0 * math.pi / period)
    return atan2(sin(angle), cos(angle)) * (period / (2.0 * math.pi))


def _bounded(model: Model, i: int, found: _Force, jacobian: Mapping[int, Real] | None = None) -> _Force:
    """Return a force within the bounds of an actuator that acts along `jacobian`."""
    bounds, strength = model.actuators[i].force_range, model.actuators[i].strength
    if bounds is None:
        return found
    coefficient = found.coefficient
    if isinstance(coefficient, Scalar) and jacobian is not None:
        inertia = _inertia(model, jacobian)
        coefficient = clipped_coefficient(coefficient, found.force, bounds, inertia, strength)
    low, high = bounds
    return _Force(clip(found.force, low * strength, high * strength), coefficient)


def _pull(model: Model, i: int, tendon: Tendon, inputs: Inputs, tendons: TendonForces) -> None:
    """Apply the explicit force of an actuator along a straight tendon."""
    gear = model.actuators[i].gear
    constant, segments = tendons.segments(tendon)
    length = sum((segment.span for segment in segments), constant)
    speed = sum((segment.speed for segment in segments), 0.0)
    found = _bounded(model, i, _force(model, i, inputs, length * gear, speed * gear))
    force = found.force * gear
    for segment in segments:
        tendons.pull(segment, force)


def _path(model: Model, motion: Motion, actuator: Actuator, q: Sequence[Real]) -> Path:
    if actuator.tendon is not None:
        return tendon_path(model, motion, actuator.tendon, q)
    assert actuator.drive is not None, "an actuator acts on joints, along a tendon or through a drive"
    path = drive_path(model, motion, actuator.drive, q)
    return replace(path, jacobian={**path.jacobian, **dict(actuator.dofs)})


def _path_force(model: Model, i: int, inputs: Inputs, path: Path, speed: Real) -> _Force:
    gear = model.actuators[i].gear
    return _force(model, i, inputs, path.length * gear, speed * gear)


def _shared_force(model: Model, tendon: Tendon, inputs: Inputs, path: Path, speed: Real) -> _Force:
    """Return the total force of a tendon's actuators, scaled down to the tendon's force range.

    Beyond that range the force is explicit (c = 0), unlike that of a saturated servo on its own.
    """
    acting = [i for i in tendon.actuators if not model.actuators[i].disabled]
    forces = {i: _path_force(model, i, inputs, path, speed) for i in acting}
    total = sum((part.force for part in forces.values()), 0.0)
    assert tendon.force_range is not None, "only tendons with a force range are bounded"
    low, high = tendon.force_range
    bound = where(total < low, low, where(total > high, high, 1.0))
    scale = bound / where(total < low, total, where(total > high, total, 1.0))
    within = where(total < low, 0.0, where(total > high, 0.0, 1.0))
    force: Real = 0.0
    coefficient: Real = 0.0
    for i, part in forces.items():
        gear = model.actuators[i].gear
        scaled = _Force(part.force * scale, part.coefficient * within)
        along = _bounded(model, i, scaled, _geared(path, gear)).times(gear)
        force, coefficient = force + along.force, coefficient + along.coefficient
    return _Force(force, coefficient)


def _geared(path: Path, gear: float) -> dict[int, Real]:
    return {k: j * gear for k, j in path.jacobian.items()}
