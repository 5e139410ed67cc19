"""Sweeps: train many runs, several at a time, where a launcher starts them: by default in processes of this machine.

Complete runs are skipped and unfinished ones resume from their last checkpoint, so a sweep can be stopped and repeated.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ahac.core.checks import check_finite, check_int
from ahac.core.device import resolve_run_device
from ahac.core.errors import INPUT_ERROR_STATUS, AhacError
from ahac.envs import Task
from ahac.experiments.launchers.launcher import Job, Launcher
from ahac.experiments.launchers.local import LocalLauncher
from ahac.experiments.run_files import read_run
from ahac.experiments.sweep_folders import (
    ChangedSettingsError,
    FolderError,
    check_folders,
    damaged_checkpoint,
    folder_of,
    is_in_use,
    last_message,
    log_of,
    log_path,
    log_size,
    run_status,
    run_statuses,
)
from ahac.experiments.workers import exit_text
from ahac.training.config import RunConfig
from ahac.training.process import StopRequest, catch_signals
from ahac.training.task_source import pin_task

__all__ = [
    "ChangedSettingsError",
    "FolderError",
    "Outcome",
    "RunState",
    "check_folders",
    "folder_of",
    "log_of",
    "run_status",
    "run_statuses",
    "sweep",
]

POLL_INTERVAL = 0.1
"""Time between two polls of the runs [s]."""
IN_USE_INTERVAL = 5.0
"""Time between two looks at a run that another process trains [s]."""

RunState = Literal["complete", "finished", "stopped", "waiting", "in use", "running", "failed"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of one run of a sweep."""

    name: str
    state: RunState
    """Complete (before the sweep, or by another process meanwhile), finished by it, stopped with a checkpoint, still
    waiting, or failed."""
    log: Path
    """Output of the run's process."""
    detail: str = ""
    """Evaluation, or reason for the failure."""
    attempts: int = 0
    """How often the sweep has started the run."""

    def __str__(self) -> str:
        attempts = f"{self.attempts} attempts" if self.attempts > 1 else ""
        about = ", ".join(part for part in (self.detail, attempts) if part)
        return f"{self.name} {self.state}" + (f": {about}" if about else "")


def sweep(
    configs: Iterable[RunConfig],
    jobs: int | None = 1,
    seconds: float | None = None,
    on_event: Callable[[str], None] = lambda line: None,
    *,
    retries: int = 1,
    launcher: Launcher | None = None,
    on_progress: Callable[[Mapping[str, RunState]], None] = lambda states: None,
) -> list[Outcome]:
    """Train many runs and return the outcome of each.

    All settings are checked before the first run starts. A run that fails, or whose folder is damaged, does not stop
    the others. A run that another process trains is left to it, and taken up if that process ends before the run is
    complete: several sweeps can share the runs of a folder. Ctrl-C or the time limit stops the active runs after their
    current iteration, with a checkpoint; a second Ctrl-C stops them immediately.

    Args:
        configs: Settings of the runs, as returned by `ahac.training.api.configure`, with distinct names.
        jobs: Number of runs at a time on this machine, unless there is a launcher; None for `default_jobs`.
        seconds: Time limit of the sweep [s]; by default none.
        on_event: Called with a line of text for each run that starts or ends.
        retries: How often to restart a failed run from its last checkpoint. A run whose last checkpoint is damaged is
            not restarted.
        launcher: Where the runs train; by default in processes of this machine.
        on_progress: Called several times per second with the states of all runs by name.
    """
    all_configs = [pin_task(config) for config in configs]
    launcher = LocalLauncher(jobs) if launcher is None else launcher
    check_int("retries", retries, 0)
    end = math.inf if seconds is None else time.monotonic() + check_finite("seconds", seconds, 0.0)
    pending, outcomes = _pending_runs(all_configs, launcher.here)
    for outcome in outcomes.values():
        if outcome.state == "failed":
            on_event(str(outcome))
    running = _Sweep(all_configs, deque(pending), outcomes, launcher, on_event, retries)
    if pending:
        with catch_signals() as stop:
            running.train(stop, end, on_progress)
    return [outcomes.get(config.name) or _outcome(config, "waiting") for config in all_configs]


