"""Comparison of a robot's or task's gradients with finite differences, per joint, contact and output."""

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
from ahac.sim import Model

__all__ = ["CheckSettings", "GradientReport", "GradientRow", "check"]


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """Settings of a gradient check."""

    states: int = 16
    """Number of states to check."""
    steps: int = 200
    """Control steps with random actions from which the states are chosen, preferring states in contact."""
    tolerance: float = 1e-5
    """Largest relative error that passes."""
    seed: int = 0
    """Random seed of initial states, actions and the choice of states."""

    def __post_init__(self) -> None:
        check_int("states", self.states, 1)
        check_int("steps", self.steps, 1)
        check_int("seed", self.seed, 0)
        if not 0.0 < check_finite("tolerance", self.tolerance) < 1.0:
            raise InputError(f"tolerance must lie between 0 and 1, got {self.tolerance!r}")


@dataclass(frozen=True)
class GradientRow:
    """Result for one joint, control, output or contact."""

    name: str
    error: float
    """Largest relative error between derivative and finite difference; NaN if nothing was compared."""
    where: str
    """Counterpart (input or output) and state with the largest error."""
    kinks: int
    """Number of comparisons skipped because the function has a kink there."""
    touched: int | None = None
    """For contacts, the number of states in contact."""

    def verdict(self, tolerance: float) -> str:
        """Return "ok", "WRONG", or "not seen" if nothing was compared."""
        if math.isnan(self.error):
            return "not seen"
        return "ok" if self.error <= tolerance else "WRONG"


@dataclass(frozen=True, eq=False)
class GradientReport:
    """Results of a gradient check."""

    name: str
    states: int
    """Number of states checked."""
    tolerance: float
    """Largest relative error that passes."""
    inputs: list[GradientRow]
    """Positions and velocities per joint, controls and activations."""
    outputs: list[GradientRow]
    """Outputs of a step: positions, velocities and activations; for a task, also observation and reward terms."""
    contacts: list[GradientRow]
    """Derivatives of contact forces with respect to the state, per geom and plane."""
    errors: np.ndarray
    """[inputs, outputs] largest relative error over states; NaN if all comparisons hit a kink."""

    @property
    def rows(self) -> list[GradientRow]:
        """Rows of inputs, outputs and contacts."""
        return [*self.inputs, *self.outputs, *self.contacts]

    @property
    def passed(self) -> bool:
        """Whether no row is wrong."""
        return not self.wrong

    @property
    def wrong(self) -> list[GradientRow]:
        """Rows whose error exceeds the tolerance."""
        return [row for row in self.rows if row.verdict(self.tolerance) == "WRONG"]

    def table(self) -> str:
        """Return tables of inputs, outputs and contacts, followed by the verdict."""
        tables = {"by input": self.inputs, "by output of a step": self.outputs, "by contact": self.contacts}
        lines = [line for title, rows in tables.items() if rows for line in [*self._lines(title, rows), ""]]
        if not_seen := [row.name for row in self.rows if row.verdict(self.tolerance) == "not seen"]:
            lines.append(f"not seen in these states: {', '.join(not_seen)}")
        failed = f"WRONG: {', '.join(row.name for row in self.wrong)}"
        passed = f"all derivatives agree with finite differences to {self.tolerance:g}"
        return "\n".join([*lines, f"{self.name}, {self.states} states: {passed if self.passed else failed}"])

    def _lines(self, title: str, rows: list[GradientRow]) -> list[str]:
        width = max(len(title), *(len(row.name) for row in rows))
        lines = [f"{title:{width}}  {'error':>8}  {'kinks':>5}  {'verdict':8}  largest with"]
        for row in rows:
            error = "-" if math.isnan(row.error) else f"{row.error:.1e}"
            contact = "" if row.touched is None else f" (in contact in {row.touched} states)"
            line = (
                f"{row.name:{width}}  {error:>8}  {row.kinks:>5}  {row.verdict(self.tolerance):8}  {row.where}{contact}"
            )
            lines.append(line.rstrip())
        return lines


def check(
    what: str | os.PathLike[str] | Task | Model, settings: CheckSettings | None = None, track: Track = silent
) -> GradientReport:
    """Compare the derivatives of a control step with central differences, in float64.

    Args:
        what: A task as a name, FILE.py:NAME or `Task`; or a robot as an MJCF or URDF file or `Model`.
        settings: Number of states, tolerance and seed.
        track: Progress bar.
    """
    c = settings or CheckSettings()
    case = build_check_case(what, c.states, c.steps, c.seed)
    counts = list(case.outputs.values())
    step = compare(case.outcome, case.inputs, counts, c.tolerance, track, f"a step of {case.name}")
    names = case.coordinates
    outputs = list(case.outputs)
    groups = list(dict.fromkeys(names))
    members = [[i for i, name in enumerate(names) if name == group] for group in groups]
    worst = _max(step.error, 0)
    errors = np.array([_max(worst[own], 0).numpy() for own in members])
    return GradientReport(
        case.name,
        c.states,
        c.tolerance,
        inputs=[
            _summarize(name, _max(step.error[:, own], 1), int(step.kink[:, own].sum()), outputs)
            for name, own in zip(groups, members, strict=True)
        ],
        outputs=[
            _summarize(name, step.error[:, :, k], int(step.kink[:, :, k].sum()), names)
            for k, name in enumerate(outputs)
        ],
        contacts=_contact_rows(case, c.tolerance, names, track) if case.sim.model.contact_candidates else [],
        errors=errors,
    )


def _max(error: Tensor, dim: int) -> Tensor:
    """Return the maximum along a dimension, ignoring NaN (kinks)."""
    return torch.from_numpy(np.fmax.reduce(error.numpy(), axis=dim))


def _summarize(name: str, error: Tensor, kinks: int, others: Sequence[str], touched: int | None = None) -> GradientRow:
    """Return the row for errors [S, others]."""
    compared = error.nan_to_num(nan=-1.0)
    if compared.numel() == 0 or float(compared.max()) < 0.0:
        return GradientRow(name, math.nan, "", kinks, touched)
    state, other = divmod(int(compared.argmax()), compared.shape[1])
    return GradientRow(name, float(compared.max()), f"{others[other]}, state {state}", kinks, touched)


def _contact_rows(case: CheckCase, tolerance: float, names: Sequence[str], track: Track) -> list[GradientRow]:
    """Return a row per geom and plane, over the states in which they are in contact."""
    q, v, *_ = case.inputs
    force = compare(
        case.contact_forces, (q, v), [3] * len(case.sim.model.contact_candidates), tolerance, track, "contact forces"
    )
    depth = case.contacts(q, v).depth
    pairs = [(candidate.geom, candidate.plane.name) for candidate in case.sim.model.contact_candidates]
    rows = []
    for pair in dict.fromkeys(pairs):
        points = [k for k, other in enumerate(pairs) if other == pair]
        touching = depth[:, points] > 0.0
        error = torch.where(touching[:, None], force.error[:, :, points], torch.nan)
        kinks = int((force.kink[:, :, points] & touching[:, None]).sum())
        touched = int(touching.any(dim=1).sum())
        rows.append(_summarize(" on ".join(pair), _max(error, 2), kinks, names, touched))
    return rows
