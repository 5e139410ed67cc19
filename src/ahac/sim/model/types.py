"""What a robot is, as plain frozen records: the only thing physics knows of a model file.

Everything is in SI units and MuJoCo's conventions. A link is a body that moves against its parent; bodies without
joints have been merged into the link they ride on, and a free joint has become three slides and a ball.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Literal

import numpy as np

from ahac.core.errors import ModelError

__all__ = [
    "WORLD",
    "Actuator",
    "ContactCandidate",
    "ContactMaterial",
    "Fluid",
    "Frame",
    "InertiaBox",
    "Joint",
    "JointKind",
    "JointLimit",
    "Link",
    "Matrix",
    "Mesh",
    "Model",
    "Plane",
    "Tendon",
    "Vector",
    "VisualGeom",
    "VisualKind",
    "require_non_negative",
]  # fmt: skip

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]

WORLD = -1
"""The link index of what does not move."""


def require_non_negative(record: object) -> None:
    """Refuse a record of numbers in which one is negative or not finite."""
    for item in fields(record):  # pyright: ignore[reportArgumentType]
        value = getattr(record, item.name)
        if not (isinstance(value, float | int) and math.isfinite(value) and value >= 0.0):
            name = f"{type(record).__name__}.{item.name}"
            raise ModelError(f"{name} must be a finite number of at least zero, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class ContactMaterial:
    """How hard, how damped and how rough a surface is. The defaults suit robots of some kilograms.

    Substeps of h seconds stay stable while the points that touch together, over the mass m they carry, keep
    h² Σ stiffness, h Σ damping · depth and h Σ viscosity below about m: a light body with many points wants softer
    constants, or more substeps.
    """

    stiffness: float = 1e4
    """Normal force per depth, ke [N/m]."""

    damping: float = 1e4
    """Normal force per depth and closing speed, kd [N s/m²]: with the depth it vanishes at touch-down."""

    viscosity: float = 5e2
    """Friction per slip speed while sticking, kf [N s/m]."""

    friction: float = 0.8
    """Coulomb coefficient, mu: friction never exceeds mu times the elastic part of the normal force."""

    def __post_init__(self) -> None:
        require_non_negative(self)


@dataclass(frozen=True, kw_only=True)
class JointLimit:
    """How a joint is pushed back into its range: stiffness · violation − damping · speed, outside the range only."""

    stiffness: float = 1e3
    """[N m/rad] or [N/m]."""

    damping: float = 1.0
    """[N m s/rad] or [N s/m]; substeps of h seconds stay stable while h · damping is below the joint's inertia."""

    def __post_init__(self) -> None:
        require_non_negative(self)


class JointKind(Enum):
    """The elementary joints; a free joint is three slides and a ball."""

    HINGE = "hinge"
    SLIDE = "slide"
    BALL = "ball"


@dataclass(frozen=True, kw_only=True)
class Joint:
    """One elementary joint of a link."""

    name: str
    kind: JointKind
    axis: Vector
    """Unit axis in the link's frame (hinge, slide)."""
    anchor: Vector
    """Centre of rotation in the link's frame [m] (hinge, ball)."""
    q: int
    """Index of its first position coordinate: one number, or four for a ball."""
    v: int
    """Index of its first velocity coordinate: one number, or three for a ball."""
    reference: float = 0.0
    """Coordinate at which the link stands as the file draws it (hinge, slide)."""
    stiffness: float = 0.0
    """Spring [N m/rad] or [N/m]."""
    spring_reference: tuple[float, ...] = (0.0,)
    """Coordinates at which the spring is at rest: one number, or a quaternion."""
    range: tuple[float, float] | None = None
    limit: JointLimit = field(default_factory=JointLimit)
    force_range: tuple[float, float] | None = None
    """Bounds on what all actuators together do to this joint."""

    @property
    def dofs(self) -> range:
        """Its velocity coordinates."""
        return range(self.v, self.v + (3 if self.kind is JointKind.BALL else 1))


@dataclass(frozen=True, kw_only=True)
class Link:
    """A rigid body that moves, with all bodies merged into it."""

    name: str
    parent: int
    """Index of the parent link, or WORLD; always smaller than the link's own."""
    position: Vector
    """Of its frame in the parent's frame, before its joints move it [m]."""
    rotation: Matrix
    joints: tuple[Joint, ...]
    mass: float
    center_of_mass: Vector
    """Centre of mass in its own frame [m]."""
    moments: Vector
    """Principal moments of inertia about the centre of mass [kg m²]."""
    principal: Matrix
    """Principal axes in the link's frame, as columns."""

    @property
    def dofs(self) -> list[int]:
        """Velocity coordinates of the link's joints, in order."""
        return [k for joint in self.joints for k in joint.dofs]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A frame that rides on a link: a body of the file, or a site."""

    link: int
    position: Vector
    rotation: Matrix


@dataclass(frozen=True, kw_only=True)
class Plane:
    """A static half-space: points with normal · x < offset are inside."""

    name: str
    normal: Vector
    offset: float


@dataclass(frozen=True)
class ContactCandidate:
    """A point, ball or ellipsoid on a link that can touch one plane."""

    geom: str
    link: int
    plane: Plane
    center: Vector
    """In the link's frame [m]."""
    radius: float
    """Of a ball around the centre [m]; zero for a bare point."""
    material: ContactMaterial
    semi_axes: Vector | None = None
    """Of an ellipsoid around the centre [m]."""
    rotation: Matrix | None = None
    """Axes of that ellipsoid in the link's frame, as columns."""


