"""Studies: products of tasks, algorithms, presets, variants and seeds, read from TOML files.

    name = "horizons"                       # and the folder of its runs, runs/horizons
    about = "Does a longer horizon help?"
    seeds = "0-4"                           # or a list
    settings = {device = "cpu"}             # of all runs

    [[runs]]                                # each table is a product of its lists
    tasks = ["hopper", "ant"]
    algos = ["ahac", "shac"]                # optional: presets, seeds, settings, name
    [[runs.variants]]                       # optional: named settings, multiplied in
    name = "h32"
    settings = {algorithm.horizon.max = 32}

Runs are named TASK-ALGO[-PRESET][-NAME][-VARIANT]-sSEED, without the preset if it is the default. Reading a file
imports no torch; `configure_runs` does.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ahac.core.config import flatten
from ahac.core.errors import AhacError, InputError
from ahac.core.task_names import is_task_file, split_task_file
from ahac.core.text import listed, suggestion
from ahac.training.names import check_name

if TYPE_CHECKING:
    from ahac.training.config import RunConfig

__all__ = [
    "FOLDER",
    "PlannedRun",
    "Study",
    "available",
    "check_patterns",
    "configure_runs",
    "find_study",
    "is_selected",
    "override",
    "parse_override",
    "read_study",
    "select",
    "selected_names",
]

FOLDER = Path(str(files("ahac"))) / "studies"
"""Folder of the studies in the package."""
DEFAULT_PRESET = "default"
ELSEWHERE = {
    "task": "tasks of [[runs]]",
    "algo": "algos of [[runs]]",
    "preset": "presets of [[runs]]",
    "seed": "seeds",
    "name": "name of [[runs]] or [[runs.variants]]",
    "out": "the option --out",
    "task_source": "tasks of [[runs]]",
}
"""Fields of a run that are not settings of a study, and what sets them."""
SEED_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")
MOST_SEEDS = 1000
"""Largest number of seeds in a range."""


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run of a study, before its settings are checked."""

    name: str
    task: str
    algo: str
    preset: str
    seed: int
    settings: Mapping[str, Any]
    """Settings by dotted name."""
    where: str
    """File and table that describe it, for errors."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Content of a study file."""

    name: str
    about: str
    runs: list[PlannedRun] = field(default_factory=list[PlannedRun])


def available() -> dict[str, Path]:
    """Return the files of the studies in the package, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def find_study(name: str) -> Path:
    """Return the file of a study in the package; raise an InputError that lists them if there is none."""
    known = available()
    if name not in known:
        raise InputError(
            f"no such file and no study named {name!r}{suggestion(name, known)}; expected a list of runs (FILE.txt), a "
            f"study (FILE.toml), or one of {', '.join(known)}"
        )
    return known[name]


def read_study(path: Path) -> Study:
    """Read a study file; errors name the table."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError) as error:
        meant = suggestion(path.name, available())
        raise InputError(f"no such file: {path}{meant}; expected a study, a TOML file with tables [[runs]]") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; expected a study, a TOML file with tables [[runs]]") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not a study: {error}; expected a TOML file with tables [[runs]]") from error
    table = _Table(content, str(path), ("name", "about", "seeds", "settings", "runs"))
    name, about = table.text("name") or path.stem, table.text("about")
    try:
        check_name(name)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    seeds, settings = table.seeds(), table.settings()
    runs: dict[str, PlannedRun] = {}
    for inner in table.tables("runs", ("tasks", "algos", "presets", "seeds", "settings", "name", "variants")):
        for run in _product(inner, inner.seeds() or seeds or [0], settings):
            if run.name in runs:
                raise InputError(
                    f"{run.where}: the run {run.name!r} is also made by {_table_of(runs[run.name])}; give one of the "
                    "tables or variants another name"
                )
            runs[run.name] = run
    if not runs:
        raise InputError(f'{path} has no runs; add a table [[runs]] with tasks = ["hopper"] and algos = ["ahac"]')
    return Study(name=name, about=about, runs=list(runs.values()))


def select(runs: Sequence[PlannedRun], patterns: Sequence[str], without: Sequence[str] = ()) -> list[PlannedRun]:
    """Return the runs whose names match one of the patterns (`ant-*-s0`), or all runs if there are none.

    Those that match a pattern in `without` are left out.
    """
    names = selected_names([run.name for run in runs], patterns, without)
    return [run for run in runs if run.name in names]


