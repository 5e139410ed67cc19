# pyright: reportAttributeAccessIssue=false
"""Actuators of a task's model as actuators of MuJoCo.

Controls are clipped and mapped before they reach MuJoCo, so that gains and biases are those of the task's model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco

from ahac.core.errors import InputError
from ahac.engines.mujoco_joints import file_joints
from ahac.sim import Actuator, Model
from ahac.sim.model.types import ActivationKind, MuscleCurves

__all__ = ["ForceConstants", "add_actuators", "force_constants"]

DYNAMICS = {
    ActivationKind.INTEGRATOR: mujoco.mjtDyn.mjDYN_INTEGRATOR,
    ActivationKind.FILTER: mujoco.mjtDyn.mjDYN_FILTER,
    ActivationKind.EXACT_FILTER: mujoco.mjtDyn.mjDYN_FILTEREXACT,
    ActivationKind.MUSCLE: mujoco.mjtDyn.mjDYN_MUSCLE,
}
DISABLED_GROUP = 1
"""Group of actuators that exert no force; all others are in group 0."""
TRANSMISSION = ("trntype", "target", "refsite", "slidersite", "cranklength")
"""What an actuator of a specification acts on, apart from its gear."""


@dataclass(frozen=True)
class ForceConstants:
    """Constants of an actuator's force in MuJoCo's arrays."""

    gain: list[float]
    """First constants of gainprm; the others are zero."""
    bias: list[float]
    """First constants of biasprm."""
    force_range: tuple[float, float] | None
    length_range: tuple[float, float] | None
    """Lengths between which a muscle's normalized length changes by one [m]."""


def force_constants(model: Model, actuator: Actuator) -> ForceConstants:
    """Return the constants of an actuator's force, with encoder offsets and strength."""
    strength = float(actuator.strength)
    shift = sum(gear * float(model.joint_offsets.get(q, 0.0)) for q, gear in actuator.coordinates)
    constant, by_length, by_speed = map(float, actuator.bias)
    slope, by_gain_speed = map(float, actuator.gain_slopes)
    gain = [float(actuator.gain) + slope * shift, slope, by_gain_speed]
    bias = [constant + by_length * shift, by_length, by_speed]
    lengths = None
    if actuator.gain_curves is not None:
        gain = _muscle(actuator.gain_curves)
    if actuator.bias_curves is not None:
        bias = _muscle(actuator.bias_curves)
    if curves := actuator.gain_curves or actuator.bias_curves:
        lengths = (curves.origin - shift, curves.origin - shift + curves.optimal_length)
    return ForceConstants(
        gain=_scaled(gain, strength, actuator.gain_curves is not None),
        bias=_scaled(bias, strength, actuator.bias_curves is not None),
        force_range=None
        if actuator.force_range is None
        else (strength * actuator.force_range[0], strength * actuator.force_range[1]),
        length_range=lengths,
    )


def _scaled(constants: list[float], strength: float, muscle: bool) -> list[float]:
    """Return constants of a force that is larger by a factor; of a muscle's, the third is its peak force."""
    return [strength * x if not muscle or k == 2 else x for k, x in enumerate(constants)]


def _muscle(c: MuscleCurves) -> list[float]:
    return [
        c.offset, c.offset + 1.0, float(c.peak_force), 1.0,
        c.shortest, c.longest, c.shortening_speed, c.passive_force, c.lengthening_force,
    ]  # fmt: skip


