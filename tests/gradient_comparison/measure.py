"""Central differences, the agreement of a gradient with them, and times."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from gradient_comparison.cases import Array, Case
from gradient_comparison.protocol import Engine

__all__ = ["Agreement", "accuracy", "agreement", "central_differences", "speed"]

SIZES = {True: (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9), False: (1e-2, 1e-3, 3e-4, 1e-4, 3e-5)}
"""Step sizes of central differences, in float64 and in float32; all inputs are of order 1."""
HORIZONS = (1, 10, 100)
STARTS = 3
WORLDS = (1, 256)
SHORTEST = 1.0
"""CPU time [s] for which a gradient is repeated at least, and then twice."""


@dataclass(frozen=True)
class Agreement:
    """How well a gradient agrees with central differences; None if it is not finite."""

    error: float | None
    """‖g − d‖ / ‖d‖, for the step size with the smallest error."""
    cosine: float | None
    """Cosine similarity of g and d, for the same step size."""
    size: float
    spread: float | None
    """Smallest relative difference between central differences of neighboring step sizes: how well d is known."""
    nonfinite: int
    """Number of entries of the gradient that are infinite or not a number."""
    norm: float | None


def agreement(gradient: Array, differences: Array, sizes: Sequence[float]) -> Agreement:
    """Compare a gradient [nx] with central differences [len(sizes), nx]."""
    norms = np.linalg.norm(differences, axis=1)
    spread = _ratio(np.linalg.norm(np.diff(differences, axis=0), axis=1), norms[1:])
    nonfinite = int((~np.isfinite(gradient)).sum())
    errors = _ratio(np.linalg.norm(gradient - differences, axis=1), norms)
    best = int(np.argmin(np.where(np.isnan(errors), np.inf, errors)))
    known = float(np.nanmin(spread)) if np.isfinite(spread).any() else None
    if nonfinite or not np.isfinite(errors[best]):
        return Agreement(None, None, sizes[best], known, nonfinite, None)
    length = float(np.linalg.norm(gradient))
    cosine = _ratio(differences[best] @ gradient, np.array(norms[best] * length))
    return Agreement(float(errors[best]), float(cosine), sizes[best], known, 0, length)


def _ratio(a: Array, b: Array) -> Array:
    """Return a / b, and a where b is zero."""
    return a / np.where(b == 0.0, 1.0, b)


def central_differences(
    evaluate: Callable[[Array], Array], inputs: Array, sizes: Sequence[float], weights: Array
) -> Array:
    """Return central differences [H, S, len(sizes), nx] of weighted final states.

    Args:
        evaluate: Function that returns states [H, N, nq + nv] of inputs [N, nx].
        inputs: [S, nx] points at which to differentiate.
        sizes: Step sizes.
        weights: [nq + nv] weights of the final state.
    """
    count, nx = inputs.shape
    steps = np.array(sizes)[:, None, None] * np.eye(nx)
    moved = inputs[:, None, None, None] + np.stack([steps, -steps], axis=2)
    scalars = (evaluate(moved.reshape(-1, nx)) @ weights).reshape(-1, count, len(sizes), nx, 2)
    return (scalars[..., 0] - scalars[..., 1]) / (2.0 * np.array(sizes)[:, None])


def accuracy(engine: Engine, case: Case, double: bool, starts: int = STARTS) -> dict[str, object]:
    """Return agreements by horizon, one for each start."""
    inputs, sizes = case.starts(starts), SIZES[double]
    worlds = starts * len(sizes) * case.inputs * 2
    forward = engine.load(case, worlds, double)
    differences = central_differences(lambda x: forward.states(x, HORIZONS), inputs, sizes, case.weights())
    rollouts = engine.load(case, starts, double)
    found: dict[str, object] = {}
    for steps, by_start in zip(HORIZONS, differences, strict=True):
        gradients = rollouts.gradients(inputs, steps)
        pairs = zip(gradients, by_start, strict=True)
        found[str(steps)] = [asdict(agreement(g, d, sizes)) for g, d in pairs]
    return found


def speed(engine: Engine, case: Case, clock: Callable[[], float] | None = None) -> dict[str, dict[str, float]]:
    """Return CPU seconds of a gradient through the longest horizon and of everything before the second one, in float32.

    CPU time includes that of child processes. It does not count time in which other processes used the core.
    """
    clock = clock or _cpu_time
    found: dict[str, dict[str, float]] = {}
    for worlds in WORLDS:
        inputs = np.tile(case.starts(1), (worlds, 1))
        begin = clock()
        rollouts = engine.load(case, worlds, double=False)
        rollouts.gradients(inputs, HORIZONS[-1])
        first = clock() - begin
        times: list[float] = []
        while sum(times) < SHORTEST or len(times) < 2:
            begin = clock()
            rollouts.gradients(inputs, HORIZONS[-1])
            times.append(clock() - begin)
        found[str(worlds)] = {"gradient": min(times), "compile": first - min(times)}
    return found


def _cpu_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
