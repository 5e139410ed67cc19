# pyright: reportAttributeAccessIssue=false
"""Convert MuJoCo's actuators: what they act on, their force laws and their activations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.tree import Tree, pair, site_frame, vector
from ahac.sim.model.types import (
    Activation,
    ActivationKind,
    Actuator,
    BallDrive,
    MuscleCurves,
    SiteDrive,
    SliderCrank,
    Tendon,
    Vector,
)
from ahac.sim.model.unsupported import Refusals, disabled, element_name

__all__ = ["MUSCLE_SETTING", "build_actuators"]

GAIN = mujoco.mjtGain
BIAS = mujoco.mjtBias
DYNAMICS = mujoco.mjtDyn
TRANSMISSION = mujoco.mjtTrn
Pairs = tuple[tuple[int, float], ...]

ACTIVATIONS = {
    int(DYNAMICS.mjDYN_INTEGRATOR): ActivationKind.INTEGRATOR,
    int(DYNAMICS.mjDYN_FILTER): ActivationKind.FILTER,
    int(DYNAMICS.mjDYN_FILTEREXACT): ActivationKind.EXACT_FILTER,
    int(DYNAMICS.mjDYN_MUSCLE): ActivationKind.MUSCLE,
}
MUSCLE_SETTING = "ahac:muscles"
"""Name of the custom text that selects the model of muscles."""
MUSCLE_MODELS = ("curves", "linear")
SMALLEST = 1e-15
"""Lower bound of divisors, as in MuJoCo."""


@dataclass(frozen=True)
class _Transmission:
    dofs: Pairs = ()
    coordinates: Pairs = ()
    tendon: Tendon | None = None
    drive: BallDrive | SiteDrive | SliderCrank | None = None


def build_actuators(
    model: mujoco.MjModel, tree: Tree, tendons: tuple[Tendon, ...], refusals: Refusals
) -> tuple[Actuator, ...]:
    """Return all actuators of a model; those that are not supported are refused and left out."""
    if getattr(model, "nactuator", model.nu) != model.nu:
        raise ModelError("an actuator of this model takes several controls: not simulated; give it a single control")
    if model.nu and disabled(model, "ACTUATION"):
        raise ModelError("the model disables actuation but has actuators: remove the flag or the actuators")
    linear = _has_linear_muscles(model)
    actuators: list[Actuator] = []
    for i in range(model.nu):
        with refusals.collect():
            actuators.append(_actuator(model, tree, tendons, i, linear))
    return tuple(actuators)


def _has_linear_muscles(model: mujoco.MjModel) -> bool:
    """Return whether the file asks for muscles that pull with activation · strength, without curves and dynamics.

    It does so by `<custom><text name="ahac:muscles" data="linear"/></custom>`.
    """
    for i in range(model.ntext):
        name = element_name(model, "text", i)
        if name.startswith("ahac:") and name != MUSCLE_SETTING:
            raise ModelError(f"text {name!r} is not a known setting; known: {MUSCLE_SETTING}")
        if name == MUSCLE_SETTING:
            data = model.text_data[model.text_adr[i] : model.text_adr[i] + model.text_size[i]]
            value = bytes(data).split(b"\0")[0].decode()
            if value not in MUSCLE_MODELS:
                raise ModelError(f"text {MUSCLE_SETTING!r} must be one of {', '.join(MUSCLE_MODELS)}, got {value!r}")
            return value == "linear"
    return False


def _actuator(model: mujoco.MjModel, tree: Tree, tendons: tuple[Tendon, ...], i: int, linear: bool) -> Actuator:
    limited = model.actuator_ctrllimited[i] and not disabled(model, "CLAMPCTRL")
    control_range = pair(model.actuator_ctrlrange[i]) if limited else None
    found = _transmission(model, tree, tendons, i)
    common = Actuator(
        name=element_name(model, "actuator", i),
        gain=float(model.actuator_gainprm[i, 0]),
        bias=(0.0, 0.0, 0.0),
        dofs=found.dofs,
        coordinates=found.coordinates,
        tendon=found.tendon,
        drive=found.drive,
        # Gears of joints and sites have several components, which are part of the drive.
        gear=1.0 if isinstance(found.drive, BallDrive | SiteDrive) else float(model.actuator_gear[i, 0]),
        control_range=control_range,
        force_range=pair(model.actuator_forcerange[i]) if model.actuator_forcelimited[i] else None,
        disabled=_is_disabled(model, i),
    )
    if linear and model.actuator_gaintype[i] == GAIN.mjGAIN_MUSCLE:
        return _linear_muscle(model, i, common)
    return _with_law(model, i, common)


def _is_disabled(model: mujoco.MjModel, i: int) -> bool:
    """Return whether the file disables the actuator's group; only the groups 0 to 30 can be."""
    group = int(model.actuator_group[i])
    return 0 <= group <= 30 and bool(int(model.opt.disableactuator) & (1 << group))


