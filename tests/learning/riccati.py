"""The optimal controller of the double integrator, by the Riccati recursion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from learning.double_integrator import COSTS, FORCE, TAU

A = np.array([[1.0, TAU], [0.0, 1.0]])
B = np.array([[0.0], [TAU * FORCE]])
Q = np.diag(COSTS[:2])
R = np.array([[COSTS[2]]])


def gains(steps: int) -> list[np.ndarray]:
    """Return the [1, 2] optimal gains of each step, a = −K s, computed backward from the last step:

    K = (R + Bᵀ P B)⁻¹ Bᵀ P A,        P <- Q + Aᵀ P (A − B K),        P = 0 after the last.
    """
    actual, p = [], np.zeros((2, 2))
    for _ in range(steps):
        k = np.linalg.solve(R + B.T @ p @ B, B.T @ p @ A)
        p = Q + A.T @ p @ (A - B @ k)
        actual.append(k)
    return actual[::-1]


def least_cost(starts: np.ndarray, steps: int) -> np.ndarray:
    """Return [N] sᵀ P s of [N, 2] initial states: the best controller's cost of an episode."""
    p = np.zeros((2, 2))
    for k in reversed(gains(steps)):
        p = Q + k.T @ R @ k + (A - B @ k).T @ p @ (A - B @ k)
    return np.einsum("ni,ij,nj->n", starts, p, starts)


def controller(planned: list[np.ndarray]) -> Callable[[Tensor], Tensor]:
    """A policy that applies the gains in turn: valid for one episode, started together in all worlds."""
    left = iter(planned)

    def act(obs: Tensor) -> Tensor:
        return -obs @ torch.as_tensor(next(left), dtype=obs.dtype).T

    return act
