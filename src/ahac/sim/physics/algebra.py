"""Vectors, rotations, spatial vectors and inertias over traced scalars.

Spatial vectors are pairs (angular; linear) in world axes about the origin of their tree, the root's position: never
about the world's origin, where a robot that has run 100 m would lose float32 precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ahac.core.errors import TraceError
from ahac.sim.compiler.foreign import Traced
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import atan2, cos, sin, sqrt, where

__all__ = [
    "Inertia",
    "Mat3",
    "Quat",
    "Spatial",
    "SpatialMatrix",
    "Vec3",
    "norm",
    "quat_exp",
    "rotation_vector",
    "turned",
]

TINY = 1e-20
"""Added under square roots that may reach zero, so that their derivative stays finite; far below rounding."""


class Vec3(Traced):
    """A vector of three numbers."""

    __slots__ = ("x", "y", "z")

    def __init__(self, x: Real, y: Real, z: Real) -> None:
        self.x = x
        self.y = y
        self.z = z

    @classmethod
    def of(cls, values: Sequence[Real]) -> Vec3:
        """Create a vector from any three numbers."""
        x, y, z = (value if isinstance(value, Scalar) else float(value) for value in values)
        return cls(x, y, z)

    def __iter__(self) -> Iterator[Real]:
        return iter((self.x, self.y, self.z))

    def __getitem__(self, k: int) -> Real:
        return (self.x, self.y, self.z)[k]

    def __repr__(self) -> str:
        return f"Vec3({self.x}, {self.y}, {self.z})"

    def __add__(self, other: Vec3) -> Vec3:
        return Vec3(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vec3) -> Vec3:
        return Vec3(self.x - other.x, self.y - other.y, self.z - other.z)

    def __neg__(self) -> Vec3:
        return Vec3(-self.x, -self.y, -self.z)

    def __mul__(self, factor: Real) -> Vec3:
        return Vec3(self.x * factor, self.y * factor, self.z * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Real) -> Vec3:
        return self * (1.0 / divisor)

    def dot(self, other: Vec3) -> Real:
        """Return the scalar product."""
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: Vec3) -> Vec3:
        """Return the vector product."""
        return Vec3(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )


ZERO = Vec3(0.0, 0.0, 0.0)


def norm(vector: Vec3, floor: float = TINY) -> Real:
    """Return the length, smooth at zero: √(v·v + floor)."""
    return sqrt(vector.dot(vector) + floor)


class Mat3:
    """A 3 × 3 matrix of rows; used for rotations, body axes to world axes."""

    __slots__ = ("rows",)

    def __init__(self, x: Vec3, y: Vec3, z: Vec3) -> None:
        self.rows = (x, y, z)

    @classmethod
    def of(cls, values: Sequence[Sequence[float]]) -> Mat3:
        """Create a constant matrix from three rows of numbers."""
        x, y, z = values
        return cls(Vec3.of(x), Vec3.of(y), Vec3.of(z))

    def __repr__(self) -> str:
        return f"Mat3{self.rows}"

    def __matmul__(self, vector: Vec3) -> Vec3:
        if isinstance(vector, Mat3):
            raise TraceError("Mat3 @ Vec3 rotates a vector; the product of two matrices is a.times(b)")
        return Vec3(*(row.dot(vector) for row in self.rows))

    def column(self, k: int) -> Vec3:
        """Return column k: body axis k in world axes."""
        return Vec3(*(row[k] for row in self.rows))

    def times(self, other: Mat3) -> Mat3:
        """Return the matrix product."""
        columns = [other.column(k) for k in range(3)]
        return Mat3(*(Vec3(*(row.dot(column) for column in columns)) for row in self.rows))

    def transpose(self) -> Mat3:
        """Return the transpose: the inverse of a rotation."""
        return Mat3(*(self.column(k) for k in range(3)))

    @staticmethod
    def about(axis: Vec3, angle: Real) -> Mat3:
        """Return the rotation by `angle` [rad] about a constant unit axis, in a form whose zeros and ones fold away."""
        a = tuple(axis)
        s = sin(angle)
        c = cos(angle)
        sines = ((0.0, -a[2], a[1]), (a[2], 0.0, -a[0]), (-a[1], a[0], 0.0))
        rows = [
            [
                a[i] * a[i] + c * (1.0 - a[i] * a[i]) if i == j else (1.0 - c) * (a[i] * a[j]) + s * sines[i][j]
                for j in range(3)
            ]
            for i in range(3)
        ]
        return Mat3(*(Vec3(*row) for row in rows))


class Quat:
    """A rotation as (w, x, y, z)."""

    __slots__ = ("vector", "w")

    def __init__(self, w: Real, vector: Vec3) -> None:
        self.w = w
        self.vector = vector

    @classmethod
    def of(cls, values: Sequence[Real]) -> Quat:
        """Create a quaternion from four numbers w, x, y, z."""
        w, x, y, z = values
        return cls(w, Vec3(x, y, z))

    def __iter__(self) -> Iterator[Real]:
        return iter((self.w, *self.vector))

    def __mul__(self, other: Quat) -> Quat:
        w = self.w * other.w - self.vector.dot(other.vector)
        return Quat(w, self.vector * other.w + other.vector * self.w + self.vector.cross(other.vector))

    def conjugate(self) -> Quat:
        """Return the inverse of a unit quaternion."""
        return Quat(self.w, -self.vector)

    def normalized(self) -> Quat:
        """Return the unit quaternion of the same rotation; the identity for length zero, as in MuJoCo."""
        square = self.w * self.w + self.vector.dot(self.vector)
        scale = 1.0 / sqrt(square + TINY)
        return Quat(where(square < TINY, 1.0, self.w * scale), self.vector * scale)

    def matrix(self) -> Mat3:
        """Return the rotation matrix of a unit quaternion."""
        w, (x, y, z) = self.w, self.vector
        return Mat3(
            Vec3(1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
            Vec3(2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
            Vec3(2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
        )


def quat_exp(vector: Vec3) -> Quat:
    """Return the rotation by θ = |vector| [rad] about its direction: (cos θ/2, sin(θ/2)/θ · vector)."""
    angle = norm(vector)
    return Quat(cos(angle * 0.5), vector * (sin(angle * 0.5) / angle))


def rotation_vector(rotation: Quat) -> Vec3:
    """Return axis times angle [rad] of a unit quaternion, angle in (−π, π]; the inverse of `quat_exp`."""
    length = norm(rotation.vector)
    sign = where(rotation.w < 0.0, -1.0, 1.0)
    return rotation.vector * (sign * 2.0 * atan2(length, rotation.w * sign) / length)


@dataclass(frozen=True, slots=True)
class Spatial:
    """A motion (angular velocity; velocity of the point at the origin) or a force (moment about the origin; force)."""

    angular: Vec3
    linear: Vec3

    def __add__(self, other: Spatial) -> Spatial:
        return Spatial(self.angular + other.angular, self.linear + other.linear)

    def __sub__(self, other: Spatial) -> Spatial:
        return Spatial(self.angular - other.angular, self.linear - other.linear)

    def __mul__(self, factor: Real) -> Spatial:
        return Spatial(self.angular * factor, self.linear * factor)

    def dot(self, other: Spatial) -> Real:
        """Return the power of a force along a motion."""
        return self.angular.dot(other.angular) + self.linear.dot(other.linear)

    def cross_motion(self, other: Spatial) -> Spatial:
        """Return crm(self) other: the rate of change of a motion that moves along with `self`."""
        angular = self.angular.cross(other.angular)
        return Spatial(angular, self.angular.cross(other.linear) + self.linear.cross(other.angular))

    def cross_force(self, force: Spatial) -> Spatial:
        """Return crf(self) force: the rate of change of a force that moves along with `self`."""
        angular = self.angular.cross(force.angular) + self.linear.cross(force.linear)
        return Spatial(angular, self.angular.cross(force.linear))

    def at(self, point: Vec3) -> Vec3:
        """Return the velocity of the body-fixed point that is currently at `point`."""
        return self.linear + self.angular.cross(point)


ZERO_SPATIAL = Spatial(ZERO, ZERO)


@dataclass(frozen=True, slots=True)
class Inertia:
    """Spatial inertia about the tree's origin, ten numbers."""

    mass: Real
    moment: Vec3
    """mass · center of mass [kg m]."""
    tensor: tuple[Real, Real, Real, Real, Real, Real]
    """Rotational part xx, yy, zz, xy, xz, yz [kg m²]."""

    def __add__(self, other: Inertia) -> Inertia:
        xx, yy, zz, xy, xz, yz = (a + b for a, b in zip(self.tensor, other.tensor, strict=True))
        return Inertia(self.mass + other.mass, self.moment + other.moment, (xx, yy, zz, xy, xz, yz))

    def __matmul__(self, motion: Spatial) -> Spatial:
        """Return the momentum of a velocity, or the force of an acceleration."""
        xx, yy, zz, xy, xz, yz = self.tensor
        w = motion.angular
        angular = Vec3(xx * w.x + xy * w.y + xz * w.z, xy * w.x + yy * w.y + yz * w.z, xz * w.x + yz * w.y + zz * w.z)
        return Spatial(angular + self.moment.cross(motion.linear), motion.linear * self.mass - self.moment.cross(w))


