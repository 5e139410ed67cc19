"""Activation dynamics: the state of an actuator that integrates, filters or delays its control.

    integrator     ȧ = u
    filter         ȧ = (u − a) / τ
    muscle         ȧ = (u − a) / τ(u, a), with u in [0, 1]; activation is faster than deactivation, and both depend on a

An explicit step is MuJoCo's: Euler's method, but the exact solution for a constant control if the file asks for it. It
is unstable where h > 2 τ. An implicit step is stable with any τ: filters take the exact solution, and muscles the
linearly implicit step a + (u − a) h / (τ + h).
"""

from __future__ import annotations

from collections.abc import Sequence

from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.operations import clip, exp, where
from ahac.sim.model.types import Activation, ActivationKind, Actuator, Model

__all__ = ["advance", "drive_signal", "shortest_time_constant"]

SHORTEST = 1e-15
"""Lower bound of time constants, as in MuJoCo."""
LOWEST_PACE, HIGHEST_PACE = 0.5, 2.0
"""Factor of a muscle's time constant of activation, and divisor of that of deactivation, at activations 0 and 1."""


def advance(model: Model, control: Sequence[Real], act: Sequence[Real], h: Real, implicit: bool) -> list[Real]:
    """Return all activations after a step of `h` seconds."""
    later = list(act)
    for actuator, u in zip(model.actuators, control, strict=True):
        if actuator.activation is not None:
            later[actuator.activation.index] = _next(actuator, actuator.activation, u, act, h, implicit)
    return later


def shortest_time_constant(activation: Activation) -> float | None:
    """Return the smallest τ of an activation that an explicit step advances by Euler's method [s]; None otherwise."""
    if activation.kind is ActivationKind.FILTER:
        return max(SHORTEST, activation.constants[0])
    if activation.kind is ActivationKind.MUSCLE:
        rising, falling, _ = activation.constants
        return max(SHORTEST, min(LOWEST_PACE * rising, falling / HIGHEST_PACE))
    return None


def drive_signal(actuator: Actuator, control: Real, act: Sequence[Real], h: Real, implicit: bool) -> Real:
    """Return what the actuator's gain multiplies: its control or its activation."""
    activation = actuator.activation
    if activation is None:
        return _clipped(actuator, control)
    return _next(actuator, activation, control, act, h, implicit) if activation.early else act[activation.index]


def _next(
    actuator: Actuator, activation: Activation, control: Real, act: Sequence[Real], h: Real, implicit: bool
) -> Real:
    now = act[activation.index]
    if not actuator.disabled:
        now = now + _change(activation, _clipped(actuator, control), now, h, implicit)
    return now if activation.range is None else clip(now, *activation.range)


def _change(activation: Activation, control: Real, act: Real, h: Real, implicit: bool) -> Real:
    """Return the change of an activation in a step of `h` seconds."""
    if activation.kind is ActivationKind.INTEGRATOR:
        return control * h
    if activation.kind is ActivationKind.MUSCLE:
        error = clip(control, 0.0, 1.0) - act
        tau = _muscle_time_constant(activation, error, act)
        return error * (h / (tau + h)) if implicit else error / tau * h
    tau = max(SHORTEST, activation.constants[0])
    if implicit or activation.kind is ActivationKind.EXACT_FILTER:
        return (control - act) * (1.0 - exp(h * (-1.0 / tau)))
    return (control - act) * (1.0 / tau) * h


def _muscle_time_constant(activation: Activation, error: Real, act: Real) -> Real:
    """Return τ, which changes from deactivation to activation as the error u − a becomes positive."""
    rising, falling, width = activation.constants
    pace = LOWEST_PACE + (HIGHEST_PACE - LOWEST_PACE) * clip(act, 0.0, 1.0)
    up, down = pace * rising, falling / pace
    if width < SHORTEST:
        return where(error > 0.0, up, down)
    x = clip(error * (1.0 / width) + 0.5, 0.0, 1.0)
    return down + (up - down) * (x * x * x * (x * (x * 6.0 - 15.0) + 10.0))


def _clipped(actuator: Actuator, control: Real) -> Real:
    """Return the control that an actuator sees."""
    if actuator.control_range is not None:
        control = clip(control, *actuator.control_range)
    if actuator.control_map is not None:
        scale, offset = actuator.control_map
        control = control * scale + offset
    return control
