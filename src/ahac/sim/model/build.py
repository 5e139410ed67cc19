# pyright: reportAttributeAccessIssue=false
"""Build a `Model` from what MuJoCo has compiled."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from ahac.core.checks import check_int
from ahac.sim.model.actuators import build_actuators
from ahac.sim.model.constraints import RestPose, dry_friction, equalities, note_constraints
from ahac.sim.model.contact_geoms import contact_candidates, file_geoms, ignored_pairs, static_planes, touching_geoms
from ahac.sim.model.notes import Notes, counted
from ahac.sim.model.overrides import lookup, max_contact_points_in
from ahac.sim.model.passive import compensated_masses, joint_armature, joint_damping
from ahac.sim.model.rest_state import pose, standing_pose, warn_singular
from ahac.sim.model.tendons import build_tendons
from ahac.sim.model.tree import Tree, box_of, build_tree, file_body, floats, site_frame, vector
from ahac.sim.model.types import (
    WORLD,
    Actuator,
    ContactCandidate,
    ContactMaterial,
    Equality,
    FileGeom,
    Fluid,
    JointLimit,
    Keyframe,
    Model,
    Plane,
    Tendon,
)
from ahac.sim.model.unsupported import (
    Refusals,
    constraints_disabled,
    disabled,
    element_name,
    model_name,
    refuse_unsupported,
)
from ahac.sim.model.visuals import visuals_of

__all__ = ["Settings", "build_model"]

FREE = mujoco.mjtJoint.mjJNT_FREE
MAX_CONTACT_POINTS = 64
"""Contact points that a model uses by default; compiling takes longer with each of them."""


@dataclass(frozen=True)
class Settings:
    """What to build from a file; the arguments of `load_model` explain the fields."""

    contact: ContactMaterial | None
    materials: Mapping[str, ContactMaterial] | None
    limit: JointLimit | None
    limits: Mapping[str, JointLimit] | None
    ground: bool
    strict: bool
    ignore: Collection[str]
    mesh_points: int | None
    max_contact_points: int | None
    own_actuators: bool
    """Whether the actuators are those of the file."""

    def __post_init__(self) -> None:
        for name in ("mesh_points", "max_contact_points"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)


@dataclass(frozen=True)
class _Parts:
    """Parts of a model that several steps of building share."""

    tree: Tree
    tendons: tuple[Tendon, ...]
    actuators: tuple[Actuator, ...]
    planes: tuple[Plane, ...]
    candidates: tuple[ContactCandidate, ...]
    rest_q: tuple[float, ...]
    equalities: tuple[Equality, ...]
    geoms: Mapping[str, FileGeom]


def build_model(raw: mujoco.MjModel, settings: Settings) -> Model:
    """Build a model; raise ModelError for everything in it that is not simulated."""
    notes = Notes(model_name(raw))
    refusals = refuse_unsupported(raw, settings.ignore, notes)
    geoms = {element_name(raw, "geom", i) for i in range(raw.ngeom)}
    ranged = {element_name(raw, "joint", i) for i in range(raw.njnt) if raw.jnt_limited[i]}
    contact_of = lookup(raw, "contact", geoms, ContactMaterial, settings.contact, settings.materials)
    tree = build_tree(raw, lookup(raw, "limit", ranged, JointLimit, settings.limit, settings.limits))
    tendons: tuple[Tendon, ...] = ()
    actuators: tuple[Actuator, ...] = ()
    with refusals.collect():
        tendons = build_tendons(raw, tree)
        actuators = build_actuators(raw, tree, tendons, refusals)
    planes = static_planes(raw, tree, settings.ground)
    touching = touching_geoms(raw, tree, planes, settings.mesh_points, refusals, notes)
    _note_ignored_pairs(raw, tree, settings.strict, refusals, notes)
    refusals.raise_all(model_name(raw))

    _note_static_and_unread(raw, notes)
    _warn_about_ground(raw, tree, bool(planes), bool(touching), settings.ground, notes)
    rest_q = standing_pose(raw, touching, notes)
    most = settings.max_contact_points or max_contact_points_in(raw) or MAX_CONTACT_POINTS
    stance = pose(raw, raw.key_qpos[0] if raw.nkey else rest_q)
    candidates = contact_candidates(raw, tree, touching, contact_of, most, stance, notes)
    reference = RestPose.of(raw)
    warn_singular(raw, reference, notes)
    constraints = equalities(raw, tree, reference)
    note_constraints(raw, constraints, notes)
    geoms = file_geoms(raw, touching)
    parts = _Parts(tree, tendons, actuators, tuple(planes.values()), candidates, floats(rest_q), constraints, geoms)
    return _assemble(raw, parts, settings, notes)


def _assemble(raw: mujoco.MjModel, parts: _Parts, settings: Settings, notes: Notes) -> Model:
    damping, damping_slopes = joint_damping(raw)
    # Linear muscles have no activation, although MuJoCo gives them one.
    na = raw.na if any(actuator.activation is not None for actuator in parts.actuators) else 0
    drives = None if settings.own_actuators else parts.actuators
    gravity_scale = 0.0 if disabled(raw, "GRAVITY") else 1.0
    return Model(
        name=model_name(raw),
        nq=raw.nq,
        nv=raw.nv,
        nu=raw.nu,
        gravity=vector(raw.opt.gravity * gravity_scale),
        links=tuple(parts.tree.links),
        armature=joint_armature(raw),
        damping=damping,
        contact_candidates=parts.candidates,
        planes=parts.planes,
        actuators=parts.actuators,
        bodies={element_name(raw, "body", b): frame for b, frame in enumerate(parts.tree.frames)},
        sites={element_name(raw, "site", s): site_frame(raw, parts.tree, s) for s in range(raw.nsite)},
        fluid=_fluid(raw, parts.tree),
        rest_q=parts.rest_q,
        keyframes={element_name(raw, "key", k): _keyframe(raw, k, drives, na) for k in range(raw.nkey)},
        frictionloss=dry_friction(raw),
        equalities=parts.equalities,
        na=na,
        tendons=parts.tendons,
        damping_slopes=damping_slopes,
        gravity_compensation=compensated_masses(raw, parts.tree),
        notes=notes.lines(),
        visuals=visuals_of(raw),
        file_bodies={
            element_name(raw, "body", b): file_body(raw, b, parts.tree.frames[b]) for b in range(1, raw.nbody)
        },
        file_geoms=parts.geoms,
        site_bodies={
            element_name(raw, "site", s): element_name(raw, "body", int(raw.site_bodyid[s])) for s in range(raw.nsite)
        },
    )


def _keyframe(raw: mujoco.MjModel, k: int, drives: Sequence[Actuator] | None, na: int) -> Keyframe:
    """Return a keyframe; `drives` are the motors and servos that replace the actuators of the file."""
    q = floats(raw.key_qpos[k])
    ctrl = floats(raw.key_ctrl[k]) if drives is None else tuple(_holding_control(drive, q) for drive in drives)
    return Keyframe(q=q, v=floats(raw.key_qvel[k]), ctrl=ctrl, act=floats(raw.key_act[k][:na]))


def _holding_control(drive: Actuator, q: Sequence[float]) -> float:
    """Return the control with which a motor or servo on a joint holds a pose, apart from gravity."""
    low, high = drive.control_range or (-math.inf, math.inf)
    is_servo = drive.bias[1] != 0.0
    return min(max(q[drive.coordinates[0][0]], low), high) if is_servo else 0.0


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
