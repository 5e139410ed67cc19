"""Many runs, some at a time: each a process of its own, on cores of its own, with a log beside its folder.

What is complete is left alone, and what is not goes on where it stopped: a sweep can be stopped and given again.
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
from ahac.experiments.run_files import read_run
from ahac.experiments.workers import Worker, launch, terminate_on_exit
from ahac.training.config import NON_SEMANTIC_FIELDS, RunConfig
from ahac.training.names import check_name
from ahac.training.preflight import clear_leftovers, is_leftover, validate_config
from ahac.training.process import catch_signals
from ahac.training.run import create_run, open_run

__all__ = ["FolderError", "Outcome", "folder_of", "log_of", "run_status", "sweep"]

COMMAND = (sys.executable, "-m", "ahac", "resume")
"""What trains the run of a folder, from its start or from its last checkpoint on."""
PAUSE = 0.1
"""Seconds between two looks at the processes."""

RunStatus = Literal["new", "unfinished", "complete"]
RunState = Literal["complete", "finished", "stopped", "waiting", "failed"]


class FolderError(InputError):
    """A folder that is there, but cannot be used for the run of that name; other runs of the sweep are not affected."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one run of a sweep."""

    name: str
    state: RunState
    """Complete before the sweep, finished by it, stopped with a checkpoint, never begun, or failed."""
    log: Path
    """What its process wrote."""
    detail: str = ""
    """Its evaluation, or why it failed."""

    def __str__(self) -> str:
        return f"{self.name} {self.state}" + (f": {self.detail}" if self.detail else "")


def sweep(
    configs: Iterable[RunConfig],
    jobs: int = 1,
    seconds: float | None = None,
    on_event: Callable[[str], None] = lambda line: None,
) -> list[Outcome]:
    """Train many runs, and tell what became of each.

    The settings of all are checked before the first one starts. A run that fails, or whose folder is damaged, does not
    stop the others. Ctrl-C, or the time's end, stops those that run after their iteration, with a checkpoint; once more
    ends them at once.

    Args:
        configs: What the runs are made from, as `ahac.training.api.configure` gives it; each has a name of its own.
        jobs: Runs at a time; they share the cores of this process among themselves.
        seconds: After which the sweep stops; by default not before all are through.
        on_event: Called with a line for each run that starts or ends.
    """
    wanted = list(configs)
    check_int("jobs", jobs, 1)
    end = math.inf if seconds is None else time.monotonic() + check_finite("seconds", seconds, 0.0)
    left, outcomes = _sorted(wanted)
    for outcome in outcomes.values():
        if outcome.state == "failed":
            on_event(str(outcome))
    waiting, running = deque(left), list[Worker]()
    free = split_cores(min(jobs, len(left)))
    with catch_signals() as stop, terminate_on_exit(running):
        stop.can_wait = True
        while running or (waiting and not stop.requested):
            stop.requested |= time.monotonic() >= end
            while waiting and free and not stop.requested:
                config, cores = waiting.popleft(), free.popleft()
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
                outcomes[worker.config.name] = found = _end_state(worker)
                on_event(f"{found} ({len(outcomes)} of {len(wanted)})")
            if running:
                time.sleep(PAUSE)
    return [outcomes.get(config.name) or _outcome(config, "waiting") for config in wanted]


def folder_of(config: RunConfig) -> Path:
    """Where a run of a sweep is."""
    if not config.name:
        raise InputError("every run in a sweep needs a name, so that it can be found when the sweep is resumed")
    check_name(config.name)
    return Path(config.out) / config.name


def log_of(name: str) -> str:
    """Name of the file that a run's process writes to; beside its folder, which others may want to move or remove."""
    return f"{name}.log"


