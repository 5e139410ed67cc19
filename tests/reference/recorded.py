"""What the tests against dflex share: how its recorded numbers are held, what it was given, how ours are compared.

dflex is the simulator of imgeorgiev/DiffRL. It computed in float32, we compute in float64.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import ahac
from ahac.sim import Model, load_model

__all__ = [
    "DT",
    "ROUNDING",
    "SUBSTEPS",
    "SUBSTEP_TOLERANCE",
    "Gradient",
    "Snapshot",
    "Substep",
    "action",
    "assert_close",
    "row",
    "task_robot",
]

DT = 1.0 / 60.0
SUBSTEPS = 16

ROUNDING = 2.0**-24
"""Of one operation in float32, relative."""

SUBSTEP_TOLERANCE = 16 * ROUNDING
"""Relative to a vector's largest entry: a substep adds up some ten rounded terms in a row, along the chain of links,
and dflex's joint axes miss unit length by two roundings."""


@dataclass(frozen=True)
class Substep:
    """Around the first substep, from rest."""

    tau: tuple[float, ...]
    """Generalised force: actuators, gravity; no contact and no limit acts."""
    acceleration: tuple[float, ...]
    mass_matrix: tuple[tuple[float, ...], ...]
    """Without armature."""
    q: tuple[float, ...]
    """After it."""
    v: tuple[float, ...]


@dataclass(frozen=True)
class Snapshot:
    """A state of the trajectory."""

    q: tuple[float, ...]
    v: tuple[float, ...]
    q_spread: float
    """Largest change of q here in dflex when every start coordinate is moved by a random number in ±1e-6."""
    v_spread: float


@dataclass(frozen=True)
class Gradient:
    """Of the sum of eight rewards, by dflex's own backpropagation."""

    actions: tuple[tuple[float, ...], ...]
    """By each of the eight actions (the last one enters its own reward only)."""
    q: tuple[float, ...]
    """By the state at the start."""
    v: tuple[float, ...]


def task_robot(name: str) -> Model:
    """The robot of one of our tasks."""
    return load_model(Path(ahac.__file__).parent / "envs" / "assets" / f"{name}.xml", strict=True)


def row(numbers: tuple[float, ...]) -> Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def action(t: int, count: int) -> Tensor:
    """The float32 numbers that dflex was given at step `t`."""
    return row(tuple(0.5 * math.sin(0.1 * t + i) for i in range(count))).float().double()


def assert_close(ours: Tensor, recorded: tuple | Tensor, tolerance: float) -> None:
    """Every entry within `tolerance` times the largest recorded entry of its row."""
    wanted = torch.as_tensor(recorded, dtype=torch.float64).reshape(ours.shape)
    error = (ours - wanted).abs()
    scale = wanted.abs().amax(dim=-1, keepdim=True)
    assert (error <= tolerance * scale).all(), f"relative errors up to {(error / scale).max():.1e}, not {tolerance:.1e}"
