"""A free root in dflex's coordinates and in ours, and how dflex moves it.

dflex has y up and the robot, drawn with z up, turned by −90° about x:

    q = [position; quaternion (x, y, z, w); joint angles]
    v = [angular velocity; velocity of the root's material at the world's origin; joint rates], in world axes

Ours is MuJoCo's:

    q = [position; quaternion (w, x, y, z); joint angles]
    v = [velocity of the root's origin, in world axes; angular velocity, in the root's axes; joint rates]
"""

import torch
from torch import Tensor

from ahac.sim import Simulator, State

__all__ = ["as_in_dflex", "step_as_dflex", "velocity_map"]

TURN = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]], dtype=torch.float64)
"""From our world axes to dflex's."""

HALF = 0.5**0.5
"""Sine and cosine of 45°, half the angle between them."""


def as_in_dflex(state: State) -> tuple[Tensor, Tensor]:
    """[nq] q and [nv] v of one world, in dflex's coordinates."""
    w, x, y, z = state.q[0, 3:7]
    quaternion = HALF * torch.stack([x - w, y + z, z - y, w + x])
    q = torch.cat([TURN @ state.q[0, :3], quaternion, state.q[0, 7:]])
    return q, velocity_map(state.q) @ state.v[0]


def velocity_map(q: Tensor) -> Tensor:
    """[nv, nv] T with dflex's v = T · ours, at our q [1, nq]; dflex's forces τ are ours as Tᵀ τ."""
    out = torch.eye(q.shape[1] - 1, dtype=torch.float64)
    turn = rotation(q)
    out[:3, :3], out[:3, 3:6] = 0.0, TURN @ turn
    out[3:6, :3], out[3:6, 3:6] = TURN, TURN @ cross_matrix(q[0, :3]) @ turn
    return out


def step_as_dflex(simulator: Simulator, state: State, control: Tensor) -> State:
    """A step, of one substep, with the root moved as dflex moves it.

    dflex holds the velocity u of the material at the world's origin, and has p' = p + h (u' + ω' × p). In our
    coordinates, with the velocity v' that our own substep leads to:

        c = v' − h ω × v        p' = p + h c        dflex's v' = c + h ω' × c

    So dflex's root feels an acceleration h ω × (ω × c) that does not belong there and vanishes with h.
    """
    h, after = simulator.dt, simulator.step(state, control)
    carried = after.v[0, :3] - h * torch.linalg.cross(spin(state), state.v[0, :3])
    q, v = after.q.clone(), after.v.clone()
    q[0, :3] = state.q[0, :3] + h * carried
    v[0, :3] = carried + h * torch.linalg.cross(spin(after), carried)
    return State(q, v)


def spin(state: State) -> Tensor:
    """[3] angular velocity of the root, in world axes."""
    return rotation(state.q) @ state.v[0, 3:6]


def rotation(q: Tensor) -> Tensor:
    """[3, 3] of the root: 1 + 2 w K + 2 K², with K the cross matrix of the quaternion's imaginary part."""
    cross = cross_matrix(q[0, 4:7])
    return torch.eye(3, dtype=torch.float64) + 2.0 * q[0, 3] * cross + 2.0 * cross @ cross


def cross_matrix(a: Tensor) -> Tensor:
    """[3, 3] A with A b = a × b."""
    return torch.linalg.cross(a.expand(3, 3), torch.eye(3, dtype=a.dtype)).T
