"""Runs that get SIGTERM, SIGINT or SIGHUP while a checkpoint is written, then resumed to their end."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM, Signals

from faults.commands import Starter
from faults.kills import listed, refused
from faults.moments import Hook, Moment
from faults.references import STOPPED, Reference
from faults.runs import damaged_files, differences, numbers_of, training
from faults.trials import Trial, Verdict
from support.small_runs import table

__all__ = ["signal_trials"]

FILES = ("last.safetensors", "best.safetensors", "iteration.safetensors", "segment")
EVENTS = ("rename", "fsync", "open")
ATTACK = "signals: while a checkpoint is written"


def signal_trials(references: Mapping[str, Reference], count: int, seed: int, fork: bool) -> list[Trial]:
    """Return the given number of trials: each signal, once and twice, at each step of writing each file, shuffled."""
    rng = random.Random(f"{seed} signals")
    each = list(product(FILES, EVENTS, (SIGTERM, SIGINT, SIGHUP), (1, 2)))
    rng.shuffle(each)
    able = {file: [x for x in references.values() if ("rename", file) in x.operations] for file in FILES}
    usable = [case for case in each if able[case[0]]]
    trials = []
    for k in range(count if usable else 0):
        file, event, number, times = usable[k % len(usable)]
        reference = able[file][k % len(able[file])]
        event = event if (event, file) in reference.operations else "rename"
        moment = Moment(
            event, file, rng.randint(1, reference.operations.count((event, file))), signal=number, times=times
        )
        what = f"{reference.algo}: {Signals(number).name}, {times} times, {moment}"
        trials.append(
            Trial(f"signal-{k:04d}", ATTACK, what, lambda folder, x=(reference, moment): _signaled(*x, folder, fork))
        )
    return trials


def _signaled(reference: Reference, moment: Moment, folder: Path, fork: bool) -> Verdict:
    starter, out = Starter(folder / "logs", fork), folder / "runs"
    command = training(reference.algo, out, "run", reference.device)
    run = out / "run"
    ended = starter.start(command, Hook(str(out), moment)).wait()
    problems = ended.faults() if ended.status in (0, STOPPED) else [*ended.faults(), *refused(ended)]
    problems += damaged_files(run) + listed(starter, out, run)
    if not problems:
        done = int(numbers_of(run / "checkpoints" / "last.safetensors")["iteration"])
        rows = _rows(run)
        problems += [] if done == rows else [f"lost: the last checkpoint has {done} iterations, the table {rows}"]
    if not problems:
        final = starter.run("resume", run)
        problems += refused(final) or differences(run, reference.whole)
    passed = "stopped, then identical" if ended.status == STOPPED else "ended as usual, identical"
    return Verdict(problems[0].partition(":")[0] if problems else passed, tuple(problems))


def _rows(run: Path) -> int:
    return len(table(run)) if (run / "metrics.csv").exists() else 0
