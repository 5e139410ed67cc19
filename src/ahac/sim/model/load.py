# pyright: reportAttributeAccessIssue=false
"""Loading: from an MJCF or URDF file, or its text, to a `Model`. MuJoCo's compiler reads it; we take what it made."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.drives import build_actuators
from ahac.sim.model.records import WORLD, ContactMaterial, Fluid, JointLimit, Model, Plane, Touch
from ahac.sim.model.settings import lookup
from ahac.sim.model.shapes import body_contacts, touching
from ahac.sim.model.support import model_name, named, refuse_unsupported
from ahac.sim.model.tree import Tree, box_of, build_tree, floats, place_on, vector

__all__ = ["load_model"]

logger = logging.getLogger("ahac")


def load_model(  # noqa: PLR0913 - settings of the public door, keyword-only
    source: str | os.PathLike[str],
    *,
    contact: ContactMaterial | None = None,
    materials: Mapping[str, ContactMaterial] | None = None,
    limit: JointLimit | None = None,
    limits: Mapping[str, JointLimit] | None = None,
    ground: bool = False,
    strict: bool = False,
    ignore: Collection[str] = (),
    assets: Mapping[str, bytes] | None = None,
    mesh_points: int = 64,
) -> Model:
    """Read a robot from MJCF or URDF.

    Args:
        source: Path of a file, or the XML text itself.
        contact: Contact material of all geoms; by default the file's own, else `ContactMaterial()`. A file gives
            it as `<custom><numeric name="ahac:contact" data="stiffness damping viscosity friction"/></custom>`.
        materials: Contact materials of single geoms, by name; a file gives one as "ahac:contact:GEOM".
        limit: How joints are pushed back into their range; by default the file's "ahac:limit" (data="stiffness
            damping"), else `JointLimit()`.
        limits: The same for single joints, by name; a file gives one as "ahac:limit:JOINT".
        ground: Add the plane z = 0 to a model that has no plane of its own.
        strict: Refuse a model that enables contact between bodies, instead of reporting once that it is left out.
        ignore: Features of the file to load without, where it would otherwise be refused; the refusal names them.
        assets: Files that an XML text refers to, by name.
        mesh_points: The most hull vertices with which one mesh touches planes.

    Raises:
        ModelError: If the file cannot be read, or asks for something that is not simulated.
    """
    with _logged_warnings():
        raw = _compile(source, assets)
    _check_numbers(raw)
    refuse_unsupported(raw, ignore)
    contact_of = lookup(raw, "contact", "geom", ContactMaterial, contact, materials)
    tree = build_tree(raw, lookup(raw, "limit", "joint", JointLimit, limit, limits))
    planes, touches = touching(raw, tree, ground, contact_of, mesh_points)
    _report_body_contacts(raw, tree, strict)
    return _assemble(raw, tree, planes, touches)


def _assemble(raw: mujoco.MjModel, tree: Tree, planes: tuple[Plane, ...], touches: tuple[Touch, ...]) -> Model:
    flags = raw.opt.disableflags
    damped = not flags & mujoco.mjtDisableBit.mjDSBL_DAMPER
    weight = 0.0 if flags & mujoco.mjtDisableBit.mjDSBL_GRAVITY else 1.0
    sites = [place_on(tree.places[raw.site_bodyid[s]], raw.site_pos[s], raw.site_quat[s]) for s in range(raw.nsite)]
    return Model(
        name=model_name(raw),
        nq=raw.nq,
        nv=raw.nv,
        nu=raw.nu,
        gravity=vector(raw.opt.gravity * weight),
        links=tuple(tree.links),
        armature=floats(raw.dof_armature),
        damping=floats(raw.dof_damping) if damped else (0.0,) * raw.nv,
        touches=touches,
        planes=planes,
        actuators=build_actuators(raw, tree),
        bodies={named(raw, "body", b): place for b, place in enumerate(tree.places)},
        sites={named(raw, "site", s): place for s, place in enumerate(sites)},
        fluid=_fluid(raw, tree),
        rest_q=floats(raw.qpos0),
        keyframes={named(raw, "key", k): (floats(raw.key_qpos[k]), floats(raw.key_qvel[k])) for k in range(raw.nkey)},
    )


def _report_body_contacts(raw: mujoco.MjModel, tree: Tree, strict: bool) -> None:
    if pairs := body_contacts(raw, tree):
        message = f"model {model_name(raw)!r} enables contact between bodies ({len(pairs)} pairs, first {pairs[0]})"
        if strict:
            raise ModelError(f"{message}: not simulated; clear contype and conaffinity, or load with strict=False")
        logger.warning("%s: not simulated, only contact with static planes is", message)


def _compile(source: str | os.PathLike[str], assets: Mapping[str, bytes] | None) -> mujoco.MjModel:
    """What MuJoCo's compiler makes of a path or a text."""
    text = str(source).lstrip("\ufeff")
    if not text.strip():
        raise ModelError("the model is an empty string; wanted the path of an MJCF or URDF file, or its XML text")
    try:
        included = {name: data for name, data in (assets or {}).items() if name.endswith(".xml")}
        files = {name: data for name, data in (assets or {}).items() if name not in included}
        if text.lstrip().startswith("<"):
            spec = mujoco.MjSpec.from_string(text, include=included, assets=files)
        elif not _is_file(text):
            raise ModelError(f"no file {text!r}; wanted the path of an MJCF or URDF file, or its XML text")
        else:
            spec = mujoco.MjSpec.from_file(text, include=included, assets=files)
        # How short and long muscles can get would be found by simulation; ours do not need it.
        spec.compiler.LRopt.mode = mujoco.mjtLRMode.mjLRMODE_NONE
        raw = spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        if isinstance(error, ModelError):
            raise
        shown = text if len(text) < 200 else text[:200] + " ..."
        raise ModelError(f"MuJoCo cannot compile this model ({shown}): {error}") from error
    if raw.nv == 0:
        raise ModelError(
            f"model {model_name(raw)!r} has no joints: nothing in it can move; add a joint or a <freejoint/>"
        )
    return raw


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # a text too long for a path, say
        return False


@contextmanager
def _logged_warnings() -> Iterator[None]:
    """MuJoCo's warnings go to our log, instead of a file in the current folder or Python's warnings."""
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
    """MuJoCo lets some numbers through that no simulation survives."""
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
    passive = mujoco.mjtDisableBit.mjDSBL_SPRING | mujoco.mjtDisableBit.mjDSBL_DAMPER
    still = raw.opt.disableflags & passive == passive  # MuJoCo then leaves out all passive forces
    if still or not (raw.opt.density or raw.opt.viscosity):
        return None
    moving = [(b, p) for b, p in enumerate(tree.places) if p.link != WORLD and raw.body_mass[b] > 0]
    return Fluid(
        density=float(raw.opt.density),
        viscosity=float(raw.opt.viscosity),
        wind=vector(raw.opt.wind),
        boxes=tuple(box_of(raw, b, p) for b, p in moving),
    )