@dataclass(eq=False)
class _Attempt:
    """A run that was started."""

    config: RunConfig
    job: Job
    number: int
    log_begin: int
    """Size of the log before [bytes]."""
    started: float = field(default_factory=time.monotonic)
    stopped: bool = False
    """Whether it was asked to stop."""


class _Sweep:
    """A sweep in progress."""

    def __init__(
        self,
        configs: Sequence[RunConfig],
        waiting: deque[RunConfig],
        outcomes: dict[str, Outcome],
        launcher: Launcher,
        on_event: Callable[[str], None],
        retries: int,
    ) -> None:
        self.configs = configs
        self.waiting = waiting
        self.outcomes = outcomes
        self.launcher = launcher
        self.on_event = on_event
        self.retries = retries
        self.running: list[_Attempt] = []
        self.in_use: set[str] = set()
        """Waiting runs that other processes train, by name."""
        self.next_look = 0.0
        """When to look again which these are."""
        self.tasks: dict[tuple[str, str], Task] = {}
        self.attempts = dict.fromkeys((config.name for config in waiting), 0)

    def train(self, stop: StopRequest, end: float, on_progress: Callable[[Mapping[str, RunState]], None]) -> None:
        """Train until all runs have ended, or those that were started before a request to stop."""
        stop.can_wait = True
        self.launcher.open(list(self.waiting))
        try:
            while self.running or (self.waiting and not stop.requested):
                stop.requested |= time.monotonic() >= end
                self._look_for_others()
                self._start(stop)
                self._poll(stop.requested)
                on_progress(self._states())
                if self.running or self.waiting:
                    time.sleep(POLL_INTERVAL)
        finally:
            for attempt in self.running:
                attempt.job.stop()
            for attempt in self.running:
                attempt.job.close()
            self.launcher.close()

    def _look_for_others(self) -> None:
        """Find the waiting runs that other processes train, or have completed, every `IN_USE_INTERVAL`."""
        if time.monotonic() < self.next_look:
            return
        self.next_look = time.monotonic() + IN_USE_INTERVAL
        for config in list(self.waiting):
            if config.name in self.in_use or is_in_use(config):
                self._can_start(config)

    def _start(self, stop: StopRequest) -> None:
        """Start as many runs as the launcher has slots for, except those that other processes train."""
        while not stop.requested:
            ready = [config for config in self.waiting if config.name not in self.in_use]
            batch = ready[: self.launcher.free_slots(len(ready))] if ready else []
            if not batch:
                return
            if not (batch := [config for config in batch if self._can_start(config)]):
                continue
            for config in batch:
                self.waiting.remove(config)
                self.attempts[config.name] += 1
            sizes = [log_size(config) for config in batch]
            try:
                jobs = self.launcher.start(batch)
            except (AhacError, OSError) as error:
                for config in batch:
                    self._retry_or_end(config, _outcome(config, "failed", str(error), self.attempts[config.name]))
                return
            for config, job, size in zip(batch, jobs, sizes, strict=True):
                self.running.append(_Attempt(config, job, self.attempts[config.name], size))
                self.on_event(f"{config.name} started, log: {log_path(config)}")

    def _can_start(self, config: RunConfig) -> bool:
        """Return whether a waiting run can start: no other process trains it, or has completed it meanwhile."""
        if is_in_use(config):
            if config.name not in self.in_use:
                self.on_event(f"{config.name} is in use: another process trains it; the sweep waits for it")
                self.in_use.add(config.name)
            return False
        self.in_use.discard(config.name)
        try:
            complete = folder_of(config).is_dir() and run_status(config, self.tasks) == "complete"
        except AhacError:  # starting it tells why it cannot
            return True
        if complete:
            self.waiting.remove(config)
            self._end(_outcome(config, "complete", _score(config)))
        return not complete

    def _poll(self, stop: bool) -> None:
        """Record the runs that have ended, and queue failed ones again; ask the others to stop, but only once."""
        for attempt in list(self.running):
            if stop and not attempt.stopped:
                attempt.stopped = True
                attempt.job.stop()
            if (reason := attempt.job.poll()) is None:
                continue
            self.running.remove(attempt)
            config = attempt.config
            damage = damaged_checkpoint(config) if reason == exit_text(INPUT_ERROR_STATUS) else ""
            outcome = _outcome_of(attempt, reason, damage)
            if outcome.state != "failed" or stop:
                self._end(outcome)
                continue
            self.waiting.append(config)
            if self.launcher.here and not self._can_start(config):  # another process was faster
                self.attempts[config.name] -= 1
            else:
                self.waiting.remove(config)
                self._retry_or_end(config, outcome, can_retry=not damage)

    def _retry_or_end(self, config: RunConfig, failure: Outcome, can_retry: bool = True) -> None:
        """Queue a failed run again, unless it has had all its retries, or would fail in the same way."""
        if not can_retry or failure.attempts > self.retries:
            self._end(failure)
            return
        self.waiting.append(config)
        self.on_event(f"{config.name} failed: {failure.detail}; retry {failure.attempts} of {self.retries}")

    def _end(self, outcome: Outcome) -> None:
        self.outcomes[outcome.name] = outcome
        self.on_event(f"{outcome} ({len(self.outcomes)} of {len(self.configs)})")

    def _states(self) -> dict[str, RunState]:
        """Return the states of all runs by name."""
        states: dict[str, RunState] = dict.fromkeys((config.name for config in self.configs), "waiting")
        states |= dict.fromkeys(self.in_use, "in use")
        states |= {name: outcome.state for name, outcome in self.outcomes.items()}
        states |= {attempt.config.name: "running" for attempt in self.running}
        return states


