# pyright: reportAttributeAccessIssue=false
"""Compile a model file, an XML text or a specification with MuJoCo."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.actuators import MUSCLE_SETTING
from ahac.sim.model.files import check_assets, check_file, check_text, resolve_packages
from ahac.sim.model.motors import Drive, replace_actuators
from ahac.sim.model.unsupported import model_name

__all__ = ["Source", "compile_model", "compile_spec", "read_spec"]

logger = logging.getLogger("ahac")

UNNAMED = "MuJoCo Model"
"""MuJoCo's name for a model whose file does not name it."""
LEAST_MASS, LEAST_INERTIA = 1e-3, 1e-6
"""Lower bounds of mass [kg] and principal moments of inertia [kg m²] where inertias are balanced."""


@dataclass(frozen=True)
class Source:
    """A model to compile, and what to change about it."""

    model: str | os.PathLike[str] | mujoco.MjSpec
    assets: Mapping[str, bytes]
    floating: bool
    motors: Drive | Mapping[str, Drive] | None
    balance_inertia: bool

    @property
    def label(self) -> str:
        """The path or text of the model, for messages."""
        return type(self.model).__name__ if isinstance(self.model, mujoco.MjSpec) else str(self.model)

    def lasting(self) -> Source:
        """Return a source that stays valid if the caller changes folders or the specification."""
        if isinstance(self.model, mujoco.MjSpec):
            return replace(self, model=self.model.copy())
        return replace(self, model=str(Path(self.label).resolve())) if _is_file(self.label) else self


def compile_model(source: Source) -> mujoco.MjModel:
    """Compile a model; raise ModelError if MuJoCo cannot, or if it has numbers that break any simulation."""
    with _logged_warnings():
        raw = _compile(source)
    _check_numbers(raw)
    return raw


def read_spec(source: Source) -> mujoco.MjSpec:
    """Return the specification of a model with all changes of the source."""
    with _named_errors(source):
        spec = source.model.copy() if isinstance(source.model, mujoco.MjSpec) else _read(source.label, source.assets)
        if source.floating:
            for body in (body for body in spec.worldbody.bodies if not body.joints):
                body.add_freejoint()
        if source.motors is not None:
            replace_actuators(spec, source.motors)
        if source.balance_inertia:
            _balance_inertias(spec)
        return spec


def compile_spec(spec: mujoco.MjSpec, source: Source) -> mujoco.MjModel:
    """Compile a specification that was read from a source; raise ModelError if MuJoCo cannot."""
    with _logged_warnings(), _named_errors(source):
        return spec.compile()


@contextmanager
def _named_errors(source: Source) -> Iterator[None]:
    """Turn errors of MuJoCo's compiler into ones that name the model and a remedy."""
    try:
        yield
    except (ValueError, mujoco.FatalError) as error:
        if isinstance(error, ModelError):
            raise
        label = source.label if len(source.label) < 200 else source.label[:200] + " ..."
        raise ModelError(f"MuJoCo cannot compile this model ({label}): {error}{_advice(str(error))}") from error


def _compile(source: Source) -> mujoco.MjModel:
    with _named_errors(source):
        spec = read_spec(source)
        # MuJoCo finds the length ranges of muscles by simulation: skip it where nothing needs them.
        muscles = any(a.gaintype == mujoco.mjtGain.mjGAIN_MUSCLE for a in spec.actuators)
        linear = any(text.name == MUSCLE_SETTING and text.data == "linear" for text in spec.texts)
        mode = mujoco.mjtLRMode
        spec.compiler.LRopt.mode = mode.mjLRMODE_MUSCLE if muscles and not linear else mode.mjLRMODE_NONE
        raw = spec.compile()
    if raw.nv == 0:
        raise ModelError(
            f"model {model_name(raw)!r} has no joints: nothing in it can move; add joints, or load with floating=True"
        )
    return raw


def _balance_inertias(spec: mujoco.MjSpec) -> None:
    """Let MuJoCo balance inertias, and raise the eigenvalues of those that it would refuse before."""
    spec.compiler.balanceinertia = True
    spec.compiler.boundmass = max(spec.compiler.boundmass, LEAST_MASS)
    spec.compiler.boundinertia = max(spec.compiler.boundinertia, LEAST_INERTIA)
    for body in spec.bodies:
        xx, yy, zz, xy, xz, yz = body.fullinertia
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        if not np.isfinite(tensor).all():  # not set
            continue
        moments, axes = np.linalg.eigh(tensor)
        if moments[0] < LEAST_INERTIA:
            t = axes @ np.diag(np.maximum(moments, LEAST_INERTIA)) @ axes.T
            body.fullinertia = [t[0, 0], t[1, 1], t[2, 2], t[0, 1], t[0, 2], t[1, 2]]


def _advice(error: str) -> str:
    """Return a remedy for an error of MuJoCo's compiler; empty if none is known."""
    if any(words in error for words in ("A + B >= C", "eigenvalue", "positive definite", "mass and inertia of moving")):
        return "\nload_model(..., balance_inertia=True) repairs inertias that no rigid body has"
    if "no decoder" in error:
        return "\nMuJoCo reads STL, OBJ and MSH meshes; convert the mesh, or replace it by a primitive"
    if "opening file" in error or "resource" in error:
        return (
            "\nMeshes are looked for beside the file and, for package://NAME/PATH, in its parent folders. Pass files "
            "from elsewhere by name: load_model(Path('robot.urdf').read_text(), "
            "assets={'base.stl': Path('meshes/base.stl').read_bytes()})"
        )
    return ""


def _read(text: str, assets: Mapping[str, bytes]) -> mujoco.MjSpec:
    text = text.lstrip("\ufeff")
    if not text.strip():
        raise ModelError("the model is an empty string; expected the path of an MJCF or URDF file, or its XML text")
    included = {name: data for name, data in assets.items() if name.endswith(".xml")}
    files = {name: data for name, data in assets.items() if name not in included}
    is_text = text.lstrip().startswith("<")
    if not is_text and not _is_file(text):
        raise ModelError(f"no file {text!r}; expected the path of an MJCF or URDF file, or its XML text")
    if is_text:
        check_text(text, Path(), included)
    else:
        check_file(Path(text), included)
    read = mujoco.MjSpec.from_string if is_text else mujoco.MjSpec.from_file
    spec = read(text, include=included, assets=files)
    if not is_text:
        resolve_packages(spec, Path(text).resolve(), files)
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
    "jnt_stiffness", "jnt_actfrcrange", "dof_damping", "dof_armature", "dof_frictionloss", "geom_pos", "geom_quat",
    "geom_size", "geom_friction", "pair_friction", "site_pos", "site_quat", "eq_data", "actuator_gear",
    "actuator_gainprm", "actuator_biasprm", "actuator_ctrlrange", "actuator_forcerange", "wrap_prm", "key_qpos",
    "key_qvel", "key_ctrl", "key_act", "qpos0", "qpos_spring", "opt.gravity", "opt.wind", "opt.density",
    "opt.viscosity",
)  # fmt: skip
NON_NEGATIVE = (
    "jnt_stiffness", "dof_damping", "dof_armature", "dof_frictionloss", "geom_size", "geom_friction", "pair_friction",
    "opt.density", "opt.viscosity",
)  # fmt: skip
