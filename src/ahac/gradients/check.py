"""Gradients of a robot or task against finite differences: joint by joint, contact by contact, output by output."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ahac.core.checks import check_finite, check_int
from ahac.core.errors import InputError
from ahac.envs import Task
from ahac.gradients.check_cases import CheckCase, build_check_case
from ahac.gradients.finite_differences import compare
from ahac.gradients.progress import Track, silent
from ahac.gradients.report import GradientReport, GradientRow
from ahac.sim import Model, State

__all__ = ["CheckSettings", "check"]


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """Of a check."""

    states: int = 16
    """States that are looked at."""
    steps: int = 200
    """Control steps under random actions out of which they are chosen, contacts first."""
    tolerance: float = 1e-5
    """Largest relative difference that passes."""
    seed: int = 0
    """Of starts, actions and choice."""

    def __post_init__(self) -> None:
        check_int("states", self.states, 1)
        check_int("steps", self.steps, 1)
        check_int("seed", self.seed, 0)
        if not 0.0 < check_finite("tolerance", self.tolerance) < 1.0:
            raise InputError(f"tolerance must lie between 0 and 1, got {self.tolerance!r}")


def check(
    what: str | os.PathLike[str] | Task | Model, settings: CheckSettings | None = None, track: Track = silent
) -> GradientReport:
    """Compare the derivatives of a control step, in float64, with central differences.

    Args:
        what: A task by name, as FILE.py:NAME or as a `Task`; or a robot, as an MJCF or URDF file or as a `Model`.
        settings: How many states, and how strict.
        track: Shows how far it is.
    """
    c = settings or CheckSettings()
    found = build_check_case(what, c.states, c.steps, c.seed)
    counts = list(found.outputs.values())
    step = compare(found.outcome, found.inputs, counts, c.tolerance, track, f"a step of {found.name}")
    names, outputs = found.coordinates, list(found.outputs)
    groups = list(dict.fromkeys(names))
    members = [[i for i, name in enumerate(names) if name == group] for group in groups]
    worst = _over(step.error, 0)
    errors = np.array([_over(worst[own], 0).numpy() for own in members])
    return GradientReport(
        found.name,
        c.states,
        c.tolerance,
        inputs=[
            _summarize(name, _over(step.error[:, own], 1), int(step.kink[:, own].sum()), outputs)
            for name, own in zip(groups, members, strict=True)
        ],
        outputs=[
            _summarize(name, step.error[:, :, k], int(step.kink[:, :, k].sum()), names)
            for k, name in enumerate(outputs)
        ],
        contacts=_contact_rows(found, c.tolerance, names, track) if found.sim.model.contact_candidates else [],
        errors=errors,
    )


def _over(error: Tensor, dim: int) -> Tensor:
    """The largest along a dimension, kinks apart."""
    return torch.from_numpy(np.fmax.reduce(error.numpy(), axis=dim))


def _summarize(name: str, error: Tensor, kinks: int, others: Sequence[str], touched: int | None = None) -> GradientRow:
    """Of [S, others] errors."""
    known = error.nan_to_num(nan=-1.0)
    if known.numel() == 0 or float(known.max()) < 0.0:
        return GradientRow(name, math.nan, "", kinks, touched)
    state, other = divmod(int(known.argmax()), known.shape[1])
    return GradientRow(name, float(known.max()), f"{others[other]}, state {state}", kinks, touched)


def _contact_rows(found: CheckCase, tolerance: float, names: Sequence[str], track: Track) -> list[GradientRow]:
    """By shape and plane, of the states in which it touches."""
    q, v, _ = found.inputs
    force = compare(
        found.contact_forces, (q, v), [3] * len(found.sim.model.contact_candidates), tolerance, track, "contact forces"
    )
    depth = found.sim.contacts(State(q, v)).depth
    pairs = [(touch.geom, touch.plane.name) for touch in found.sim.model.contact_candidates]
    rows = []
    for pair in dict.fromkeys(pairs):
        points = [k for k, other in enumerate(pairs) if other == pair]
        touching = depth[:, points] > 0.0
        error = torch.where(touching[:, None], force.error[:, :, points], torch.nan)
        kinks = int((force.kink[:, :, points] & touching[:, None]).sum())
        touched = int(touching.any(dim=1).sum())
        rows.append(_summarize(" on ".join(pair), _over(error, 2), kinks, names, touched))
    return rows
