"""Contact materials, planes and the points on links that can touch them, as plain frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass

from ahac.sim.model.basics import Matrix, Vector, require_non_negative

__all__ = ["DISC_THICKNESS", "ContactCandidate", "ContactConstants", "ContactMaterial", "Plane"]


@dataclass(frozen=True, kw_only=True)
class ContactMaterial:
    """Stiffness, damping and friction of a surface. Fields that are None are chosen for the robot.

    Implicit integration is stable for any constants. By default they follow from the weight of the robot and the number
    of points it stands on: it sinks in by 1 mm, hardly rebounds, and creeps at about 1 mm/s or less while it sticks.

    Explicit integration uses 1e4, 1e4 and 5e2 by default, which suits robots of a few kilograms. Substeps of h seconds
    are stable if h² Σ stiffness, h Σ damping · depth and h Σ viscosity, summed over all points that are in contact at
    the same time, are below about the mass that these points carry.
    """

    stiffness: float | None = None
    """Normal force per depth, ke [N/m]."""

    damping: float | None = None
    """Normal force per depth and speed, kd [N s/m²]; scaled by depth, so it vanishes at touch-down."""

    viscosity: float | None = None
    """Friction force per slip speed while sticking, kf [N s/m]."""

    friction: float | None = None
    """Coulomb coefficient mu: friction never exceeds mu times the normal force, or its elastic part in `penalty`. By
    default the friction that the file gives the pair of geoms."""

    def __post_init__(self) -> None:
        require_non_negative(self)


@dataclass(frozen=True, kw_only=True)
class ContactConstants(ContactMaterial):
    """A contact material with all constants set, as contact laws receive it; defaults are the explicit ones."""

    stiffness: float = 1e4
    """Normal force per depth, ke [N/m]."""
    damping: float = 1e4
    """Normal force per depth and speed, kd [N s/m²]."""
    viscosity: float = 5e2
    """Friction force per slip speed while sticking, kf [N s/m]."""
    friction: float = 1.0
    """Coulomb coefficient mu."""


@dataclass(frozen=True, kw_only=True)
class Plane:
    """A static half-space: points with normal · x < offset are inside."""

    name: str
    normal: Vector
    offset: float


@dataclass(frozen=True)
class ContactCandidate:
    """A point, ball, disc or ellipsoid on a link that can touch one plane."""

    geom: str
    link: int
    plane: Plane
    center: Vector
    """Center in the link's frame [m]."""
    radius: float
    """Radius of the ball or disc [m]; zero for a point."""
    material: ContactMaterial
    semi_axes: Vector | None = None
    """Semi-axes of the ellipsoid [m]; None for a point, ball or disc."""
    rotation: Matrix | None = None
    """Axes of the ellipsoid in the link's frame, as columns."""
    axis: Vector | None = None
    """Axis of the disc in the link's frame; None for all other shapes."""

    @property
    def is_ball(self) -> bool:
        """Whether center and radius describe the shape."""
        return self.semi_axes is None and self.axis is None


DISC_THICKNESS = 5e-3
"""Half thickness of a disc, as a fraction of its radius. A disc is a flat ellipsoid of revolution: as it tilts, its
lowest point moves smoothly from its center to its rim."""
