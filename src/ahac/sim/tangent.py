"""Changes of positions and derivatives, in the coordinates of velocities: a rotation has three of them, not four.

A quaternion q changes by ½ q ⊗ (0, w) along a small rotation w in its own axes; all other positions change as they are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ahac.sim.model.types import JointKind, Model

__all__ = ["from_tangent", "move", "normalize_quaternions", "to_tangent"]


def from_tangent(model: Model, q: Tensor, covector: Tensor) -> Tensor:
    """Convert covectors on velocities [..., N, nv] to covectors on positions [..., N, nq]: 2 q ⊗ (0, w) on quaternions.

    Along a quaternion itself, whose length has no effect, the result is zero.
    """
    parts = []
    for joint in model.joints:
        w = covector[..., joint.v : joint.dofs.stop]
        parts.append(2.0 * _derivative(q[:, joint.q : joint.q + 4], w) if joint.kind is JointKind.BALL else w)
    return torch.cat(parts, dim=-1)


def to_tangent(model: Model, q: Tensor, covector: Tensor) -> Tensor:
    """Convert covectors on positions [..., N, nq] to covectors on velocities [..., N, nv].

    On quaternions this is the transpose of w -> ½ q ⊗ (0, w).
    """
    parts = []
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            at, bar = q[:, joint.q : joint.q + 4], covector[..., joint.q : joint.q + 4]
            columns = [_derivative(at, unit.expand(len(q), 3)) for unit in torch.eye(3, device=q.device, dtype=q.dtype)]
            parts.append(torch.stack([0.5 * (column * bar).sum(dim=-1) for column in columns], dim=-1))
        else:
            parts.append(covector[..., joint.q : joint.q + 1])
    return torch.cat(parts, dim=-1)


def move(model: Model, q: Tensor, change: Tensor) -> Tensor:
    """Return positions [N, nq] after a small change [N, nv] in the coordinates of velocities: q + ½ q ⊗ (0, w).

    The length of quaternions changes to second order.
    """
    parts = []
    for positions, velocities, is_quaternion in _runs(model):
        at, w = q[:, positions], change[:, velocities]
        parts.append(at + (0.5 * _derivative(at, w) if is_quaternion else w))
    return torch.cat(parts, dim=-1)


def normalize_quaternions(model: Model, q: Tensor) -> Tensor:
    """Return positions [N, nq] with unit quaternions.

    Quaternions that are zero or not finite stay so, and do not make a gradient of zero NaN.
    """
    parts = []
    for positions, _, is_quaternion in _runs(model):
        part = q[:, positions]
        if is_quaternion:
            square = part.detach().square().sum(dim=-1, keepdim=True)
            usable = torch.where((square > 0.0) & (square < math.inf), part, 1.0)
            part = part * usable.square().sum(dim=-1, keepdim=True).rsqrt()
        parts.append(part)
    return torch.cat(parts, dim=-1)


def _runs(model: Model) -> list[tuple[slice, slice, bool]]:
    """Return the position and velocity coordinates of each ball joint, and of the joints between them."""
    runs: list[tuple[slice, slice, bool]] = []
    for joint in model.joints:
        ball = joint.kind is JointKind.BALL
        positions, velocities = slice(joint.q, joint.q + (4 if ball else 1)), slice(joint.v, joint.dofs.stop)
        if runs and not ball and not runs[-1][2]:
            first = runs.pop()
            positions, velocities = slice(first[0].start, positions.stop), slice(first[1].start, velocities.stop)
        runs.append((positions, velocities, ball))
    return runs


def _derivative(q: Tensor, w: Tensor) -> Tensor:
    """Compute q ⊗ (0, w)."""
    real, vector = q[:, :1], q[:, 1:].expand_as(w)
    return torch.cat([-(vector * w).sum(dim=-1, keepdim=True), real * w + torch.linalg.cross(vector, w)], dim=-1)