def _linear_muscle(model: mujoco.MjModel, i: int, actuator: Actuator) -> Actuator:
    """Return a muscle that pulls with activation · strength, where the control is the activation."""
    low, high = actuator.control_range or (0.0, 1.0)
    return replace(
        actuator,
        gain=-_strength(model, i, model.actuator_gainprm[i]),
        control_range=(min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)),
    )


def _strength(model: mujoco.MjModel, i: int, constants: np.ndarray) -> float:
    """Return the peak force of a muscle [N]; a negative one stands for scale / acceleration under unit force."""
    force, scale = float(constants[2]), float(constants[3])
    if force >= 0:
        return force
    if not model.actuator_acc0[i]:
        raise ModelError(
            f"muscle {element_name(model, 'actuator', i)!r} moves no joint; set its force attribute, or remove it"
        )
    return scale / float(model.actuator_acc0[i])


def _with_law(model: mujoco.MjModel, i: int, actuator: Actuator) -> Actuator:
    """Return the actuator with its gain, bias and activation."""
    gain, bias, dynamics = (
        int(kinds[i]) for kinds in (model.actuator_gaintype, model.actuator_biastype, model.actuator_dyntype)
    )
    gains = (GAIN.mjGAIN_FIXED, GAIN.mjGAIN_AFFINE, GAIN.mjGAIN_MUSCLE)
    biases = (BIAS.mjBIAS_NONE, BIAS.mjBIAS_AFFINE, BIAS.mjBIAS_MUSCLE)
    if gain not in gains or bias not in biases or dynamics not in (DYNAMICS.mjDYN_NONE, *ACTIVATIONS):
        names = ", ".join(
            kind.name.split("_")[1].lower()
            for kind in (mujoco.mjtGain(gain), mujoco.mjtBias(bias), mujoco.mjtDyn(dynamics))
        )
        raise ModelError(
            f"actuator {actuator.name!r} has the gain, bias and dynamics {names}: not simulated; use <motor>, "
            "<position>, <velocity>, <intvelocity>, <damper>, <cylinder>, <muscle> or <general> without those"
        )
    prm = model.actuator_gainprm[i]
    servo = gain == GAIN.mjGAIN_FIXED and bias == BIAS.mjBIAS_AFFINE and prm[0] == -model.actuator_biasprm[i, 1]
    return replace(
        actuator,
        gain_slopes=pair(prm[1:3]) if gain == GAIN.mjGAIN_AFFINE else (0.0, 0.0),
        gain_curves=_curves(model, i, prm) if gain == GAIN.mjGAIN_MUSCLE else None,
        bias=vector(model.actuator_biasprm[i, :3]) if bias == BIAS.mjBIAS_AFFINE else (0.0, 0.0, 0.0),
        bias_curves=_curves(model, i, model.actuator_biasprm[i]) if bias == BIAS.mjBIAS_MUSCLE else None,
        activation=_activation(model, i),
        period=_period(actuator) if servo else None,
    )


def _period(actuator: Actuator) -> float | None:
    """Return the change of a rotation's length in a full turn."""
    if isinstance(actuator.drive, BallDrive) and actuator.drive.measured:
        return 2.0 * math.pi * math.hypot(*actuator.drive.gear)
    if isinstance(actuator.drive, SiteDrive) and actuator.drive.reference and not any(actuator.drive.force):
        return 2.0 * math.pi * math.hypot(*actuator.drive.torque)
    return None


def _activation(model: mujoco.MjModel, i: int) -> Activation | None:
    kind = ACTIVATIONS.get(int(model.actuator_dyntype[i]))
    if kind is None:
        return None
    return Activation(
        kind=kind,
        index=int(model.actuator_actadr[i]),
        constants=vector(model.actuator_dynprm[i, :3]),
        range=pair(model.actuator_actrange[i]) if model.actuator_actlimited[i] else None,
        early=bool(model.actuator_actearly[i]),
    )


