# pyright: reportAttributeAccessIssue=false
"""Features of model files that are not simulated: loading raises an error that names them and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import mujoco
import numpy as np

from ahac.core.errors import ModelError

__all__ = ["constraints_disabled", "disabled", "element_name", "model_name", "refuse_unsupported"]

Elements = Iterable[str]


@dataclass(frozen=True)
class Feature:
    """A feature that MuJoCo simulates and we do not."""

    name: str
    find: Callable[[mujoco.MjModel], Elements]
    """Returns the elements of a model that use it."""
    remedy: str
    droppable: bool = True
    """Whether a model still makes sense without it."""
    drop: Callable[[mujoco.MjModel], None] = lambda model: None
    """Removes it from a model, where ignoring it takes more than not reading it."""
    simulated: bool = False
    """Whether it is simulated, and only listed here because it can be ignored."""


def refuse_unsupported(model: mujoco.MjModel, ignore: Collection[str]) -> None:
    """Raise ModelError for the first unsupported feature that is not in `ignore`."""
    ignore = [ignore] if isinstance(ignore, str) else ignore
    droppable = {feature.name for feature in FEATURES if feature.droppable}
    if unknown := set(ignore) - droppable:
        names = ", ".join(sorted(droppable))
        raise ModelError(f"cannot ignore {', '.join(sorted(unknown))}; features that can be ignored: {names}")
    for feature in FEATURES:
        if feature.name in ignore:
            feature.drop(model)
        if feature.name in ignore or feature.simulated:
            continue
        if elements := list(feature.find(model)):
            more = f" and {len(elements) - 1} more" if len(elements) > 1 else ""
            drop = f", or load without it: load_model(..., ignore=[{feature.name!r}])" if feature.droppable else ""
            raise ModelError(f"{elements[0]}{more}: not simulated; {feature.remedy}{drop}")


def element_name(model: mujoco.MjModel, kind: str, index: int) -> str:
    """Return an element's name, or its kind and number if the file does not name it."""
    name = mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), index)
    return name or f"{kind}#{index}"


def model_name(model: mujoco.MjModel) -> str:
    """Return the model's name in the file."""
    return model.names.split(b"\0")[0].decode() or "model"


def disabled(model: mujoco.MjModel, *bits: str) -> bool:
    """Return whether the file sets all of these disable flags of MuJoCo."""
    flags = model.opt.disableflags
    return all(flags & getattr(mujoco.mjtDisableBit, f"mjDSBL_{bit}") for bit in bits)


def constraints_disabled(model: mujoco.MjModel, bit: str) -> bool:
    """Return whether a kind of constraint is disabled, by its own flag or by that for all constraints."""
    return disabled(model, bit) or disabled(model, "CONSTRAINT")


def _nonzero(kind: str, field: str, label: str) -> Callable[[mujoco.MjModel], Elements]:
    """Find elements whose field is not all zero; none if this version of MuJoCo does not have the field."""

    def find(model: mujoco.MjModel) -> Elements:
        values = np.asarray(getattr(model, field, np.zeros(0)))
        for i, row in enumerate(values.reshape(len(values), -1) if len(values) else values):
            if np.any(row != 0):
                owner = model.dof_jntid[i] if field.startswith("dof_") else i
                yield f"{kind} {element_name(model, kind, int(owner))!r} has {label}"

    return find


def _counted(field: str, label: str) -> Callable[[mujoco.MjModel], Elements]:
    return lambda model: [f"the model has {label}"] if getattr(model, field, 0) else []


def _equalities(model: mujoco.MjModel) -> Elements:
    if constraints_disabled(model, "EQUALITY"):
        return
    for i in np.flatnonzero(model.eq_active0):
        kind = mujoco.mjtEq(int(model.eq_type[i])).name.removeprefix("mjEQ_").lower()
        yield f"equality constraint {element_name(model, 'equality', int(i))!r} ({kind})"


def _mocap(model: mujoco.MjModel) -> Elements:
    return [
        f"body {element_name(model, 'body', int(i))!r} is a mocap body" for i in np.flatnonzero(model.body_mocapid >= 0)
    ]


def _friction(model: mujoco.MjModel) -> Elements:
    if constraints_disabled(model, "FRICTIONLOSS"):
        return ()
    return _nonzero("joint", "dof_frictionloss", "dry friction (frictionloss)")(model)


def _ball_limits(model: mujoco.MjModel) -> Elements:
    if constraints_disabled(model, "LIMIT"):
        return ()
    balls = (model.jnt_type == mujoco.mjtJoint.mjJNT_BALL) & (model.jnt_limited != 0)
    return [f"ball joint {element_name(model, 'joint', int(i))!r} has a range" for i in np.flatnonzero(balls)]


def _tendon_wraps(model: mujoco.MjModel) -> Elements:
    return _tendons_over(model, mujoco.mjtWrap.mjWRAP_SPHERE, mujoco.mjtWrap.mjWRAP_CYLINDER)


def _pulleys(model: mujoco.MjModel) -> Elements:
    return _tendons_over(model, mujoco.mjtWrap.mjWRAP_PULLEY)