Six = tuple[Real, Real, Real, Real, Real, Real]
"""Symmetric 3 × 3 matrix xx, yy, zz, xy, xz, yz."""


def turned(rotation: Mat3, tensor: Six) -> Six:
    """Return R T Rᵀ: a symmetric matrix of body axes in world axes."""
    xx, yy, zz, xy, xz, yz = tensor
    symmetric = Mat3(Vec3(xx, xy, xz), Vec3(xy, yy, yz), Vec3(xz, yz, zz))
    a, b, c = (symmetric @ row for row in rotation.rows)
    x, y, z = rotation.rows
    return x.dot(a), y.dot(b), z.dot(c), x.dot(b), x.dot(c), y.dot(c)


@dataclass(frozen=True, slots=True)
class SpatialMatrix:
    """Symmetric matrix [[A, B], [Bᵀ, C]] that maps motions to forces, 21 numbers: any inertia, or damping of a link."""

    angular: Six
    """Block A, moment by rotation."""
    coupling: Mat3
    """Block B, moment by translation."""
    linear: Six
    """Block C, force by translation."""

    @classmethod
    def of(cls, inertia: Inertia) -> SpatialMatrix:
        """Convert an inertia."""
        x, y, z = inertia.moment
        skew = Mat3(Vec3(0.0, -z, y), Vec3(z, 0.0, -x), Vec3(-y, x, 0.0))
        return cls(inertia.tensor, skew, (inertia.mass, inertia.mass, inertia.mass, 0.0, 0.0, 0.0))

    @classmethod
    def at_point(cls, point: Vec3, normal: Vec3, along_normal: Real, across: Real) -> SpatialMatrix:
        """Return XᵀCX, where X maps a motion to the velocity at `point` and C = across · 1 + (along − across) n nᵀ."""
        moment = point * across
        spread = point.dot(moment)
        xx, yy, zz = (spread - c * m for c, m in zip(point, moment, strict=True))
        off = (-(point.x * moment.y), -(point.x * moment.z), -(point.y * moment.z))
        isotropic = cls.of(Inertia(across, moment, (xx, yy, zz, *off)))
        lever = point.cross(normal)
        excess = along_normal - across
        scaled_lever, scaled_normal = lever * excess, normal * excess
        directional = cls(
            _outer(lever, scaled_lever), Mat3(*(scaled_normal * x for x in lever)), _outer(normal, scaled_normal)
        )
        return isotropic + directional

    def __add__(self, other: SpatialMatrix) -> SpatialMatrix:
        rows = [a + b for a, b in zip(self.coupling.rows, other.coupling.rows, strict=True)]
        return SpatialMatrix(_add(self.angular, other.angular), Mat3(*rows), _add(self.linear, other.linear))

    def __matmul__(self, motion: Spatial) -> Spatial:
        """Return the force of a motion."""
        angular = _times(self.angular, motion.angular) + self.coupling @ motion.linear
        return Spatial(angular, self.coupling.transpose() @ motion.angular + _times(self.linear, motion.linear))


def _outer(a: Vec3, b: Vec3) -> Six:
    """Return a bᵀ, which must be symmetric."""
    return (a.x * b.x, a.y * b.y, a.z * b.z, a.x * b.y, a.x * b.z, a.y * b.z)


def _add(a: Six, b: Six) -> Six:
    xx, yy, zz, xy, xz, yz = (x + y for x, y in zip(a, b, strict=True))
    return (xx, yy, zz, xy, xz, yz)


def _times(matrix: Six, vector: Vec3) -> Vec3:
    xx, yy, zz, xy, xz, yz = matrix
    x, y, z = vector
    return Vec3(xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z)
