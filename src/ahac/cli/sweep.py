"""`ahac sweep`: a list of runs, some at a time."""

from __future__ import annotations

import argparse
import io
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.cli.train import HELP, settings
from ahac.core.errors import AhacError, InputError
from ahac.core.text import printable

if TYPE_CHECKING:
    from ahac.experiments.sweep import Outcome
    from ahac.training.config import RunConfig

__all__ = ["print_event", "read_list", "summary", "sweep"]

ABOUT = """Train the runs of a list, N at a time, each on cores of its own; the log of a run is beside its folder. Runs
that are complete are skipped, unfinished ones are resumed: the same command goes on with a sweep that was stopped.
A run that fails, or whose folder is damaged, does not stop the others.
Ctrl-C stops after the iterations in progress, with checkpoints; once more ends at once.

A line of the list is a run: NAME TASK [options], as `ahac train` takes them, without --name and --out. A line
`@seeds 0 1 2` makes three runs of each line below it, NAME-0 with --seed 0 and so on; `@seeds` alone ends that.
Empty lines, and what follows a #, do not count.

Exit status: 0 when all runs are complete, 1 when one has failed, 130 when some are left to do."""
WANTED = "a sweep wants a text file with a line per run: NAME TASK [options of `ahac train`]"
STATES = ("complete", "finished", "stopped", "waiting", "failed")


def sweep(arguments: list[str]) -> int:
    """train a list of runs"""
    from ahac.experiments.sweep import sweep as swept

    parser = argparse.ArgumentParser(
        prog="ahac sweep", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("list", type=Path, metavar="FILE", help="list of runs")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time (default: 1)")
    parser.add_argument("--out", default="runs", help="folder of run folders (default: runs)")
    parser.add_argument("--seconds", type=float, metavar="S", help="stop after this time, as Ctrl-C does")
    parser.add_argument(
        "--dry-run", action="store_true", help="check the list, say how far its runs are, start nothing"
    )
    options = parser.parse_args(arguments)
    configs = read_list(options.list, options.out)
    if options.dry_run:
        return _dry_run(configs)
    return summary(swept(configs, options.jobs, options.seconds, print_event))


def _dry_run(configs: list[RunConfig]) -> int:
    """Say how far each run is; the exit status is 1 if the folder of one is damaged."""
    from ahac.experiments.sweep import FolderError, run_status

    width, status = max(len(config.name) for config in configs), 0
    for config in configs:
        try:
            state = run_status(config)
            about = f"{config.algo} on {config.task}, seed {config.seed}"
        except FolderError as error:
            state = "damaged"
            about = str(error)
            status = 1
        sys.stdout.write(printable(f"{config.name:{width}}  {state:10}  {about}") + "\n")
    return status


def read_list(path: Path, out: str = "runs") -> list[RunConfig]:
    """The runs of a list, as settings; an error names the line."""
    found: dict[str, RunConfig] = {}
    for number, words in _runs(path, _text(path)):
        try:
            found[words[0]] = _checked(words, out, found)
        except AhacError as error:
            raise InputError(f"{path}, line {number}: {error}") from error
    if not found:
        raise InputError(f"{path} lists no run; {WANTED}")
    return list(found.values())


def _checked(words: list[str], out: str, others: Mapping[str, RunConfig]) -> RunConfig:
    """The run of a line, if it can be trained beside those of the lines above."""
    from ahac.experiments.sweep import FolderError, log_of, run_status
    from ahac.training.names import check_name

    name = words[0]
    check_name(name)
    config = replace(_settings(words[1:]), name=name, out=out)
    if name in others:
        raise InputError(f"the name {name!r} is taken by a line above; give each run its own")
    if clash := [other for other in others if log_of(other) == name or log_of(name) == other]:
        raise InputError(f"the log of one of the runs {clash[0]!r} and {name!r} is named like the other; rename one")
    with suppress(FolderError):  # told when it is this run's turn; the others can be trained
        run_status(config)
    return config


def _text(path: Path) -> str:
    """Of a list, or an error that says what was wanted."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}; {WANTED}") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; {WANTED}. `--out` says in which folder the runs are") from error
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} is no list of runs: {error}; {WANTED}") from error


def _runs(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines as words, with their numbers; where there are seeds, once for each."""
    seeds: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}, in {line!r}") from error
        if not words:
            continue
        if words[0] == "@seeds":
            seeds = words[1:]
            if odd := [seed for seed in seeds if not (seed.isascii() and seed.isdecimal())]:
                raise InputError(
                    f"{path}, line {number}: seeds are whole numbers, as in `@seeds 0 1 2`; got {odd[0]!r}"
                )
        elif seeds and "--seed" in _names(words):
            raise InputError(
                f"{path}, line {number}: --seed cannot be combined with `@seeds`; put a bare `@seeds` line above it"
            )
        elif seeds:
            yield from ((number, [f"{words[0]}-{seed}", *words[1:], "--seed", seed]) for seed in seeds)
        else:
            yield number, words


def _settings(words: list[str]) -> RunConfig:
    """What `ahac train` would make of these words; its complaint is an error like others."""
    from ahac.envs import tasks

    if not words or words[0].startswith("-"):
        raise InputError(f"say what to train behind the run's name: NAME TASK [options]; TASK: {', '.join(tasks())}")
    if odd := sorted(_names(words) & {"--name", "--out", *HELP}):
        raise InputError(f"{odd[0]} cannot stand in a list; a line begins with the name, `ahac sweep --out` is for all")
    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint), redirect_stdout(complaint):
            return settings(words[0], words[1:])
    except SystemExit as error:
        raise InputError(
            f"{error_text(complaint.getvalue())} (`ahac train {words[0]} --help` lists options)"
        ) from error


def _names(words: list[str]) -> set[str]:
    """The options among words."""
    return {word.partition("=")[0] for word in words if word.startswith("-")}


def error_text(complaint: str) -> str:
    """The message of a framed complaint, without its title and advice."""
    lines = [line.strip(" │") for line in complaint.splitlines()]
    rules = [k for k, line in enumerate(lines) if line and not line.strip("-─╭╮╰╯")]
    chosen = lines[rules[0] + 1 : rules[1]] if len(rules) > 1 else lines[-1:]
    return " ".join(chosen)


def print_event(line: str) -> None:
    """A line for whoever watches."""
    sys.stderr.write(printable(line) + "\n")


def summary(outcomes: list[Outcome]) -> int:
    """Say how it went; the exit status."""
    counts = Counter(outcome.state for outcome in outcomes)
    shown = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    sys.stdout.write(f"{len(outcomes)} run{'s' * (len(outcomes) != 1)}: {shown}\n")
    for outcome in outcomes:
        if outcome.state == "failed":
            sys.stdout.write(printable(f"{outcome} (log: {outcome.log})") + "\n")
    if counts["failed"]:
        return 1
    return 130 if counts["stopped"] or counts["waiting"] else 0