def selected_names(names: Sequence[str], patterns: Sequence[str], without: Sequence[str] = ()) -> set[str]:
    """Return the names that `select` selects; raise an InputError if a pattern matches none, or none is left."""
    check_patterns(names, [*patterns, *without])
    found = {name for name in names if is_selected(name, patterns, without)}
    if not found:
        raise InputError(
            f"{', '.join(map(repr, without))} leaves out every selected run of {listed(names)}; use narrower patterns"
        )
    return found


def is_selected(name: str, patterns: Sequence[str], without: Sequence[str] = ()) -> bool:
    """Return whether a name matches one of the patterns, or there are none, and no pattern in `without`."""
    if any(fnmatchcase(name, pattern) for pattern in without):
        return False
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def check_patterns(names: Sequence[str], patterns: Sequence[str]) -> None:
    """Raise an InputError if a pattern matches no name."""
    if unmatched := [pattern for pattern in patterns if not any(is_selected(name, [pattern]) for name in names)]:
        raise InputError(f"no run is named like {', '.join(map(repr, unmatched))}; runs: {listed(names)}")


def configure_runs(runs: Sequence[PlannedRun], out: str, overrides: Mapping[str, Any]) -> list[RunConfig]:
    """Return the checked settings of planned runs; `overrides` replace settings of all of them."""
    from ahac.core.config import as_restored
    from ahac.training.api import configure

    configs: list[RunConfig] = []
    for run in runs:
        settings = {**run.settings, "seed": run.seed, "name": run.name, "out": out}
        try:
            _check_names(run.settings)
            config = configure(run.task, run.algo, run.preset, **settings)
            config = as_restored(config)  # checks types; whole numbers become floats
        except AhacError as error:
            raise InputError(f"{run.where}: {error}") from error
        configs.append(override(config, overrides))
    return configs


def override(config: RunConfig, overrides: Mapping[str, Any]) -> RunConfig:
    """Return the settings of a run with some replaced, by dotted name."""
    from ahac.core.config import as_restored
    from ahac.training.api import configure

    if not overrides:
        return config
    names = [item.name for item in fields(config) if item.name not in ("task", "algo", "preset")]
    settings = {name: getattr(config, name) for name in names}
    try:
        _check_names(overrides)
        changed = configure(config.task, config.algo, config.preset, **_merged(settings, overrides))
        return as_restored(changed)
    except AhacError as error:
        raise InputError(f"{error}; got the overrides {', '.join(overrides)}") from error


def _check_names(settings: Iterable[str]) -> None:
    """Raise an InputError for a setting that runs do not have, with those that a study can set."""
    from ahac.training.config import RunConfig

    known = [item.name for item in fields(RunConfig)]
    for name in settings:
        if (head := name.partition(".")[0]) not in known:
            others = [other for other in known if other not in ELSEWHERE]
            raise InputError(f"no setting named {name!r}{suggestion(head, others)}; settings: {', '.join(others)}")


def parse_override(text: str) -> dict[str, Any]:
    """Return the settings of KEY=VALUE by dotted name; the value is written as in TOML, or a bare word."""
    name, equals, written = text.partition("=")
    if not name or not equals:
        raise InputError(f"expected KEY=VALUE, as in iterations=5, got {text!r}")
    try:
        value = tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        value = written
    return dict(_setting(key, entry) for key, entry in flatten({name.replace("-", "_"): value}).items())


def _product(table: _Table, seeds: Sequence[int], shared: Mapping[str, Any]) -> list[PlannedRun]:
    """Return the runs of a table [[runs]]: all combinations for the first seed, then for the next."""
    tasks, algos = table.names("tasks"), table.names("algos")
    presets = table.names("presets", [DEFAULT_PRESET])
    label, settings = table.text("name"), _merged(shared, table.settings())
    variants: list[tuple[str, dict[str, Any], str]] = [
        (inner.text("name", required=True), inner.settings(), inner.where)
        for inner in table.tables("variants", ("name", "settings"))
    ]
    runs: list[PlannedRun] = []
    for seed, task, algo, preset, (variant, changes, where) in product(
        seeds, tasks, algos, presets, variants or [("", {}, table.where)]
    ):
        short = split_task_file(task)[1] if is_task_file(task) else task
        parts = (short, algo, "" if preset == DEFAULT_PRESET else preset, label, variant, f"s{seed}")
        name = "-".join(part for part in parts if part)
        every = _merged(settings, changes)
        runs.append(PlannedRun(name=name, task=task, algo=algo, preset=preset, seed=seed, settings=every, where=where))
    return runs


