"""The controls of a task: action spaces, and actions in [-1, 1] mapped onto the control ranges of actuators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ahac.core.errors import InputError
from ahac.envs.randomization import Distribution
from ahac.sim import Actuator, Keyframe, Model, Real

__all__ = ["ActionSpace", "Rescaled", "ResetFn", "with_actions"]

ResetFn = Callable[..., tuple[Sequence[Real], Sequence[Real]]]
"""Reset: a function of (model, draw) that returns the initial positions and velocities of an episode. If it has a third
parameter named `memory`, it also receives the task's memory at the end of the previous episode."""

ActionSpace = Callable[[Model, ResetFn], Model]
"""Action space: a function of a model and of the task's reset that returns the model with other actuators."""


@dataclass(frozen=True)
class Rescaled:
    """A model before and after its controls became actions.

    `dataclasses.replace` of a task passes the latter back in; the task then starts again from the former.
    """

    given: Model
    result: Model


def with_actions(
    given: Model, actions: ActionSpace | None, reset: ResetFn, randomize: Mapping[str, Distribution]
) -> Model:
    """Return the model with the actuators of the action space, all with controls in [-1, 1].

    Randomized gains stay physical: there, the control is rescaled instead of gain and bias.
    """
    driven = given if actions is None else actions(given, reset)
    if not driven.actuators:
        raise InputError(f"{driven.name!r} has no actuators: load it with motors=Motor(strength=...)")
    if all(actuator.control_range == (-1.0, 1.0) for actuator in driven.actuators) and driven is given:
        return given
    patterns = [pattern for pattern in randomize if pattern.partition(":")[0] in ("actuator_gain", "actuator_damping")]
    physical = {name.partition(":")[2] for name in driven.parameters(*patterns).names} if patterns else set()
    actuators = tuple(_with_unit_control(actuator, actuator.name in physical) for actuator in driven.actuators)
    keyframes = {name: _with_unit_ctrl(keyframe, driven.actuators) for name, keyframe in driven.keyframes.items()}
    return replace(driven, actuators=actuators, keyframes=keyframes)


def _with_unit_ctrl(keyframe: Keyframe, actuators: Sequence[Actuator]) -> Keyframe:
    """Return a keyframe whose controls are actions: (control − middle) / half."""
    ctrl = []
    for control, actuator in zip(keyframe.ctrl, actuators, strict=False):
        low, high = actuator.control_range or (-1.0, 1.0)
        ctrl.append((2.0 * control - low - high) / (high - low) if low < high else 0.0)
    return replace(keyframe, ctrl=tuple(ctrl))


def _with_unit_control(actuator: Actuator, physical: bool) -> Actuator:
    """Rescale the control of one actuator to middle + half · action.

    Where the force is linear in the control with a constant gain, the gain takes up the scale and the bias the offset,
    unless they must stay `physical`.
    """
    if actuator.control_range is None:
        raise InputError(
            f"actuator {actuator.name!r} has no control range to map actions in [-1, 1] onto: give it a ctrlrange in "
            "the model file, or load the robot with motors=Motor(strength=...)"
        )
    low, high = actuator.control_range
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    if physical or not actuator.is_linear:
        return replace(actuator, control_range=(-1.0, 1.0), control_map=(half, middle))
    constant, by_length, by_speed = actuator.bias
    bias = (constant + actuator.gain * middle, by_length, by_speed)
    return replace(actuator, gain=actuator.gain * half, bias=bias, control_range=(-1.0, 1.0), rescaled=True)
