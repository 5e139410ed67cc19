"""Equations of motion M(q) v̇ + bias(q, v) = force.

f_i = I_i A_i + crf(V_i) I_i V_i − external_i        bias_k = S_k · Σ f over the links that joint coordinate k moves

An implicit step adds the matrix of its dashpots and of the damping of links to M.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import implicit
from ahac.sim.model.types import WORLD, Model
from ahac.sim.physics.algebra import ZERO, ZERO_SPATIAL, Inertia, Spatial, Vec3
from ahac.sim.physics.forces import Forces
from ahac.sim.physics.inertia import add_dashpots, factorize, link_inertias, mass_matrix
from ahac.sim.physics.kinematics import Motion

__all__ = ["Wrenches", "acceleration", "bias_force", "link_accelerations", "project_to_joints", "without_gravity"]

Wrenches = Mapping[int, Spatial]
"""External wrench on each link that feels one, about its tree's origin."""


def acceleration(model: Model, motion: Motion, forces: Forces) -> list[Real]:
    """Return v̇ under the given forces.

    It is marked as the solution of the equations of motion: its derivative then takes one more solve with the same
    factor, instead of differentiating through the factorization and the mass matrix.
    """
    inertias = link_inertias(model, motion)
    bias = bias_force(model, motion, forces.wrenches, inertias)
    matrix = mass_matrix(model, motion, inertias, forces.link_damping)
    add_dashpots(matrix, forces.dashpots)
    factor = factorize(model.nv, matrix)
    solution = factor.solve([f - b for f, b in zip(forces.joint, bias, strict=True)])

    def virtual_power(multiplier: Sequence[Real], rate: Sequence[Real]) -> Real:
        """Return λ·(M a + bias − force) = Σ_i W_i · f_i − λ·force, with W the link velocities under joint velocities λ.

        (Armature adds λ·armature·a, which depends on nothing but armature that is a parameter.)
        """
        virtual = _propagate(model, motion, multiplier)
        change = _propagate(model, motion, rate)
        power: Real = 0.0
        for i, w in enumerate(virtual):
            acceleration = motion.acceleration[i] + change[i]
            power = power + w.dot(_link_force(motion, inertias[i], i, acceleration, forces.wrenches))
        for m, f in zip(multiplier, forces.joint, strict=True):
            power = power - m * f
        for i, damping in forces.link_damping.items():
            power = power + virtual[i].dot(damping @ change[i])
        for dashpot in forces.dashpots:
            along = [sum((x[k] * j for k, j in dashpot.jacobian.items()), 0.0) for x in (multiplier, rate)]
            power = power + dashpot.coefficient * (along[0] * along[1])
        for m, armature, a in zip(multiplier, model.armature, rate, strict=True):
            if isinstance(armature, Scalar):
                power = power + armature * (m * a)
        return power

    return implicit(solution, factor.solve, virtual_power)


def bias_force(model: Model, motion: Motion, external: Wrenches, inertias: Sequence[Inertia]) -> list[Real]:
    """Return gravity, Coriolis and centrifugal forces minus external wrenches, as generalized forces."""
    forces = [_link_force(motion, inertia, i, motion.acceleration[i], external) for i, inertia in enumerate(inertias)]
    return project_to_joints(model, motion, forces)


def project_to_joints(model: Model, motion: Motion, forces: Sequence[Spatial]) -> list[Real]:
    """Project forces on links to generalized forces: S_k · Σ force over the links that coordinate k moves."""
    carried = list(forces)
    along: list[Real] = [0.0] * model.nv
    for i in reversed(range(len(model.links))):
        link = model.links[i]
        for k in link.dofs:
            along[k] = motion.joint_subspace[k].dot(carried[i])
        if link.parent != WORLD:
            carried[link.parent] = carried[link.parent] + carried[i]
    return along


def link_accelerations(model: Model, motion: Motion, qacc: Sequence[Real]) -> list[Spatial]:
    """Return the spatial acceleration of every link under v̇ = `qacc`, relative to a world at rest."""
    changes = _propagate(model, motion, qacc)
    return [without_gravity(model, a) + change for a, change in zip(motion.acceleration, changes, strict=True)]


def without_gravity(model: Model, acceleration: Spatial) -> Spatial:
    """Remove the acceleration of the world that stands for gravity from an acceleration of `Motion`."""
    return acceleration + Spatial(ZERO, Vec3.of(model.gravity))


def _link_force(motion: Motion, inertia: Inertia, i: int, acceleration: Spatial, external: Wrenches) -> Spatial:
    velocity = motion.velocity[i]
    force = inertia @ acceleration + velocity.cross_force(inertia @ velocity)
    return force - external[i] if i in external else force


def _propagate(model: Model, motion: Motion, qacc: Sequence[Real]) -> list[Spatial]:
    """Return the link motions Σ S_k qacc_k over the coordinates that move each link."""
    motions: list[Spatial] = []
    for link in model.links:
        total = ZERO_SPATIAL if link.parent == WORLD else motions[link.parent]
        for k in link.dofs:
            total = total + motion.joint_subspace[k] * qacc[k]
        motions.append(total)
    return motions
