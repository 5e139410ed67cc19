"""Inertias, the mass matrix, and its factor along the tree.

    M_kj = S_j · I^c S_k + armature        I^c: inertia of all links that coordinate k moves

M_kj is nonzero only where j is k or an ancestor of k. M = LᵀDL is factorized along ancestors (Featherstone's
branch-induced sparsity): no fill-in, no dense Cholesky.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ahac.sim.compiler.graph import Real
from ahac.sim.model.types import WORLD, Model
from ahac.sim.physics.algebra import Inertia, Mat3, Vec3
from ahac.sim.physics.kinematics import Motion

__all__ = ["Factor", "factorize", "link_inertias", "mass_matrix"]

ROUND = 1e-12
"""Relative difference of principal moments below which a link counts as a body of revolution."""


def link_inertias(model: Model, motion: Motion) -> list[Inertia]:
    """Return the inertia of every link in world axes about its tree's origin."""
    return [_link_inertia(model, motion, i) for i in range(len(model.links))]


def _link_inertia(model: Model, motion: Motion, index: int) -> Inertia:
    """Return one link's inertia.

    With principal moments a, b, c the rotational part is b·1 + (a − b) x xᵀ + (c − b) z zᵀ: one outer product for a
    capsule or a cylinder, none for a ball.
    """
    link, rotation = model.links[index], motion.rotation[index]
    center = motion.position[index] + rotation @ Vec3.of(link.center_of_mass)
    moment = center * link.mass
    middle = link.moments[1]
    spread = center.dot(moment)
    diagonal = [middle + spread - c * m for c, m in zip(center, moment, strict=True)]
    xy = -(center.x * moment.y)
    xz = -(center.x * moment.z)
    yz = -(center.y * moment.z)
    for k in (0, 2):
        excess = link.moments[k] - middle
        if abs(excess) > ROUND * middle:
            axis = rotation @ Mat3.of(link.principal).column(k)
            scaled = axis * excess
            diagonal = [d + a * s for d, a, s in zip(diagonal, axis, scaled, strict=True)]
            xy = xy + axis.x * scaled.y
            xz = xz + axis.x * scaled.z
            yz = yz + axis.y * scaled.z
    return Inertia(link.mass, moment, (*diagonal, xy, xz, yz))  # pyright: ignore[reportArgumentType]


def mass_matrix(model: Model, motion: Motion, inertias: Sequence[Inertia]) -> dict[tuple[int, int], Real]:
    """Return the entries (k, j) where j is k or an ancestor of k, armature included; all others are zero."""
    composite = list(inertias)
    for i in reversed(range(len(model.links))):
        if (parent := model.links[i].parent) != WORLD:
            composite[parent] = composite[parent] + composite[i]
    entries: dict[tuple[int, int], Real] = {}
    ancestors = model.ancestors()
    for i, link in enumerate(model.links):
        for k in link.dofs:
            momentum = composite[i] @ motion.joint_subspace[k]
            entries[k, k] = motion.joint_subspace[k].dot(momentum) + model.armature[k]
            for j in ancestors[k]:
                entries[k, j] = motion.joint_subspace[j].dot(momentum)
    return entries


@dataclass
class Factor:
    """M = LᵀDL: unit triangular rows along ancestors, and the reciprocals of D."""

    ancestors: list[list[int]]
    lower: dict[tuple[int, int], Real]
    inverse_diagonal: list[Real]

    def solve(self, force: Sequence[Real]) -> list[Real]:
        """Return M⁻¹ force."""
        x = list(force)
        for k in reversed(range(len(x))):
            for j in self.ancestors[k]:
                x[j] = x[j] - self.lower[k, j] * x[k]
        x = [a * d for a, d in zip(x, self.inverse_diagonal, strict=True)]
        for k in range(len(x)):
            for j in self.ancestors[k]:
                x[k] = x[k] - self.lower[k, j] * x[j]
        return x


def factorize(model: Model, matrix: dict[tuple[int, int], Real]) -> Factor:
    """Return the LᵀDL factorization of the mass matrix, computed from leaves to root."""
    entries = dict(matrix)
    ancestors = model.ancestors()
    inverse: list[Real] = [0.0] * model.nv
    for k in reversed(range(model.nv)):
        inverse[k] = 1.0 / entries[k, k]
        for i in ancestors[k]:
            ratio = entries[k, i] * inverse[k]
            for j in [i, *ancestors[i]]:
                entries[i, j] = entries[i, j] - ratio * entries[k, j]
            entries[k, i] = ratio
    return Factor(ancestors, entries, inverse)
