# pyright: reportAttributeAccessIssue=false
"""Load a `Model` from an MJCF or URDF file or its text, using MuJoCo's compiler."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace

import mujoco

from ahac.sim.model.build import Settings, build_model
from ahac.sim.model.motors import Drive
from ahac.sim.model.source import Source, compile_model
from ahac.sim.model.types import ContactMaterial, JointLimit, Model

__all__ = ["load_model"]


def load_model(  # noqa: PLR0913 - public settings, keyword-only
    source: str | os.PathLike[str] | mujoco.MjSpec,
    *,
    contact: ContactMaterial | None = None,
    materials: Mapping[str, ContactMaterial] | None = None,
    limit: JointLimit | None = None,
    limits: Mapping[str, JointLimit] | None = None,
    motors: Drive | Mapping[str, Drive] | None = None,
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
    planes, limits and equality constraints are modeled as springs and dampers instead of MuJoCo's constraints: solref,
    solimp, margin, gap and torquescale are not read. `Model.notes` lists everything in the file that is approximated or
    dropped.

    Args:
        source: Path of a file, XML text, or a `mujoco.MjSpec`.
        contact: Contact material of all geoms. Defaults to the file's, which is set with
            `<custom><numeric name="ahac:contact" data="stiffness damping viscosity friction"/></custom>`, or else to
            `ContactMaterial()`, whose friction is that of the geoms by MuJoCo's rules. A ground added by `ground` has
            no friction of its own.
        materials: Contact materials of individual geoms, by name; a file sets one with "ahac:contact:GEOM". In a
            contact, the geom's material takes precedence over the plane's.
        limit: Stiffness and damping of joint limits. Defaults to the file's "ahac:limit" (data="stiffness damping"),
            or else to `JointLimit()`.
        limits: Limits of individual joints, by name; a file sets one with "ahac:limit:JOINT".
        motors: Motors or servos that replace the file's actuators: by joint name, where * and ? are wildcards, or one
            for every hinge and slide except those of the root body.
        ground: Whether to add the plane z = 0 to a model without planes.
        floating: Whether to add a free joint to bodies that are fixed to the world, such as the base of a URDF.
        strict: Whether to raise an error for a model with contact between bodies, instead of a warning.
        ignore: Features of the file to drop; the error about unsupported features lists their names.
        assets: Files that an XML text refers to, by name.
        mesh_points: Maximum number of hull vertices per mesh used for contact; by default all of them, within
            `max_contact_points`.
        max_contact_points: Maximum number of contact points. Defaults to the file's "ahac:max_contact_points", or else
            to 64. If there are more points, those of the feet are used first: links without children that are lowest
            in the first keyframe, or in the reference pose if there is no keyframe.
        balance_inertia: Whether to repair physically impossible inertias, and raise masses to at least 1 g and moments
            of inertia to at least 1e-6 kg m².

    Raises:
        ModelError: If the file cannot be read, or uses a feature that is not simulated.
    """
    given = Source(source, assets or {}, floating, motors, balance_inertia)
    raw = compile_model(given)
    own_actuators = motors is None
    points = (mesh_points, max_contact_points)
    settings = Settings(contact, materials, limit, limits, ground, strict, ignore, *points, own_actuators)
    return replace(build_model(raw, settings), source=given.lasting())
