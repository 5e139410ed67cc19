"""Sweeps: train many runs, several at a time, each in a separate process on separate cores.

Complete runs are skipped and unfinished ones resume from their last checkpoint, so a sweep can be stopped and repeated.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ahac.core.checks import check_finite, check_int
from ahac.core.config import flatten, to_dict
from ahac.core.device import resolve_run_device
from ahac.core.errors import AhacError, InputError
from ahac.core.hardware import pin_to_cores, split_cores
from ahac.envs import make_task
from ahac.experiments.run_files import read_run
from ahac.experiments.workers import Worker, launch, terminate_on_exit
from ahac.training.config import NON_SEMANTIC_FIELDS, RunConfig
from ahac.training.names import check_name
from ahac.training.preflight import clear_leftovers, is_leftover, validate_config
from ahac.training.process import catch_signals
from ahac.training.run import create_run, open_run
from ahac.training.task_source import pin_task, resolve_task

__all__ = ["FolderError", "Outcome", "folder_of", "log_of", "run_status", "sweep"]

COMMAND = (sys.executable, "-m", "ahac", "resume")
"""Command that trains the run in a folder, from the start or from its last checkpoint."""
POLL_INTERVAL = 0.1
"""Time between two polls of the processes [s]."""

RunStatus = Literal["new", "unfinished", "complete"]
RunState = Literal["complete", "finished", "stopped", "waiting", "failed"]


class FolderError(InputError):
    """An existing folder cannot be used for the run of its name; other runs of the sweep are not affected."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of one run of a sweep."""

    name: str
    state: RunState
    """Complete before the sweep, finished by it, stopped with a checkpoint, still waiting, or failed."""
    log: Path
    """Output of the run's process."""
    detail: str = ""
    """Evaluation, or reason for the failure."""

    def __str__(self) -> str:
        return f"{self.name} {self.state}" + (f": {self.detail}" if self.detail else "")


def sweep(
    configs: Iterable[RunConfig],
    jobs: int = 1,
    seconds: float | None = None,
    on_event: Callable[[str], None] = lambda line: None,
) -> list[Outcome]:
    """Train many runs and return the outcome of each.

    All settings are checked before the first run starts. A run that fails, or whose folder is damaged, does not stop
    the others. Ctrl-C or the time limit stops the active runs after their current iteration, with a checkpoint; a
    second Ctrl-C stops them immediately.

    Args:
        configs: Settings of the runs, as returned by `ahac.training.api.configure`, with distinct names.
        jobs: Number of runs at a time; they divide the cores of this process among them.
        seconds: Time limit of the sweep [s]; by default none.
        on_event: Called with a line of text for each run that starts or ends.
    """
    all_configs = [pin_task(config) for config in configs]
    check_int("jobs", jobs, 1)
    end = math.inf if seconds is None else time.monotonic() + check_finite("seconds", seconds, 0.0)
    pending, outcomes = _pending_runs(all_configs)
    for outcome in outcomes.values():
        if outcome.state == "failed":
            on_event(str(outcome))
    waiting = deque(pending)
    running: list[Worker] = []
    free = split_cores(min(jobs, len(pending)))
    with catch_signals() as stop, terminate_on_exit(running):
        stop.can_wait = True
        while running or (waiting and not stop.requested):
            stop.requested |= time.monotonic() >= end
            while waiting and free and not stop.requested:
                config = waiting.popleft()
                cores = free.popleft()
                try:
                    running.append(_launch(config, cores))
                    on_event(f"{config.name} started, log: {_log(config)}")
                except (AhacError, OSError) as error:
                    free.append(cores)
                    outcomes[config.name] = _outcome(config, "failed", str(error))
                    on_event(str(outcomes[config.name]))
            for worker in [w for w in running if w.poll(stop.requested)]:
                running.remove(worker)
                free.append(worker.cores)
                outcomes[worker.config.name] = outcome = _outcome_of(worker)
                on_event(f"{outcome} ({len(outcomes)} of {len(all_configs)})")
            if running:
                time.sleep(POLL_INTERVAL)
    return [outcomes.get(config.name) or _outcome(config, "waiting") for config in all_configs]


def folder_of(config: RunConfig) -> Path:
    """Return the run folder of a config, which must have a name."""
    if not config.name:
        raise InputError("every run in a sweep needs a name, so that it is found when the sweep is repeated")
    check_name(config.name)
    return Path(config.out) / config.name


