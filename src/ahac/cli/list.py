"""`ahac list`: tasks, algorithms and runs, a line each."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from ahac.core.errors import InputError
from ahac.core.text import printable

__all__ = ["list_runs"]


def list_runs(arguments: list[str]) -> int:
    """list tasks, algorithms or runs"""
    parser = argparse.ArgumentParser(prog="ahac list", description="List tasks, algorithms or runs, a line each.")
    parser.add_argument("what", choices=["tasks", "algos", "runs"])
    parser.add_argument("--out", default="runs", help="folder of run folders, or a single run (default: runs)")
    options = parser.parse_args(arguments)
    rows = {"tasks": _task_rows, "algos": _algo_rows, "runs": lambda: _run_rows(Path(options.out))}[options.what]()
    for row in rows:
        sys.stdout.write(f"{row}\n")
    return 0


def _task_rows() -> list[str]:
    from ahac.envs import make_task, tasks
    from ahac.envs.tracing import observation_sizes

    rows = [f"{'task':16} {'obs':>4} {'actions':>8} {'substeps':>9} {'episode':>8}"]
    for name in tasks():
        task = make_task(name)
        size = sum(observation_sizes(task).values())
        rows.append(f"{name:16} {size:4} {task.model.nu:8} {task.substeps:9} {task.episode_steps:8}")
    return rows


def _algo_rows() -> list[str]:
    from ahac.algos.recipes import ALGOS

    return [f"{name:6} {text}" for name, text in ALGOS.items()]


def _run_rows(folder: Path) -> list[str]:
    from ahac.experiments.run_files import find_runs

    title = ("run", "task", "algo", "iterations", "complete", "env steps", "return", "evaluation")
    runs = find_runs(folder)
    return [_line(title), *(_run_row(run) for run in runs)] if runs else [printable(f"no runs in {folder}")]


def _run_row(folder: Path) -> str:
    from ahac.experiments.run_files import read_run

    try:
        run = read_run(folder)
    except (InputError, OSError) as error:  # one damaged run must not hide the others
        return printable(f"{folder.name:32} {error}")
    done, achieved = run.last("iteration", 0.0), run.last("episode_return")
    length = "" if run.settings.get("env_steps") else f"/{run.settings['iterations']}"
    return _line(
        (
            folder.name,
            run.settings["task"],
            run.settings["algo"],
            f"{done:.0f}{length}",
            "yes" if run.complete else "no",
            f"{run.last('env_steps', 0.0):,.0f}",
            "-" if math.isnan(achieved) else f"{achieved:.1f}",
            run.score,
        )
    )


def _line(cells: tuple[str, ...]) -> str:
    name, task, algo, *numbers, worth = map(printable, cells)
    return f"{name:32} {task:15} {algo:6} " + " ".join(f"{cell:>12}" for cell in numbers) + f"  {worth}"
