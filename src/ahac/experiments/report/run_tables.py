"""Tables of a report about the runs themselves: machines and versions, all runs, and those that were skipped."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ahac.algos.hyperparameters import TASKS
from ahac.core.config import flatten, to_dict
from ahac.core.errors import InputError
from ahac.experiments.report.data import ReportData
from ahac.experiments.report.document import Table
from ahac.experiments.report.tables import NONE, number_text
from ahac.experiments.run_files import RunFiles
from ahac.training.api import configure
from ahac.training.config import NON_SEMANTIC_FIELDS

__all__ = ["changed_settings", "common_folder", "machine_table", "run_table", "skipped_table"]

HARDWARE = ("host", "cores", "gpu", "device", "python")
"""Columns of the table of machines, by their keys in manifest.json."""
PACKAGES = ("ahac", "torch", "warp-lang", "mujoco", "numpy")
UNCOMPARED = NON_SEMANTIC_FIELDS | {
    "task", "task_source", "algo", "preset", "seed", "schema", "integrator", "eval_episodes",
}  # fmt: skip
"""Settings that are not listed as changed: other columns show them, or a run fills them in."""


def machine_table(data: ReportData) -> Table:
    """Return a row per distinct content of manifest.json, with the number of its runs."""
    counts = Counter(_machine(run.manifest) for run in _runs(data))
    rows = [(*cells, str(count), platform) for (*cells, platform), count in counts.items()]
    # The longest column is the last one, since the table may be wider than the page.
    header = (*("GPU" if name == "gpu" else name for name in HARDWARE), *PACKAGES, "commit", "runs", "platform")
    return Table(header, rows, left={*range(len(header))} - {header.index("runs")}, wraps=False)


def _machine(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a run's manifest.json, the platform at the end; "–" for what it lacks."""
    versions = content.get("versions")
    versions = versions if isinstance(versions, Mapping) else {}
    git = content.get("git")
    commit = NONE
    if isinstance(git, Mapping) and git.get("commit"):
        commit = f"{str(git['commit'])[:9]}{' + changes' if git.get('changed') else ''}"
    values = [*(content.get(name) for name in HARDWARE), *(versions.get(name) for name in PACKAGES)]
    *cells, platform = (NONE if value is None else str(value) for value in [*values, content.get("platform")])
    return (*cells, commit, platform)


def common_folder(data: ReportData) -> Path:
    """Return the deepest folder that holds all run folders, even skipped ones."""
    parents = [path.parent for path in (*(run.folder for run in _runs(data)), *data.skipped)]
    return Path(os.path.commonpath(parents))


def run_table(data: ReportData) -> Table:
    """Return a row per run."""
    base = common_folder(data)
    rows = [_run_cells(run, base) for run in _runs(data)]
    header = (
        "folder", "task", "algo", "preset", "changed settings", "seed", "env steps", "seconds", "evaluation",
        "complete",
    )  # fmt: skip
    return Table(header, rows, left=(0, 1, 2, 3, 4, len(header) - 1))


def _run_cells(run: RunFiles, base: Path) -> tuple[str, ...]:
    settings = run.settings
    return (
        str(run.folder.relative_to(base)),
        settings["task"],
        settings["algo"],
        settings["preset"],
        changed_settings(run),
        str(settings["seed"]),
        number_text(run.last("env_steps")),
        number_text(run.last("seconds")),
        NONE if run.evaluation is None else number_text(run.evaluation["mean"]),
        "yes" if run.complete else f"no: {_progress(run)}",
    )


def _progress(run: RunFiles) -> str:
    """Return how far an incomplete run got."""
    if (steps := run.settings.get("env_steps")) is not None:
        return f"{run.last('env_steps'):,.0f} of {steps:,} steps"
    return f"{run.last('iteration'):,.0f} of {run.settings['iterations']:,} iterations"


def changed_settings(run: RunFiles) -> str:
    """Return the settings of a run that differ from this version's recipe; "–" if there is no recipe."""
    task = run.settings["task"]
    if task not in TASKS:
        return NONE
    try:
        recipe = flatten(to_dict(configure(task, run.settings["algo"], run.settings["preset"])))
    except InputError:  # an algorithm or preset that is not installed
        return NONE
    given = flatten(run.settings)
    if given.get("env_steps") is not None:  # it replaces the iterations
        given.pop("iterations", None)
    return ", ".join(
        f"{name}={_setting_text(given[name])}"
        for name, value in recipe.items()
        if name in given and name not in UNCOMPARED and given[name] != value
    )


def _setting_text(value: Any) -> str:  # noqa: ANN401 - any setting
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def skipped_table(data: ReportData) -> Table:
    """Return a row per run that could not be used."""
    base = common_folder(data)
    rows = [(str(path.relative_to(base)), reason.replace(f"{path}/", "")) for path, reason in data.skipped.items()]
    return Table(("folder", "reason"), rows, left=(0, 1))


def _runs(data: ReportData) -> Iterable[RunFiles]:
    """Return all runs, by task and column."""
    for task in data.tasks:
        for column in data.columns:
            if (group := data.group(task, column)) is not None:
                yield from sorted(group.runs, key=lambda run: run.settings["seed"])
