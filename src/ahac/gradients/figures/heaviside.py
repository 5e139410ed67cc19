"""Figures of the soft Heaviside function: the paper's figure 2, and that of the appendix with widths and noises."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.gradients.figures.style import EXACT, FIRST, ZEROTH, note, title
from ahac.gradients.study import Study
from ahac.plots.theme import COLORS, new_figure

if TYPE_CHECKING:
    from ahac.plots.theme import Axes

__all__ = ["draw", "draw_appendix"]


def draw(study: Study, paths: Sequence[Path]) -> None:
    """Draw the function, its expectation, and the error of both estimates."""
    c = study.settings
    with new_figure(paths, 9.0, 3.4) as figure:
        left, right = figure.subplots(1, 2)
        _function(left, study)
        for name, color, label in (("first", FIRST, "first order"), ("zeroth", ZEROTH, "zeroth order")):
            right.loglog(study["sizes"], study[f"{name}_error"], color=color, linewidth=1.8, label=label)
        title(right, "error of the gradient")
        note(right, f"ν = {c['width']:g}, σ = {c['sigma']:g}")
        right.set_xlabel("samples N")
        right.set_ylabel("mean over θ of |estimate − exact|")
        right.legend(loc="lower left")


def draw_appendix(study: Study, paths: Sequence[Path]) -> None:
    """Draw the estimates against θ at the largest N, and the errors by ramp width and by noise."""
    c = study.settings
    with new_figure(paths, 12.0, 3.7) as figure:
        left, middle, right = figure.subplots(1, 3)
        theta = study["theta"]
        left.plot(theta, study["zeroth"], color=ZEROTH, linewidth=1.0, label="zeroth order")
        left.plot(theta, study["first"], color=FIRST, linewidth=1.0, label="first order")
        left.plot(theta, study["gradient"], color=EXACT, linewidth=1.6, label="exact")
        left.set_xlim(-6.0 * c["sigma"], 6.0 * c["sigma"])
        left.set_xlabel("θ")
        left.set_ylabel("gradient")
        left.legend(loc="upper left", fontsize=9.0)
        title(left, f"estimates at N = {c['samples']:,}")
        for axes, by, values, fixed in (
            (middle, "width", c["widths"], f"σ = {c['sigma']:g}"),
            (right, "sigma", c["sigmas"], f"ν = {c['width']:g}"),
        ):
            _errors(axes, study, by, values)
            note(axes, fixed)
        title(middle, "error, by width ν")
        title(right, "error, by noise σ")


def _function(axes: Axes, study: Study) -> None:
    theta = study["theta"]
    axes.plot(theta, study["function"], color=EXACT, linewidth=1.8, label=r"soft Heaviside $\bar{H}(\theta)$")
    axes.plot(
        theta, study["expectation"], color=COLORS[2], linewidth=1.8, label=r"expectation $E[\bar{H}(\theta + w)]$"
    )
    axes.set_xlabel("θ")
    axes.legend(loc="upper left", fontsize=9.0)
    axes.set_ylim(-1.1, 1.6)
    axes.set_xticks([-1.0, -0.5, 0.0, 0.5, 1.0])
    title(axes, "a step, and what noise makes of it")


def _errors(axes: Axes, study: Study, by: str, values: Sequence[float]) -> None:
    symbol = {"width": "ν", "sigma": "σ"}[by]
    for k, value in enumerate(values):
        fade = 1.0 - 0.75 * k / max(len(values) - 1, 1)
        for name, color, line_style in (("first", FIRST, "-"), ("zeroth", ZEROTH, "--")):
            label = f"{symbol} = {value:g}" if name == "first" else None
            axes.loglog(
                study["sizes"],
                study[f"{name}_by_{by}"][k],
                line_style,
                color=color,
                alpha=fade,
                linewidth=1.5,
                label=label,
            )
    axes.plot([], [], "--", color=ZEROTH, label="zeroth order")
    axes.set_xlabel("samples N")
    axes.set_ylabel("mean over θ of |estimate − exact|")
    axes.legend(loc="lower left", fontsize=8.5, title="first order", title_fontsize=8.5, alignment="left")
