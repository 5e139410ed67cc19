"""`ahac sweep`: train the runs of a study or a list, several at a time."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ahac.cli.names import task_names
from ahac.cli.outcomes import summary
from ahac.cli.parser import HELP, Parser, number, one_of, whole_number
from ahac.cli.train import DISPLAY_OPTIONS, train_config
from ahac.core.errors import AhacError, InputError
from ahac.core.table import table_lines
from ahac.core.text import printable

if TYPE_CHECKING:
    from ahac.experiments.launchers.launcher import Launcher
    from ahac.training.config import RunConfig

__all__ = ["read_list", "sweep"]

ABOUT = (
    "Train the runs of a study or a list, several at a time, each on its own cores; the log of a run is next to its "
    "folder. Complete runs are skipped and unfinished ones resumed, so the same command continues a stopped sweep. A "
    "run that fails is retried; if it still fails, it does not stop the others. Ctrl-C stops after the current "
    "iterations, with checkpoints; a second Ctrl-C stops immediately.\n\n"
    "STUDY is the name of a study (`ahac list studies`), a study of your own, FILE.toml, or a list, FILE.txt: each "
    "line is a run, NAME TASK [options of `ahac train`]; after a line `@seeds 0 1`, each line makes the runs NAME-0 "
    "and NAME-1. Both formats: docs/studies/README.md\n\n"
    "Exit status: 0 if all runs are complete, 1 if one failed, 130 if some are left to do."
)
EXPECTED = "expected a text file with one run per line: NAME TASK [options of `ahac train`]"
LAUNCHERS = ("local", "ray", "slurm")
BASIC = ("--jobs", "--out", "--set", "--only", "--except", "--retries", "--seconds", "--dry-run", "--launcher")
"""Options of the short help."""
OPTIONS_OF = {"no_mps": "local", "address": "ray", "num_cpus": "ray", "num_gpus": "ray", "slurm": "slurm"}
"""Options of one launcher only."""


def sweep(arguments: list[str]) -> int:
    """Run `ahac sweep`."""
    options = _parser().parse(arguments)
    given = _launcher_options(options)
    configs = read_configs(
        options.study, out=options.out, overrides=options.set, only=options.only, without=options.without
    )
    if options.dry_run:
        return _dry_run(configs)

    from ahac.cli.live_table import SweepDisplay
    from ahac.experiments.sweep import sweep as run_sweep

    launcher = _make_launcher(options.launcher, options.jobs, given)
    with SweepDisplay(configs) as display:
        outcomes = run_sweep(
            configs,
            seconds=options.seconds,
            on_event=display.on_event,
            retries=options.retries,
            launcher=launcher,
            on_progress=display.on_progress,
        )
    return summary(outcomes)


def _parser() -> Parser:
    parser = Parser("ahac sweep", "STUDY [options]", ABOUT, basic=BASIC)
    parser.add_argument("study", metavar="STUDY", help="name of a study, FILE.toml or FILE.txt")
    parser.add_argument(
        "--jobs",
        type=whole_number,
        metavar="N",
        help="runs at a time (default: one for every two cores; on a GPU 8, or 3 if all are of FastTD3; with ray "
        "and slurm no limit)",
    )
    parser.add_argument(
        "--out", metavar="FOLDER", help="folder of run folders (default: runs/STUDY for a study, runs for a list)"
    )
    add_selection(parser)
    parser.add_argument(
        "--except",
        dest="without",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave out runs with such names; repeatable",
    )
    parser.add_argument(
        "--retries", type=whole_number, default=1, metavar="N", help="how often to retry a failed run (default: 1)"
    )
    parser.add_argument(
        "--seconds", type=number, metavar="S", help="stop after this time, like Ctrl-C (default: never)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the status of the runs without training")
    parser.add_argument(
        "--launcher",
        type=one_of(*LAUNCHERS),
        default="local",
        metavar="|".join(LAUNCHERS),
        help="where runs train: this machine, a Ray cluster, Slurm (default: local)",
    )
    parser.add_argument("--no-mps", action="store_true", help="local: do not start NVIDIA MPS for runs on one GPU")
    parser.add_argument("--address", metavar="HOST:PORT", help="ray: the cluster (default: RAY_ADDRESS, or a new one)")
    parser.add_argument("--num-cpus", type=whole_number, metavar="N", help="ray: CPUs of a run (default: 2)")
    parser.add_argument(
        "--num-gpus", type=number, metavar="X", help="ray: GPUs of a run, also 0.25 (default: 1 if there are GPUs)"
    )
    parser.add_argument(
        "--slurm",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="slurm: option of sbatch, partition=gpu or time=24:00:00; repeatable",
    )
    return parser


def add_selection(parser: Parser) -> None:
    """Add the options that select and change runs."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="setting of all runs: iterations=5; repeatable"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="only runs with such names: 'ant-*'; repeatable"
    )