def log_of(name: str) -> str:
    """Return the name of a run's log file, which is next to its folder so that the folder can be moved or removed."""
    return f"{name}.log"


def run_status(config: RunConfig) -> RunStatus:
    """Return whether a run is new, unfinished or complete.

    Raises:
        FolderError: The folder of that name is damaged or not a run.
        InputError: The settings are invalid, or the run was created with different ones.
    """
    task = make_task(config.task, config.variant)
    validate_config(config, task=task)
    folder = folder_of(config)
    try:
        if not os.path.lexists(folder) or is_leftover(folder):
            return "new"
        if not folder.is_dir():
            raise FolderError(f"{folder} is not a folder; move it away, or choose another name")
        saved = flatten(to_dict(open_run(folder).config))
    except FolderError:
        raise
    except (AhacError, OSError) as error:
        raise FolderError(str(error)) from error
    requested = flatten(to_dict(resolve_task(config, definition=task)))
    if different := [
        name
        for name in {**requested, **saved}
        if name not in NON_SEMANTIC_FIELDS and requested.get(name) != saved.get(name)
    ]:
        raise InputError(
            f"{folder} was created with different settings ({', '.join(different)}); choose another name or --out "
            "folder, or move it away"
        )
    try:
        run = read_run(folder)
    except InputError:  # the process that resumes the run repairs or reports it
        return "unfinished"
    # After the last iteration, the evaluation may still be missing.
    return "complete" if run.complete and run.evaluation is not None else "unfinished"


def _pending_runs(configs: Sequence[RunConfig]) -> tuple[list[RunConfig], dict[str, Outcome]]:
    """Return the unfinished runs and the outcomes of the others; raise an InputError if one cannot run here."""
    _check_names(configs)
    pending: list[RunConfig] = []
    outcomes: dict[str, Outcome] = {}
    for config in configs:
        try:
            if run_status(config) == "complete":
                outcomes[config.name] = _outcome(config, "complete", _score(config))
            else:
                pending.append(config)
        except FolderError as error:
            outcomes[config.name] = _outcome(config, "failed", str(error))
    for device in {config.device for config in pending}:
        resolve_run_device(device)
    return pending, outcomes


def _check_names(configs: Sequence[RunConfig]) -> None:
    """Raise an InputError if two runs have the same name, or one is named like the log of another."""
    folders = Counter(folder_of(config).resolve() for config in configs)
    if repeated := [folder.name for folder, count in folders.items() if count > 1]:
        raise InputError(f"runs of a sweep need distinct names; more than one is named {', '.join(repeated)}")
    for config in configs:
        if _log(config).resolve() in folders:
            raise InputError(
                f"run {_log(config).name!r} has the same name as the log of run {config.name!r}; rename one"
            )


def _launch(config: RunConfig, cores: set[int]) -> Worker:
    """Start or resume a run on the given cores."""
    folder = folder_of(config)
    with pin_to_cores(cores):  # inherited by the process, and counted in the manifest of a new run
        if run_status(config) == "new":
            if folder.exists():
                clear_leftovers(folder)
            create_run(config)
        # The absolute path, because a name may start with a dash.
        trusted = ["--trust"] if config.task_source else []  # this process has loaded the same file
        return launch(config, cores, [*COMMAND, str(folder.absolute()), *trusted], _log(config))


def _outcome_of(worker: Worker) -> Outcome:
    """Return the outcome of a run whose process has ended."""
    config = worker.config
    status = worker.process.returncode
    try:
        if status == 0 and run_status(config) == "complete":
            return _outcome(config, "finished", f"{_score(config)}, {worker.seconds:.0f} s")
        if status == 0:
            read_run(folder_of(config))  # raises if a file is damaged
    except AhacError as error:  # the other runs continue
        return _outcome(config, "failed", str(error))
    if worker.stop_sent:
        return _outcome(config, "stopped")
    return _outcome(config, "failed", f"exit status {status}, {_last_line(_log(config))}")


def _score(config: RunConfig) -> str:
    """Return the final evaluation of a complete run."""
    return f"return {read_run(folder_of(config)).score}"


def _outcome(config: RunConfig, state: RunState, detail: str = "") -> Outcome:
    return Outcome(name=config.name, state=state, log=_log(config), detail=detail)


def _log(config: RunConfig) -> Path:
    return Path(config.out) / log_of(config.name)


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:  # it was removed
        return "no log"
    return next((line.strip() for line in reversed(lines) if line.strip()), "empty log")
