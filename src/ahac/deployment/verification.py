"""Comparison of an exported policy with the library's, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from ahac.core.errors import AhacError
from ahac.deployment.program import PolicyProgram
from ahac.nets.policy_layers import Normalization

__all__ = ["TOLERANCE", "ExportError", "verify"]

TOLERANCE = 1e-5
"""Largest difference between exported and library actions, in [-1, 1]; float32 rounds to 6e-8."""
ROUNDING = 10.0
"""For huge observations, float32 itself may round by more than the tolerance; then the export may differ by this
multiple of the library's own rounding."""
MAGNITUDES = (1.0, 10.0, 1e3, 1e6)
"""Sizes of the compared observations, in standard deviations."""
SAMPLES = 128
"""Compared observations of each size."""
SEED = 0


class ExportError(AhacError, RuntimeError):
    """An exported policy does not compute what the library's policy does."""


def verify(
    program: PolicyProgram, act: Callable[[Tensor], Tensor], run: Callable[[np.ndarray], list[np.ndarray]]
) -> float:
    """Compare an exported program with the library on random observations.

    Args:
        program: Policy that was exported.
        act: The library's policy.
        run: Runs the exported program.

    Returns:
        Largest difference between actions, for observations within ten standard deviations.

    Raises:
        ExportError: If a difference is larger than `TOLERANCE`.
    """
    rng = np.random.default_rng(SEED)
    exact = deepcopy(program.layers).double()
    usual: list[float] = []
    for magnitude in MAGNITUDES:
        obs = _observations(program, magnitude, rng)
        expected = act(torch.from_numpy(obs)).numpy().astype(np.float64)
        with torch.no_grad():
            rounding = _largest(expected - exact(torch.from_numpy(obs).double()).numpy())
        tolerance = TOLERANCE if magnitude <= 10.0 else max(TOLERANCE, ROUNDING * rounding)
        error = max(_error(program, run(rows), expected[: len(rows)]) for rows in (obs, obs[:1]))
        if not error <= tolerance:
            raise ExportError(
                f"the exported policy differs from the library by up to {error:.2g}, expected at most {tolerance:.1g} "
                f"for observations of {magnitude:g} standard deviations; nothing was written. Try the other format and "
                "report this with the versions that `ahac doctor` shows"
            )
        if magnitude <= 10.0:
            usual.append(error)
    return max(usual)


def _observations(program: PolicyProgram, magnitude: float, rng: np.random.Generator) -> np.ndarray:
    """Draw [SAMPLES, obs_size] observations around those that the policy was trained with, if it knows them."""
    normal = magnitude * rng.standard_normal((SAMPLES, program.obs_size))
    first = program.layers[0]
    if isinstance(first, Normalization):
        normal = first.mean.double().numpy() + normal / first.scale.double().numpy()
    return normal.astype(np.float32)


def _error(program: PolicyProgram, outputs: list[np.ndarray], actions: np.ndarray) -> float:
    """Return the largest difference of the outputs, those of controls as a fraction of their range."""
    expected = [actions]
    scales: list[np.ndarray] = [np.ones(actions.shape[1])]
    if program.has_controls:
        middle, half_range = program.middle.double().numpy(), program.half_range.double().numpy()
        expected.append(middle + half_range * actions)
        scales.append(np.maximum(1.0, np.abs(middle) + half_range))
    shapes = [output.shape for output in outputs]
    if shapes != [actions.shape] * len(expected):
        raise ExportError(
            f"the exported policy returns arrays of shape {shapes}, expected {len(expected)} of {actions.shape}; "
            "nothing was written. Report this with the versions that `ahac doctor` shows"
        )
    return max(_largest((a - b) / c) for a, b, c in zip(outputs, expected, scales, strict=True))


def _largest(difference: np.ndarray) -> float:
    return float(np.abs(difference).max())
