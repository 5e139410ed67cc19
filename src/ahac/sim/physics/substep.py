"""One substep of the simulation, written in the order of the physics.

    kinematics -> forces -> forward dynamics -> integration

The order of the statements is also the order in which scalar operations are traced. It determines the generated kernels
and the last bits of their results, so do not reorder them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ahac.core.errors import TraceError
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.physics import (
    actuators,
    constraints,
    contact,
    contact_loops,
    dynamics,
    fluid,
    gravity,
    implicit_contact,
    integrate,
    joints,
    springs,
)
from ahac.sim.physics.algebra import ZERO_SPATIAL, Spatial, SpatialMatrix
from ahac.sim.physics.forces import Forces
from ahac.sim.physics.world import AppliedForce, World

__all__ = ["ForceLaw", "ForceLaws", "applied_force", "substep", "total_forces"]

ForceLaw = Callable[[World], Iterable[AppliedForce]]
"""A user-defined force: a function of a world that returns forces on bodies and joints."""


@dataclass(frozen=True)
class ForceLaws:
    """Selects which forces act, for simulations of one model that differ in them, and how they are integrated."""

    contact: contact.ContactLaw = contact.penalty
    extra: tuple[ForceLaw, ...] = ()
    """User-defined force laws; always integrated explicitly."""
    contact_enabled: bool = True
    """Whether contact and joint limits act."""
    actuators_enabled: bool = True
    """Whether actuators act."""
    implicit: bool = False
    """Whether a substep takes contact, limits, springs, dampers, dry friction and servos at its end."""


def substep(world: World, force: Sequence[Real], h: Real, laws: ForceLaws) -> tuple[list[Real], list[Real]]:
    """Return positions and velocities `h` seconds later, under the world's controls and generalized forces `force`.

    An implicit step is linear in the acceleration: (M + h D + h² K) v̇ = f(q + h v, v) − bias, where D and K are damping
    and stiffness of the forces that it takes at its end.
    """
    forces = total_forces(world, force, laws, h)
    qacc = dynamics.acceleration(world.model, world.motion, forces)
    return integrate.semi_implicit(world.model, world.q, world.v, qacc, h)


def total_forces(world: World, force: Sequence[Real], laws: ForceLaws, duration: Real = 0.0) -> Forces:
    """Return all forces on a world, `force` included, as a substep takes them; those of this moment if it takes 0 s."""
    model, q, v = world.model, world.q, world.v
    h = duration if laws.implicit else 0.0
    motion = world.motion  # kinematics
    idle = actuators.ActuatorForces([0.0] * model.nv, {})
    carried, compensation, carried_by_actuators = gravity.compensate(model, motion)
    inputs = actuators.Inputs(world.control, world.act, duration, h)
    actuation = idle
    if laws.actuators_enabled:
        actuation = actuators.actuate(model, motion, q, v, inputs, carried_by_actuators)
    driven = [f + a for f, a in zip(force, actuation.force, strict=True)]
    drag = fluid.drag(model, motion)
    passive, dampers = joints.passive_force(model, q, v, h)
    contacts, link_damping = _contacts(world, laws, h)
    limits, stops = joints.limit_force(model, q, v, h) if laws.contact_enabled else ([0.0] * model.nv, [])
    friction, brakes = joints.friction_force(model, v, h)
    held = constraints.equality_forces(model, motion, q, v, h)
    nonlinear = springs.nonlinear_joint_forces(model, q, v, h)
    along_tendons = springs.tendon_forces(model, motion, q, v, h, laws.contact_enabled)
    parts = (driven, passive, limits, friction, held.joint, nonlinear.joint, along_tendons.joint, compensation)
    joint_force = [sum(terms, 0.0) for terms in zip(*parts, strict=True)]
    joint_force, extra = _add_extra_forces(joint_force, laws.extra, world)
    return Forces(
        joint_force,
        _sum_wrenches(
            actuation.wrenches.items(),
            drag.items(),
            contacts.items(),
            held.wrenches.items(),
            extra,
            carried.items(),
        ),
        [
            *actuation.dashpots,
            *dampers,
            *stops,
            *brakes,
            *held.dashpots,
            *nonlinear.dashpots,
            *along_tendons.dashpots,
        ],
        link_damping,
    )


def applied_force(world: World, laws: ForceLaws) -> list[Real]:
    """Return the user-defined forces on a world as generalized forces."""
    joint_force, wrenches = _add_extra_forces([0.0] * world.model.nv, laws.extra, world)
    on_links = _sum_wrenches(wrenches)
    links = [on_links.get(i, ZERO_SPATIAL) for i in range(len(world.model.links))]
    along = dynamics.project_to_joints(world.model, world.motion, links) if on_links else [0.0] * world.model.nv
    return [a + b for a, b in zip(joint_force, along, strict=True)]


def _contacts(world: World, laws: ForceLaws, h: Real) -> tuple[dict[int, Spatial], dict[int, SpatialMatrix]]:
    if not laws.contact_enabled:
        return {}, {}
    if isinstance(h, Scalar):
        return implicit_contact.implicit_contacts(world.contact_points, world.motion, laws.contact, h)
    return contact_loops.explicit_contacts(world.contact_points, world.motion, laws.contact), {}


def _add_extra_forces(
    joint_force: Sequence[Real], laws: Iterable[ForceLaw], world: World
) -> tuple[list[Real], list[tuple[int, Spatial]]]:
    """Add user-defined joint forces, and return the user-defined wrenches on links as (link, wrench) pairs."""
    total = list(joint_force)
    wrenches: list[tuple[int, Spatial]] = []
    for law in laws:
        for applied in _applied_forces(law, world):
            if applied.dof >= 0:
                total[applied.dof] = total[applied.dof] + applied.force
            else:
                wrenches.append((applied.link, applied.wrench))
    return total, wrenches


def _applied_forces(law: ForceLaw, world: World) -> list[AppliedForce]:
    result = law(world)
    items = list(result) if isinstance(result, Iterable) else [result]
    forces = [item for item in items if isinstance(item, AppliedForce)]
    if len(forces) == len(items):
        return forces
    name = getattr(law, "__name__", repr(law))
    raise TraceError(
        f"force law {name!r} must return a list of world.apply_force(...) and world.apply_joint_force(...), "
        f"got {result!r}"
    )


def _sum_wrenches(*groups: Iterable[tuple[int, Spatial]]) -> dict[int, Spatial]:
    total: dict[int, Spatial] = {}
    for group in groups:
        for link, wrench in group:
            total[link] = total.get(link, ZERO_SPATIAL) + wrench
    return total