def _pending_runs(configs: Sequence[RunConfig], here: bool) -> tuple[list[RunConfig], dict[str, Outcome]]:
    """Return the unfinished runs and the outcomes of the others; raise an InputError if one cannot run."""
    check_folders(configs)
    pending: list[RunConfig] = []
    outcomes: dict[str, Outcome] = {}
    for config, status in zip(configs, run_statuses(configs), strict=True):
        if isinstance(status, FolderError):
            outcomes[config.name] = _outcome(config, "failed", str(status))
        elif status == "complete":
            outcomes[config.name] = _outcome(config, "complete", _score(config))
        else:
            pending.append(config)
    if here:
        for device in {config.device for config in pending}:
            resolve_run_device(device)
    return pending, outcomes


def _outcome_of(attempt: _Attempt, reason: str, damage: str) -> Outcome:
    """Return the outcome of a run that has ended.

    Args:
        attempt: The run.
        reason: Why it did not end well, or "".
        damage: What is wrong with its last checkpoint, or "".
    """
    config, number = attempt.config, attempt.number
    try:
        if not reason and run_status(config) == "complete":
            taken = time.monotonic() - attempt.started
            return _outcome(config, "finished", f"{_score(config)}, {taken:.0f} s", number)
        if not reason:
            read_run(folder_of(config))  # raises if a file is damaged
    except AhacError as error:  # the other runs continue
        return _outcome(config, "failed", str(error), number)
    if attempt.stopped:  # possibly while it waited for a cluster
        return _outcome(config, "stopped" if folder_of(config).exists() else "waiting", attempts=number)
    message = damage or last_message(config, attempt.log_begin)
    return _outcome(config, "failed", ", ".join(filter(None, (reason or "it ended too early", message))), number)


def _score(config: RunConfig) -> str:
    """Return the final evaluation of a complete run: mean and interquartile mean over episodes."""
    run = read_run(folder_of(config))
    assert run.evaluation is not None, "complete runs are evaluated"
    return f"mean return {run.evaluation['mean']:.1f}, interquartile mean {run.score}"


def _outcome(config: RunConfig, state: RunState, detail: str = "", attempts: int = 0) -> Outcome:
    return Outcome(name=config.name, state=state, log=log_path(config), detail=detail, attempts=attempts)