def _curves(model: mujoco.MjModel, i: int, constants: np.ndarray) -> MuscleCurves:
    low, high, _, _, shortest, longest, speed, passive, lengthening = (float(c) for c in constants[:9])
    lengths = model.actuator_lengthrange[i]
    if lengths[0] == lengths[1]:
        raise ModelError(
            f"muscle {element_name(model, 'actuator', i)!r} has no length range; give it a lengthrange in the file"
        )
    return MuscleCurves(
        peak_force=_strength(model, i, constants),
        origin=float(lengths[0]),
        offset=low,
        optimal_length=float(lengths[1] - lengths[0]) / max(SMALLEST, high - low),
        shortest=shortest,
        longest=longest,
        shortening_speed=speed,
        passive_force=passive,
        lengthening_force=lengthening,
    )


def _transmission(model: mujoco.MjModel, tree: Tree, tendons: tuple[Tendon, ...], i: int) -> _Transmission:
    """Return what an actuator acts on."""
    kind = int(model.actuator_trntype[i])
    target, other = (int(t) for t in model.actuator_trnid[i])
    gear = model.actuator_gear[i]
    if kind in (TRANSMISSION.mjTRN_JOINT, TRANSMISSION.mjTRN_JOINTINPARENT):
        measured = model.actuator_gaintype[i] != GAIN.mjGAIN_FIXED or model.actuator_biastype[i] != BIAS.mjBIAS_NONE
        return _on_joint(model, target, gear, kind == TRANSMISSION.mjTRN_JOINTINPARENT, bool(measured))
    if kind == TRANSMISSION.mjTRN_TENDON:
        tendon = tendons[target]
        if not tendon.joints:
            return _Transmission(tendon=tendon)
        scaled = [(q, v, coefficient * float(gear[0])) for q, v, coefficient in tendon.joints]
        return _Transmission(dofs=tuple((v, c) for _, v, c in scaled), coordinates=tuple((q, c) for q, _, c in scaled))
    if kind == TRANSMISSION.mjTRN_SLIDERCRANK:
        crank, slider = (site_frame(model, tree, site) for site in (target, other))
        rod = float(model.actuator_cranklength[i])
        drive = SliderCrank(name=element_name(model, "site", target), crank=crank, slider=slider, rod=rod)
        return _Transmission(drive=drive)
    if kind == TRANSMISSION.mjTRN_SITE:
        reference = site_frame(model, tree, other) if other >= 0 else None
        site = site_frame(model, tree, target)
        name, force, torque = element_name(model, "site", target), vector(gear[:3]), vector(gear[3:])
        drive = SiteDrive(name=name, site=site, reference=reference, force=force, torque=torque)
        return _Transmission(drive=drive)
    name = mujoco.mjtTrn(kind).name.removeprefix("mjTRN_").lower()
    raise ModelError(
        f"actuator {element_name(model, 'actuator', i)!r} acts on a target of kind {name!r}: not simulated; "
        "attach it to a joint, a tendon or a site"
    )


def _on_joint(model: mujoco.MjModel, joint: int, gear: np.ndarray, in_parent: bool, measured: bool) -> _Transmission:
    v, q = int(model.jnt_dofadr[joint]), int(model.jnt_qposadr[joint])
    kind = int(model.jnt_type[joint])
    if kind in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
        return _Transmission(dofs=((v, float(gear[0])),), coordinates=((q, float(gear[0])),))
    ball = kind == mujoco.mjtJoint.mjJNT_BALL
    # A free joint has no length.
    measured = measured and ball
    if not in_parent and not measured:
        return _Transmission(dofs=_nonzero(v, gear[: 3 if ball else 6]))
    slides = () if ball else _nonzero(v, gear[:3])
    rotation: Vector = vector(gear[:3] if ball else gear[3:])
    offset_q, offset_v = (0, 0) if ball else (3, 3)
    drive = BallDrive(q=q + offset_q, v=v + offset_v, gear=rotation, in_parent=in_parent, measured=measured)
    return _Transmission(dofs=slides, drive=drive)


def _nonzero(v: int, gear: np.ndarray) -> Pairs:
    return tuple((v + k, float(g)) for k, g in enumerate(gear) if g)
