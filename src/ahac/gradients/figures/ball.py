"""Figures of the ball study: the paper's figure 3 with variances and the lemma's bound, and the stiffness sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ahac.gradients.figures.style import BOUND, EXACT, FIRST, ZEROTH, note, shade, title, zero_line
from ahac.gradients.study import Study
from ahac.plots.theme import COLORS, MUTED, new_figure

if TYPE_CHECKING:
    from ahac.plots.theme import Axes

__all__ = ["draw", "draw_sweep"]

WALL = 1.75
"""Position of the wall [m], as in `assets/ball.xml`."""


def draw(study: Study, paths: Sequence[Path]) -> None:
    """Draw scene, estimates, error with its bounds, variances and signal-to-noise ratios; contact steps are shaded."""
    c, steps = study.settings, np.arange(1, len(study["error"]) + 1)
    with new_figure(paths, 12.0, 6.6) as figure:
        grid = figure.add_gridspec(2, 6)
        scene = figure.add_subplot(grid[0, :3])
        gradient = figure.add_subplot(grid[0, 3:])
        error, variance, ratio = (figure.add_subplot(grid[1, 2 * k : 2 * k + 2]) for k in range(3))
        _scene(scene, study)
        for axes in (gradient, error, variance, ratio):
            shade(axes, steps, study["contact"])
            axes.set_xlabel("horizon H [steps of 1/60 s]")
            axes.set_xlim(0.5, len(steps) + 0.5)
        for name, color, label in (("zeroth", ZEROTH, "zeroth order"), ("first", FIRST, "first order")):
            gradient.plot(steps, study[name], color=color, linewidth=1.8, label=label)
            variance.semilogy(steps, study[f"{name}_variance"], color=color, linewidth=1.8)
            ratio.semilogy(steps, study[f"{name}_esnr"], color=color, linewidth=1.8)
        zero_line(gradient, study["first"])
        gradient.legend(loc="upper left")
        title(gradient, "estimates of the gradient")
        note(gradient, f"N = {c['samples']:,}, σ = {c['sigma']:g} rad, ke = {c['stiffness']:.0e} N/m")
        _error(error, steps, study)
        title(variance, "variance of one sample")
        title(ratio, "ESNR: signal to noise")


def draw_sweep(study: Study, paths: Sequence[Path]) -> None:
    """Draw error and signal-to-noise ratio by contact stiffness, and at the longest horizon also by substeps."""
    c, steps = study.settings, np.arange(1, len(study["error"]) + 1)
    with new_figure(paths, 10.0, 6.6) as figure:
        (error, ratio), (end, finer) = figure.subplots(2, 2)
        for k, stiffness in enumerate(c["stiffnesses"]):
            fade = 0.25 + 0.75 * (k + 1) / len(c["stiffnesses"])
            error.semilogy(steps, study["sweep_error"][k], color=FIRST, alpha=fade, label=f"{stiffness:.0e} N/m")
            ratio.semilogy(steps, study["sweep_first_esnr"][k], color=FIRST, alpha=fade)
        ratio.semilogy(steps, study["sweep_zeroth_esnr"].mean(axis=0), color=ZEROTH, label="zeroth order, mean over ke")
        for axes in (error, ratio):
            shade(axes, steps, study["contact"])
            axes.set_xlabel("horizon H [steps of 1/60 s]")
            axes.set_xlim(0.5, len(steps) + 0.5)
        error.legend(loc="upper left", fontsize=8.5)
        ratio.legend(loc="lower left", fontsize=8.5)
        end.loglog(c["stiffnesses"], study["sweep_error"][:, -1], "o-", color=FIRST, label="error")
        end.loglog(c["stiffnesses"], study["sweep_expected"][:, -1], "--", color=EXACT, label="expected by chance")
        end.set_xlabel("stiffness of contact ke [N/m]")
        end.legend(loc="upper left", fontsize=8.5)
        for name, color, label in (("zeroth", ZEROTH, "zeroth order"), ("first", FIRST, "first order")):
            finer.loglog(c["refinements"], study[f"refined_{name}_esnr"][:, -1], "o-", color=color, label=label)
        finer.set_xticks(c["refinements"], [str(n) for n in c["refinements"]])
        finer.set_xticks([], minor=True)
        finer.set_xlabel("substeps per control step")
        finer.legend(loc="lower right", fontsize=8.5)
        title(error, "error, by stiffness")
        title(ratio, "ESNR, by stiffness")
        title(end, f"error at H = {len(steps)}")
        note(end, f"{c['substeps']} substeps")
        title(finer, f"ESNR at H = {len(steps)}, by substeps")
        note(finer, f"ke = {c['stiffness']:.0e} N/m")


def _scene(axes: Axes, study: Study) -> None:
    paths, target = study["paths"], study["target"]
    axes.plot(paths[:, 1:, 0], paths[:, 1:, 1], color=FIRST, alpha=0.12, linewidth=0.8)
    axes.plot(paths[:, 0, 0], paths[:, 0, 1], "o-", color=FIRST, linewidth=1.5, markersize=2.5, label="without noise")
    low, high = float(paths[..., 1].min()), float(paths[..., 1].max())
    axes.axhspan(low - 0.3, 0.0, color="#d9dde0", zorder=0)
    axes.axvspan(WALL, WALL + 0.4, color="#d9dde0", zorder=0)
    axes.plot(*target, "*", color=COLORS[3], markersize=14, label="target")
    axes.plot(*paths[0, 0], "o", color=EXACT, markersize=6, label="thrown from here")
    axes.set_xlim(min(float(paths[..., 0].min()), float(target[0])) - 0.3, WALL + 0.3)
    axes.set_ylim(low - 0.1, max(high, float(target[1])) + 0.3)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    axes.set_xlabel("x [m]")
    axes.set_ylabel("z [m]")
    axes.legend(loc="upper center", fontsize=8.5, ncols=3)
    title(axes, "a ball, the ground and a wall")


def _error(axes: Axes, steps: np.ndarray, study: Study) -> None:
    axes.semilogy(steps, study["bound"], ":", color=BOUND, linewidth=1.5, label="bound of the lemma")
    axes.semilogy(steps, study["tight_bound"], "-.", color=BOUND, linewidth=1.5, label="bound along the way")
    axes.semilogy(steps, study["expected"], "--", color=EXACT, linewidth=1.2, label="expected by chance")
    axes.semilogy(steps, study["error"], color=FIRST, linewidth=1.8, label="error")
    axes.set_ylim(0.3 * float(study["error"][study["error"] > 0.0].min()), 100.0 * float(study["tight_bound"].max()))
    axes.annotate(
        f"the lemma's bound reaches {study['bound'][-1]:.0e}",
        (0.98, 0.02),
        xycoords="axes fraction",
        ha="right",
        fontsize=8.0,
        color=MUTED,
    )
    axes.legend(loc="lower right", fontsize=8.0, bbox_to_anchor=(1.0, 0.4))
    title(axes, "error: first less zeroth order")
