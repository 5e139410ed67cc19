"""`ahac list`: tables of tasks, algorithms, runs, pretrained policies and studies."""

from __future__ import annotations

import math
import sys
from pathlib import Path

from ahac.cli.parser import Parser, one_of
from ahac.core.errors import InputError
from ahac.core.table import table_lines
from ahac.core.text import printable

__all__ = ["list_"]

WHAT = ("tasks", "algos", "runs", "pretrained", "studies")


def list_(arguments: list[str]) -> int:
    """Run `ahac list`."""
    about = "List tasks, algorithms, runs, pretrained policies, or the studies that `ahac sweep` knows by name."
    parser = Parser("ahac list", f"{'|'.join(WHAT)} [options]", about)
    parser.add_argument("what", type=one_of(*WHAT), metavar="|".join(WHAT), help="what to list")
    parser.add_argument(
        "--out", default="runs", metavar="FOLDER", help="for runs: folder of run folders, or one run (default: runs)"
    )
    options = parser.parse(arguments)
    rows = {
        "tasks": _task_rows,
        "algos": _algo_rows,
        "runs": lambda: _run_rows(Path(options.out)),
        "pretrained": _pretrained_rows,
        "studies": _study_rows,
    }[options.what]()
    sys.stdout.write("".join(f"{row}\n" for row in rows))
    return 0


def _task_rows() -> list[str]:
    from ahac.envs import make_task, tasks
    from ahac.envs.planning import observation_sizes

    rows = []
    for name in tasks():
        task = make_task(name)
        size = sum(observation_sizes(task).values())
        rows.append((name, *map(str, (size, task.model.nu, task.substeps, task.episode_steps))))
    return table_lines(("task", "observations", "actions", "substeps", "episode steps"), rows)


def _algo_rows() -> list[str]:
    from ahac.algos.recipes import describe_algorithms

    return table_lines(("algo", "description"), describe_algorithms().items(), left=(0, 1))


def _run_rows(folder: Path) -> list[str]:
    if not folder.is_dir():
        return [_no_runs(folder)]

    from ahac.experiments.run_files import find_runs

    header = ("run", "task", "algo", "iterations", "complete", "env steps", "return", "evaluation (IQM)")
    if not (runs := find_runs(folder)):
        return [_no_runs(folder)]
    return table_lines(header, map(_run_row, runs), left=(0, 1, 2, len(header) - 1))


def _no_runs(folder: Path) -> str:
    return printable(f"no runs in {folder}; `--out FOLDER` lists another folder")


def _run_row(folder: Path) -> tuple[str, ...]:
    from ahac.experiments.run_files import read_run

    try:
        run = read_run(folder)
    except (InputError, OSError) as error:  # a damaged run must not hide the others
        return (printable(str(folder)), *6 * "-", printable(str(error)))
    iterations, last_return = run.last("iteration", 0.0), run.last("episode_return")
    length = "" if run.settings.get("env_steps") else f"/{run.settings['iterations']}"
    cells = (
        str(folder),
        run.settings["task"],
        run.settings["algo"],
        f"{iterations:.0f}{length}",
        "yes" if run.complete else "no",
        f"{run.last('env_steps', 0.0):,.0f}",
        "-" if math.isnan(last_return) else f"{last_return:.1f}",
        run.score,
    )
    return tuple(map(printable, cells))


def _pretrained_rows() -> list[str]:
    from ahac.training.pretrained import available

    if not (names := available()):
        return ["this version has no pretrained policies; train one with `ahac train TASK`"]
    header = ("task", "algo", "env steps", "training [s]", "mean return", "in MuJoCo", "falls in MuJoCo")
    return table_lines(header, map(_pretrained_row, names), left=(0, 1))


def _pretrained_row(task: str) -> tuple[str, ...]:
    from ahac.core.files import read_json
    from ahac.training.pretrained import pretrained_folder
    from ahac.training.run import open_run

    folder = pretrained_folder(task)
    about = read_json(folder / "manifest.json")
    own = about["evaluation"] or {}
    mujoco = (about["evaluation_mujoco"] or {}).get("engines", [{}])[-1]
    figures = (own.get("mean"), ".1f"), (mujoco.get("mean"), ".1f"), (mujoco.get("falls"), ".1%")
    return (
        task,
        open_run(folder).config.algo,
        f"{about['env_steps']:,}",
        f"{about['seconds']:.0f}",
        *("-" if x is None else format(x, form) for x, form in figures),
    )


def _study_rows() -> list[str]:
    from ahac.experiments.study import available, read_study

    studies = [read_study(path) for path in available().values()]
    rows = [(study.name, str(len(study.runs)), study.about) for study in studies]
    return table_lines(("study", "runs", "about"), rows, left=(0, 2))
