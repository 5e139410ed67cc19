"""Bodies and geoms as the file defines them, from which parameters of merged bodies and of contact points follow."""

from __future__ import annotations

from dataclasses import dataclass

from ahac.sim.model.basics import Matrix, Vector

__all__ = ["FileBody", "FileGeom"]


@dataclass(frozen=True, kw_only=True)
class FileBody:
    """A body of the file, with MuJoCo's constants of it."""

    link: int
    """Link that it moves with, or WORLD."""
    parent: str
    position: Vector
    """Position in its parent's frame, MuJoCo's body_pos [m]."""
    mass: float
    center_of_mass: Vector
    """Center of mass in its own frame, MuJoCo's body_ipos [m]."""
    moments: Vector
    """Principal moments of inertia in MuJoCo's order, body_inertia [kg m²]."""
    principal: Matrix
    """Principal axes in its own frame, as columns."""
    gravity_compensation: float
    """Fraction of its weight that is compensated, MuJoCo's body_gravcomp."""
    jointed: bool
    """Whether it has joints; otherwise it is merged into the link of its parent."""
    free: bool
    """Whether it has a free joint, whose coordinates are absolute."""


@dataclass(frozen=True, kw_only=True)
class FileGeom:
    """A geom of the file that can touch a plane."""

    body: str
    position: Vector
    """Position in the frame of its body, MuJoCo's geom_pos [m]."""
    round: bool
    """Whether it is a sphere or capsule, whose first size is the radius of its contact points."""
