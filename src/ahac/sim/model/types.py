"""A robot model as plain frozen dataclasses: everything that the physics uses from a model file.

Everything is in SI units and MuJoCo's conventions. A link is a body that moves relative to its parent; bodies without
joints are merged into the link they are fixed to, and a free joint is split into three slides and a ball.

All fields of a model that is loaded are numbers. While the physics is traced, those that are declared as parameters are
traced scalars instead, so traced code must not branch on their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ahac.sim.model.actuation import (
    Activation,
    ActivationKind,
    Actuator,
    BallDrive,
    MuscleCurves,
    Obstacle,
    SiteDrive,
    SliderCrank,
    Tendon,
)
from ahac.sim.model.basics import WORLD, Frame, JointLimit, Matrix, Vector, require_non_negative
from ahac.sim.model.contact_types import DISC_THICKNESS, ContactCandidate, ContactConstants, ContactMaterial, Plane
from ahac.sim.model.file_types import FileBody, FileGeom
from ahac.sim.model.visual_types import Mesh, VisualGeom, VisualKind

if TYPE_CHECKING:
    from ahac.sim.model.parameters import Parameters
    from ahac.sim.model.source import Source

__all__ = [
    "DISC_THICKNESS",
    "WORLD",
    "Activation",
    "ActivationKind",
    "Actuator",
    "BallDrive",
    "Connect",
    "ContactCandidate",
    "ContactConstants",
    "ContactMaterial",
    "Equality",
    "FileBody",
    "FileGeom",
    "Fluid",
    "Frame",
    "InertiaBox",
    "Joint",
    "JointEquality",
    "JointKind",
    "JointLimit",
    "Keyframe",
    "Link",
    "Matrix",
    "Mesh",
    "Model",
    "MuscleCurves",
    "Obstacle",
    "Plane",
    "Polynomial",
    "SiteDrive",
    "SliderCrank",
    "Tendon",
    "TendonEquality",
    "Vector",
    "VisualGeom",
    "VisualKind",
    "Weld",
    "require_non_negative",
]


class JointKind(Enum):
    """The elementary joints; a free joint is three slides and a ball."""

    HINGE = "hinge"
    """Rotation about an axis: one position [rad], one velocity [rad/s]."""
    SLIDE = "slide"
    """Translation along an axis: one position [m], one velocity [m/s]."""
    BALL = "ball"
    """Free rotation: a quaternion (w, x, y, z), and an angular velocity in the link's axes [rad/s]."""


@dataclass(frozen=True, kw_only=True)
class Joint:
    """One elementary joint of a link."""

    name: str
    """Name in the file."""
    kind: JointKind
    """Hinge, slide or ball."""
    axis: Vector
    """Unit axis in the link's frame (hinge, slide)."""
    anchor: Vector
    """Center of rotation in the link's frame [m] (hinge, ball)."""
    q: int
    """Index of its first position coordinate: one number, or four for a ball."""
    v: int
    """Index of its first velocity coordinate: one number, or three for a ball."""
    reference: float = 0.0
    """Coordinate in the reference pose of the file (hinge, slide)."""
    stiffness: float = 0.0
    """Spring stiffness [N m/rad] or [N/m]."""
    spring_reference: tuple[float, ...] = (0.0,)
    """Coordinates at which the spring is at rest: one number, or a quaternion."""
    range: tuple[float, float] | None = None
    """Limits [rad] or [m]; for a ball, those of its rotation angle: (0, largest). None if unlimited."""
    limit: JointLimit = field(default_factory=JointLimit)
    """Stiffness and damping of the limits."""
    force_range: tuple[float, float] | None = None
    """Bounds on the total force of all actuators on this joint."""
    inertia: float = 0.0
    """Inertia that a force on the joint accelerates in the reference pose, 1 / (M⁻¹)ₖₖ [kg m²] or [kg]; for a ball or
    the slides of a free joint, the harmonic mean of three."""
    stiffness_slopes: tuple[float, ...] = ()
    """Coefficients k₁, k₂ ... of a nonlinear spring: its stiffness is stiffness + k₁ x + k₂ x² ... at deflection x."""
    spring_dofs: tuple[int, ...] = ()
    """Velocity coordinates whose distance is the deflection x of the nonlinear spring of a free joint's slide: those of
    all three slides; empty for all other joints, which deflect on their own."""
    compensated: bool = False
    """Whether gravity compensation of this joint counts as actuator force, within the actuators' bounds."""

    @property
    def dofs(self) -> range:
        """Velocity coordinates of the joint."""
        return range(self.v, self.v + (3 if self.kind is JointKind.BALL else 1))


