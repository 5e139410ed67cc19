# pyright: reportAttributeAccessIssue=false
"""Loading: from an MJCF or URDF file, or its text, to a `Model`. MuJoCo's compiler reads it; we take what it made."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.drives import build_actuators
from ahac.sim.model.records import WORLD, ContactMaterial, Fluid, JointLimit, Model
from ahac.sim.model.shapes import body_contacts, touching
from ahac.sim.model.support import named, refuse_unsupported
from ahac.sim.model.tree import Tree, box_of, build_tree, place_on, vector

__all__ = ["load_model"]

logger = logging.getLogger("ahac")

Settings = TypeVar("Settings", ContactMaterial, JointLimit)


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
    raw = _compile(source, assets)
    _check_numbers(raw)
    refuse_unsupported(raw, ignore)
    contact_of = _lookup(raw, "contact", "geom", ContactMaterial, contact, materials)
    limit_of = _lookup(raw, "limit", "joint", JointLimit, limit, limits)
    tree = build_tree(raw, limit_of)
    planes, touches = touching(raw, tree, ground, contact_of, mesh_points)
    if pairs := body_contacts(raw, tree):
        message = f"model {_name(raw)!r} enables contact between bodies ({len(pairs)} pairs, first {pairs[0]})"
        if strict:
            raise ModelError(f"{message}: not simulated; clear contype and conaffinity, or load with strict=False")
        logger.warning("%s: not simulated, only contact with static planes is", message)
    damped = not raw.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_DAMPER
    weight = 0.0 if raw.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY else 1.0
    return Model(
        name=_name(raw),
        nq=raw.nq,
        nv=raw.nv,
        nu=raw.nu,
        gravity=vector(raw.opt.gravity * weight),
        links=tuple(tree.links),
        armature=tuple(float(a) for a in raw.dof_armature),
        damping=tuple(float(d) if damped else 0.0 for d in raw.dof_damping),
        touches=touches,
        planes=planes,
        actuators=build_actuators(raw, tree),
        bodies={named(raw, "body", b): place for b, place in enumerate(tree.places)},
        sites={named(raw, "site", s): place_on(tree.places[raw.site_bodyid[s]], raw.site_pos[s], raw.site_quat[s])
               for s in range(raw.nsite)},
        fluid=_fluid(raw, tree),
        rest_q=tuple(float(x) for x in raw.qpos0),
        keyframes={named(raw, "key", k): (tuple(map(float, raw.key_qpos[k])), tuple(map(float, raw.key_qvel[k])))
                   for k in range(raw.nkey)},
    )  # fmt: skip


def _compile(source: str | os.PathLike[str], assets: Mapping[str, bytes] | None) -> mujoco.MjModel:
    """What MuJoCo's compiler makes of a path or a text."""
    text = str(source)
    if not text.strip():
        raise ModelError("the model is an empty string; wanted the path of an MJCF or URDF file, or its XML text")
    try:
        if text.lstrip().startswith("<"):
            raw = mujoco.MjModel.from_xml_string(text, dict(assets or {}))
        elif not Path(text).is_file():
            raise ModelError(f"no file {text!r}; wanted the path of an MJCF or URDF file, or its XML text")
        else:
            raw = mujoco.MjModel.from_xml_path(text, dict(assets or {}))
    except (ValueError, mujoco.FatalError) as error:
        if isinstance(error, ModelError):
            raise
        shown = text if len(text) < 200 else text[:200] + " ..."
        raise ModelError(f"MuJoCo cannot compile this model ({shown}): {error}") from error
    if raw.nv == 0:
        raise ModelError(f"model {_name(raw)!r} has no joints: nothing in it can move; add a joint or a <freejoint/>")
    return raw


def _check_numbers(raw: mujoco.MjModel) -> None:
    """MuJoCo lets some numbers through that no simulation survives."""
    for name in FINITE:
        values = np.asarray(getattr(raw, name), dtype=np.float64)
        if not np.isfinite(values).all():
            raise ModelError(f"the model has a non-finite {name.replace('_', ' ')}: {values[~np.isfinite(values)][0]}")
    for name in NON_NEGATIVE:
        values = np.asarray(getattr(raw, name))
        if (values < 0).any():
            raise ModelError(f"the model has a negative {name.replace('_', ' ')}: {values[values < 0][0]}")
    if not np.isfinite(raw.opt.gravity).all():
        raise ModelError(f"the model's gravity is not finite: {raw.opt.gravity}")


FINITE = (
    "body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_inertia", "jnt_pos", "jnt_axis", "jnt_range",
    "jnt_stiffness", "dof_damping", "dof_armature", "geom_pos", "geom_quat", "geom_size", "site_pos", "actuator_gear",
    "actuator_gainprm", "actuator_biasprm", "actuator_ctrlrange", "actuator_forcerange", "qpos0", "qpos_spring",
)  # fmt: skip
NON_NEGATIVE = ("jnt_stiffness", "dof_damping", "dof_armature", "geom_size")


def _lookup(
    raw: mujoco.MjModel,
    topic: str,
    kind: str,
    record: type[Settings],
    default: Settings | None,
    single: Mapping[str, Settings] | None,
) -> Callable[[str], Settings]:
    """Settings by element name: the caller's for this one, the file's for this one, the caller's, the file's, ours."""
    count = {"geom": raw.ngeom, "joint": raw.njnt}[kind]
    names = {named(raw, kind, i) for i in range(count)}
    prefix = f"ahac:{topic}"
    in_file: dict[str, Settings] = {}
    for i in range(raw.nnumeric):
        if (name := named(raw, "numeric", i)).split(":")[:2] == prefix.split(":"):
            data = raw.numeric_data[raw.numeric_adr[i] : raw.numeric_adr[i] + raw.numeric_size[i]]
            wanted = [f.name for f in fields(record)]
            if len(data) != len(wanted):
                raise ModelError(f"numeric {name!r} needs {len(wanted)} numbers ({' '.join(wanted)}), got {len(data)}")
            in_file[name] = record(**dict(zip(wanted, map(float, data), strict=True)))
    asked = {*(single or {}), *(name.removeprefix(prefix + ":") for name in in_file if name != prefix)}
    if unknown := asked - names:
        raise ModelError(f"no {kind} named {', '.join(sorted(unknown))}; the model has: {', '.join(sorted(names))}")
    fallback: Settings = default or in_file.get(prefix) or record()

    def settings(name: str) -> Settings:
        return (single or {}).get(name) or in_file.get(f"{prefix}:{name}") or fallback

    return settings


def _fluid(raw: mujoco.MjModel, tree: Tree) -> Fluid | None:
    if not raw.opt.density and not raw.opt.viscosity:
        return None
    moving = [(b, p) for b, p in enumerate(tree.places) if p.link != WORLD and raw.body_mass[b] > 0]
    return Fluid(
        density=float(raw.opt.density),
        viscosity=float(raw.opt.viscosity),
        wind=vector(raw.opt.wind),
        boxes=tuple(box_of(raw, b, p) for b, p in moving),
    )


def _name(raw: mujoco.MjModel) -> str:
    return raw.names.split(b"\0")[0].decode() or "model"
