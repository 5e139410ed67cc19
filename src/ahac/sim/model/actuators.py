# pyright: reportAttributeAccessIssue=false
"""Convert MuJoCo's actuators: motors, servos and muscles on joints, fixed tendons and straight spatial tendons."""

from __future__ import annotations

import logging

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.tree import Tree, frame_on, pair, vector
from ahac.sim.model.types import Actuator, Tendon, Vector
from ahac.sim.model.unsupported import Refusals, disabled, element_name, model_name

__all__ = ["build_actuators"]

logger = logging.getLogger("ahac")

GAIN = mujoco.mjtGain
BIAS = mujoco.mjtBias
TRANSMISSION = mujoco.mjtTrn
Pairs = tuple[tuple[int, float], ...]


def build_actuators(model: mujoco.MjModel, tree: Tree, refusals: Refusals) -> tuple[Actuator, ...]:
    """Return all actuators of a model; those that are not supported are refused and left out."""
    if getattr(model, "nactuator", model.nu) != model.nu:
        raise ModelError("an actuator of this model takes several controls: not simulated; give it a single control")
    if model.nu and disabled(model, "ACTUATION"):
        raise ModelError("the model disables actuation but has actuators: remove the flag or the actuators")
    actuators: list[Actuator] = []
    for i in range(model.nu):
        with refusals.collect():
            actuators.append(_actuator(model, tree, i))
    if any(kind == GAIN.mjGAIN_MUSCLE for kind in model.actuator_gaintype):
        logger.warning(
            "model %r: muscles pull with activation x strength; force-length-velocity curves and activation dynamics "
            "are not simulated",
            model_name(model),
        )
    return tuple(actuators)


def _actuator(model: mujoco.MjModel, tree: Tree, i: int) -> Actuator:
    gain, bias, muscle = _law(model, i)
    dofs, coordinates, tendon = _transmission(model, tree, i, needs_length=any(bias))
    limited = model.actuator_ctrllimited[i] and not disabled(model, "CLAMPCTRL")
    control_range = pair(model.actuator_ctrlrange[i]) if limited else None
    if muscle:
        # A muscle only pulls, at most with its strength.
        low, high = control_range or (0.0, 1.0)
        control_range = (min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0))
    return Actuator(
        name=element_name(model, "actuator", i),
        gain=gain,
        bias=bias,
        dofs=dofs,
        coordinates=coordinates,
        tendon=tendon,
        gear=float(model.actuator_gear[i, 0]),
        control_range=control_range,
        force_range=pair(model.actuator_forcerange[i]) if model.actuator_forcelimited[i] else None,
    )


def _law(model: mujoco.MjModel, i: int) -> tuple[float, Vector, bool]:
    """Return gain, bias, and whether the actuator is a muscle."""
    gain = int(model.actuator_gaintype[i])
    bias = int(model.actuator_biastype[i])
    dynamics = int(model.actuator_dyntype[i])
    if gain == GAIN.mjGAIN_MUSCLE:
        force, scale = model.actuator_gainprm[i, 2:4]
        # MuJoCo's convention: a negative force stands for scale / acceleration under unit force.
        if force < 0 and not model.actuator_acc0[i]:
            raise ModelError(
                f"muscle {element_name(model, 'actuator', i)!r} moves no joint; set its force attribute, or remove it"
            )
        return -float(force if force >= 0 else scale / model.actuator_acc0[i]), (0.0, 0.0, 0.0), True
    affine = bias in (BIAS.mjBIAS_NONE, BIAS.mjBIAS_AFFINE)
    if gain != GAIN.mjGAIN_FIXED or not affine or dynamics != mujoco.mjtDyn.mjDYN_NONE:
        raise ModelError(
            f"actuator {element_name(model, 'actuator', i)!r} is not a motor, servo or muscle (gain type {gain}, bias "
            f"type {bias}, dynamics {dynamics}): not simulated; use <motor>, <position>, <velocity> or <muscle>"
        )
    constants = model.actuator_biasprm[i, :3] if bias == BIAS.mjBIAS_AFFINE else np.zeros(3)
    return float(model.actuator_gainprm[i, 0]), vector(constants), False


def _transmission(model: mujoco.MjModel, tree: Tree, i: int, needs_length: bool) -> tuple[Pairs, Pairs, Tendon | None]:
    """Return (dof, gear) pairs for its force, (coordinate, gear) pairs for its length, and its tendon, if any."""
    kind = int(model.actuator_trntype[i])
    target = int(model.actuator_trnid[i, 0])
    gear = model.actuator_gear[i]
    name = element_name(model, "actuator", i)
    if kind == TRANSMISSION.mjTRN_TENDON:
        return _along_tendon(model, tree, target, float(gear[0]))
    if kind not in (TRANSMISSION.mjTRN_JOINT, TRANSMISSION.mjTRN_JOINTINPARENT):
        target_kind = mujoco.mjtTrn(int(kind)).name.removeprefix("mjTRN_").lower()
        raise ModelError(f"actuator {name!r} acts on a {target_kind}: not simulated; attach it to a joint or a tendon")
    v, q = int(model.jnt_dofadr[target]), int(model.jnt_qposadr[target])
    if int(model.jnt_type[target]) in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
        return ((v, float(gear[0])),), ((q, float(gear[0])),), None
    if needs_length or kind == TRANSMISSION.mjTRN_JOINTINPARENT:
        raise ModelError(f"actuator {name!r} is more than a motor on a ball or free joint: not simulated; use <motor>")
    width = 3 if model.jnt_type[target] == mujoco.mjtJoint.mjJNT_BALL else 6
    return tuple((v + k, float(gear[k])) for k in range(width) if gear[k]), (), None


def _along_tendon(model: mujoco.MjModel, tree: Tree, tendon: int, gear: float) -> tuple[Pairs, Pairs, Tendon | None]:
    start = model.tendon_adr[tendon]
    wraps = range(start, start + model.tendon_num[tendon])
    if model.wrap_type[start] == mujoco.mjtWrap.mjWRAP_JOINT:
        joints = [(int(model.wrap_objid[w]), float(model.wrap_prm[w]) * gear) for w in wraps]
        dofs = tuple((int(model.jnt_dofadr[j]), c) for j, c in joints)
        return dofs, tuple((int(model.jnt_qposadr[j]), c) for j, c in joints), None
    sites = [int(model.wrap_objid[w]) for w in wraps if model.wrap_type[w] == mujoco.mjtWrap.mjWRAP_SITE]
    frames = [frame_on(tree.frames[model.site_bodyid[s]], model.site_pos[s], model.site_quat[s]) for s in sites]
    return (
        (),
        (),
        Tendon(
            name=element_name(model, "tendon", tendon), points=tuple((frame.link, frame.position) for frame in frames)
        ),
    )
