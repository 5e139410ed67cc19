"""A driven pendulum in plain torch, as a system with Jacobians."""

import math

import torch
from torch import Tensor

from ahac.identification.dynamics import Observation, delayed_controls
from ahac.identification.segments import Segments
from ahac.identification.solver import Coordinates, Prior

DT = 0.01
TRUE = torch.tensor([0.12, 0.4, 0.3, 0.2, 0.05, 0.0234, 0.5], dtype=torch.float64)
START = torch.tensor([0.06, 0.1, 0.2, 0.2, 0.0, 0.015, 0.3], dtype=torch.float64)
SCALE = torch.tensor([0.06, 0.1, 0.2, 0.2, 0.1, 0.01, 0.3], dtype=torch.float64)
LABELS = ("inertia", "damping", "mass1", "mass2", "offset", "delay", "unused")
NOISE = torch.tensor([1e-3, 2e-2], dtype=torch.float64)
HISTORY = 6


class Pendulum:
    """A pendulum with two weights at the same place, driven by a servo that measures its angle with an offset."""

    tangent_size = 2

    def step(self, x: Tensor, u: Tensor, p: Tensor) -> Tensor:
        inertia, damping, mass1, mass2, offset, _, _ = p
        q, v = x.unbind(dim=-1)
        torque = 10.0 * (u[:, 0] - q - offset) - damping * v - 3.0 * (mass1 + mass2) * torch.sin(q)
        v = v + DT * torque / inertia
        return torch.stack([q + DT * v, v], dim=-1)

    def jacobian(self, x: Tensor, u: Tensor, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inertia, damping, mass1, mass2, offset, _, _ = p
        q, v = x.unbind(dim=-1)
        torque = 10.0 * (u[:, 0] - q - offset) - damping * v - 3.0 * (mass1 + mass2) * torch.sin(q)
        one, none = torch.ones_like(q), torch.zeros_like(q)
        # Derivatives of the new velocity; those of the new position are DT times as large, plus that of the old one.
        by_x = torch.stack([-10.0 - 3.0 * (mass1 + mass2) * torch.cos(q), -damping * one], dim=-1) * DT / inertia
        by_x = by_x + torch.tensor([0.0, 1.0], dtype=x.dtype)
        by_u = 10.0 * DT / inertia * one[:, None]
        weight = -3.0 * torch.sin(q)
        by_p = torch.stack([-torque / inertia, -v, weight, weight, -10.0 * one, none, none], dim=-1) * DT / inertia
        first = torch.tensor([1.0, 0.0], dtype=x.dtype)
        positions = (DT * by_x + first, DT * by_u, DT * by_p)
        a, b, c = (torch.stack(pair, dim=1) for pair in zip(positions, (by_x, by_u, by_p), strict=True))
        return a, b, c

    def move(self, x: Tensor, step: Tensor) -> Tensor:
        return x + step

    def difference(self, x: Tensor, measured: Tensor) -> Tensor:
        return x[..., : measured.shape[-1]] - measured


def observation(channels: int = 2) -> Observation:
    offsets = torch.zeros(2, len(TRUE), dtype=torch.float64)
    offsets[0, 4] = 1.0
    return Observation(offsets, torch.zeros(2, dtype=torch.float64), channels, DT, delay=5)


def record(noise: float, count: int = 12, steps: int = 60, channels: int = 2, seed: int = 0) -> Segments:
    """Return segments of a chirp with noise, in multiples of the standard noise."""
    rng = torch.Generator().manual_seed(seed)
    time = torch.arange(count * (steps + 1), dtype=torch.float64) * DT
    targets = (0.9 * torch.sin(2.0 * math.pi * (0.3 + 0.2 * time) * time))[:, None]
    history = torch.cat([targets[:1].expand(HISTORY, -1), targets])
    late, _ = delayed_controls(history[None], TRUE[5], DT, len(targets))
    x = torch.zeros(1, 2, dtype=torch.float64)
    states = []
    for k in range(len(targets)):
        states.append(x)
        x = Pendulum().step(x, late[:, k], TRUE)
    measured = torch.cat(states) + observation().offsets @ TRUE
    measured += noise * NOISE * torch.randn(measured.shape, generator=rng, dtype=torch.float64)
    first = torch.arange(count) * (steps + 1)
    rows = first[:, None] + torch.arange(steps + 1)
    controls = torch.stack([history[k : k + HISTORY + steps] for k in first.tolist()])
    return Segments(measured[rows][..., :channels], measured[first], controls)


def coordinates() -> Coordinates:
    lower = torch.tensor([1e-3, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0], dtype=torch.float64)
    upper = torch.tensor([9.0, 9.0, 9.0, 9.0, 1.0, 0.05, 9.0], dtype=torch.float64)
    return Coordinates(lambda z: z.clone(), lower, upper, torch.zeros(len(TRUE), dtype=torch.bool))


def prior() -> Prior:
    return Prior(START, torch.diag((10.0 * SCALE) ** -2))