def _tendons_over(model: mujoco.MjModel, *obstacles: mujoco.mjtWrap) -> Elements:
    """Find actuated tendons that run over obstacles of these kinds."""
    actuated = {
        int(i)
        for i, t in zip(model.actuator_trnid[:, 0], model.actuator_trntype, strict=True)
        if t == mujoco.mjtTrn.mjTRN_TENDON
    }
    for i in sorted(actuated):
        start = model.tendon_adr[i]
        for kind in model.wrap_type[start : start + model.tendon_num[i]]:
            if int(kind) in obstacles:
                obstacle = mujoco.mjtWrap(int(kind)).name.removeprefix("mjWRAP_").lower()
                yield f"tendon {element_name(model, 'tendon', i)!r} runs over a {obstacle}"


def _colliding(model: mujoco.MjModel, shape: mujoco.mjtGeom, moving: bool) -> Elements:
    for i in np.flatnonzero(model.geom_type == shape):
        on_link = model.body_weldid[model.geom_bodyid[i]] != 0
        if (model.geom_contype[i] or model.geom_conaffinity[i]) and on_link in (moving, True):
            yield element_name(model, "geom", int(i))


def _moving_planes(model: mujoco.MjModel) -> Elements:
    planes = _colliding(model, mujoco.mjtGeom.mjGEOM_PLANE, True)
    return [f"plane {name!r} is attached to a moving body" for name in planes]


def _height_fields(model: mujoco.MjModel) -> Elements:
    return [f"geom {name!r} is a height field" for name in _colliding(model, mujoco.mjtGeom.mjGEOM_HFIELD, False)]


def _disabled_actuators(model: mujoco.MjModel) -> Elements:
    return [f"actuator groups are disabled (bits {model.opt.disableactuator:b})"] if model.opt.disableactuator else []


def _drop_equalities(model: mujoco.MjModel) -> None:
    model.eq_active0[:] = 0


def _drop_friction(model: mujoco.MjModel) -> None:
    model.dof_frictionloss[:] = 0.0


def _drop_ball_limits(model: mujoco.MjModel) -> None:
    model.jnt_limited[model.jnt_type == mujoco.mjtJoint.mjJNT_BALL] = 0


REMOVE = "remove it from the file"
LINEAR = "use a linear one"

FEATURES: tuple[Feature, ...] = (
    Feature(
        "equality",
        _equalities,
        "close loops with springs or force laws, or deactivate it",
        drop=_drop_equalities,
        simulated=True,
    ),
    Feature("flex", _counted("nflex", "deformable (flex) bodies"), "only rigid bodies are simulated", droppable=False),
    Feature("plugin", _counted("nplugin", "engine plugins"), REMOVE),
    Feature("plasticity", _counted("nplastic", "plastic springs"), REMOVE),
    Feature("mocap", _mocap, "give the body a joint, or make it static", droppable=False),
    Feature(
        "ball_limit", _ball_limits, "set limited='false', or use three hinges", drop=_drop_ball_limits, simulated=True
    ),
    Feature("frictionloss", _friction, "use damping", drop=_drop_friction, simulated=True),
    Feature("gravcomp", _nonzero("body", "body_gravcomp", "gravity compensation"), REMOVE),
    Feature("nonlinear_spring", _nonzero("joint", "jnt_stiffnesspoly", "a nonlinear spring"), LINEAR),
    Feature("nonlinear_damping", _nonzero("joint", "dof_dampingpoly", "nonlinear damping"), LINEAR),
    Feature("tendon_stiffness", _nonzero("tendon", "tendon_stiffness", "stiffness"), REMOVE),
    Feature("tendon_damping", _nonzero("tendon", "tendon_damping", "damping"), REMOVE),
    Feature("nonlinear_tendon_spring", _nonzero("tendon", "tendon_stiffnesspoly", "a nonlinear spring"), REMOVE),
    Feature("nonlinear_tendon_damping", _nonzero("tendon", "tendon_dampingpoly", "nonlinear damping"), REMOVE),
    Feature("tendon_limit", _nonzero("tendon", "tendon_limited", "a length range"), REMOVE),
    Feature("tendon_frictionloss", _nonzero("tendon", "tendon_frictionloss", "dry friction"), REMOVE),
    Feature("tendon_armature", _nonzero("tendon", "tendon_armature", "armature"), REMOVE),
    Feature("tendon_force_range", _nonzero("tendon", "tendon_actfrclimited", "a force range"), "limit the actuator"),
    Feature("tendon_wrap", _tendon_wraps, "route it through sites"),
    Feature("pulley", _pulleys, "use one tendon per branch", droppable=False),
    Feature("actuator_damping", _nonzero("actuator", "actuator_damping", "damping of its own"), "damp the joint"),
    Feature("nonlinear_actuator_damping", _nonzero("actuator", "actuator_dampingpoly", "damping of its own"), LINEAR),
    Feature("actuator_armature", _nonzero("actuator", "actuator_armature", "armature of its own"), "use the joint's"),
    Feature("actuator_delay", _nonzero("actuator", "actuator_delay", "a delay"), REMOVE),
    Feature("disabled_actuators", _disabled_actuators, "remove them from the file"),
    Feature("moving_plane", _moving_planes, "use a box, or set its contype and conaffinity to 0"),
    Feature("height_field", _height_fields, "use planes, or set its contype and conaffinity to 0"),
    Feature("fluid_shape", _nonzero("geom", "geom_fluid", "an ellipsoid fluid model"), "set fluidshape='none'"),
    Feature("adhesion", _nonzero("geom", "geom_adhesion", "adhesion"), REMOVE),
    Feature("pair_adhesion", _nonzero("pair", "pair_adhesion", "adhesion"), REMOVE),
    Feature("surface_velocity", _nonzero("geom", "geom_surfacevel", "a surface velocity"), REMOVE),
)
