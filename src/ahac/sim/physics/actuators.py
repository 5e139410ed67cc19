"""What controls do: motors and servos on joints, motors, servos and muscles along tendons.

    force = gain · control + bias₀ + bias₁ · length + bias₂ · speed

A tendon is a straight line through way-points. Its length changes by d·(u₂ − u₁) on every segment whose ends sit on
different links, with d the segment's direction; so a force along it pushes the far end by +d and the near end by −d.
A muscle's force is minus its tension, activation · strength: it pulls its ends together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.operations import clip
from ahac.sim.model.records import WORLD, Actuator, Model, Tendon, Vector
from ahac.sim.physics.algebra import STILL, ZERO, Spatial, Vec3, norm
from ahac.sim.physics.dynamics import along_coordinates
from ahac.sim.physics.kinematics import Motion

__all__ = ["Drive", "actuate"]


@dataclass
class Drive:
    """What all actuators do together."""

    force: list[Real]
    """In coordinates."""
    wrenches: dict[int, Spatial]
    """On links, about their tree's origin."""


def actuate(model: Model, motion: Motion, q: Sequence[Real], v: Sequence[Real], control: Sequence[Real]) -> Drive:
    """Forces of all actuators under the given controls."""
    drive = Drive([0.0] * model.nv, {})
    for actuator, u in zip(model.actuators, control, strict=True):
        if actuator.tendon is None:
            length = sum((q[i] * gear for i, gear in actuator.coordinates), 0.0)
            speed = sum((v[k] * gear for k, gear in actuator.dofs), 0.0)
            force = _force(actuator, u, length, speed)
            for k, gear in actuator.dofs:
                drive.force[k] = drive.force[k] + force * gear
        else:
            _pull(actuator, actuator.tendon, motion, u, drive.wrenches)
    bounded = {joint.v: joint.force_range for joint in model.joints if joint.force_range is not None}
    if bounded and drive.wrenches:
        # Bounds are on what a joint feels, so what pulls along tendons must be known joint by joint.
        pulls = [drive.wrenches.get(i, STILL) for i in range(len(model.links))]
        along = along_coordinates(model, motion, pulls)
        drive = Drive([a + b for a, b in zip(drive.force, along, strict=True)], {})
    for k, bounds in bounded.items():
        drive.force[k] = clip(drive.force[k], *bounds)
    return drive


def _force(actuator: Actuator, control: Real, length: Real, speed: Real) -> Real:
    if actuator.control_range is not None:
        control = clip(control, *actuator.control_range)
    constant, by_length, by_speed = actuator.bias
    force = control * actuator.gain + constant + length * by_length + speed * by_speed
    return force if actuator.force_range is None else clip(force, *actuator.force_range)


def _pull(actuator: Actuator, tendon: Tendon, motion: Motion, control: Real, wrenches: dict[int, Spatial]) -> None:
    """Add the tendon's force to the links it joins."""
    length: Real = 0.0
    speed: Real = 0.0
    segments = []
    for (near, near_at), (far, far_at) in zip(tendon.points, tendon.points[1:], strict=False):
        if near == far:
            # Both ends move together: the segment has constant length and pulls on nothing.
            length = length + float(sum((a - b) ** 2 for a, b in zip(near_at, far_at, strict=True)) ** 0.5)
            continue
        (x0, o0, u0), (x1, o1, u1) = _way_point(motion, near, near_at), _way_point(motion, far, far_at)
        line = x1 - x0 if o0 is o1 else (x1 - x0) + (o1 - o0)
        span = norm(line)
        direction = line / span
        length, speed = length + span, speed + direction.dot(u1 - u0)
        segments += [(near, x0, -direction), (far, x1, direction)]
    force = _force(actuator, control, length * actuator.gear, speed * actuator.gear) * actuator.gear
    for link, x, direction in segments:
        if link != WORLD:
            push = direction * force
            wrenches[link] = wrenches.get(link, STILL) + Spatial(x.cross(push), push)


def _way_point(motion: Motion, link: int, at: Vector) -> tuple[Vec3, Vec3, Vec3]:
    """Position from the tree's origin, that origin, and velocity."""
    if link == WORLD:
        return Vec3.of(at), ZERO, ZERO
    x = motion.position[link] + motion.rotation[link] @ Vec3.of(at)
    return x, motion.origin[link], motion.velocity[link].at(x)
