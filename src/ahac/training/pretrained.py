"""Pretrained policies: small run folders that come with the package.

`pack` makes one from a run, `pretrained` opens one by the name of its task. It contains:

    config.json       settings of the run                metrics.csv       at most 200 rows of its metrics
    manifest.json     versions, hardware, git state, training command, duration, evaluations
    checkpoints/      last: what acting needs, policy and observation normalizer
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from ahac.core.config import flatten, to_dict
from ahac.core.device import fallback_device
from ahac.core.errors import InputError
from ahac.core.files import read_json, write_json
from ahac.envs import tasks
from ahac.training.api import configure
from ahac.training.checkpoint import LAST, Checkpoint, save_checkpoint
from ahac.training.config import NON_SEMANTIC_FIELDS, RunConfig, config_to_file
from ahac.training.csv_log import CsvLog, read_csv
from ahac.training.preflight import claim_folder, new_folder
from ahac.training.run import Run, open_run
from ahac.training.task_source import resolve_task

__all__ = ["FOLDER", "available", "pack", "pretrained", "pretrained_folder", "training_command"]

logger = logging.getLogger("ahac")

FOLDER = Path(str(files("ahac"))) / "pretrained"
"""Folder of the pretrained policies in the package, one for each task."""
MAX_ROWS = 200
"""Maximum number of rows of metrics.csv."""
MAX_FILE_BYTES = 500_000
"""Maximum size of a file, as the repository allows."""
EVALUATIONS = {"evaluation": "evaluation.json", "evaluation_mujoco": "evaluation-mujoco.json"}
"""Entries of manifest.json, and the files of the run that they come from."""


def available() -> tuple[str, ...]:
    """Return the names of the tasks that have a pretrained policy."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob("*/config.json")))


def pretrained_folder(task: str) -> Path:
    """Return the folder of a task's pretrained policy; raise an InputError that lists the available ones."""
    if task in (names := available()):
        return FOLDER / task
    remedy = f"train one with `ahac train {task}`" if task in tasks() else "`ahac list tasks` lists the tasks"
    raise InputError(f"no pretrained policy for {task!r}; available: {', '.join(names) or 'none'}; {remedy}")


def pretrained(task: str, device: str | None = None) -> Run:
    """Open the pretrained policy of a task as a run: `act`, `evaluate` and export it; it cannot be resumed.

    Args:
        task: Task name, one of `ahac list pretrained`.
        device: "cpu", "cuda", "cuda:1", ...; by default CUDA if it is available.
    """
    folder = pretrained_folder(task)
    run = open_run(folder, device=device or fallback_device(open_run(folder).config.device))
    run.restore(LAST, with_env=False)
    return run


def pack(run: Run | str | os.PathLike[str], folder: str | os.PathLike[str], checkpoint: str = LAST) -> Path:
    """Write the policy of a run to a new folder, without what only training needs, and return the folder.

    Args:
        run: Run or run folder.
        folder: Folder to create.
        checkpoint: "last", "best" or "iteration-NNNNNN".
    """
    opened = (run if isinstance(run, Run) else open_run(run)).with_settings(device="cpu")
    if opened.config.task_source:
        raise InputError(
            f"{opened.folder} was trained with {opened.config.task}, but a packed policy is found by the name of its "
            "task; register the task through an entry point, see docs/guides/your-own-robot.md"
        )
    target = Path(folder)
    if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f"{target} exists; a pretrained policy is written to a new folder: remove it or name another")
    if opened.policy_only:
        raise InputError(f"{opened.folder} is a pretrained policy already; copy the folder")
    saved = opened.restore(checkpoint, with_env=False)
    names = [f"algo/{name}" for name in opened.algo.policy_state]
    config = replace(opened.config, name="", out=RunConfig.out, device=RunConfig.device)
    policy = Checkpoint(
        {name: saved.tensors[name] for name in names}, saved.numbers, config_to_file(config), policy_only=True
    )
    with new_folder(target) as temporary:
        write_json(temporary / "config.json", config_to_file(config), checksum=True)
        write_json(temporary / "manifest.json", _manifest(opened, checkpoint, saved))
        _write_metrics(opened.folder / "metrics.csv", temporary / "metrics.csv", saved.count("iteration"))
        save_checkpoint(temporary / "checkpoints" / f"{LAST}.safetensors", policy)
        _check_sizes(temporary)
        if not claim_folder(temporary, target):
            raise InputError(f"another process has created {target}; name another folder")
    return target


def training_command(config: RunConfig) -> str:
    """Return a command that trains with these settings: those that differ from the task's recipe are options."""
    recipe = resolve_task(configure(config.task, config.algo, config.preset))
    before, now = flatten(to_dict(recipe)), flatten(to_dict(config))
    chosen = {name: now[name] for name in ("algo", "preset") if now[name] != getattr(RunConfig, name)}
    changed = {name: x for name, x in now.items() if name not in NON_SEMANTIC_FIELDS and before.get(name) != x}
    options = [word for name, value in (chosen | changed).items() for word in _option(name, value)]
    return shlex.join(["ahac", "train", config.task, *options])


def _option(name: str, value: object) -> list[str]:
    """Return a setting as words of a command."""
    outer, dot, last = name.replace("_", "-").rpartition(".")
    if isinstance(value, bool):
        return [f"--{outer}{dot}{'' if value else 'no-'}{last}"]
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    return [f"--{outer}{dot}{last}", *map(str, values)]


def _manifest(run: Run, checkpoint: str, saved: Checkpoint) -> dict[str, Any]:
    """Return the run's manifest with how it was trained and evaluated, and without the name of the machine."""
    path = run.folder / "manifest.json"
    started = read_json(path) if path.is_file() else {}
    iteration = saved.count("iteration")
    about = {name: value for name, value in started.items() if name != "host"} | {
        "command": training_command(run.config),
        "checkpoint": checkpoint,
        "iteration": iteration,
        "env_steps": saved.count("env_steps"),
        "seconds": round(saved.number("seconds"), 1),
    }
    for name, file in EVALUATIONS.items():
        result = _evaluation(run.folder / file, iteration)
        if result is None:
            engine = "" if name == "evaluation" else " --engine mujoco"
            logger.warning(
                "%s has no %s of this checkpoint; to include it, run `ahac eval %s%s` first",
                run.folder,
                file,
                run.folder,
                engine,
            )
        about[name] = result
    return about


def _evaluation(path: Path, iteration: int) -> Mapping[str, Any] | None:
    """Return an evaluation of the run; None if there is none of this iteration."""
    content = read_json(path) if path.is_file() else {}
    return content if content.get("iteration") == iteration else None


def _write_metrics(source: Path, target: Path, iteration: int) -> None:
    """Copy at most `MAX_ROWS` rows up to an iteration, evenly spaced, first and last included, with six digits."""
    rows = [row for row in (read_csv(source) if source.is_file() else []) if row["iteration"] <= iteration]
    count = min(len(rows), MAX_ROWS)
    chosen = [rows[k * (len(rows) - 1) // max(count - 1, 1)] for k in range(count)]
    table = CsvLog(target)
    for row in chosen:
        table.write({name: int(x) if x.is_integer() else float(f"{x:.6g}") for name, x in row.items()})


def _check_sizes(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (size := path.stat().st_size) > MAX_FILE_BYTES:
            raise InputError(
                f"{path.name} would have {size / 1000:.0f} kB; files of pretrained policies may have at most "
                f"{MAX_FILE_BYTES / 1000:.0f} kB, as they come with the package: train a smaller network"
            )
