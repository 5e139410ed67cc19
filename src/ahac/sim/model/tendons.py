# pyright: reportAttributeAccessIssue=false
"""Convert MuJoCo's tendons: paths through sites, around obstacles and over pulleys, or combinations of joints."""

from __future__ import annotations

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.tree import Tree, coefficients, floats, frame_on, pair, site_frame, vector
from ahac.sim.model.types import Obstacle, Tendon, Vector
from ahac.sim.model.unsupported import constraints_disabled, disabled, element_name

__all__ = ["added_by_actuators", "build_tendons"]

WRAP = mujoco.mjtWrap
OBSTACLES = (int(WRAP.mjWRAP_SPHERE), int(WRAP.mjWRAP_CYLINDER))


def build_tendons(model: mujoco.MjModel, tree: Tree) -> tuple[Tendon, ...]:
    """Return all tendons of a model."""
    return tuple(_tendon(model, tree, i) for i in range(model.ntendon))


def added_by_actuators(model: mujoco.MjModel, kinds: tuple[int, ...], target: int) -> tuple[np.ndarray, float]:
    """Return damping coefficients and armature that actuators add to a joint or tendon, both times gear²."""
    damping, armature = np.zeros(8), 0.0
    for i in range(len(model.actuator_trntype)):
        if int(model.actuator_trntype[i]) in kinds and model.actuator_trnid[i, 0] == target:
            square = float(model.actuator_gear[i, 0]) ** 2
            own = coefficients(model, "actuator_damping", i)
            damping[: len(own)] += square * np.array(own)
            armature += square * float(getattr(model, "actuator_armature", np.zeros(i + 1))[i])
    return damping, armature


def _tendon(model: mujoco.MjModel, tree: Tree, i: int) -> Tendon:
    points, obstacles, scales, joints = _path(model, tree, i)
    along = int(mujoco.mjtTrn.mjTRN_TENDON)
    more_damping, more_armature = added_by_actuators(model, (along,), i)
    own = coefficients(model, "tendon_damping", i)
    damping = more_damping + np.array([*own, *(0.0 for _ in range(len(more_damping) - len(own)))])
    limited = model.tendon_limited[i] and not constraints_disabled(model, "LIMIT")
    force_limited = getattr(model, "tendon_actfrclimited", np.zeros(model.ntendon))[i]
    frictionless = constraints_disabled(model, "FRICTIONLOSS")
    inverse = float(model.tendon_invweight0[i])
    return Tendon(
        name=element_name(model, "tendon", i),
        points=points,
        obstacles=obstacles,
        scales=scales if any(scale != 1.0 for scale in scales) else (),
        joints=joints,
        stiffness=() if disabled(model, "SPRING") else coefficients(model, "tendon_stiffness", i),
        spring_range=pair(model.tendon_lengthspring[i]),
        damping=() if disabled(model, "DAMPER") else floats(np.trim_zeros(damping, "b")),
        armature=float(getattr(model, "tendon_armature", np.zeros(model.ntendon))[i]) + more_armature,
        frictionloss=0.0 if frictionless else float(model.tendon_frictionloss[i]),
        range=pair(model.tendon_range[i]) if limited else None,
        effective_mass=1.0 / inverse if inverse > 0.0 else 0.0,
        force_range=pair(model.tendon_actfrcrange[i]) if force_limited else None,
        actuators=tuple(
            int(a) for a in np.flatnonzero((model.actuator_trntype == along) & (model.actuator_trnid[:, 0] == i))
        ),
    )


def _path(
    model: mujoco.MjModel, tree: Tree, i: int
) -> tuple[
    tuple[tuple[int, Vector], ...],
    tuple[tuple[int, Obstacle], ...],
    tuple[float, ...],
    tuple[tuple[int, int, float], ...],
]:
    """Return waypoints, obstacles, scales and joints of a tendon."""
    points: list[tuple[int, Vector]] = []
    obstacles: list[tuple[int, Obstacle]] = []
    scales: list[float] = []
    joints: list[tuple[int, int, float]] = []
    scale, across = 1.0, False
    for w in range(model.tendon_adr[i], model.tendon_adr[i] + model.tendon_num[i]):
        kind, target = int(model.wrap_type[w]), int(model.wrap_objid[w])
        if kind == WRAP.mjWRAP_JOINT:
            joints.append((int(model.jnt_qposadr[target]), int(model.jnt_dofadr[target]), float(model.wrap_prm[w])))
        elif kind == WRAP.mjWRAP_PULLEY:
            scale, across = 1.0 / float(model.wrap_prm[w]), True
        elif kind in OBSTACLES:
            obstacles.append((len(points) - 1, _obstacle(model, tree, i, w)))
        else:
            frame = site_frame(model, tree, target)
            if points:
                scales.append(0.0 if across else scale)
            points.append((frame.link, frame.position))
            across = False
    return tuple(points), tuple(obstacles), tuple(scales), tuple(joints)


def _obstacle(model: mujoco.MjModel, tree: Tree, tendon: int, w: int) -> Obstacle:
    geom, side = int(model.wrap_objid[w]), round(float(model.wrap_prm[w]))
    frame = frame_on(tree.frames[model.geom_bodyid[geom]], model.geom_pos[geom], model.geom_quat[geom])
    at = None
    if side >= 0:
        site = site_frame(model, tree, side)
        if site.link != frame.link:
            names = [element_name(model, *element) for element in (("site", side), ("tendon", tendon), ("geom", geom))]
            raise ModelError(
                f"the side site {names[0]!r} of tendon {names[1]!r} moves relative to the geom {names[2]!r}: not "
                "simulated; attach both to one body"
            )
        at = vector(np.array(frame.rotation).T @ (np.array(site.position) - np.array(frame.position)))
    return Obstacle(
        cylinder=int(model.wrap_type[w]) == WRAP.mjWRAP_CYLINDER,
        frame=frame,
        radius=float(model.geom_size[geom, 0]),
        side=at,
    )
