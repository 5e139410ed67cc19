"""`ahac sweep`: train a list of runs, several at a time."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.cli.names import task_names
from ahac.cli.outcomes import print_event, summary
from ahac.cli.parser import HELP, Parser, number, whole_number
from ahac.cli.train import DISPLAY_OPTIONS, train_config
from ahac.core.errors import AhacError, InputError
from ahac.core.table import table_lines
from ahac.core.text import printable

if TYPE_CHECKING:
    from ahac.training.config import RunConfig

__all__ = ["read_list", "sweep"]

ABOUT = (
    "Train the runs of a list, N at a time, each on its own cores; the log of a run is next to its folder. Complete "
    "runs are skipped and unfinished ones resumed, so the same command continues a stopped sweep. A run that fails, or "
    "whose folder is damaged, does not stop the others. Ctrl-C stops after the current iterations, with checkpoints; a "
    "second Ctrl-C stops immediately.\n\n"
    "Each line of the list is a run: NAME TASK [options], with the options of `ahac train` except --name, --out, "
    "--watch and --quiet. After a line `@seeds 0 1 2`, each line makes three runs, NAME-0 with --seed 0 and so on, "
    "until the next `@seeds`; a bare `@seeds` ends this. Empty lines and everything after a # are ignored.\n\n"
    "Exit status: 0 if all runs are complete, 1 if one failed, 130 if some are left to do."
)
EXPECTED = "expected a text file with one run per line: NAME TASK [options of `ahac train`]"


def sweep(arguments: list[str]) -> int:
    """Run `ahac sweep`."""
    parser = Parser("ahac sweep", "FILE [options]", ABOUT)
    parser.add_argument("list", type=Path, metavar="FILE", help="list of runs")
    parser.add_argument("--jobs", type=whole_number, default=1, metavar="N", help="runs at a time (default: 1)")
    parser.add_argument("--out", default="runs", metavar="FOLDER", help="folder of run folders (default: runs)")
    parser.add_argument(
        "--seconds", type=number, metavar="S", help="stop after this time, like Ctrl-C (default: never)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check the list and print the status of its runs without training"
    )
    options = parser.parse(arguments)
    configs = read_list(options.list, options.out)
    if options.dry_run:
        return _dry_run(configs)

    from ahac.experiments.sweep import sweep as run_sweep

    return summary(run_sweep(configs, options.jobs, options.seconds, print_event))


def _dry_run(configs: list[RunConfig]) -> int:
    """Print the status of each run; return 1 if the folder of one is damaged, otherwise 0."""
    from ahac.experiments.sweep import FolderError, run_status

    rows = []
    for config in configs:
        try:
            row = (config.name, run_status(config), f"{config.algo} on {config.task}, seed {config.seed}")
        except FolderError as error:
            row = (config.name, "damaged", str(error))
        rows.append(tuple(map(printable, row)))
    for line in table_lines(("run", "status", "details"), rows, left=(0, 1, 2)):
        sys.stdout.write(f"{line}\n")
    return int(any(status == "damaged" for _, status, _ in rows))


def read_list(path: Path, out: str = "runs") -> list[RunConfig]:
    """Return the settings of the runs in a list; errors name the line."""
    configs: dict[str, RunConfig] = {}
    for line, words in _runs(path, _read(path)):
        try:
            configs[words[0]] = _config(words, out, configs)
        except AhacError as error:
            raise InputError(f"{path}, line {line}: {error}") from error
    if not configs:
        raise InputError(f"{path} lists no runs; {EXPECTED}")
    return list(configs.values())


def _config(words: list[str], out: str, others: Mapping[str, RunConfig]) -> RunConfig:
    """Return the settings of one run, checked against those of the lines above."""
    from ahac.experiments.sweep import FolderError, log_of, run_status
    from ahac.training.names import check_name

    name = words[0]
    check_name(name)
    config = replace(_train_config(words[1:]), name=name, out=out)
    if name in others:
        raise InputError(f"the name {name!r} is used by a line above; give each run a different name")
    if clash := [other for other in others if log_of(other) == name or log_of(name) == other]:
        raise InputError(
            f"the run {name!r} and the run {clash[0]!r} clash: one is named like the other's log; rename one"
        )
    with suppress(FolderError):  # reported when this run would start; the others can still be trained
        run_status(config)
    return config


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except FileNotFoundError as error:
        raise InputError(f"no such file: {path}; {EXPECTED}") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; {EXPECTED}. `--out` sets the folder of the runs") from error
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} is not a list of runs: {error}; {EXPECTED}") from error


def _runs(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and words of every run, one per seed."""
    seeds: list[str] = []
    for index, line in enumerate(text.split("\n"), start=1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InputError(f"{path}, line {index}: {error}, in {line!r}") from error
        if not words:
            continue
        if words[0] == "@seeds":
            seeds = words[1:]
            if invalid := [seed for seed in seeds if not (seed.isascii() and seed.isdecimal())]:
                raise InputError(
                    f"{path}, line {index}: seeds must be whole numbers, as in `@seeds 0 1 2`; got {invalid[0]!r}"
                )
        elif seeds and "--seed" in _options(words):
            raise InputError(
                f"{path}, line {index}: --seed cannot be combined with `@seeds`; put a bare `@seeds` line above it"
            )
        elif seeds:
            yield from ((index, [f"{words[0]}-{seed}", *words[1:], "--seed", seed]) for seed in seeds)
        else:
            yield index, words


def _train_config(words: list[str]) -> RunConfig:
    if not words or words[0].startswith("-"):
        raise InputError(f"the task is missing: NAME TASK [options]; TASK is one of {', '.join(task_names())}")
    if invalid := sorted(_options(words) & {"--name", "--out", *DISPLAY_OPTIONS, *HELP}):
        raise InputError(
            f"{invalid[0]} cannot be used in a list; the name is the first word of a line, and `ahac sweep --out` sets "
            "the folder of all runs"
        )
    return train_config(words)


def _options(words: list[str]) -> set[str]:
    """Return the names of the options among words."""
    return {word.partition("=")[0] for word in words if word.startswith("-")}
