# pyright: reportAttributeAccessIssue=false
"""Load a `Model` from an MJCF or URDF file, or its text, by way of MuJoCo's compiler."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from pathlib import Path

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.actuators import build_actuators
from ahac.sim.model.constraints import RestPose, dry_friction, equalities
from ahac.sim.model.contact_geoms import contact_candidates, ignored_pairs
from ahac.sim.model.files import check_assets, check_file, check_text
from ahac.sim.model.motors import Motor, replace_actuators
from ahac.sim.model.overrides import lookup
from ahac.sim.model.tree import Tree, box_of, build_tree, floats, frame_on, vector
from ahac.sim.model.types import WORLD, ContactCandidate, ContactMaterial, Fluid, JointLimit, Model, Plane
from ahac.sim.model.unsupported import disabled, element_name, model_name, refuse_unsupported
from ahac.sim.model.visuals import visuals_of

__all__ = ["load_model"]

logger = logging.getLogger("ahac")

FREE = mujoco.mjtJoint.mjJNT_FREE
UNNAMED = "MuJoCo Model"
"""MuJoCo's name for a model whose file does not name it."""


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
    mesh_points: int = 64,
) -> Model:
    """Read a robot from MJCF or URDF.

    Contact and joint limits differ from MuJoCo's: only planes, shapes, contype, conaffinity and ranges are read from
    the file, not friction, solref, solimp or margin. All forces including damping are integrated explicitly: a joint
    stays stable while the substep times its damping (including servo kv) is below its inertia (including armature).

    Args:
        source: Path of a file, XML text, or a `mujoco.MjSpec`.
        contact: Contact material of all geoms; by default the file's, else `ContactMaterial()`. A file sets
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
        ignore: Unsupported features of the file to drop instead of raising an error; the error names them.
        assets: Files that an XML text refers to, by name.
        mesh_points: Maximum number of hull vertices per mesh used for contact.

    Raises:
        ModelError: If the file cannot be read, or uses a feature that is not simulated.
    """
    with _logged_warnings():
        raw = _compile(source, assets, floating, motors)
    _check_numbers(raw)
    refuse_unsupported(raw, ignore)
    geoms = {element_name(raw, "geom", i) for i in range(raw.ngeom)}
    ranged = {element_name(raw, "joint", i) for i in range(raw.njnt) if raw.jnt_limited[i]}
    contact_of = lookup(raw, "contact", geoms, ContactMaterial, contact, materials)
    tree = build_tree(raw, lookup(raw, "limit", ranged, JointLimit, limit, limits))
    planes, candidates = contact_candidates(raw, tree, ground, contact_of, mesh_points)
    _report_ignored_pairs(raw, tree, strict)
    if not planes and any(joint.type == FREE for joint in map(raw.joint, range(raw.njnt))) and raw.ngeom:
        _report(f"model {model_name(raw)!r} has no plane to stand on; ground=True adds z = 0")
    return _assemble(raw, tree, planes, candidates)


def _assemble(
    raw: mujoco.MjModel, tree: Tree, planes: tuple[Plane, ...], candidates: tuple[ContactCandidate, ...]
) -> Model:
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
        planes=planes,
        actuators=build_actuators(raw, tree),
        bodies={element_name(raw, "body", b): frame for b, frame in enumerate(tree.frames)},
        sites={element_name(raw, "site", s): frame for s, frame in enumerate(sites)},
        fluid=_fluid(raw, tree),
        rest_q=floats(raw.qpos0),
        keyframes={
            element_name(raw, "key", k): (floats(raw.key_qpos[k]), floats(raw.key_qvel[k])) for k in range(raw.nkey)
        },
        frictionloss=dry_friction(raw),
        equalities=equalities(raw, tree, RestPose.of(raw)),
        visuals=visuals_of(raw),
    )


def _report_ignored_pairs(raw: mujoco.MjModel, tree: Tree, strict: bool) -> None:
    if pairs := ignored_pairs(raw, tree):
        message = (
            f"model {model_name(raw)!r} enables contact between {len(pairs)} pairs of geoms, first {pairs[0]}, which "
            "is not simulated: bodies collide with static planes only"
        )
        if strict:
            raise ModelError(f"{message}; set contype and conaffinity to 0, or load with strict=False")
        _report(message)