def _merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with changes. A new number of iterations also replaces a length in environment steps."""
    kept = {name: value for name, value in settings.items() if name != "env_steps" or "iterations" not in changes}
    return {**kept, **changes}


def _table_of(run: PlannedRun) -> str:
    return run.where.rpartition(", ")[2]


def _setting(name: str, value: object) -> tuple[str, Any]:
    """Return a setting with the value that it has in Python: TOML has no tuples and no None."""
    if name in ELSEWHERE:
        raise InputError(f"{name!r} is not a setting here; use {ELSEWHERE[name]}")
    if isinstance(value, list):
        return name, tuple(value)
    return name, None if value in ("none", "None") else value


class _Table:
    """A table of the file, whose values are checked as they are read."""

    def __init__(self, content: object, where: str, keys: Sequence[str]) -> None:
        self.where = where
        """What errors start with: the file and the table."""
        if not isinstance(content, Mapping):
            raise InputError(f"{where}: expected a table, got {content!r}")
        self.content: Mapping[str, Any] = content
        for key in self.content:
            if key not in keys:
                raise InputError(f"{where}: unknown key {key!r}{suggestion(key, keys)}; keys: {', '.join(keys)}")

    def text(self, key: str, required: bool = False) -> str:
        """Return a text; empty if it is missing and not required."""
        value = self.content.get(key, "")
        if not isinstance(value, str) or (required and not value):
            raise InputError(f"{self.where}: {key} must be a text, got {self.content.get(key)!r}")
        return value

    def names(self, key: str, default: list[str] | None = None) -> list[str]:
        """Return a list of names without repetitions."""
        value = self.content.get(key, default)
        if not isinstance(value, list) or not value or not all(isinstance(name, str) and name for name in value):
            raise InputError(f'{self.where}: {key} must be a list of names, as in {key} = ["..."], got {value!r}')
        if len(set(value)) < len(value):
            raise InputError(f"{self.where}: {key} must be distinct, got {', '.join(value)}; remove the repeated ones")
        return value

    def seeds(self) -> list[int]:
        """Return the seeds: a list of whole numbers, or a text such as "0-4, 7"; no seeds if there is no such key."""
        value = self.content.get("seeds", [])
        found: list[int] = []
        if isinstance(value, str):
            for part in value.split(","):
                match = SEED_RANGE.fullmatch(part.strip())
                first, last = (int(match[1]), int(match[2] or match[1])) if match else (-1, -1)
                if last - first >= MOST_SEEDS:
                    raise InputError(f"{self.where}: a range has at most {MOST_SEEDS} seeds, got {part.strip()!r}")
                found += range(first, last + 1) or [-1]  # -1 also for a range that ends before it starts
        elif isinstance(value, list):
            found = [seed if type(seed) is int else -1 for seed in value]
        if ("seeds" in self.content and not found) or min(found, default=0) < 0 or len(set(found)) < len(found):
            raise InputError(
                f'{self.where}: seeds must be distinct whole numbers, as in "0-4" or [0, 1, 2], got {value!r}'
            )
        return found

    def settings(self) -> dict[str, Any]:
        """Return the settings by dotted name."""
        value = self.content.get("settings", {})
        if not isinstance(value, Mapping):
            raise InputError(f"{self.where}: settings must be a table, as in {{num_envs = 64}}, got {value!r}")
        try:
            found = dict(_setting(name, entry) for name, entry in flatten(value).items())
        except InputError as error:
            raise InputError(f"{self.where}: {error}") from error
        if "iterations" in found and found.get("env_steps") is not None:
            raise InputError(
                f"{self.where}: expected one length, got iterations = {found['iterations']!r} and env_steps = "
                f"{found['env_steps']!r}; remove one of them"
            )
        return found

    def tables(self, key: str, keys: Sequence[str]) -> list[_Table]:
        """Return the tables of an array of tables."""
        value = self.content.get(key, [])
        label = f"[[{'runs.' * (key != 'runs')}{key}]]"
        if not isinstance(value, list):
            raise InputError(f"{self.where}: {key} must be tables {label}, got {value!r}")
        return [_Table(entry, f"{self.where}, {label} {k}", keys) for k, entry in enumerate(value, start=1)]
