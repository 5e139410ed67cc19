"""Activation dynamics: the state of an actuator that integrates, filters or delays its control.

    integrator     ȧ = u
    filter         ȧ = (u − a) / τ
    muscle         ȧ = (u − a) / τ(u, a), with u in [0, 1]; activation is faster than deactivation, and both depend on a

Activations advance by explicit Euler steps, an exact filter by the exact solution for a constant control.
"""

from __future__ import annotations

from collections.abc import Sequence

from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.operations import clip, exp, where
from ahac.sim.model.types import Activation, ActivationKind, Actuator, Model

__all__ = ["advance", "drive_signal"]

SHORTEST = 1e-15
"""Lower bound of time constants, as in MuJoCo."""


def advance(model: Model, control: Sequence[Real], act: Sequence[Real], h: Real) -> list[Real]:
    """Return all activations `h` seconds later."""
    later = list(act)
    for actuator, u in zip(model.actuators, control, strict=True):
        if actuator.activation is not None:
            later[actuator.activation.index] = _next(actuator, actuator.activation, u, act, h)
    return later


def drive_signal(actuator: Actuator, control: Real, act: Sequence[Real], h: Real) -> Real:
    """Return what the actuator's gain multiplies: its control or its activation."""
    activation = actuator.activation
    if activation is None:
        return _clipped(actuator, control)
    return _next(actuator, activation, control, act, h) if activation.early else act[activation.index]


def _next(actuator: Actuator, activation: Activation, control: Real, act: Sequence[Real], h: Real) -> Real:
    now = act[activation.index]
    if not actuator.disabled:
        rate = _rate(activation, _clipped(actuator, control), now)
        duration = h
        if activation.kind is ActivationKind.EXACT_FILTER:
            tau = max(SHORTEST, activation.constants[0])
            duration = (1.0 - exp(h * (-1.0 / tau))) * tau
        now = now + rate * duration
    return now if activation.range is None else clip(now, *activation.range)


def _rate(activation: Activation, control: Real, act: Real) -> Real:
    if activation.kind is ActivationKind.INTEGRATOR:
        return control
    if activation.kind is ActivationKind.MUSCLE:
        return _muscle_rate(activation, clip(control, 0.0, 1.0), act)
    return (control - act) * (1.0 / max(SHORTEST, activation.constants[0]))


def _muscle_rate(activation: Activation, excitation: Real, act: Real) -> Real:
    """Return (u − a) / τ, where τ changes from deactivation to activation as u − a becomes positive."""
    rising, falling, width = activation.constants
    pace = 0.5 + 1.5 * clip(act, 0.0, 1.0)
    up, down = pace * rising, falling / pace
    error = excitation - act
    if width < SHORTEST:
        tau = where(error > 0.0, up, down)
    else:
        x = clip(error * (1.0 / width) + 0.5, 0.0, 1.0)
        tau = down + (up - down) * (x * x * x * (x * (x * 6.0 - 15.0) + 10.0))
    return error / tau


def _clipped(actuator: Actuator, control: Real) -> Real:
    """Return the control that an actuator sees."""
    if actuator.control_range is not None:
        control = clip(control, *actuator.control_range)
    if actuator.control_map is not None:
        scale, offset = actuator.control_map
        control = control * scale + offset
    return control
