"""Drag of a surrounding fluid by MuJoCo's inertia-box model: each body counts as the box of equal inertia.

With b the box's edges, velocity u and angular velocity ω of the center of mass along its axes i (j, k the others):

    force_i  = −3π β d u_i − ρ/2 b_j b_k |u_i| u_i             d = mean edge, β viscosity, ρ density
    moment_i = −π β d³ ω_i − ρ/64 b_i (b_j⁴ + b_k⁴) |ω_i| ω_i
"""

from __future__ import annotations

import math

from ahac.sim.compiler.operations import abs_
from ahac.sim.model.types import Model
from ahac.sim.physics.algebra import ZERO_SPATIAL, Mat3, Spatial, Vec3
from ahac.sim.physics.kinematics import Motion

__all__ = ["drag"]


def drag(model: Model, motion: Motion) -> dict[int, Spatial]:
    """Return the fluid's wrench on each link, about its tree's origin."""
    if model.fluid is None:
        return {}
    rho = model.fluid.density
    beta = model.fluid.viscosity
    wind = Vec3.of(model.fluid.wind)
    wrenches: dict[int, Spatial] = {}
    for box in model.fluid.boxes:
        i = box.link
        edges = box.edges
        mean = sum(box.edges) / 3.0
        axes = motion.rotation[i].times(Mat3.of(box.axes))
        center = motion.position[i] + motion.rotation[i] @ Vec3.of(box.center)
        linear = axes.transpose() @ (motion.velocity[i].at(center) - wind)
        angular = axes.transpose() @ motion.velocity[i].angular
        force, moment = [], []
        for a, (u, w) in enumerate(zip(linear, angular, strict=True)):
            j, k = edges[(a + 1) % 3], edges[(a + 2) % 3]
            force.append(-(u * (3.0 * math.pi * beta * mean)) - u * abs_(u) * (0.5 * rho * j * k))
            shape = edges[a] * (j**4 + k**4)
            moment.append(-(w * (math.pi * beta * mean**3)) - w * abs_(w) * (rho * shape / 64.0))
        drag_force = axes @ Vec3(*force)
        wrenches[i] = wrenches.get(i, ZERO_SPATIAL) + Spatial(
            axes @ Vec3(*moment) + center.cross(drag_force), drag_force
        )
    return wrenches
