"""One substep: the stages of the physics, in order, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ahac.core.errors import TraceError
from ahac.sim.compiler.graph import Real
from ahac.sim.physics import actuators, contact, dynamics, fluid, integrate, joints
from ahac.sim.physics.algebra import ZERO_SPATIAL, Spatial
from ahac.sim.physics.world import AppliedForce, World

__all__ = ["ForceLaw", "ForceLaws", "acceleration", "forward_dynamics", "substep"]

ForceLaw = Callable[[World], Iterable[AppliedForce]]
"""A force of the user's own: looks at a world, returns pushes on bodies and drives on joints."""


@dataclass(frozen=True)
class ForceLaws:
    """The force laws in effect; what differs between simulations of one model is passed in here."""

    contact: contact.ContactLaw = contact.penalty
    extra: tuple[ForceLaw, ...] = ()
    contact_enabled: bool = True
    """Whether contact and joint limits act at all."""


def substep(world: World, force: Sequence[Real], h: Real, laws: ForceLaws) -> tuple[list[Real], list[Real]]:
    """Positions and velocities `h` seconds later, under the world's controls and generalised forces `force`."""
    return integrate.semi_implicit(world.model, world.q, world.v, forward_dynamics(world, force, laws), h)


def forward_dynamics(world: World, force: Sequence[Real], laws: ForceLaws) -> list[Real]:
    """v̇ under the world's controls, generalised forces `force` and everything else."""
    drive = actuators.actuate(world.model, world.motion, world.q, world.v, world.control)
    total = [f + d for f, d in zip(force, drive.force, strict=True)]
    return acceleration(world, total, drive.wrenches, laws)


def acceleration(world: World, force: Sequence[Real], wrenches: dict[int, Spatial], laws: ForceLaws) -> list[Real]:
    """v̇ under `force` and `wrenches`, joints' passive forces, the medium, contact, limits and the user's own laws."""
    model, motion = world.model, world.motion
    pushes = [*wrenches.items(), *fluid.drag(model, motion).items()]
    forces = [force, joints.passive_force(model, world.q, world.v)]
    if laws.contact_enabled:
        pushes += contact.wrenches(world.contact_points, laws.contact).items()
        forces.append(joints.limit_force(model, world.q, world.v))
    total: list[Real] = [sum(parts[1:], parts[0]) for parts in zip(*forces, strict=True)]
    for law in laws.extra:
        for effort in _applied_forces(law, world):
            if effort.dof >= 0:
                total[effort.dof] = total[effort.dof] + effort.force
            else:
                pushes.append((effort.link, effort.wrench))
    external: dict[int, Spatial] = {}
    for link, wrench in pushes:
        external[link] = external.get(link, ZERO_SPATIAL) + wrench
    return dynamics.acceleration(model, motion, total, external)


def _applied_forces(law: ForceLaw, world: World) -> list[AppliedForce]:
    found = law(world)
    listed = list(found) if isinstance(found, Iterable) else [found]
    efforts = [effort for effort in listed if isinstance(effort, AppliedForce)]
    if len(efforts) == len(listed):
        return efforts
    name = getattr(law, "__name__", repr(law))
    raise TraceError(
        f"force law {name!r} must return a list of world.apply_force(...) and world.apply_joint_force(...), got {found!r}"
    )
