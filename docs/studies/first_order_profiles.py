"""Statistics over tasks and performance profiles of the studies first-order and first-order-seconds.

    python docs/studies/first_order_profiles.py

prints the tables of docs/results/first-order.md and draws docs/images/first-order-profiles.svg.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import numpy as np

from ahac.plots.theme import COLORS, new_figure
from ahac.stats.across_tasks import METRICS
from ahac.stats.bootstrap import stratified_interval
from ahac.stats.comparison import performance_profile, probability_of_improvement

DOCS = Path(__file__).parents[1]
STUDIES = {"equal steps": "first-order.csv", "equal seconds": "first-order-seconds.csv"}
TASKS = ("hopper", "ant", "humanoid", "go1")
SETTINGS = {
    "ahac-reuse": "AHAC, reuse",
    "sapo-reuse": "SAPO, reuse",
    "rpo": "RPO",
    "sapo": "SAPO",
    "ivwh": "IVW-H",
    "ahac": "AHAC",
    "shac": "SHAC",
    "ppo": "PPO",
}
"""Settings by their part of the names of runs."""
NOT_DRAWN = ("ppo",)
"""Settings in the table but not in the figure: PPO is far behind on all tasks but Hopper."""
THRESHOLDS = np.linspace(0.5, 1.15, 261)

Scores = dict[str, list[np.ndarray]]
"""Scores of each setting, an array per task."""


def read(name: str) -> Scores:
    """Return the evaluations in a table, divided by the best setting's mean on the task."""
    runs: defaultdict[str, list[float]] = defaultdict(list)
    with (DOCS / "results" / name).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            runs[row["group"]].append(float(row["evaluation_mean"]))
    best = {task: max(np.mean(runs[f"{task}-{setting}"]) for setting in SETTINGS) for task in TASKS}
    return {setting: [np.array(runs[f"{task}-{setting}"]) / best[task] for task in TASKS] for setting in SETTINGS}


def estimate(statistic: Callable[..., np.ndarray], *samples: list[np.ndarray]) -> str:
    """Return a statistic of one or two settings with its 95 % stratified bootstrap interval."""
    low, high = stratified_interval(statistic, *samples, rng=np.random.default_rng(0))
    return f"{float(statistic(*samples)):.2f} [{float(low):.2f}, {float(high):.2f}]"


def table(scores: Scores) -> str:
    """Return the aggregate metrics of all settings, and the probabilities of improvement above one half."""
    lines = [
        " | ".join([label, *(estimate(metric, scores[setting]) for metric in METRICS.values())])
        for setting, label in SETTINGS.items()
    ]
    for first, second in permutations(SETTINGS, 2):
        samples = scores[first], scores[second]
        if probability_of_improvement(*samples) > 0.5:
            p = estimate(probability_of_improvement, *samples)
            lines.append(f"P({SETTINGS[first]} > {SETTINGS[second]}) = {p}")
    return "\n".join([" | ".join(["", *METRICS]), *lines, "", ""])


def draw(studies: dict[str, Scores], path: Path) -> None:
    """Draw a panel of performance profiles per study."""
    drawn = {setting: label for setting, label in SETTINGS.items() if setting not in NOT_DRAWN}
    with new_figure([path], 9.0, 3.8) as figure:
        panels = figure.subplots(1, len(studies), sharey=True)
        for axes, (title, scores) in zip(panels, studies.items(), strict=True):
            for (setting, label), color in zip(drawn.items(), COLORS, strict=False):
                fractions = performance_profile(scores[setting], THRESHOLDS)
                axes.plot(THRESHOLDS, fractions, color=color, linewidth=1.6, label=label, drawstyle="steps-post")
            axes.set(title=title, xlabel="normalized score τ", xlim=(THRESHOLDS[0], THRESHOLDS[-1]), ylim=(0.0, 1.02))
        panels[0].set_ylabel("fraction of runs with score > τ")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(drawn), fontsize=9.0)


if __name__ == "__main__":
    loaded = {title: read(name) for title, name in STUDIES.items()}
    for study, normalized in loaded.items():
        sys.stdout.write(f"{study}\n{table(normalized)}")
    draw(loaded, DOCS / "images" / "first-order-profiles.svg")