@dataclass(frozen=True, kw_only=True)
class Link:
    """A moving rigid body, including all bodies merged into it."""

    name: str
    parent: int
    """Index of the parent link, or WORLD; always smaller than the link's own."""
    position: Vector
    """Position of its frame in the parent's frame, before its joints move it [m]."""
    rotation: Matrix
    joints: tuple[Joint, ...]
    mass: float
    center_of_mass: Vector
    """Center of mass in its own frame [m]."""
    moments: Vector
    """Principal moments of inertia about the center of mass [kg m²]."""
    principal: Matrix
    """Principal axes in the link's frame, as columns."""
    tensor: tuple[float, float, float, float, float, float] | None = None
    """Inertia about the center of mass in the link's axes, xx, yy, zz, xy, xz, yz [kg m²]; it replaces moments and
    principal axes if parameters change it."""

    @property
    def dofs(self) -> list[int]:
        """Velocity coordinates of the link's joints, in order."""
        return [k for joint in self.joints for k in joint.dofs]


@dataclass(frozen=True, kw_only=True)
class InertiaBox:
    """The solid box with the mass and inertia of one body of the file, for drag."""

    link: int
    center: Vector
    axes: Matrix
    """Axes of the box in the link's frame, as columns."""
    edges: Vector
    """Edge lengths [m]."""
    body: str = ""
    """Name of the body."""


@dataclass(frozen=True, kw_only=True)
class Fluid:
    """A fluid that exerts drag on every body, by MuJoCo's inertia-box model."""

    density: float
    """Density [kg/m³]."""
    viscosity: float
    """Dynamic viscosity [Pa s]."""
    wind: Vector
    """Velocity of the fluid [m/s]."""
    boxes: tuple[InertiaBox, ...]