@dataclass(frozen=True, kw_only=True)
class Tendon:
    """A straight-line path through way-points (link, position in its frame)."""

    name: str
    points: tuple[tuple[int, Vector], ...]


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """force = gain · control + bias[0] + bias[1] · length + bias[2] · speed, along joints or along a tendon.

    A motor has gain 1, a position servo gain kp and bias (0, −kp, −kv), a muscle gain −strength.
    """

    name: str
    gain: float
    bias: Vector
    dofs: tuple[tuple[int, float], ...] = ()
    """(velocity index, gear): how the force acts on coordinates."""
    coordinates: tuple[tuple[int, float], ...] = ()
    """(position index, gear): how coordinates make up its length; empty where bias does not need it."""
    tendon: Tendon | None = None
    gear: float = 1.0
    """Of the tendon."""
    control_range: tuple[float, float] | None = None
    force_range: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class InertiaBox:
    """The solid box with the mass and inertia of one body of the file, for drag."""

    link: int
    center: Vector
    axes: Matrix
    """Its axes in the link's frame, as columns."""
    edges: Vector
    """[m]."""


@dataclass(frozen=True, kw_only=True)
class Fluid:
    """A medium that drags every body, by MuJoCo's inertia-box model."""

    density: float
    """[kg/m³]."""
    viscosity: float
    """[Pa s]."""
    wind: Vector
    """[m/s]."""
    boxes: tuple[InertiaBox, ...]


@dataclass(frozen=True, eq=False)
class Mesh:
    """A surface of triangles, to be drawn."""

    vertices: np.ndarray
    """[V, 3] float32, in the geom's frame [m]."""
    faces: np.ndarray
    """[F, 3] int32, the vertices of each triangle."""


VisualKind = Literal["sphere", "capsule", "box", "cylinder", "ellipsoid", "mesh"]


@dataclass(frozen=True, kw_only=True)
class VisualGeom:
    """One shape of a body as it is drawn; physics does not know it."""

    geom: str
    kind: VisualKind
    size: Vector
    """Half sizes [m], by MuJoCo's convention: (radius, 0, 0), (radius, half length, 0) along z, or three half axes."""
    body: str
    position: Vector
    """In the body's frame [m]."""
    quaternion: tuple[float, float, float, float]
    """(w, x, y, z), in the body's frame."""
    color: tuple[float, float, float, float]
    """Red, green, blue and opacity, each in [0, 1]."""
    mesh: Mesh | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Model:
    """A robot, or several, ready to be traced."""

    name: str
    nq: int
    nv: int
    nu: int
    gravity: Vector
    links: tuple[Link, ...]
    armature: tuple[float, ...]
    damping: tuple[float, ...]
    contact_candidates: tuple[ContactCandidate, ...]
    planes: tuple[Plane, ...]
    actuators: tuple[Actuator, ...]
    bodies: Mapping[str, Frame]
    sites: Mapping[str, Frame]
    fluid: Fluid | None
    rest_q: tuple[float, ...]
    keyframes: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    """Positions and velocities of the file's named keyframes."""
    visuals: tuple[VisualGeom, ...] = field(default=(), compare=False)
    """How its bodies look."""

    def __repr__(self) -> str:
        parts = (
            f"{len(self.links)} links, {len(self.actuators)} actuators, {len(self.contact_candidates)} contact points"
        )
        return f"Model({self.name!r}: nq={self.nq}, nv={self.nv}, nu={self.nu}; {parts}, {len(self.planes)} planes)"

    @property
    def joints(self) -> tuple[Joint, ...]:
        """All elementary joints, in the order of their coordinates."""
        return tuple(joint for link in self.links for joint in link.joints)

    def ancestors(self) -> list[list[int]]:
        """For every velocity coordinate, the coordinates it rides on, nearest first."""
        chains: list[list[int]] = [[] for _ in range(self.nv)]
        last: dict[int, list[int]] = {WORLD: []}
        for i, link in enumerate(self.links):
            chain = last[link.parent]
            for k in link.dofs:
                chains[k] = chain
                chain = [k, *chain]
            last[i] = chain
        return chains
