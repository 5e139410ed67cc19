"""`ahac grad gait`: measure how a policy's gait depends on the horizon it was trained with."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ahac.cli.grad.common import parse_settings, save_figures
from ahac.cli.parser import Commands, Parser, run_command
from ahac.cli.progress import progress_bar
from ahac.core.errors import InputError
from ahac.core.table import table_lines

__all__ = ["gait"]

FOLDER = "runs/gaits"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Runs of the study."""

    task: str = "ant"
    """Name of the task."""
    horizons: tuple[int, ...] = (16, 20, 24, 28, 32, 36, 40, 44)
    """Rollout lengths H [control steps], with at least one run of SHAC for each."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Random seeds, one run per horizon and seed."""
    num_envs: int | None = None
    """Number of worlds; by default that of the recipe."""
    iterations: int | None = None
    """Iterations of each run; by default those of the recipe."""
    env_steps: int | None = None
    """Length of each run in environment steps, the same for every horizon; replaces iterations."""
    device: str = "auto"
    """Device: cpu, cuda, cuda:N, or auto for CUDA if available."""
    out: str = FOLDER
    """Folder of run folders."""
    jobs: int = 1
    """Runs at a time."""
    seconds: float | None = None
    """Stop after this time, like Ctrl-C; the same command continues."""


def gait(arguments: list[str]) -> int:
    """Run `ahac grad gait`."""
    about = "Measure gait period and return by training horizon."
    return run_command("ahac grad gait", about, COMMANDS, arguments)


def _run(words: list[str]) -> int:
    about = (
        "Train SHAC with every horizon and seed. Complete runs are skipped, so the same command continues the study."
    )
    o, _ = parse_settings(Parser("ahac grad gait run", "[options]", about), words, RunOptions())

    from ahac.cli.outcomes import print_event, summary
    from ahac.experiments.sweep import sweep
    from ahac.gradients.gait_runs import gait_configs

    names = ("num_envs", "iterations", "env_steps")
    settings = {name: value for name in names if (value := getattr(o, name)) is not None}
    configs = gait_configs(o.horizons, o.seeds, o.task, o.out, device=o.device, **settings)
    return summary(sweep(configs, o.jobs, o.seconds, print_event))


def _draw(words: list[str]) -> int:
    from ahac.gradients.figures import gaits as figures
    from ahac.gradients.gait_runs import GaitSettings, study

    parser = Parser(
        "ahac grad gait draw",
        "[FOLDER] [options]",
        "Measure the gaits of the complete SHAC runs in a folder, and plot period and return by horizon. Runs of other "
        "algorithms are skipped; all runs must be of one task.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(FOLDER),
        metavar="FOLDER",
        help=f"folder of run folders (default: {FOLDER})",
    )
    parser.add_argument("--redo", action="store_true", help="measure again, even if results exist")
    settings, options = parse_settings(parser, words, GaitSettings())
    folder = options.folder
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}; create the runs with `ahac grad gait run --out {folder}`")
    result = study(folder, settings, options.redo, progress_bar)
    if result.settings["unfinished"]:
        sys.stderr.write(f"skipped {result.settings['unfinished']} unfinished runs\n")
    if result.settings["others"]:
        sys.stderr.write(f"skipped {result.settings['others']} runs that are not SHAC with a fixed horizon\n")
    order = sorted(zip(result["horizon"], result["seed"], result["period"], result["score"], strict=True))
    rows = [(f"{h:.0f}", f"{seed:.0f}", f"{period:.1f}", f"{score:.1f}") for h, seed, period, score in order]
    for line in table_lines(("H", "seed", "period", "return"), rows, left=()):
        sys.stdout.write(f"{line}\n")
    path = folder / "gaits.npz"
    result.save(path)
    return save_figures(result, [(figures.draw, path)])


COMMANDS: Commands = {
    "run": ("train the runs", _run),
    "draw": ("measure the gaits of the runs and plot them", _draw),
}
