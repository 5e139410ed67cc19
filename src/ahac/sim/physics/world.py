"""One traced world, as force laws and readouts see it: bodies, sites and joints by name.

Everything is in world axes, SI units and MuJoCo's conventions. Bodies and sites have the names of the model file,
including those merged into others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, Protocol, TypeVar

from ahac.core.errors import TraceError
from ahac.core.text import suggestion
from ahac.sim.compiler.graph import Real
from ahac.sim.model.types import WORLD, Frame, Joint, Model
from ahac.sim.physics import actuators, contact, dynamics, kinematics
from ahac.sim.physics.algebra import ZERO, ZERO_SPATIAL, Mat3, Spatial, Vec3
from ahac.sim.physics.kinematics import Motion

__all__ = ["AppliedForce", "NamedNumbers", "RandomSource", "World"]

Item = TypeVar("Item")


@dataclass(frozen=True)
class AppliedForce:
    """Result of a force law: a wrench on a link (about its tree's origin), or a force on a velocity coordinate."""

    link: int = WORLD
    """Index of the link on which a wrench acts."""
    wrench: Spatial = ZERO_SPATIAL
    """Torque [N m] about the origin of the link's tree, and force [N], in world axes."""
    dof: int = -1
    """Index of the velocity coordinate on which a force acts; −1 if there is none."""
    force: Real = 0.0
    """Force on that coordinate [N m] or [N]."""


class NamedNumbers(dict[str, Sequence[Real]]):
    """Memory or parameters by name; an unknown name is an error that lists the known ones."""

    def __missing__(self, name: str) -> NoReturn:
        raise TraceError(
            f"no memory or parameter of that name is declared: {name!r}; declared: {', '.join(self) or 'none'}"
        )


class RandomSource(Protocol):
    """Source of random numbers of one world; every call returns a new one."""

    def __call__(self, low: Real = 0.0, high: Real = 1.0) -> Real:
        """Return a uniform number in [low, high)."""
        ...

    def uniform(self, low: Real = 0.0, high: Real = 1.0) -> Real:
        """Return a uniform number in [low, high)."""
        ...

    def normal(self, mean: Real = 0.0, std: Real = 1.0) -> Real:
        """Return a normally distributed number."""
        ...

    def chance(self, probability: Real) -> Real:
        """Return 1.0 with the given probability, otherwise 0.0."""
        ...


class World:
    """State and controls of one world during tracing."""

    def __init__(
        self,
        model: Model,
        q: Sequence[Real],
        v: Sequence[Real],
        control: Sequence[Real],
        before: World | None = None,
        act: Sequence[Real] = (),
    ) -> None:
        self.model = model
        self.q = list(q)
        """Position coordinates, as MuJoCo's qpos."""
        self.v = list(v)
        """Velocity coordinates, as MuJoCo's qvel."""
        self.control = list(control)
        """Controls as passed to the step, before clipping."""
        self.act = list(act) or [0.0] * model.na
        """Activations of the actuators that have one, as MuJoCo's act; zero by default."""
        self.before = before
        """World before the step in a readout; None in a force law."""
        self.context: Mapping[str, Sequence[Real]] = {}
        """Numbers that the caller passed to the step, by name; empty in a force law."""
        self.parameters: Mapping[str, Sequence[Real]] = NamedNumbers()
        """Values of the model's declared parameters, by name."""
        self.memory: Mapping[str, Sequence[Real]] = NamedNumbers()
        """Numbers of the caller that are constant during the step, by name, with gradients."""
        self.clock: Callable[[], Real] | None = None
        """Returns the time of the episode, in the functions of a task; see `time`."""
        self.random: RandomSource | None = None
        """Random numbers of observations and memory; see `draw`."""
        self.after: World | None = None
        """World after the step, if this is the world before it."""
        if before is not None:
            before.after = self

    @property
    def time(self) -> Real:
        """Time since the episode began [s], in observations, rewards, termination and memory of a task."""
        if self.clock is None:
            raise TraceError(
                "world.time is known in observations, rewards, termination and memory of a task; elsewhere, such as in "
                "a force law, read a clock that the task keeps in its memory"
            )
        return self.clock()

    @property
    def draw(self) -> RandomSource:
        """Random numbers, in observation terms and memory of a task."""
        if self.random is None:
            raise TraceError(
                "world.draw works only in observation terms and memory; a reset receives `draw` as an argument, and "
                "rewards, termination and force laws can read random numbers from the memory"
            )
        return self.random

    @cached_property
    def motion(self) -> Motion:
        """Pose and velocity of every link."""
        return kinematics.forward(self.model, self.q, self.v)

    @cached_property
    def contact_points(self) -> list[contact.ContactPoint]:
        """State of every contact candidate, in contact or not."""
        return contact.contact_points(self.model, self.motion)

    @cached_property
    def actuator_force(self) -> list[Real]:
        """Generalized force of all actuators, MuJoCo's qfrc_actuator, at this state and these controls."""
        total = actuators.actuate(self.model, self.motion, self.q, self.v, actuators.Inputs(self.control, self.act))
        on_links = [total.wrenches.get(i, ZERO_SPATIAL) for i in range(len(self.model.links))]
        along = dynamics.project_to_joints(self.model, self.motion, on_links)
        return [a + b for a, b in zip(total.force, along, strict=True)]

    def position(self, name: str) -> Vec3:
        """Return the position of a body's or site's origin [m]."""
        frame = self._frame(name)
        if frame.link == WORLD:
            return Vec3.of(frame.position)
        return self.motion.origin[frame.link] + self._lever(frame)

    def rotation(self, name: str) -> Mat3:
        """Return the axes of a body or site, as columns."""
        frame = self._frame(name)
        rotation = Mat3.of(frame.rotation)
        return rotation if frame.link == WORLD else self.motion.rotation[frame.link].times(rotation)

    def velocity(self, name: str) -> Vec3:
        """Return the velocity of a body's or site's origin [m/s]."""
        frame = self._frame(name)
        return ZERO if frame.link == WORLD else self.motion.velocity[frame.link].at(self._lever(frame))

    def angular_velocity(self, name: str) -> Vec3:
        """Return the angular velocity of a body or site [rad/s]."""
        frame = self._frame(name)
        return ZERO if frame.link == WORLD else self.motion.velocity[frame.link].angular

    def joint_position(self, name: str) -> Real:
        """Return the position of a hinge [rad] or slide [m]."""
        return self.q[self._joint(name).q]

    def joint_velocity(self, name: str) -> Real:
        """Return the velocity of a hinge [rad/s] or slide [m/s]."""
        return self.v[self._joint(name).v]

    def apply_force(self, name: str, force: Vec3, at: Vec3 | None = None, torque: Vec3 = ZERO) -> AppliedForce:
        """Apply a force [N] and a torque [N m] to a body.

        Args:
            name: Body or site.
            force: Force [N].
            at: Point of application in the world [m]; the origin of the body or site by default.
            torque: Additional torque [N m].
        """
        frame = self._frame(name)
        if not isinstance(force, Vec3) or not isinstance(torque, Vec3) or not isinstance(at, Vec3 | None):
            raise TraceError(
                f"apply_force({name!r}) takes force, at and torque as Vec3, got {force!r}, {at!r}, {torque!r}"
            )
        if frame.link == WORLD:
            raise TraceError(f"{name!r} is fixed to the world: a force on it has no effect")
        lever = self._lever(frame) if at is None else at - self.motion.origin[frame.link]
        return AppliedForce(link=frame.link, wrench=Spatial(lever.cross(force) + torque, force))

    def apply_joint_force(self, joint: str, force: Real) -> AppliedForce:
        """Apply a force [N] along a slide or a torque [N m] about a hinge."""
        return AppliedForce(dof=self._joint(joint).v, force=force)

    def _lever(self, frame: Frame) -> Vec3:
        return self.motion.position[frame.link] + self.motion.rotation[frame.link] @ Vec3.of(frame.position)

    def _frame(self, name: str) -> Frame:
        bodies, sites = self.model.bodies, self.model.sites
        if name in bodies and name in sites:
            raise TraceError(f"{name!r} is both a body and a site: write 'body:{name}' or 'site:{name}'")
        table = {**bodies, **sites}
        kind, _, rest = name.partition(":")
        if name not in table and kind in ("body", "site"):
            return _find(kind, rest, bodies if kind == "body" else sites)
        return _find("body or site", name, table)

    def _joint(self, name: str) -> Joint:
        return _find("hinge or slide", name, {j.name: j for j in self.model.joints if len(j.dofs) == 1})


def _find(kind: str, name: str, table: Mapping[str, Item]) -> Item:
    if name not in table:
        raise TraceError(
            f"the model has no {kind} named {name!r}{suggestion(name, table)}; it has: "
            f"{', '.join(sorted(table)) or 'none'}"
        )
    return table[name]
