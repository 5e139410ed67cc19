"""Inertias, the mass matrix, and its factor along the tree.

    M_kj = S_j · I^c S_k + armature        I^c: inertia of all links that coordinate k moves

M_kj is nonzero only where j is k or an ancestor of k. M = LᵀDL is factorized from leaves to root (Featherstone's
branch-induced sparsity): no fill-in, no dense Cholesky. The terms of an implicit step are added to M before that. Those
of contact with static planes keep this sparsity; a coupling between two branches fills in as far as it must.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.model.types import WORLD, Model
from ahac.sim.physics.algebra import Inertia, Mat3, SpatialMatrix, Vec3, turned
from ahac.sim.physics.forces import Dashpot
from ahac.sim.physics.kinematics import Motion

__all__ = ["Factor", "add_dashpots", "factorize", "link_inertias", "mass_matrix"]

Entries = dict[tuple[int, int], Real]
"""Nonzero entries (k, j) of a symmetric matrix, with j at most k."""

ROUND = 1e-12
"""Relative difference of principal moments below which a link counts as a body of revolution."""


def link_inertias(model: Model, motion: Motion) -> list[Inertia]:
    """Return the inertia of every link in world axes about its tree's origin."""
    return [_link_inertia(model, motion, i) for i in range(len(model.links))]


def _link_inertia(model: Model, motion: Motion, index: int) -> Inertia:
    """Return one link's inertia.

    With principal moments a, b, c the rotational part is b·1 + (a − b) x xᵀ + (c − b) z zᵀ: one outer product for a
    capsule or a cylinder, none for a ball. Parameters may change the principal axes; then the whole tensor is rotated.
    """
    link, rotation = model.links[index], motion.rotation[index]
    center = motion.position[index] + rotation @ Vec3.of(link.center_of_mass)
    moment = center * link.mass
    middle = link.moments[1] if link.tensor is None else 0.0
    spread = center.dot(moment)
    diagonal = [middle + spread - c * m for c, m in zip(center, moment, strict=True)]
    xy = -(center.x * moment.y)
    xz = -(center.x * moment.z)
    yz = -(center.y * moment.z)
    if link.tensor is not None:
        about_center = turned(rotation, link.tensor)
        xx, yy, zz, xy, xz, yz = (a + b for a, b in zip((*diagonal, xy, xz, yz), about_center, strict=True))
        return Inertia(link.mass, moment, (xx, yy, zz, xy, xz, yz))
    for k in (0, 2):
        excess = link.moments[k] - middle
        if isinstance(excess, Scalar) or abs(excess) > ROUND * middle:
            axis = rotation @ Mat3.of(link.principal).column(k)
            scaled = axis * excess
            diagonal = [d + a * s for d, a, s in zip(diagonal, axis, scaled, strict=True)]
            xy = xy + axis.x * scaled.y
            xz = xz + axis.x * scaled.z
            yz = yz + axis.y * scaled.z
    return Inertia(link.mass, moment, (*diagonal, xy, xz, yz))  # pyright: ignore[reportArgumentType]


def mass_matrix(
    model: Model, motion: Motion, inertias: Sequence[Inertia], damping: Mapping[int, SpatialMatrix] | None = None
) -> Entries:
    """Return the entries (k, j) where j is k or an ancestor of k, armature included; all others are zero.

    An implicit step adds the `damping` of links to their inertias.
    """
    composite: list[Inertia | SpatialMatrix] = list(inertias)
    for i, matrix in (damping or {}).items():
        composite[i] = _sum(composite[i], matrix)
    for i in reversed(range(len(model.links))):
        if (parent := model.links[i].parent) != WORLD:
            composite[parent] = _sum(composite[parent], composite[i])
    entries: Entries = {}
    ancestors = model.ancestors()
    for i, link in enumerate(model.links):
        for k in link.dofs:
            momentum = composite[i] @ motion.joint_subspace[k]
            entries[k, k] = motion.joint_subspace[k].dot(momentum) + model.armature[k]
            for j in ancestors[k]:
                entries[k, j] = motion.joint_subspace[j].dot(momentum)
    return entries


def _sum(a: Inertia | SpatialMatrix, b: Inertia | SpatialMatrix) -> Inertia | SpatialMatrix:
    if isinstance(a, Inertia) and isinstance(b, Inertia):
        return a + b
    return (SpatialMatrix.of(a) if isinstance(a, Inertia) else a) + (
        SpatialMatrix.of(b) if isinstance(b, Inertia) else b
    )


def add_dashpots(entries: Entries, dashpots: Iterable[Dashpot]) -> None:
    """Add c J Jᵀ of every dashpot."""
    for dashpot in dashpots:
        coordinates = sorted(dashpot.jacobian)
        for k in coordinates:
            scaled = dashpot.jacobian[k] * dashpot.coefficient
            for j in coordinates:
                if j <= k:
                    entries[k, j] = entries.get((k, j), 0.0) + scaled * dashpot.jacobian[j]


@dataclass
class Factor:
    """M = LᵀDL: unit triangular rows, and the reciprocals of D."""

    columns: list[list[int]]
    """Columns of each row with nonzero entries left of the diagonal, from right to left."""
    lower: Entries
    inverse_diagonal: list[Real]

    def solve(self, force: Sequence[Real]) -> list[Real]:
        """Return M⁻¹ force."""
        x = list(force)
        for k in reversed(range(len(x))):
            for j in self.columns[k]:
                x[j] = x[j] - self.lower[k, j] * x[k]
        x = [a * d for a, d in zip(x, self.inverse_diagonal, strict=True)]
        for k in range(len(x)):
            for j in self.columns[k]:
                x[k] = x[k] - self.lower[k, j] * x[j]
        return x


def factorize(size: int, matrix: Entries) -> Factor:
    """Return the LᵀDL factorization of a symmetric matrix, computed from the last row to the first."""
    entries = dict(matrix)
    columns = _columns(size, entries)
    inverse: list[Real] = [0.0] * size
    for k in reversed(range(size)):
        inverse[k] = 1.0 / entries[k, k]
        for position, i in enumerate(columns[k]):
            ratio = entries[k, i] * inverse[k]
            for j in columns[k][position:]:
                entries[i, j] = entries.get((i, j), 0.0) - ratio * entries[k, j]
            entries[k, i] = ratio
    return Factor(columns, entries, inverse)


def _columns(size: int, entries: Entries) -> list[list[int]]:
    """Return the sparsity of the factor: eliminating a row couples all coordinates that it is coupled to."""
    coupled: list[set[int]] = [set() for _ in range(size)]
    for k, j in entries:
        if j < k:
            coupled[k].add(j)
    for k in reversed(range(size)):
        for i in coupled[k]:
            coupled[i] |= {j for j in coupled[k] if j < i}
    return [sorted(row, reverse=True) for row in coupled]