@cache
def _report(message: str) -> None:
    """Log a warning once per process."""
    logger.warning(message)


def _compile(
    source: str | os.PathLike[str] | mujoco.MjSpec,
    assets: Mapping[str, bytes] | None,
    floating: bool,
    motors: Motor | Mapping[str, Motor] | None,
) -> mujoco.MjModel:
    """Compile a path, a text or a specification with MuJoCo."""
    label = type(source).__name__ if isinstance(source, mujoco.MjSpec) else str(source)
    try:
        spec = source.copy() if isinstance(source, mujoco.MjSpec) else _read(label, assets)
        if floating:
            for body in (body for body in spec.worldbody.bodies if not body.joints):
                body.add_freejoint()
        if motors is not None:
            replace_actuators(spec, motors)
        # Skip MuJoCo's simulation of muscle length ranges, which our muscles do not use.
        spec.compiler.LRopt.mode = mujoco.mjtLRMode.mjLRMODE_NONE
        raw = spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        if isinstance(error, ModelError):
            raise
        label = label if len(label) < 200 else label[:200] + " ..."
        raise ModelError(f"MuJoCo cannot compile this model ({label}): {error}") from error
    if raw.nv == 0:
        raise ModelError(
            f"model {model_name(raw)!r} has no joints: nothing in it can move; add joints, or load with floating=True"
        )
    return raw


def _read(text: str, assets: Mapping[str, bytes] | None) -> mujoco.MjSpec:
    text = text.lstrip("\ufeff")
    if not text.strip():
        raise ModelError("the model is an empty string; expected the path of an MJCF or URDF file, or its XML text")
    included = {name: data for name, data in (assets or {}).items() if name.endswith(".xml")}
    files = {name: data for name, data in (assets or {}).items() if name not in included}
    is_text = text.lstrip().startswith("<")
    if not is_text and not _is_file(text):
        raise ModelError(f"no file {text!r}; expected the path of an MJCF or URDF file, or its XML text")
    if is_text:
        check_text(text, Path(), included)
    else:
        check_file(Path(text), included)
    read = mujoco.MjSpec.from_string if is_text else mujoco.MjSpec.from_file
    spec = read(text, include=included, assets=files)
    check_assets(spec, files)
    if spec.modelname in ("", UNNAMED):
        spec.modelname = "model" if is_text else Path(text).stem
    return spec


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # for example, a text that is too long for a path
        return False


@contextmanager
def _logged_warnings() -> Iterator[None]:
    """Send MuJoCo's warnings to our log, instead of a file in the current folder or Python's warnings."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: logger.warning("MuJoCo: %s", message.strip()))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        mujoco.set_mju_user_warning(before)
    for warning in caught:
        logger.warning("MuJoCo: %s", str(warning.message).strip())


def _check_numbers(raw: mujoco.MjModel) -> None:
    """Raise ModelError for non-finite or negative numbers that MuJoCo accepts but that break any simulation."""
    for kind, names in (("non-finite", FINITE), ("negative", NON_NEGATIVE)):
        for name in names:
            values = np.atleast_1d(np.asarray(attrgetter(name)(raw), dtype=np.float64))
            bad = values[~np.isfinite(values) if kind == "non-finite" else values < 0]
            if bad.size:
                raise ModelError(f"the model has a {kind} {name.removeprefix('opt.').replace('_', ' ')}: {bad[0]}")


FINITE = (
    "body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_inertia", "jnt_pos", "jnt_axis", "jnt_range",
    "jnt_stiffness", "jnt_actfrcrange", "dof_damping", "dof_armature", "geom_pos", "geom_quat", "geom_size", "site_pos",
    "site_quat", "actuator_gear", "actuator_gainprm", "actuator_biasprm", "actuator_ctrlrange", "actuator_forcerange",
    "wrap_prm", "key_qpos", "key_qvel", "qpos0", "qpos_spring", "opt.gravity", "opt.wind", "opt.density",
    "opt.viscosity",
)  # fmt: skip
NON_NEGATIVE = ("jnt_stiffness", "dof_damping", "dof_armature", "geom_size", "opt.density", "opt.viscosity")


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
