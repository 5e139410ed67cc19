"""The result of an identification: estimates, intervals, and what the data cannot tell."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.core.files import read_json, write_json
from ahac.core.table import table_lines
from ahac.identification.statistics import Combination

if TYPE_CHECKING:
    from ahac.sim import Parameters

__all__ = ["Channel", "Identification", "read_estimates"]


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One measured quantity: how well the simulation follows it."""

    name: str
    """q or v, and the joint."""
    rms: float
    """Residual of the fit [rad, m, rad/s or m/s]."""
    autocorrelation: float
    """Correlation of consecutive residuals; about 0 for sensor noise."""
    before: float
    """Prediction error of the held-out segments with the default parameters."""
    after: float
    """Prediction error of the held-out segments with the estimates."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification:
    """Estimates of parameters from recorded motions."""

    parameters: Parameters
    """What was estimated."""
    values: Tensor
    """[P] estimates, float64."""
    standard_errors: Tensor
    """[P] standard errors of the estimates."""
    intervals: Tensor
    """[P, 2] 95 % confidence intervals, cut at the bounds."""
    correlation: Tensor
    """[P, P] correlation of the estimates."""
    undetermined: tuple[Combination, ...]
    """Parameters and combinations of parameters that the data do not determine; their values are near the defaults."""
    at_bounds: tuple[str, ...]
    """Labels of the parameters whose estimate is a bound."""
    channels: tuple[Channel, ...]
    """How well the simulation follows each measured quantity."""
    warnings: tuple[str, ...]
    """Reasons to doubt the estimates."""
    held_out: int
    """Number of held-out segments; if zero, `before` and `after` are those of the fitted segments."""
    segments: int
    """Number of fitted segments."""
    iterations: int
    """Iterations of the solver."""
    seconds: float
    """Duration of the fit [s]."""
    settings: dict[str, object] = field(default_factory=dict)
    """Step of the simulation: dt, substeps, integrator, segment."""

    @property
    def by_label(self) -> dict[str, float]:
        """Estimates by label."""
        return dict(zip(self.parameters.labels, self.values.tolist(), strict=True))

    def for_worlds(
        self, num_worlds: int, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return the estimates as parameters [N, P] of a step."""
        return self.values.to(device=device, dtype=dtype).repeat(num_worlds, 1)

    def table(self) -> str:
        """Return estimates, intervals, prediction errors and warnings as text."""
        lines = [*self._parameter_lines(), "", *self._channel_lines()]
        if self.undetermined:
            lines += ["", "not determined by the data:", *(f"  {each}" for each in self.undetermined)]
        if self.warnings:
            lines += ["", *(f"warning: {text}" for text in self.warnings)]
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a JSON file; `read_estimates` reads the values back."""
        rows = zip(
            self.parameters.labels,
            self.values.tolist(),
            self.standard_errors.tolist(),
            self.intervals.tolist(),
            strict=True,
        )
        content = {
            "model": self.parameters.model.name,
            "parameters": {
                label: {"value": value, "standard_error": _number(error), "interval": [_number(x) for x in interval]}
                for label, value, error, interval in rows
            },
            "correlation": [[_number(x) for x in row] for row in self.correlation.tolist()],
            "undetermined": [
                {"labels": c.labels, "coefficients": c.coefficients, "deviation": _number(c.deviation)}
                for c in self.undetermined
            ],
            "at_bounds": self.at_bounds,
            "channels": {c.name: {k: _number(v) for k, v in vars(c).items() if k != "name"} for c in self.channels},
            "warnings": self.warnings,
            "segments": self.segments,
            "held_out": self.held_out,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "settings": self.settings,
        }
        write_json(Path(path), json.loads(json.dumps(content)))

    def _parameter_lines(self) -> list[str]:
        defaults = self.parameters.defaults(1, dtype=torch.float64)[0].tolist()
        unknown = {label for combination in self.undetermined for label in combination.labels}
        rows = []
        for i, label in enumerate(self.parameters.labels):
            note = "not determined" if label in unknown else "at its bound" if label in self.at_bounds else ""
            low, high = self.intervals[i].tolist()
            unit = self.parameters.units[i]
            numbers = (f"{x:.4g}" for x in (defaults[i], float(self.values[i]), float(self.standard_errors[i])))
            rows.append((label, *numbers, f"{low:.4g} to {high:.4g}", unit, note))
        return table_lines(
            ("parameter", "default", "estimate", "std. error", "95 % interval", "unit", ""), rows, left=(0, 5, 6)
        )

    def _channel_lines(self) -> list[str]:
        where = "held-out segments" if self.held_out else "fitted segments"
        rows = [
            (c.name, *(f"{x:.3g}" for x in (c.rms, c.before, c.after)), f"{c.autocorrelation:.2f}")
            for c in self.channels
        ]
        header = ("channel", "residual", "error before", "after", "autocorrelation")
        return [f"{self.segments} segments; errors before and after are those of {where}", *table_lines(header, rows)]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def read_estimates(path: str | os.PathLike[str], parameters: Parameters) -> Tensor:
    """Return the values [P] of a saved result, for parameters with the same labels."""
    saved = read_json(Path(path)).get("parameters", {})
    missing = [label for label in parameters.labels if label not in saved]
    if missing:
        raise InputError(f"{path} has no estimate of {', '.join(missing)}; it has: {', '.join(saved) or 'none'}")
    return torch.tensor([saved[label]["value"] for label in parameters.labels], dtype=torch.float64)
