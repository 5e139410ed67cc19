"""Figures of a task study: gradients against the horizon, and the gait with its stiffness."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ahac.gradients.figures.style import EXACT, FIRST, ZEROTH, about, caption, shade, title
from ahac.gradients.gait import phase_means
from ahac.gradients.study import Study
from ahac.plots.theme import COLORS, new_figure, plain

if TYPE_CHECKING:
    from ahac.plots.theme import Axes

__all__ = ["draw", "draw_gait"]


def draw(study: Study, paths: Sequence[Path]) -> None:
    """Draw norms, error, variance and signal-to-noise ratio by horizon, and stiffness and gradients by step."""
    c, horizons = study.settings, study["horizons"]
    steps = np.arange(1, len(study["stiffness"]) + 1)
    with new_figure(paths, 12.0, 6.6) as figure:
        (norm, error, variance), (ratio, stiffness, gradient) = figure.subplots(2, 3)
        for axes in (norm, error, variance, ratio, stiffness, gradient):
            shade(axes, steps, study["contact"])
            axes.set_xlim(0.5, len(steps) + 0.5)
            axes.set_xlabel("horizon H [steps]")
        for name, color, label in (("zeroth", ZEROTH, "zeroth order"), ("first", FIRST, "first order")):
            norm.semilogy(horizons, study[f"{name}_norm"], "o-", color=color, markersize=3.5, label=label)
            variance.semilogy(horizons, study[f"{name}_variance"], "o-", color=color, markersize=3.5)
            ratio.semilogy(horizons, study[f"{name}_esnr"], "o-", color=color, markersize=3.5)
        norm.legend(loc="lower right", fontsize=9.0)
        title(norm, "norm of the estimates")
        error.semilogy(horizons, study["expected"], "--", color=EXACT, linewidth=1.2, label="expected by chance")
        error.semilogy(horizons, study["error"], "o-", color=FIRST, markersize=3.5, label="error")
        error.legend(loc="lower right", fontsize=9.0)
        title(error, "error: first less zeroth order")
        title(variance, "variance of one sample")
        title(ratio, "ESNR: signal to noise")
        ratio.axhline(1.0 / c["samples"], color=EXACT, linewidth=0.8, linestyle=":", label="pure noise, 1/N")
        ratio.legend(loc="best", fontsize=9.0)
        _steps(stiffness, steps, study)
        _gradients(gradient, steps, study)
        caption(figure, f"{about(c)}; N = {c['samples']:,}; darker: more worlds touch the ground in that step")


def draw_gait(study: Study, paths: Sequence[Path]) -> None:
    """Draw contacts and stiffness of each step, and both by phase if the gait repeats."""
    contact, stiffness = study["gait_contact"], study["gait_stiffness"]
    period = float(study["gait_period"])
    names = [str(name) for name in study["gait_geoms"]]
    repeats = bool(np.isfinite(period))
    with new_figure(paths, 12.0 if repeats else 8.6, 1.9 + 0.24 * max(len(names), 3)) as figure:
        left, *right = figure.subplots(1, 1 + repeats, width_ratios=[2.0, 1.0][: 1 + repeats], squeeze=False)[0]
        for k in range(len(names)):
            _bars(left, np.flatnonzero(contact[:, k]), k)
        _ticks(left, names)
        left.set_xlim(0, len(contact))
        left.set_xlabel("step")
        _stiffness_axis(left).plot(np.arange(len(stiffness)) + 0.5, stiffness, color=FIRST, linewidth=1.0)
        title(left, "contacts (bars) and stiffness ‖∇f‖ (line)")
        for axes in right:
            _phases(axes, contact, stiffness, period, names)
        caption(figure, about(study.settings) + (f"; period {period:.1f} steps" if repeats else "; no clear period"))


def _phases(axes: Axes, contact: np.ndarray, stiffness: np.ndarray, period: float, names: list[str]) -> None:
    """Draw contacts and stiffness by the phase of the gait."""
    means = phase_means(stiffness, period)
    share = phase_means(contact.astype(float), period)
    phases = (np.arange(len(means)) + 0.5) / len(means)
    axes.imshow(
        share.T,
        aspect="auto",
        origin="lower",
        extent=(0.0, 1.0, -0.5, len(names) - 0.5),
        cmap="Greys",
        vmin=0.0,
        vmax=1.6,
    )
    _ticks(axes, names)
    axes.set_xlabel("phase of the gait")
    _stiffness_axis(axes).plot(phases, means, color=FIRST, linewidth=1.8)
    title(axes, "mean over the gait's phase")


def _steps(axes: Axes, steps: np.ndarray, study: Study) -> None:
    axes.semilogy(steps, study["stiffness_max"], ":", color=FIRST, label="largest world")
    axes.semilogy(steps, study["stiffness"], color=FIRST, label="mean over worlds")
    axes.set_xlabel("step")
    axes.legend(loc="upper center", fontsize=9.0)
    title(axes, "stiffness ‖∇f‖ of each step")


def _gradients(axes: Axes, steps: np.ndarray, study: Study) -> None:
    axes.semilogy(steps, study["state_gradient"], color=COLORS[2], label="by the state before the step")
    axes.semilogy(steps, study["action_gradient"], color=COLORS[5], label="by the action")
    axes.set_xlabel("step")
    axes.legend(loc="best", fontsize=9.0)
    title(axes, f"gradient of the {len(steps)}-step return")


def _bars(axes: Axes, steps: np.ndarray, row: int) -> None:
    """Draw the steps in which a geom is in contact, consecutive steps as one bar."""
    for run in np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1) if len(steps) else []:
        axes.barh(row, len(run), left=float(run[0]), height=0.62, color="#c4c9cf", linewidth=0)


def _ticks(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), [plain(name) for name in names], fontsize=8.0)
    axes.set_ylim(-0.6, max(len(names), 1) - 0.4)
    axes.grid(visible=False)


def _stiffness_axis(axes: Axes) -> Axes:
    """Add a logarithmic axis for stiffness on the right."""
    other: Axes = axes.twinx()
    other.set_yscale("log")
    other.grid(visible=False)
    other.tick_params(axis="y", colors=FIRST)
    other.tick_params(axis="y", which="minor", labelright=False)
    return other
