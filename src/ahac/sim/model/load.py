# pyright: reportAttributeAccessIssue=false
"""Load a `Model` from an MJCF or URDF file, or its text, by way of MuJoCo's compiler."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

import mujoco
import numpy as np

from ahac.core.checks import check_int
from ahac.sim.model.actuators import build_actuators
from ahac.sim.model.constraints import RestPose, dry_friction, equalities
from ahac.sim.model.contact_geoms import contact_candidates, ignored_pairs, static_planes, touching_geoms
from ahac.sim.model.motors import Motor
from ahac.sim.model.notes import Notes, counted
from ahac.sim.model.overrides import lookup, max_contact_points_in
from ahac.sim.model.rest_state import pose, standing_pose, warn_singular
from ahac.sim.model.source import Source, compile_model
from ahac.sim.model.tree import Tree, box_of, build_tree, floats, frame_on, vector
from ahac.sim.model.types import WORLD, Actuator, ContactMaterial, Fluid, JointLimit, Keyframe, Model
from ahac.sim.model.unsupported import (
    Refusals,
    constraints_disabled,
    disabled,
    element_name,
    model_name,
    refuse_unsupported,
)
from ahac.sim.model.visuals import visuals_of

__all__ = ["load_model"]

FREE = mujoco.mjtJoint.mjJNT_FREE
MAX_CONTACT_POINTS = 64
"""Contact points that a model uses by default; compiling takes longer with each of them."""


def load_model(  # noqa: PLR0913 - public settings, keyword-only
    source: str | os.PathLike[str] | mujoco.MjSpec,
    *,
    contact: ContactMaterial | None = None,
    materials: Mapping[str, ContactMaterial] | None = None,
    limit: JointLimit | None = None,
    limits: Mapping[str, JointLimit] | None = None,
    motors: Motor | Mapping[str, Motor] | None = None,
    ground: bool = False,
    floating: bool = False,
    strict: bool = False,
    ignore: Collection[str] = (),
    assets: Mapping[str, bytes] | None = None,
    mesh_points: int | None = None,
    max_contact_points: int | None = None,
    balance_inertia: bool = False,
) -> Model:
    """Read a robot from MJCF or URDF.

    Kinematics, inertias, passive forces, actuators and friction coefficients are those of the file. Contact with
    planes and joint limits are springs and dampers instead of MuJoCo's constraints: solref, solimp, margin and gap are
    not read. `Model.notes` lists everything in this file that is approximated or dropped.

    Args:
        source: Path of a file, XML text, or a `mujoco.MjSpec`.
        contact: Contact material of all geoms; by default the file's, else `ContactMaterial()`, whose friction is
            that of the geoms by MuJoCo's rules. A ground added by `ground` has no friction of its own. A file sets
            it by `<custom><numeric name="ahac:contact" data="stiffness damping viscosity friction"/></custom>`.
        materials: Contact materials of individual geoms, by name; a file sets one by "ahac:contact:GEOM". In a
            contact the geom's material takes precedence over the plane's.
        limit: Stiffness and damping of joint limits; by default the file's "ahac:limit" (data="stiffness
            damping"), else `JointLimit()`.
        limits: Limits of individual joints, by name; a file sets one by "ahac:limit:JOINT".
        motors: Motors that replace the file's actuators: by joint name, where * and ? are wildcards, or one motor
            for every hinge and slide except those of the root body.
        ground: Whether to add the plane z = 0 to a model without planes.
        floating: Whether to add a free joint to bodies that are fixed to the world, such as the base of a URDF.
        strict: Whether to raise an error for a model with contact between bodies, instead of a warning.
        ignore: Features of the file to drop; the error for features that are not simulated names them all.
        assets: Files that an XML text refers to, by name.
        mesh_points: Maximum number of hull vertices per mesh used for contact; by default all of them, within
            `max_contact_points`.
        max_contact_points: Maximum number of contact points; by default the file's "ahac:max_contact_points", else 64.
            Of more points, those of the feet are used first: links without children that are lowest in the first
            keyframe, or in the reference pose without keyframes.
        balance_inertia: Whether to repair inertias that no rigid body has, and raise masses to 1 g and moments of
            inertia to 1e-6 kg m².

    Raises:
        ModelError: If the file cannot be read, or uses a feature that is not simulated.
    """
    for name, value in (("mesh_points", mesh_points), ("max_contact_points", max_contact_points)):
        if value is not None:
            check_int(name, value, 1)
    raw = compile_model(
        Source(model=source, assets=assets or {}, floating=floating, motors=motors, balance_inertia=balance_inertia)
    )
    notes = Notes(model_name(raw))
    refusals = refuse_unsupported(raw, ignore, notes)
    geoms = {element_name(raw, "geom", i) for i in range(raw.ngeom)}
    ranged = {element_name(raw, "joint", i) for i in range(raw.njnt) if raw.jnt_limited[i]}
    contact_of = lookup(raw, "contact", geoms, ContactMaterial, contact, materials)
    tree = build_tree(raw, lookup(raw, "limit", ranged, JointLimit, limit, limits))
    actuators: tuple[Actuator, ...] = ()
    with refusals.collect():
        actuators = build_actuators(raw, tree, refusals)
    planes = static_planes(raw, tree, ground)
    touching = touching_geoms(raw, tree, planes, mesh_points, refusals, notes)
    _note_ignored_pairs(raw, tree, strict, refusals, notes)
    refusals.raise_all(model_name(raw))

    _note_static_and_unread(raw, notes)
    _warn_about_ground(raw, tree, bool(planes), bool(touching), ground, notes)
    rest_q = standing_pose(raw, touching, notes)
    most = max_contact_points or max_contact_points_in(raw) or MAX_CONTACT_POINTS
    stance = pose(raw, raw.key_qpos[0] if raw.nkey else rest_q)
    candidates = contact_candidates(raw, tree, touching, contact_of, most, stance, notes)
    reference = RestPose.of(raw)
    warn_singular(raw, reference, notes)
    damped = not disabled(raw, "DAMPER")
    gravity_scale = 0.0 if disabled(raw, "GRAVITY") else 1.0
    sites = [frame_on(tree.frames[raw.site_bodyid[s]], raw.site_pos[s], raw.site_quat[s]) for s in range(raw.nsite)]
    return Model(
        name=model_name(raw),
        nq=raw.nq,
        nv=raw.nv,
        nu=raw.nu,
        gravity=vector(raw.opt.gravity * gravity_scale),
        links=tuple(tree.links),
        armature=floats(raw.dof_armature),
        damping=floats(raw.dof_damping) if damped else (0.0,) * raw.nv,
        contact_candidates=candidates,
        planes=tuple(planes.values()),
        actuators=actuators,
        bodies={element_name(raw, "body", b): frame for b, frame in enumerate(tree.frames)},
        sites={element_name(raw, "site", s): frame for s, frame in enumerate(sites)},
        fluid=_fluid(raw, tree),
        rest_q=floats(rest_q),
        keyframes={element_name(raw, "key", k): _keyframe(raw, k, motors is None) for k in range(raw.nkey)},
        frictionloss=dry_friction(raw),
        equalities=equalities(raw, tree, reference),
        notes=notes.lines(),
        visuals=visuals_of(raw),
    )


def _keyframe(raw: mujoco.MjModel, k: int, own_actuators: bool) -> Keyframe:
    ctrl = floats(raw.key_ctrl[k]) if own_actuators else (0.0,) * raw.nu
    return Keyframe(q=floats(raw.key_qpos[k]), v=floats(raw.key_qvel[k]), ctrl=ctrl, act=floats(raw.key_act[k]))


def _note_ignored_pairs(raw: mujoco.MjModel, tree: Tree, strict: bool, refusals: Refusals, notes: Notes) -> None:
    if pairs := ignored_pairs(raw, tree):
        message = (
            f"contact between {len(pairs)} pairs of geoms, first {pairs[0]}, is not simulated: bodies collide with "
            "static planes only"
        )
        if strict:
            refusals.add(f"{message}; set contype and conaffinity to 0, or load with strict=False")
        notes.warn(message)


def _note_static_and_unread(raw: mujoco.MjModel, notes: Notes) -> None:
    if mocaps := [element_name(raw, "body", int(b)) for b in np.flatnonzero(raw.body_mocapid >= 0)]:
        notes.warn(
            f"mocap bodies stay where the file puts them, as static bodies: {counted([repr(m) for m in mocaps])}"
        )
    if raw.nsensor:
        notes.add(f"sensors are not simulated ({raw.nsensor}); use readouts")


def _warn_about_ground(
    raw: mujoco.MjModel, tree: Tree, has_plane: bool, touches: bool, ground: bool, notes: Notes
) -> None:
    """Warn about free robots that nothing holds, and about a ground that nothing can touch."""
    free = any(kind == FREE for kind in raw.jnt_type)
    on_links = [g for g in range(raw.ngeom) if tree.frames[raw.geom_bodyid[g]].link != WORLD]
    if not has_plane and free and raw.ngeom:
        notes.warn("there is no plane to stand on; ground=True adds z = 0")
    elif has_plane and not touches and (free or ground) and not constraints_disabled(raw, "CONTACT"):
        first = f", such as {element_name(raw, 'geom', on_links[0])!r}," if on_links else ""
        notes.warn(
            f"no geom can touch a plane: contype and conaffinity of the {len(on_links)} geoms on moving bodies{first} "
            "do not match the plane's; set contype='1' on them and conaffinity='1' on the plane"
        )


def _fluid(raw: mujoco.MjModel, tree: Tree) -> Fluid | None:
    # If both springs and dampers are disabled, MuJoCo skips all passive forces.
    if disabled(raw, "SPRING", "DAMPER") or not (raw.opt.density or raw.opt.viscosity):
        return None
    moving = [(b, p) for b, p in enumerate(tree.frames) if p.link != WORLD and raw.body_mass[b] > 0]
    return Fluid(
        density=float(raw.opt.density),
        viscosity=float(raw.opt.viscosity),
        wind=vector(raw.opt.wind),
        boxes=tuple(box_of(raw, b, p) for b, p in moving),
    )
