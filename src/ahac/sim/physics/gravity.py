"""Gravity compensation: forces that carry part of the weight of bodies."""

from __future__ import annotations

from ahac.sim.compiler.graph import Real
from ahac.sim.model.types import Model
from ahac.sim.physics.algebra import ZERO_SPATIAL, Spatial, Vec3
from ahac.sim.physics.dynamics import project_to_joints
from ahac.sim.physics.kinematics import Motion

__all__ = ["compensate"]


def compensate(model: Model, motion: Motion) -> tuple[dict[int, Spatial], list[Real], list[Real] | None]:
    """Return wrenches on links, generalized forces, and generalized forces that count as force of the actuators.

    The last are None if no joint asks for them; all are then wrenches.
    """
    upward = -Vec3.of(model.gravity)
    wrenches: dict[int, Spatial] = {}
    for i, mass, moment in model.gravity_compensation:
        force = upward * mass
        lever = motion.position[i] * mass + motion.rotation[i] @ Vec3.of(moment)
        wrenches[i] = Spatial(lever.cross(upward), force)
    free: list[Real] = [0.0] * model.nv
    by_actuators = {k for joint in model.joints if joint.compensated for k in joint.dofs}
    if not by_actuators or not wrenches:
        return wrenches, free, None
    along = project_to_joints(model, motion, [wrenches.get(i, ZERO_SPATIAL) for i in range(len(model.links))])
    driven = [x if k in by_actuators else 0.0 for k, x in enumerate(along)]
    return {}, [0.0 if k in by_actuators else x for k, x in enumerate(along)], driven