def add_actuators(spec: mujoco.MjSpec, model: Model, joint_name: Callable[[str], str]) -> None:
    """Replace the actuators of a specification with those of a model; also remove its sensors and keyframes.

    Args:
        spec: The specification.
        model: The task's model.
        joint_name: Returns the specification's name of a joint of the model.
    """
    own = {actuator.name: {part: getattr(actuator, part) for part in TRANSMISSION} for actuator in spec.actuators}
    gears = {actuator.name: list(actuator.gear) for actuator in spec.actuators}
    for element in [*spec.sensors, *spec.keys, *spec.actuators]:
        spec.delete(element)
    for i, actuator in enumerate(model.actuators):
        added = spec.add_actuator(name=actuator.name)
        added.set_to_motor()  # overrides the file's defaults for actuators
        if actuator.tendon is not None:
            _along_tendon(spec, added, actuator.tendon.name, actuator.gear)
        elif actuator.drive is None:
            _on_joints(spec, added, model, i, joint_name)
        elif actuator.name in own:
            for part, value in own[actuator.name].items():
                setattr(added, part, value)
            added.gear = gears[actuator.name]
        else:
            raise InputError(
                f"actuator {actuator.name!r} acts on a site, ball joint or slider-crank, and the file has no actuator "
                "of that name to take this from; use the task's own file"
            )
        _set_law(added, model, actuator)
    spec.option.disableactuator = 1 << DISABLED_GROUP


def _along_tendon(spec: mujoco.MjSpec, added: mujoco.MjsActuator, name: str, gear: float) -> None:
    if spec.tendon(name) is None:
        have = ", ".join(tendon.name for tendon in spec.tendons) or "none"
        raise InputError(f"actuator {added.name!r} pulls tendon {name!r}, but the file's tendons are: {have}")
    added.trntype, added.target = mujoco.mjtTrn.mjTRN_TENDON, name
    added.gear = [gear, 0.0, 0.0, 0.0, 0.0, 0.0]


def _on_joints(
    spec: mujoco.MjSpec, added: mujoco.MjsActuator, model: Model, index: int, joint_name: Callable[[str], str]
) -> None:
    """Let an actuator act on one joint, or on several through a fixed tendon."""
    dofs = dict(model.actuators[index].dofs)
    joints = [joint for joint in file_joints(model) if dofs.keys() & set(joint.dofs)]
    if len(joints) == 1:
        added.trntype, added.target = mujoco.mjtTrn.mjTRN_JOINT, joint_name(joints[0].name)
        added.gear = _filled([dofs.get(k, 0.0) for k in joints[0].dofs], 6)
        return
    tendons = {tendon.name: tendon for tendon in model.tendons if index in tendon.actuators}
    for tendon in tendons.values():
        if {v for _, v, _ in tendon.joints} == dofs.keys() and spec.tendon(tendon.name) is not None:
            _, v, coefficient = tendon.joints[0]
            _along_tendon(spec, added, tendon.name, dofs[v] / coefficient)
            return
    new = spec.add_tendon(name=f"of actuator {added.name}")
    for joint in joints:
        new.wrap_joint(joint_name(joint.name), dofs[joint.v])
    _along_tendon(spec, added, new.name, 1.0)


def _set_law(added: mujoco.MjsActuator, model: Model, actuator: Actuator) -> None:
    """Set force law, bounds and activation."""
    law = force_constants(model, actuator)
    added.gaintype = mujoco.mjtGain.mjGAIN_FIXED
    if any(actuator.gain_slopes):
        added.gaintype = mujoco.mjtGain.mjGAIN_AFFINE
    if actuator.gain_curves is not None:
        added.gaintype = mujoco.mjtGain.mjGAIN_MUSCLE
    added.biastype = mujoco.mjtBias.mjBIAS_AFFINE if actuator.bias_curves is None else mujoco.mjtBias.mjBIAS_MUSCLE
    added.gainprm = _filled(law.gain, len(added.gainprm))
    added.biasprm = _filled(law.bias, len(added.biasprm))
    added.ctrllimited = added.actlimited = False
    added.forcelimited = law.force_range is not None
    if law.force_range is not None:
        added.forcerange = list(law.force_range)
    if law.length_range is not None:
        added.lengthrange = list(law.length_range)
    added.group = DISABLED_GROUP if actuator.disabled else 0
    if actuator.activation is not None:
        added.dyntype = DYNAMICS[actuator.activation.kind]
        added.dynprm = _filled(list(actuator.activation.constants), len(added.dynprm))
        added.actearly = actuator.activation.early
        if actuator.activation.range is not None:
            added.actlimited, added.actrange = True, list(actuator.activation.range)


def _filled(numbers: list[float], size: int) -> list[float]:
    return [*map(float, numbers), *[0.0] * (size - len(numbers))]
