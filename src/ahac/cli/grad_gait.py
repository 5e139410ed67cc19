"""`ahac grad gait`: does a policy's gait follow the horizon it was trained with?"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from ahac.cli.progress import progress_bar
from ahac.core.errors import InputError

__all__ = ["gait"]

FOLDER = "runs/gaits"


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Of the study."""

    task: str = "ant"
    """Name of the task."""
    horizons: tuple[int, ...] = (16, 20, 24, 28, 32, 36, 40, 44)
    """Rollout lengths H [control steps], SHAC with each."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """A run of every horizon with each."""
    num_envs: int | None = None
    """Worlds side by side; by default the recipe's."""
    iterations: int | None = None
    """Rollouts of each run; by default the recipe's."""
    env_steps: int | None = None
    """World-steps of each run, the same for every horizon; then iterations do not count."""
    device: str = "auto"
    """auto takes CUDA where there is one."""
    out: str = FOLDER
    """Folder of run folders."""
    jobs: int = 1
    """Runs at a time."""
    seconds: float | None = None
    """Stop after this time, as Ctrl-C does; the same command goes on."""


@dataclass(frozen=True, kw_only=True)
class Redo:
    """Whether to look again."""

    redo: bool = False
    """Measure gaits anew, even if they were measured."""


def gait(arguments: list[str]) -> int:
    """SHAC for many horizons, and the gaits that come of it: run, then draw"""
    parser = argparse.ArgumentParser(prog="ahac grad gait", description="Gait period and return against the horizon.")
    parser.add_argument("command", choices=["run", "draw"], help="train the runs, or measure their gaits and draw")
    options = parser.parse_args(arguments[:1] or ["--help"])
    return _run(arguments[1:]) if options.command == "run" else _draw(arguments[1:])


def _run(words: list[str]) -> int:
    from ahac.cli.grad import parse_settings
    from ahac.cli.sweep import print_event, summary
    from ahac.experiments.sweep import sweep
    from ahac.gradients.gait_runs import gait_configs

    text = "Train SHAC with every horizon and seed. What is complete is left alone: the same command goes on."
    (o,) = parse_settings(words, "ahac grad gait run", text, Runs)
    own = {name: value for name in ("num_envs", "iterations", "env_steps") if (value := getattr(o, name)) is not None}
    configs = gait_configs(o.horizons, o.seeds, o.task, o.out, device=o.device, **own)
    return summary(sweep(configs, o.jobs, o.seconds, print_event))


def _draw(words: list[str]) -> int:
    from ahac.cli.grad import draw, parse_settings
    from ahac.gradients.figures import gaits as figures
    from ahac.gradients.gait_runs import GaitSettings, study

    folder, words = (Path(words[0]), words[1:]) if words and not words[0].startswith("-") else (Path(FOLDER), words)
    text = (
        f"Measure the gaits of the complete runs of SHAC in a folder, by default {FOLDER}, and draw them against the "
        "horizon. Runs of other algorithms are left out; all must be of one task."
    )
    settings, again = parse_settings(words, "ahac grad gait draw [FOLDER]", text, GaitSettings, Redo)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; `ahac grad gait run --out {folder}` makes the runs")
    found = study(folder, settings, again.redo, progress_bar)
    if found.settings["unfinished"]:
        sys.stderr.write(f"{found.settings['unfinished']} runs are not complete, and left out\n")
    if found.settings["others"]:
        sys.stderr.write(f"{found.settings['others']} runs are not of SHAC with a fixed horizon, and left out\n")
    sys.stdout.write("  H  seed  period     return\n")
    order = sorted(zip(found["horizon"], found["seed"], found["period"], found["score"], strict=True))
    for horizon, seed, period, score in order:
        sys.stdout.write(f"{horizon:3.0f}  {seed:4.0f}  {period:6.1f}  {score:9.1f}\n")
    path = folder / "gaits.npz"
    found.save(path)
    return draw(found, [(figures.draw, path)])