@dataclass(frozen=True, kw_only=True)
class Keyframe:
    """A named state of the file."""

    q: tuple[float, ...]
    """[nq] positions."""
    v: tuple[float, ...]
    """[nv] velocities."""
    ctrl: tuple[float, ...] = ()
    """Controls. For servos that replace the file's actuators, the joint positions, clipped to the range of targets; for
    motors that replace them, zero."""
    act: tuple[float, ...] = ()
    """Activations of actuators."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Model:
    """One or several robots, ready to be traced."""

    name: str
    """Name of the model in the file."""
    nq: int
    """Number of position coordinates; a quaternion has four."""
    nv: int
    """Number of velocity coordinates."""
    nu: int
    """Number of controls."""
    gravity: Vector
    """Acceleration of gravity in world axes [m/s²]."""
    links: tuple[Link, ...]
    """Moving bodies, parents before children."""
    armature: tuple[float, ...]
    """Inertia that motors add to every velocity coordinate [kg m²] or [kg]."""
    damping: tuple[float, ...]
    """Damping of every velocity coordinate [N m s/rad] or [N s/m]."""
    contact_candidates: tuple[ContactCandidate, ...]
    """Pairs of a point and a plane that may touch."""
    planes: tuple[Plane, ...]
    """Static planes."""
    actuators: tuple[Actuator, ...]
    """Actuators, in the order of controls."""
    bodies: Mapping[str, Frame]
    """Frames of the file's bodies, by name."""
    sites: Mapping[str, Frame]
    """Frames of the file's sites, by name."""
    fluid: Fluid | None
    """Medium that exerts drag, if the file has one."""
    rest_q: tuple[float, ...]
    """[nq] positions of the rest state."""
    keyframes: Mapping[str, Keyframe] = field(default_factory=dict)
    """The file's keyframes, by name."""
    frictionloss: tuple[float, ...] = ()
    """Dry friction of every velocity coordinate [N m] or [N]."""
    equalities: tuple[Equality, ...] = ()
    """Active equality constraints."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What is approximated or dropped from the file, one line per topic."""
    na: int = 0
    """Number of activations."""
    tendons: tuple[Tendon, ...] = ()
    """All tendons of the file."""
    damping_slopes: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """Coefficients b₁, b₂ ... of nonlinear damping, by velocity coordinate: damping + b₁ |v| + b₂ v² ..."""
    gravity_compensation: tuple[tuple[int, float, Vector], ...] = ()
    """(link, compensated mass [kg], compensated mass · center in its frame [kg m])."""
    visuals: tuple[VisualGeom, ...] = field(default=(), compare=False)
    """Shapes to draw."""
    file_bodies: Mapping[str, FileBody] = field(default_factory=dict)
    """All bodies of the file but the world; only parameters use them."""
    file_geoms: Mapping[str, FileGeom] = field(default_factory=dict)
    """All geoms that can touch a plane; only parameters use them."""
    site_bodies: Mapping[str, str] = field(default_factory=dict)
    """Body of every site; only parameters use them."""
    joint_offsets: Mapping[int, float] = field(default_factory=dict)
    """Encoder offsets by position coordinate: actuators measure q + offset [rad] or [m]."""
    source: Source | None = field(default=None, compare=False)
    """Where the model was read from, for other engines; None if it was not loaded."""

    def __repr__(self) -> str:
        counts = (
            f"{len(self.links)} links, {len(self.actuators)} actuators, {len(self.contact_candidates)} contact points"
        )
        return f"Model({self.name!r}: nq={self.nq}, nv={self.nv}, nu={self.nu}; {counts}, {len(self.planes)} planes)"

    def parameters(self, *patterns: str, max_delay: float = 0.1) -> Parameters:
        """Select constants of the model that become inputs of the simulation.

        Args:
            patterns: "kind:name", where * and ? are wildcards in the name, or the kind alone for "gravity" and other
                constants of the whole model; docs/guides/parameters.md lists all kinds.
            max_delay: Largest value of "actuator_delay" [s].
        """
        from ahac.sim.model.parameters import Parameters  # it needs the classes of this module

        return Parameters(self, patterns, max_delay)

    @property
    def joints(self) -> tuple[Joint, ...]:
        """All elementary joints, in the order of their coordinates."""
        return tuple(joint for link in self.links for joint in link.joints)

    def chain(self, link: int) -> list[int]:
        """Return a link and all links before it in its tree, the root last; none for WORLD."""
        found: list[int] = []
        while link != WORLD:
            found.append(link)
            link = self.links[link].parent
        return found

    def path(self, link: int) -> list[int]:
        """Return the velocity coordinates that move a link; none for WORLD."""
        return [k for i in reversed(self.chain(link)) for k in self.links[i].dofs]

    def ancestors(self) -> list[list[int]]:
        """Return the ancestors of every velocity coordinate, nearest first."""
        chains: list[list[int]] = [[] for _ in range(self.nv)]
        last: dict[int, list[int]] = {WORLD: []}
        for i, link in enumerate(self.links):
            chain = last[link.parent]
            for k in link.dofs:
                chains[k] = chain
                chain = [k, *chain]
            last[i] = chain
        return chains


Polynomial = tuple[float, float, float, float, float]
"""Coefficients of a polynomial of degree four, the constant first."""


@dataclass(frozen=True, kw_only=True)
class JointEquality:
    """Coupling of two joints: q1 − reference1 = polynomial(q2 − reference2), or the constant term alone."""

    name: str
    first: Joint
    """A hinge or slide."""
    second: Joint | None
    polynomial: Polynomial
    effective_mass: float
    """1 / (J M⁻¹ Jᵀ) in the reference pose, with J the gradient of the violation [kg m²] or [kg]."""


@dataclass(frozen=True, kw_only=True)
class TendonEquality:
    """Coupling of two tendons: l1 − reference1 = polynomial(l2 − reference2), or the constant term alone."""

    name: str
    first: str
    """Name of the tendon."""
    second: str | None
    references: tuple[float, float]
    """Lengths in the reference pose [m]; the second is zero if there is no second tendon."""
    polynomial: Polynomial
    effective_mass: float
    """As in `JointEquality`, but without the inertial coupling of the two tendons."""


@dataclass(frozen=True, kw_only=True)
class Connect:
    """Connects two links by a ball joint: the origins of two frames coincide."""

    name: str
    first: Frame
    second: Frame
    effective_mass: float
    """Inverse of the mean diagonal of J M⁻¹ Jᵀ in the reference pose, with J of the relative position [kg]."""


@dataclass(frozen=True, kw_only=True)
class Weld:
    """Welds two links together: two frames coincide."""

    name: str
    first: Frame
    second: Frame
    effective_mass: float
    """As in `Connect` [kg]."""
    effective_inertia: float
    """As above, for the relative rotation [kg m²]; zero if the links cannot rotate relative to each other."""


Equality = JointEquality | TendonEquality | Connect | Weld
