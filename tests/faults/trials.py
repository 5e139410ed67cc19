"""Trials, each in a separate process and folder, several in parallel."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from faults.commands import forked

__all__ = ["Outcome", "Trial", "Verdict", "run_trials"]

POLL = 0.01
PATIENCE = 1200.0
"""Time limit of a trial [s]; its commands have separate limits."""


@dataclass(frozen=True)
class Verdict:
    """Result of a trial."""

    result: str
    """In a word or two: how it passed, or what kind of failure it is."""
    problems: tuple[str, ...] = ()
    """Empty where it passed."""
    detail: str = ""
    """What the trial chose on the way."""


@dataclass(frozen=True)
class Trial:
    """One trial of an attack."""

    name: str
    """Unique, and the name of its folder."""
    attack: str
    """The line of the table that it counts in."""
    what: str
    """Enough to do it again by hand."""
    act: Callable[[Path], Verdict] = field(repr=False)
    """Runs the trial in a folder."""


@dataclass(frozen=True)
class Outcome:
    """A finished trial."""

    name: str
    attack: str
    what: str
    result: str
    problems: tuple[str, ...]
    seconds: float


def run_trials(trials: Sequence[Trial], out: Path, jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come; the folders of trials that failed stay."""
    waiting, running = list(reversed(trials)), dict[int, tuple[Trial, float]]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                trial = waiting.pop()
                (out / trial.name).mkdir(parents=True)
                running[forked(lambda trial=trial: _act(trial, out), _log(out, trial))] = (trial, time.monotonic())
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in running:
                trial, since = running.pop(pid)
                yield _outcome(trial, out, status, time.monotonic() - since)
            elif late := [pid for pid, (_, since) in running.items() if time.monotonic() - since > PATIENCE]:
                os.kill(late[0], signal.SIGKILL)
            else:
                time.sleep(POLL)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)


def _log(out: Path, trial: Trial) -> Path:
    return out / trial.name / "trial.out"


def _act(trial: Trial, out: Path) -> int:
    """Run a trial in a separate process."""
    try:
        verdict = trial.act(out / trial.name)
    except Exception:
        traceback.print_exc()
        verdict = Verdict("trial broken", (f"the trial itself failed: {traceback.format_exc(limit=-2)}",))
    (out / f"{trial.name}.json").write_text(json.dumps(asdict(verdict)), encoding="utf-8")
    sys.stdout.flush()
    return 0


def _outcome(trial: Trial, out: Path, status: int, seconds: float) -> Outcome:
    path = out / f"{trial.name}.json"
    if path.exists():
        verdict = Verdict(**json.loads(path.read_text(encoding="utf-8")))
        path.unlink()
    else:
        verdict = Verdict("trial broken", (f"the trial's process ended with status {status}",))
    if not verdict.problems:
        shutil.rmtree(out / trial.name)
    what = f"{trial.what}; {verdict.detail}" if verdict.detail else trial.what
    return Outcome(trial.name, trial.attack, what, verdict.result, tuple(verdict.problems), seconds)
