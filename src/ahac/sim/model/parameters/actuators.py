"""Parameters of actuators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ahac.sim.compiler.graph import Real
from ahac.sim.model.parameters.domains import FREE, NON_NEGATIVE
from ahac.sim.model.parameters.draft import Draft
from ahac.sim.model.parameters.elements import Element, Elements, Refusals
from ahac.sim.model.types import Actuator, JointKind, Model

__all__ = [
    "delay",
    "gains",
    "put_delay",
    "put_gain",
    "put_servo_damping",
    "put_strength",
    "rescaled",
    "servo_dampings",
    "strengths",
]


def _follows_position(actuator: Actuator) -> bool:
    """Return whether an actuator is a position servo: its gain is kp and its bias −kp · length."""
    return actuator.gain != 0.0 and actuator.bias[1] == -actuator.gain


def _follows_velocity(actuator: Actuator) -> bool:
    """Return whether an actuator is a velocity servo: its gain is kv and its bias −kv · speed."""
    return actuator.gain != 0.0 and actuator.bias[1] == 0.0 and actuator.bias[2] == -actuator.gain


def _acts_on_slide(model: Model, actuator: Actuator) -> bool:
    driven = {k for k, _ in actuator.dofs}
    return not driven or any(driven & set(j.dofs) for j in model.joints if j.kind is JointKind.SLIDE)


def _physical(model: Model) -> list[Actuator]:
    return [actuator for actuator in model.actuators if not actuator.rescaled]


def rescaled(model: Model) -> Refusals:
    """Return why the gains of actuators with rescaled controls are no parameters."""
    why = "a task has rescaled its control to [-1, 1]; select parameters of the model that you gave to the task"
    return {actuator.name: why for actuator in model.actuators if actuator.rescaled}


def gains(model: Model) -> Elements:
    """Return the gains of all actuators."""
    found: Elements = {}
    for actuator in _physical(model):
        force, length = ("N", "m") if _acts_on_slide(model, actuator) else ("N m", "rad")
        if actuator.gain_curves is not None:
            element = Element((actuator.gain_curves.peak_force,), "N", NON_NEGATIVE)
        elif _follows_position(actuator):
            element = Element((actuator.gain,), f"{force}/{length}", NON_NEGATIVE)
        elif _follows_velocity(actuator):
            element = Element((actuator.gain,), f"{force} s/{length}", NON_NEGATIVE)
        else:
            element = Element((actuator.gain,), force, FREE)
        found[actuator.name] = element
    return found


def put_gain(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the gain of an actuator, and the bias that follows it in a servo."""
    (gain,) = values

    def change(actuator: Actuator) -> Actuator:
        constant, by_length, by_speed = actuator.bias
        if actuator.gain_curves is not None:
            return replace(actuator, gain_curves=replace(actuator.gain_curves, peak_force=gain))
        if name in following["position"]:
            by_length = -gain
        elif name in following["velocity"]:
            by_speed = -gain
        return replace(actuator, gain=gain, bias=(constant, by_length, by_speed))

    actuators = draft.model.actuators
    following = {
        "position": {actuator.name for actuator in actuators if _follows_position(actuator)},
        "velocity": {actuator.name for actuator in actuators if _follows_velocity(actuator)},
    }
    draft.actuator(name, change)


def servo_dampings(model: Model) -> Elements:
    """Return the derivative gains kv of position servos."""
    found: Elements = {}
    for actuator in _physical(model):
        if _follows_position(actuator):
            unit = "N s/m" if _acts_on_slide(model, actuator) else "N m s/rad"
            found[actuator.name] = Element((0.0 - actuator.bias[2],), unit, NON_NEGATIVE)
    return found


def put_servo_damping(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the derivative gain of a position servo."""
    draft.actuator(name, lambda actuator: replace(actuator, bias=(*actuator.bias[:2], -values[0])))


def strengths(model: Model) -> Elements:
    """Return the factors on the forces of actuators, which are one in a model from a file."""
    return {actuator.name: Element((actuator.strength,), "", NON_NEGATIVE) for actuator in model.actuators}


def put_strength(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the factor on an actuator's force."""
    draft.actuator(name, lambda actuator: replace(actuator, strength=values[0]))


def delay(model: Model) -> Elements:
    """Return the delay of all controls, which is zero."""
    return {"": Element((0.0,), "s", NON_NEGATIVE)} if model.actuators else {}


def put_delay(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Leave the model alone: the simulator delays controls between steps."""
