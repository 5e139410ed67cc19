"""Composite inertias of links with parameters, on traced scalars.

A body has mass m, center of mass c, and second moments Σ = ∫ r rᵀ dm about c, so that its inertia is tr(Σ) 1 − Σ. The
parameters θ = (α, d₁, d₂, d₃, s₁₂, s₂₃, s₁₃, t₁, t₂, t₃) of `body_pseudo_inertia` are those of the matrix

    U = e^α [[e^d₁, s₁₂, s₁₃, t₁], [0, e^d₂, s₂₃, t₂], [0, 0, e^d₃, t₃], [0, 0, 0, 1]]

which maps the pseudo-inertia J = [[Σ, 0], [0, m]] about c, in the axes of the body, to U J Uᵀ. So every θ is physical:
mass and inertia change by e^2α, the mass distribution is stretched and sheared, and t [m] displaces its center.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import exp, maximum, sqrt
from ahac.sim.model.basics import Frame, Matrix, RealVector
from ahac.sim.model.file_types import FileBody

__all__ = ["PSEUDO_INERTIA", "BodyInertia", "combine", "placed", "plus", "product"]

PSEUDO_INERTIA = ("alpha", "d1", "d2", "d3", "s12", "s23", "s13", "t1", "t2", "t3")
"""Names of the coordinates θ."""

SMALLEST = 1e-30
"""Lower bound of the second moments of a box, at which the derivatives of its edges are finite [kg m²]."""

IDENTITY: Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))

Six = tuple[Real, Real, Real, Real, Real, Real]
"""Symmetric matrix xx, yy, zz, xy, xz, yz."""
Part = tuple[Real, RealVector, Six]
"""Mass, center of mass in the frame of the link, and inertia about it in the axes of the link."""


@dataclass
class BodyInertia:
    """Inertia of a body of the file, while parameters replace its constants."""

    mass: Real
    center_of_mass: RealVector
    """In the body's frame."""
    moments: RealVector
    principal: Matrix
    """Principal axes in the body's frame, as columns."""
    pseudo: Sequence[Real] | None = None
    """Coordinates θ; None if they are not parameters."""

    @property
    def traced(self) -> bool:
        """Whether some of the numbers are traced scalars."""
        numbers = (self.mass, *self.center_of_mass, *self.moments, *(self.pseudo or ()))
        return any(isinstance(number, Scalar) for number in numbers)

    @classmethod
    def of(cls, body: FileBody) -> BodyInertia:
        """Return the inertia that the file gives a body."""
        return cls(body.mass, body.center_of_mass, body.moments, body.principal)

    def on_link(self, frame: Frame) -> Part:
        """Return mass, center of mass and inertia of the body, whose frame on its link is given."""
        columns = [_column(self.principal, k) for k in range(3)]
        center, mass, scale = self.center_of_mass, self.mass, 1.0
        if self.pseudo is not None:
            alpha, *diagonal, s12, s23, s13, t1, t2, t3 = self.pseudo
            scale = exp(2.0 * alpha)
            stretch = [[exp(diagonal[0]), s12, s13], [0.0, exp(diagonal[1]), s23], [0.0, 0.0, exp(diagonal[2])]]
            columns = [_times(stretch, column) for column in columns]
            mass = mass * scale
            center = plus(center, (t1, t2, t3))
        center = placed(frame.position, frame.rotation, center)
        columns = [_times(frame.rotation, column) for column in columns]
        if self.pseudo is None:
            tensor = _sum([_outer(column, moment) for column, moment in zip(columns, self.moments, strict=True)])
            return mass, center, tensor
        half = 0.5 * (self.moments[0] + self.moments[1] + self.moments[2])
        second = _sum([_outer(c, scale * (half - moment)) for c, moment in zip(columns, self.moments, strict=True)])
        xx, yy, zz, xy, xz, yz = second
        return mass, center, (yy + zz, xx + zz, xx + yy, -xy, -xz, -yz)

    def on_file(self, body: FileBody) -> FileBody:
        """Return a body of the file with these numbers as its constants."""
        own: dict[str, Any] = {"mass": self.mass, "center_of_mass": self.center_of_mass, "moments": self.moments}
        if self.pseudo is not None:
            frame = Frame(link=body.link, position=(0.0, 0.0, 0.0), rotation=IDENTITY)
            mass, center, (xx, yy, zz, xy, xz, yz) = self.on_link(frame)
            moments, axes = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], dtype=float))
            axes[:, 2] *= np.linalg.det(axes)  # right-handed
            own = {"mass": mass, "center_of_mass": center, "moments": tuple(moments.tolist())}
            own["principal"] = tuple(map(tuple, axes.tolist()))
        return replace(body, **own)

    def box_edges(self) -> RealVector:
        """Return the edges of the solid box with the same mass and inertia."""
        total = self.moments[0] + self.moments[1] + self.moments[2]
        scale = 1.0 / sqrt(self.mass)
        x, y, z = (sqrt(maximum(total - 2.0 * moment, SMALLEST) * 6.0) * scale for moment in self.moments)
        return x, y, z


def combine(parts: Sequence[Part]) -> Part:
    """Return mass, center of mass and inertia of bodies that move as one link."""
    if len(parts) == 1:
        return parts[0]
    mass = sum((part[0] for part in parts), 0.0)
    moments = [tuple(x * part[0] for x in part[1]) for part in parts]
    x, y, z = (sum(column, 0.0) / mass for column in zip(*moments, strict=True))
    tensors: list[Six] = []
    for own, center, tensor in parts:
        arm = plus(center, (-x, -y, -z))
        xx, yy, zz, xy, xz, yz = _outer(arm, own)
        tensors += [tensor, (yy + zz, xx + zz, xx + yy, -xy, -xz, -yz)]
    return mass, (x, y, z), _sum(tensors)


def placed(position: RealVector, rotation: Matrix, at: RealVector) -> RealVector:
    """Return a point of a frame in the frame's parent."""
    return plus(position, _times(rotation, at))


def product(a: Matrix, b: Matrix) -> Matrix:
    """Return the product of two matrices of numbers."""
    first, second, third = (_times(_transposed(b), row) for row in a)
    return first, second, third  # pyright: ignore[reportReturnType] - numbers stay numbers


def _transposed(matrix: Matrix) -> tuple[RealVector, ...]:
    return tuple(_column(matrix, k) for k in range(3))


def _column(matrix: Matrix, k: int) -> RealVector:
    return matrix[0][k], matrix[1][k], matrix[2][k]


def _times(matrix: Sequence[Sequence[Real]], vector: RealVector) -> RealVector:
    x, y, z = (sum((a * b for a, b in zip(row, vector, strict=True)), 0.0) for row in matrix)
    return x, y, z


def plus(a: RealVector, b: RealVector) -> RealVector:
    """Return the sum of two vectors."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _outer(vector: RealVector, weight: Real) -> Six:
    """Return weight · v vᵀ."""
    x, y, z = vector
    return weight * x * x, weight * y * y, weight * z * z, weight * x * y, weight * x * z, weight * y * z


def _sum(matrices: Sequence[Six]) -> Six:
    xx, yy, zz, xy, xz, yz = (sum(entries, 0.0) for entries in zip(*matrices, strict=True))
    return xx, yy, zz, xy, xz, yz
