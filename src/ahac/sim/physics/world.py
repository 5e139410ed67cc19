"""One traced world, as force laws and readouts see it: names in, vectors out.

Everything is in world axes, SI units and MuJoCo's conventions. Bodies and sites are named as in the model file, also
those that were merged into others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from ahac.core.errors import TraceError
from ahac.sim.compiler.graph import Real
from ahac.sim.model.types import WORLD, Frame, Joint, Model
from ahac.sim.physics import contact, kinematics
from ahac.sim.physics.algebra import ZERO, ZERO_SPATIAL, Mat3, Spatial, Vec3
from ahac.sim.physics.kinematics import Motion

__all__ = ["AppliedForce", "World"]

Item = TypeVar("Item")


@dataclass(frozen=True)
class AppliedForce:
    """What a force law adds: a wrench on a link (about its tree's origin), or a force on a coordinate."""

    link: int = WORLD
    wrench: Spatial = ZERO_SPATIAL
    dof: int = -1
    force: Real = 0.0


class World:
    """State and controls of one world while it is traced."""

    def __init__(
        self,
        model: Model,
        q: Sequence[Real],
        v: Sequence[Real],
        control: Sequence[Real],
        before: World | None = None,
    ) -> None:
        self.model = model
        self.q = list(q)
        """Position coordinates, as MuJoCo's qpos."""
        self.v = list(v)
        """Velocity coordinates, as MuJoCo's qvel."""
        self.control = list(control)
        """Controls, as given to the step, before any clipping."""
        self.before = before
        """In a readout, the world before the step; in a force law, None."""
        self.context: Mapping[str, Sequence[Real]] = {}
        """In a readout, what the caller handed to the step, by name."""
        self.after: World | None = None
        """Of a world before a step, the world after it."""
        if before is not None:
            before.after = self

    @cached_property
    def motion(self) -> Motion:
        """Pose and velocity of every link."""
        return kinematics.forward(self.model, self.q, self.v)

    @cached_property
    def contact_points(self) -> list[contact.ContactPoint]:
        """Every point that may touch a plane, touching or not."""
        return contact.contact_points(self.model, self.motion)

    def position(self, name: str) -> Vec3:
        """Where a body's or site's frame is [m]."""
        place = self._place(name)
        if place.link == WORLD:
            return Vec3.of(place.position)
        return self.motion.origin[place.link] + self._lever(place)

    def rotation(self, name: str) -> Mat3:
        """A body's or site's axes, as columns."""
        place = self._place(name)
        own = Mat3.of(place.rotation)
        return own if place.link == WORLD else self.motion.rotation[place.link].times(own)

    def velocity(self, name: str) -> Vec3:
        """Velocity of a body's or site's origin [m/s]."""
        place = self._place(name)
        return ZERO if place.link == WORLD else self.motion.velocity[place.link].at(self._lever(place))

    def angular_velocity(self, name: str) -> Vec3:
        """Angular velocity of a body or site [rad/s]."""
        place = self._place(name)
        return ZERO if place.link == WORLD else self.motion.velocity[place.link].angular

    def joint_position(self, name: str) -> Real:
        """Coordinate of a hinge or slide [rad] or [m]."""
        return self.q[self._joint(name).q]

    def joint_velocity(self, name: str) -> Real:
        """Rate of a hinge or slide [rad/s] or [m/s]."""
        return self.v[self._joint(name).v]

    def apply_force(self, name: str, force: Vec3, at: Vec3 | None = None, torque: Vec3 = ZERO) -> AppliedForce:
        """A force [N] on a body, at a point of the world (default: the body's or site's origin), and a torque [N m]."""
        place = self._place(name)
        if not isinstance(force, Vec3) or not isinstance(torque, Vec3) or not isinstance(at, Vec3 | None):
            raise TraceError(f"push({name!r}) takes force, at and torque as Vec3, got {force!r}, {at!r}, {torque!r}")
        if place.link == WORLD:
            raise TraceError(f"{name!r} is fixed to the world: a push on it moves nothing")
        lever = self._lever(place) if at is None else at - self.motion.origin[place.link]
        return AppliedForce(link=place.link, wrench=Spatial(lever.cross(force) + torque, force))

    def apply_joint_force(self, joint: str, force: Real) -> AppliedForce:
        """A force [N] or torque [N m] along a slide or hinge."""
        return AppliedForce(dof=self._joint(joint).v, force=force)

    def _lever(self, place: Frame) -> Vec3:
        return self.motion.position[place.link] + self.motion.rotation[place.link] @ Vec3.of(place.position)

    def _place(self, name: str) -> Frame:
        bodies, sites = self.model.bodies, self.model.sites
        if name in bodies and name in sites:
            raise TraceError(f"{name!r} is both a body and a site: say 'body:{name}' or 'site:{name}'")
        table = {**bodies, **sites}
        kind, _, rest = name.partition(":")
        if name not in table and kind in ("body", "site"):
            return _find(kind, rest, bodies if kind == "body" else sites)
        return _find("body or site", name, table)

    def _joint(self, name: str) -> Joint:
        return _find("hinge or slide", name, {j.name: j for j in self.model.joints if len(j.dofs) == 1})


def _find(kind: str, name: str, table: Mapping[str, Item]) -> Item:
    if name not in table:
        raise TraceError(f"the model has no {kind} named {name!r}; it has: {', '.join(sorted(table)) or 'none'}")
    return table[name]
