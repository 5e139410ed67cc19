"""Runs killed with SIGKILL, up to three times, then resumed to their end."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from faults.commands import Child, Ended, Starter
from faults.moments import TENSORBOARD, Hook, Moment
from faults.references import Reference
from faults.runs import damaged_files, differences, training
from faults.trials import Trial, Verdict

__all__ = ["kill_trials", "listed", "refused"]

CHOSEN = (
    ("rename", "last.safetensors", "after"), ("rename", "iteration.safetensors", "before"),
    ("rename", "segment", "before"), ("rename", "best.safetensors", "after"), ("rename", "run", "before"),
    ("rename", "last.safetensors", "before"), ("open", "metrics.csv", "before"), ("remove", "segment", "before"),
    ("rename", "iteration.safetensors", "after"), ("mkdir", "run", "after"), ("rename", "evaluation.json", "before"),
    ("rename", "segment", "after"), ("rename", "metrics.csv", "before"), ("rename", "config.json", "after"),
    ("rename", "config.json", "before"), ("rename", "run", "after"),
    ("fsync", "last.safetensors", "before"), ("remove", "segment", "after"), ("open", "metrics.csv", "after"),
    ("rename", "best.safetensors", "before"), ("mkdir", "checkpoints", "after"), ("rename", "manifest.json", "before"),
    ("rename", "metrics.csv", "after"), ("rename", "evaluation.json", "after"), ("open", ".lock", "after"),
    ("mkdir", "replay", "after"), ("open", TENSORBOARD, "before"),
)  # fmt: skip
HALF = (
    ("rename", "last.safetensors"), ("rename", "segment"), ("open", "metrics.csv"), ("rename", "best.safetensors"),
    ("rename", "iteration.safetensors"), ("rename", "config.json"), ("rename", "metrics.csv"),
    ("rename", "evaluation.json"), ("rename", "manifest.json"),
)  # fmt: skip
"""What can be found half written: files that are renamed afterwards, and the table, to which rows are appended."""

CHOSEN_KIND, HALF_KIND, OPERATION_KIND, TIME_KIND = (
    "kill: around a chosen file operation", "kill: file half written", "kill: before a random file operation",
    "kill: at a random time",
)  # fmt: skip
PATTERN = (CHOSEN_KIND, HALF_KIND, TIME_KIND, CHOSEN_KIND, OPERATION_KIND, CHOSEN_KIND, HALF_KIND, CHOSEN_KIND,
           TIME_KIND, CHOSEN_KIND)  # fmt: skip
OWN_PROCESS = 12
"""One in this many trials starts its commands as separate processes, not as forks."""
EARLY_OPERATIONS = 60
"""A later kill, of `resume`, is before one of its first operations."""

Kill = Moment | float
"""At a file operation, or after some seconds."""


@dataclass(frozen=True)
class Plan:
    """A run and the moments at which it is killed, one after the other."""

    reference: Reference
    kills: tuple[Kill, ...]
    fork: bool

    def __str__(self) -> str:
        shown = [f"{kill:.3f} s after the start" if isinstance(kill, float) else str(kill) for kill in self.kills]
        process = "" if self.fork else ", in processes of their own"
        return f"{self.reference.algo}: killed {', then '.join(shown)}{process}"


def kill_trials(references: Mapping[str, Reference], count: int, seed: int, fork: bool) -> list[Trial]:
    """Return the given number of trials, cycling through the algorithms."""
    turns = dict.fromkeys(PATTERN, 0)
    trials = []
    for k in range(count):
        rng, kind = random.Random(f"{seed} kill {k}"), PATTERN[k % len(PATTERN)]
        plan = _plan(references, kind, k, turns[kind], rng, fork and k % OWN_PROCESS != OWN_PROCESS - 1)
        turns[kind] += 1
        trials.append(Trial(f"kill-{k:04d}", kind, str(plan), lambda folder, plan=plan: _killed(plan, folder)))
    return trials


def _plan(references: Mapping[str, Reference], kind: str, k: int, turn: int, rng: random.Random, fork: bool) -> Plan:
    """The k-th trial, the `turn`-th of its kind."""
    choice: tuple[str, str, str] | None = None
    if kind == CHOSEN_KIND:
        choice = CHOSEN[turn % len(CHOSEN)]
    elif kind == HALF_KIND:
        choice = (*HALF[turn % len(HALF)], "half")
    able = [x for x in references.values() if choice is None or choice[:2] in x.operations] or [*references.values()]
    reference = able[k % len(able)]
    if kind == TIME_KIND:
        first: Kill = rng.uniform(0.02, 1.0) * reference.seconds
    else:
        if choice is None or choice[:2] not in reference.operations:
            event, file = rng.choice([x for x in reference.operations if x[1] != TENSORBOARD])
            choice = (event, file, "before")
        number = rng.randint(1, reference.operations.count(choice[:2]))
        first = Moment(*choice[:2], number, choice[2], rng.choice((0.0, rng.random())))
    later: list[Kill] = [
        rng.uniform(0.02, 0.7) * reference.seconds
        if rng.random() < 0.5
        else Moment(count=rng.randint(1, EARLY_OPERATIONS))
        for _ in range(rng.choice((0, 0, 0, 1, 2)))
    ]
    return Plan(reference, (first, *later), fork)


def _killed(plan: Plan, folder: Path) -> Verdict:
    starter, out = Starter(folder / "logs", plan.fork), folder / "runs"
    begin = training(plan.reference.algo, out, "run", plan.reference.device)
    run = out / "run"
    problems = list[str]()
    kills = 0
    for kill in plan.kills:
        command = ["resume", str(run)] if (run / "config.json").is_file() else begin
        ended, hit = _end(starter, command, kill, out)
        while not hit and ended.status == 0 and kills == 0:  # it was faster this time, or no operation followed
            shutil.rmtree(out)
            kill = _earlier(kill, plan.reference)
            ended, hit = _end(starter, begin, kill, out)
        kills += hit
        problems += [] if hit else refused(ended)
        problems += damaged_files(run) + listed(starter, out, run)
        if problems:
            return Verdict(_kind(problems), tuple(problems))
    started = (run / "config.json").is_file()
    final = starter.run(*(["resume", run] if started else begin))
    problems += refused(final)
    if final.status == 0:
        place = Path(final.out.strip().splitlines()[-1])
        problems += differences(place, plan.reference.whole) + listed(starter, out, place)
        problems += [f"temporary file left: {path.name}" for path in sorted(out.iterdir()) if ".tmp" in path.name]
    problems += [] if kills else ["not killed: the trial does not count"]
    passed = "resumed, identical" if started else "not started, then identical"
    detail = "" if kills == len(plan.kills) else f"it ended before kill {kills + 1}"
    return Verdict(_kind(problems) if problems else passed, tuple(problems), detail)


def _earlier(kill: Kill, reference: Reference) -> Kill:
    """A moment to try after one that did not come."""
    if not isinstance(kill, Moment):
        return 0.6 * kill
    if kill.how == "after":
        return replace(kill, how="before")
    return replace(kill, count=kill.count - 1) if kill.count > 1 else 0.5 * reference.seconds


def _end(starter: Starter, command: list[str], kill: Kill, out: Path) -> tuple[Ended, bool]:
    """How a command ended that was to be killed, and whether it was."""
    if isinstance(kill, Moment):
        ended = starter.start(command, Hook(str(out), kill)).wait()
    else:
        child: Child = starter.start(command)
        while not starter.fork and not (out / "run" / "config.json").exists() and child.poll(0.0) is None:
            time.sleep(0.01)  # a separate process spends most of its time on imports
        time.sleep(kill)
        if child.poll(0.0) is None:
            child.kill()
        ended = child.wait()
    return ended, ended.killed


def refused(ended: Ended) -> list[str]:
    """What is wrong with a command that should have ended well."""
    stopped = [f"refused: `{ended.command[0]}`: {ended.tail()}"] if ended.status in (2, 130) else []
    return ended.faults() + stopped


def listed(starter: Starter, out: Path, run: Path) -> list[str]:
    """What is wrong with `ahac list runs` after a kill: it shows the run, and nothing else."""
    out.mkdir(exist_ok=True)
    ended = starter.run("list", "runs", "--out", out)
    problems = refused(ended)
    wanted = [str(out / run.name)] if (run / "config.json").is_file() else []
    shown = [line.split()[0] for line in ended.out.splitlines()[1:]]
    if ended.status == 0 and shown != wanted:
        problems.append(f"list: `ahac list runs` shows {shown}, wanted {wanted}")
    return problems


def _kind(problems: list[str]) -> str:
    """A failure in one word: how its first problem begins."""
    return problems[0].partition(":")[0]
