"""What travels between steps, and what the simulator answers; all tensors have worlds first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

__all__ = ["Contacts", "Poses", "State", "Wrenches"]


@dataclass(frozen=True, eq=False)
class State:
    """Positions and velocities of N worlds, in MuJoCo's conventions; a caller may build one."""

    q: Tensor
    """[N, nq], as MuJoCo's qpos."""
    v: Tensor
    """[N, nv], as MuJoCo's qvel."""
    readouts: Mapping[str, Tensor] = field(default_factory=dict)
    """[N, ...] per function handed to the simulator, evaluated on this state; empty on a state that a caller built."""

    def detach(self) -> State:
        """The same numbers, cut off from the graph."""
        readouts = {name: value.detach() for name, value in self.readouts.items()}
        return replace(self, q=self.q.detach(), v=self.v.detach(), readouts=readouts)


@dataclass(frozen=True, eq=False)
class Contacts:
    """Every point that may touch a plane, touching or not; P points, `names` says which."""

    names: tuple[tuple[str, str], ...]
    """(geom, plane) of each point."""
    depth: Tensor
    """[N, P] penetration [m]; negative is clearance."""
    velocity: Tensor
    """[N, P, 3] of the link's material at the point, world axes [m/s]."""
    force: Tensor
    """[N, P, 3] on the link, world axes [N]."""
    force_by_depth: Tensor
    """[N, P, 3] ∂force/∂depth [N/m]."""
    force_by_velocity: Tensor
    """[N, P, 3, 3] ∂force/∂velocity [N s/m]; row: force, column: velocity."""


@dataclass(frozen=True, eq=False)
class Poses:
    """Frames of the file's bodies, also of those merged into others."""

    names: tuple[str, ...]
    position: Tensor
    """[N, B, 3] [m]."""
    rotation: Tensor
    """[N, B, 3, 3], body axes to world axes."""


@dataclass(frozen=True, eq=False)
class Wrenches:
    """What contact does to links: L links that may touch a plane; wrenches are (torque; force) in world axes."""

    names: tuple[str, ...]
    wrench: Tensor
    """[N, L, 6] about the position of the tree's root [N m] and [N]."""
    velocity_product_acceleration: Tensor
    """[N, L, 6] spatial acceleration (angular; linear) by velocity products alone: v̇ = 0, no gravity, and seen by an
    observer who travels with the root."""
