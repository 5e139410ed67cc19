"""Many runs, some at a time: each a process of its own, on cores of its own, with a log beside its folder.

What is complete is left alone, and what is not goes on where it stopped: a sweep can be stopped and given again.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ahac.core.checks import finite_number, whole_number
from ahac.core.config import to_dict
from ahac.core.errors import AhacError, InputError
from ahac.training.config import OWN, RunConfig
from ahac.training.folders import check, chosen_device
from ahac.training.process import interruptible
from ahac.training.records import read_record
from ahac.training.run import open_run, start
from ahac.training.workers import Worker, ended, launch, pinned, shares

__all__ = ["Outcome", "folder_of", "standing", "sweep"]

COMMAND = (sys.executable, "-m", "ahac", "resume")
"""What trains the run of a folder, from its start or from its last checkpoint on."""
PAUSE = 0.1
"""Seconds between two looks at the processes."""

Standing = Literal["new", "unfinished", "complete"]
State = Literal["complete", "finished", "stopped", "waiting", "failed"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one run of a sweep."""

    name: str
    state: State
    """Complete before the sweep, finished by it, stopped with a checkpoint, never begun, or failed."""
    log: Path
    """What its process wrote."""
    detail: str = ""
    """Its evaluation, or why it failed."""

    def __str__(self) -> str:
        return f"{self.name} {self.state}" + (f": {self.detail}" if self.detail else "")


def sweep(
    configs: Iterable[RunConfig], jobs: int = 1, seconds: float | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Outcome]:  # fmt: skip
    """Train many runs, and tell what became of each.

    All are checked before the first one starts. A run that fails does not stop the others. Ctrl-C, or the time's end,
    stops those that run after their iteration, with a checkpoint; once more ends them at once.

    Args:
        configs: What the runs are made from, as `ahac.training.api.configure` gives it; each has a name of its own.
        jobs: Runs at a time; they share the cores of this process among themselves.
        seconds: After which the sweep stops; by default not before all are through.
        tell: Takes a line for each run that starts or ends.
    """
    wanted = list(configs)
    whole_number("jobs", jobs, 1)
    end = math.inf if seconds is None else time.monotonic() + finite_number("seconds", seconds, 0.0)
    left = _left(wanted)
    outcomes = {config.name: _outcome(config, "complete", _worth(config)) for config in wanted if config not in left}
    waiting, running = deque(left), list[Worker]()
    free = shares(min(jobs, len(left)))
    with interruptible() as stop, ended(running):
        stop.patient = True
        while running or (waiting and not stop.asked):
            stop.asked |= time.monotonic() >= end
            while waiting and free and not stop.asked:
                config, cores = waiting.popleft(), free.popleft()
                try:
                    running.append(_launch(config, cores))
                    tell(f"{config.name} started, log: {_log(config)}")
                except (AhacError, OSError) as error:
                    free.append(cores)
                    outcomes[config.name] = _outcome(config, "failed", str(error))
                    tell(str(outcomes[config.name]))
            for worker in [w for w in running if w.over(stop.asked)]:
                running.remove(worker)
                free.append(worker.cores)
                outcomes[worker.config.name] = found = _ending(worker)
                tell(f"{found} ({len(outcomes)} of {len(wanted)})")
            if running:
                time.sleep(PAUSE)
    return [outcomes.get(config.name) or _outcome(config, "waiting") for config in wanted]


def folder_of(config: RunConfig) -> Path:
    """Where a run of a sweep is."""
    if not config.name:
        raise InputError("a run of a sweep needs a name, got none: it is found by it when the sweep is given again")
    return Path(config.out) / config.name


def standing(config: RunConfig) -> Standing:
    """How far a run is; one that cannot be made, or was made with other settings, is refused."""
    check(config)
    folder = folder_of(config)
    if not folder.exists():
        return "new"
    there, here = _flat(to_dict(open_run(folder).config)), _flat(to_dict(config))
    if odd := [name for name in {**here, **there} if name not in OWN and here.get(name) != there.get(name)]:
        raise InputError(
            f"{folder} was made with other settings ({', '.join(odd)}) than those asked for; choose another name or "
            "another folder of runs, or move it away"
        )
    record = read_record(folder)
    # Without an evaluation something is left to do, even after the last iteration.
    return "complete" if record.complete and record.evaluation is not None else "unfinished"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings within settings by their whole names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return found


def _left(configs: Sequence[RunConfig]) -> list[RunConfig]:
    """Those with something left to do; refuses what cannot be run here."""
    folders = [folder_of(config).resolve() for config in configs]
    if twice := {folder.name for folder in folders if folders.count(folder) > 1}:
        raise InputError(f"runs of a sweep need names of their own; more than one has the name {', '.join(twice)}")
    left = [config for config in configs if standing(config) != "complete"]
    for device in {config.device for config in left}:
        chosen_device(device)
    return left


def _launch(config: RunConfig, cores: set[int]) -> Worker:
    """Begin a run or go on with it, on these cores."""
    folder = folder_of(config)
    with pinned(cores):  # whose number stands in the new run's manifest, and which the process keeps
        if not folder.exists():
            start(config)
        return launch(config, cores, [*COMMAND, str(folder)], _log(config))


def _ending(worker: Worker) -> Outcome:
    """What became of the run of a process that has ended."""
    config, status = worker.config, worker.system.returncode
    try:
        if status == 0 and standing(config) == "complete":
            return _outcome(config, "finished", f"{_worth(config)}, {worker.seconds:.0f} s")
    except AhacError as error:  # somebody was at its folder; the others go on
        return _outcome(config, "failed", str(error))
    if worker.told:
        return _outcome(config, "stopped")
    return _outcome(config, "failed", f"exit status {status}, {_last_line(_log(config))}")


def _worth(config: RunConfig) -> str:
    """Of a complete run, its final evaluation."""
    return f"return {read_record(folder_of(config)).worth}"


def _outcome(config: RunConfig, state: State, detail: str = "") -> Outcome:
    return Outcome(name=config.name, state=state, log=_log(config), detail=detail)


def _log(config: RunConfig) -> Path:
    """Beside the run's folder, which others may want to move or to remove."""
    return Path(config.out) / f"{config.name}.log"


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "without a word")
