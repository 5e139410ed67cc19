"""Simulation state and results; the first axis of every tensor is the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

__all__ = ["Contacts", "Poses", "State", "Wrenches"]


@dataclass(frozen=True, eq=False)
class State:
    """Positions, velocities and activations of N worlds, in MuJoCo's conventions."""

    q: Tensor
    """[N, nq], as MuJoCo's qpos."""
    v: Tensor
    """[N, nv], as MuJoCo's qvel."""
    readouts: Mapping[str, Tensor] = field(default_factory=dict)
    """[N, ...] results of the simulator's readouts on this state; empty on a state that did not come from a step."""
    act: Tensor | None = None
    """[N, na], as MuJoCo's act: activations of actuators with filters, integrators or muscle dynamics. None stands for
    zeros, and for a model without activations."""
    past_controls: Tensor | None = None
    """[N, D, nu] controls of the last D steps, the latest first, in a simulator with actuator delays. None stands for
    controls that have always been the current one. Where `State.where` combines such a state with one that has past
    controls, they are zero instead."""

    def detach(self) -> State:
        """Return the same state, detached from the autograd graph."""
        readouts = {name: value.detach() for name, value in self.readouts.items()}
        act, past = (None if x is None else x.detach() for x in (self.act, self.past_controls))
        return replace(self, q=self.q.detach(), v=self.v.detach(), readouts=readouts, act=act, past_controls=past)

    def where(self, mask: Tensor, other: State) -> State:
        """Return this state in the worlds of the mask [N] and the `other` in the rest, without readouts.

        Activations and past controls that only one of the states has are zero in the worlds of the other. For past
        controls this differs from None in all worlds, which stands for the current control; to choose others, set
        `past_controls` of that state first.
        """

        def select(one: Tensor | None, rest: Tensor | None) -> Tensor | None:
            like = rest if one is None else one
            if like is None:
                return None
            one, rest = (torch.zeros_like(like) if x is None else x for x in (one, rest))
            return torch.where(mask.view(-1, *[1] * (like.ndim - 1)), one, rest)

        q, v = (torch.where(mask[:, None], *pair) for pair in ((self.q, other.q), (self.v, other.v)))
        past = select(self.past_controls, other.past_controls)
        return State(q, v, act=select(self.act, other.act), past_controls=past)


@dataclass(frozen=True, eq=False)
class Contacts:
    """All P contact candidates, in contact or not."""

    names: tuple[tuple[str, str], ...]
    """(geom, plane) of each candidate."""
    depth: Tensor
    """[N, P] penetration [m]; negative is clearance."""
    velocity: Tensor
    """[N, P, 3] velocity of the link's material at the point, world axes [m/s]."""
    force: Tensor
    """[N, P, 3] force on the link, world axes [N]."""
    force_by_depth: Tensor
    """[N, P, 3] ∂force/∂depth [N/m]."""
    force_by_velocity: Tensor
    """[N, P, 3, 3] ∂force/∂velocity [N s/m]; row: force, column: velocity."""


@dataclass(frozen=True, eq=False)
class Poses:
    """Frames of the file's bodies, including those merged into others."""

    names: tuple[str, ...]
    """Names of the bodies."""
    position: Tensor
    """[N, B, 3] positions [m]."""
    rotation: Tensor
    """[N, B, 3, 3] rotation matrices, body axes to world axes."""


@dataclass(frozen=True, eq=False)
class Wrenches:
    """Contact wrenches (torque; force) in world axes, on the L links that have contact candidates."""

    names: tuple[str, ...]
    """Names of the links."""
    wrench: Tensor
    """[N, L, 6] wrench about the position of the tree's root [N m] and [N]."""
    velocity_product_acceleration: Tensor
    """[N, L, 6] spatial acceleration (angular; linear) due to velocity products alone: v̇ = 0, without gravity, relative
    to an observer that moves with the root."""