def _launcher_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the launcher that were given; raise an InputError for those of another one."""
    given = {name: value for name in OPTIONS_OF if (value := getattr(options, name)) not in (None, False, [])}
    for name in given:
        if (launcher := OPTIONS_OF[name]) != options.launcher:
            raise InputError(f"--{name.replace('_', '-')} needs --launcher {launcher}, got {options.launcher}")
    if "slurm" in given:
        given["slurm"] = dict(_key_and_value(text) for text in options.slurm)
    return given


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InputError(f"--slurm: expected KEY=VALUE, as in partition=gpu, got {text!r}")
    return key, value


def _make_launcher(name: str, jobs: int | None, given: Mapping[str, Any]) -> Launcher:
    if name == "ray":
        from ahac.experiments.launchers.ray import RayLauncher

        return RayLauncher(jobs=jobs, **given)
    if name == "slurm":
        from ahac.experiments.launchers.slurm import SlurmLauncher

        return SlurmLauncher(given.get("slurm"), jobs)

    from ahac.experiments.launchers.local import LocalLauncher

    return LocalLauncher(jobs, mps="no_mps" not in given)


def read_configs(
    given: str, *, out: str | None, overrides: Sequence[str], only: Sequence[str], without: Sequence[str] = ()
) -> list[RunConfig]:
    """Return the settings of the runs of a study or list, given by name or path, that the options select."""
    from ahac.experiments.study import configure_runs, find_study, parse_override, read_study, select

    changed = {name: value for text in overrides for name, value in parse_override(text).items()}
    path = Path(given)
    is_name = path.name == given and not path.suffix and (path.is_dir() or not os.path.lexists(path))
    if not is_name and path.suffix != ".toml":
        return read_list(path, out or "runs", changed, only, without)
    study = read_study(find_study(given) if is_name else path)
    return configure_runs(select(study.runs, only, without), out or f"runs/{study.name}", changed)


def _dry_run(configs: list[RunConfig]) -> int:
    """Print the status of each run; return 1 if the folder of one is damaged, otherwise 0."""
    from ahac.experiments.sweep import FolderError, check_folders, run_statuses

    check_folders(configs)
    rows = []
    for config, status in zip(configs, run_statuses(configs), strict=True):
        if isinstance(status, FolderError):
            row = (config.name, "damaged", str(status))
        else:
            row = (config.name, status, f"{config.algo} on {config.task}, seed {config.seed}")
        rows.append(tuple(map(printable, row)))
    for line in table_lines(("run", "status", "details"), rows, left=(0, 1, 2)):
        sys.stdout.write(f"{line}\n")
    return int(any(status == "damaged" for _, status, _ in rows))


def read_list(
    path: Path,
    out: str = "runs",
    overrides: Mapping[str, Any] | None = None,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
) -> list[RunConfig]:
    """Return the settings of the runs in a list; errors name the line.

    Args:
        path: The list.
        out: Folder of the run folders.
        overrides: Settings of all runs, by dotted name, that replace those of the list.
        only: Patterns of the names of runs to return; by default all.
        without: Patterns of the names of runs to leave out.
    """
    from ahac.experiments.study import is_selected, selected_names

    configs: dict[str, RunConfig] = {}
    names: list[str] = []
    for line, words in _runs(path, _read(path)):
        names.append(words[0])
        if not is_selected(words[0], only, without):
            continue
        try:
            configs[words[0]] = _config(words, out, configs, overrides or {})
        except AhacError as error:
            raise InputError(f"{path}, line {line}: {error}") from error
    if not names:
        raise InputError(f"{path} lists no runs; {EXPECTED}")
    selected_names(names, only, without)
    return list(configs.values())


def _config(words: list[str], out: str, others: Mapping[str, RunConfig], overrides: Mapping[str, Any]) -> RunConfig:
    """Return the settings of one run, checked against those of the lines above."""
    from ahac.experiments.study import override
    from ahac.experiments.sweep import ChangedSettingsError, FolderError, log_of, run_status
    from ahac.training.names import check_name

    name = words[0]
    check_name(name)
    config = override(replace(_train_config(words[1:]), name=name, out=out), overrides)
    if name in others:
        raise InputError(f"the name {name!r} is used by a line above; give each run a different name")
    if clash := [other for other in others if log_of(other) == name or log_of(name) == other]:
        raise InputError(
            f"the run {name!r} and the run {clash[0]!r} clash: one is named like the other's log; rename one"
        )
    with suppress(FolderError, ChangedSettingsError):  # reported for all runs at once
        run_status(config)
    return config


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except (FileNotFoundError, NotADirectoryError) as error:
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