def run_status(config: RunConfig) -> RunStatus:
    """How far a run is; one that cannot be made, or was made with other settings, is refused.

    Raises:
        FolderError: There is a folder of that name which is damaged, or is not that of a run.
    """
    validate_config(config)
    folder = folder_of(config)
    try:
        if not os.path.lexists(folder) or is_leftover(folder):
            return "new"
        if not folder.is_dir():
            raise FolderError(f"{folder} is not a folder; move it away, or choose another name")
        there = flatten(to_dict(open_run(folder).config))
    except FolderError:
        raise
    except (AhacError, OSError) as error:
        raise FolderError(str(error)) from error
    here = flatten(to_dict(config))
    if odd := [
        name for name in {**here, **there} if name not in NON_SEMANTIC_FIELDS and here.get(name) != there.get(name)
    ]:
        raise InputError(
            f"{folder} was made with other settings ({', '.join(odd)}) than those asked for; choose another name or "
            "another folder of runs, or move it away"
        )
    try:
        record = read_run(folder)
    except InputError:  # to be mended or complained about by the process that goes on with it
        return "unfinished"
    # Without an evaluation something is left to do, even after the last iteration.
    return "complete" if record.complete and record.evaluation is not None else "unfinished"


def _sorted(configs: Sequence[RunConfig]) -> tuple[list[RunConfig], dict[str, Outcome]]:
    """Runs with something left to do, and what is known of the others; refuses what cannot be run here."""
    _check_names(configs)
    left: list[RunConfig] = []
    outcomes: dict[str, Outcome] = {}
    for config in configs:
        try:
            if run_status(config) == "complete":
                outcomes[config.name] = _outcome(config, "complete", _score(config))
            else:
                left.append(config)
        except FolderError as error:
            outcomes[config.name] = _outcome(config, "failed", str(error))
    for device in {config.device for config in left}:
        resolve_run_device(device)
    return left, outcomes


def _check_names(configs: Sequence[RunConfig]) -> None:
    """Refuse runs that would write to the same place: of one name, or one named like the log of another."""
    folders = Counter(folder_of(config).resolve() for config in configs)
    if twice := [folder.name for folder, count in folders.items() if count > 1]:
        raise InputError(f"runs of a sweep need names of their own; more than one has the name {', '.join(twice)}")
    for config in configs:
        if _log(config).resolve() in folders:
            raise InputError(f"run {_log(config).name!r} has the name of the log of run {config.name!r}; rename one")


def _launch(config: RunConfig, cores: set[int]) -> Worker:
    """Begin a run or go on with it, on these cores."""
    folder = folder_of(config)
    with pin_to_cores(cores):  # whose number stands in the new run's manifest, and which the process keeps
        if run_status(config) == "new":
            if folder.exists():
                clear_leftovers(folder)
            create_run(config)
        # By its whole path: a name may begin with a dash.
        return launch(config, cores, [*COMMAND, str(folder.absolute())], _log(config))


def _end_state(worker: Worker) -> Outcome:
    """What became of the run of a process that has ended."""
    config, status = worker.config, worker.system.returncode
    try:
        if status == 0 and run_status(config) == "complete":
            return _outcome(config, "finished", f"{_score(config)}, {worker.seconds:.0f} s")
        if status == 0:
            read_run(folder_of(config))  # says what is damaged, if anything is
    except AhacError as error:  # the others go on
        return _outcome(config, "failed", str(error))
    if worker.stop_sent:
        return _outcome(config, "stopped")
    return _outcome(config, "failed", f"exit status {status}, {_last_line(_log(config))}")


def _score(config: RunConfig) -> str:
    """Of a complete run, its final evaluation."""
    return f"return {read_run(folder_of(config)).score}"


def _outcome(config: RunConfig, state: RunState, detail: str = "") -> Outcome:
    return Outcome(name=config.name, state=state, log=_log(config), detail=detail)


def _log(config: RunConfig) -> Path:
    return Path(config.out) / log_of(config.name)


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:  # somebody removed it
        return "no log"
    return next((line.strip() for line in reversed(lines) if line.strip()), "without a word")
