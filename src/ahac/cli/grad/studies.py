"""`ahac grad study` and `ahac grad landscape`."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ahac.cli.grad.common import parse_settings, save_figures, split_target
from ahac.cli.parser import Parser
from ahac.cli.progress import progress_bar
from ahac.core.table import table_lines

if TYPE_CHECKING:
    from ahac.gradients import Study

__all__ = ["landscape", "study"]

FOLDER = Path("runs") / "gradients"
"""Folder of results that do not belong to a run."""


def study(arguments: list[str]) -> int:
    """Run `ahac grad study`."""
    expected = "heaviside, ball, a task, FILE.py:NAME, or a run folder"
    target, words = split_target(arguments, "ahac grad study", expected)
    if target == "heaviside":
        return _heaviside(words)
    return _ball(words) if target == "ball" else _task(target, words)


def landscape(arguments: list[str]) -> int:
    """Run `ahac grad landscape`."""
    target, words = split_target(arguments, "ahac grad landscape", "a task, FILE.py:NAME, or a run folder")

    from ahac.gradients.figures import landscape as figures
    from ahac.gradients.landscape import KIND, LandscapeSettings, depends_on
    from ahac.gradients.landscape import landscape as compute
    from ahac.gradients.policies import fingerprint
    from ahac.gradients.study import load_or_compute

    about = (
        "Plot the return along a direction of the policy's parameters, with both gradient estimates as slopes.\n\n"
        "TARGET is a task, FILE.py:NAME (a Task, or a function that returns one), or a run folder. The policy is that "
        "of the run; for a task it is newly initialized."
    )
    parser = _target_parser(f"ahac grad landscape {target}", about)
    c, options = parse_settings(parser, words, LandscapeSettings())
    key = depends_on(c, fingerprint(target, options.checkpoint, c.seed))
    folder, stem = _result_path(target, options.out, key)
    path = folder / f"{stem}landscape-{Path(c.along).stem}.npz"
    result = load_or_compute(
        path,
        KIND,
        key,
        redo=options.redo,
        compute=lambda: compute(target, c, checkpoint=options.checkpoint, device=options.device, track=progress_bar),
    )
    for name in ("first", "zeroth"):
        slope = float(result[f"{name}_slope"])
        error = float(result[f"{name}_slope_error"])
        sys.stdout.write(f"{name}-order slope: {slope:.4g} ± {error:.2g}\n")
    return save_figures(result, [(figures.draw, path)])


def _heaviside(words: list[str]) -> int:
    from ahac.gradients import heaviside
    from ahac.gradients.figures import heaviside as figures
    from ahac.gradients.study import load_or_compute

    about = "Estimate the gradient of a soft Heaviside function, and the error by number of samples."
    parser = _study_parser("ahac grad study heaviside", about)
    c, options = parse_settings(parser, words, heaviside.HeavisideSettings())
    path = (options.out or FOLDER) / "heaviside.npz"
    result = load_or_compute(path, heaviside.KIND, asdict(c), lambda: heaviside.study(c, progress_bar), options.redo)
    share = heaviside.informative_share(0.0, c.width, c.sigma)
    sys.stdout.write(f"at θ = 0, {share:.2%} of samples have a nonzero first-order gradient\n")
    return save_figures(result, [(figures.draw, path), (figures.draw_appendix, path.with_stem("heaviside-appendix"))])


def _ball(words: list[str]) -> int:
    from ahac.gradients import ball
    from ahac.gradients.figures import ball as figures
    from ahac.gradients.study import load_or_compute

    about = (
        "Throw a ball against a wall: gradients before and after contact, the lemma's bound on their error, and the "
        "effect of stiffness."
    )
    c, options = parse_settings(_study_parser("ahac grad study ball", about), words, ball.BallSettings())
    path = (options.out or FOLDER) / "ball.npz"
    result = load_or_compute(path, ball.KIND, asdict(c), lambda: ball.study(c, progress_bar), options.redo)
    columns = ("first", "zeroth", "error", "expected", "first_esnr", "zeroth_esnr")
    _print_by_horizon(result, range(1, c.horizon + 1), columns)
    for name, label in (("bound", "the lemma's bound"), ("tight_bound", "the bound along the trajectory")):
        ratio = float((result[name] / result["error"]).min())
        verdict = "holds at every horizon" if ratio >= 1.0 else "is VIOLATED"
        sys.stdout.write(f"{label} {verdict}: at least {ratio:.3g} times the error\n")
    return save_figures(result, [(figures.draw, path), (figures.draw_sweep, path.with_stem("ball-stiffness"))])


def _task(target: str, words: list[str]) -> int:
    from ahac.gradients import task_study as task
    from ahac.gradients.figures import task as figures
    from ahac.gradients.policies import fingerprint
    from ahac.gradients.study import load_or_compute

    about = (
        "Compare both gradient estimates of the H-step return with respect to the policy's parameters, and measure "
        "stiffness along the rollout and the gait.\n\n"
        "TARGET is heaviside, ball, a task, FILE.py:NAME (a Task, or a function that returns one), or a run folder. "
        "heaviside and ball have other options: `ahac grad study heaviside --help`. The policy is that of the run; for "
        "a task it is newly initialized."
    )
    parser = _target_parser(f"ahac grad study {target}", about)
    c, options = parse_settings(parser, words, task.TaskSettings())
    key = {**asdict(c), **fingerprint(target, options.checkpoint, c.seed)}
    folder, stem = _result_path(target, options.out, key)
    path = folder / f"{stem}study.npz"
    result = load_or_compute(
        path,
        task.KIND,
        key,
        redo=options.redo,
        compute=lambda: task.study(target, c, checkpoint=options.checkpoint, device=options.device, track=progress_bar),
    )
    columns = ("first_norm", "zeroth_norm", "error", "expected", "cosine", "first_esnr", "zeroth_esnr")
    _print_by_horizon(result, c.horizons, columns)
    pictures = [(figures.draw, path)]
    if c.gait_steps:
        period = float(result["gait_period"])
        gait = "contacts are not periodic" if math.isnan(period) else f"contacts repeat every {period:.1f} steps"
        sys.stdout.write(f"gait: {gait}\n")
        pictures.append((figures.draw_gait, folder / f"{stem}gait-and-stiffness.npz"))
    return save_figures(result, pictures)


def _study_parser(prog: str, about: str, default_out: str = str(FOLDER)) -> Parser:
    parser = Parser(prog, "[options]", about)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help=f"folder for results and figures (default: {default_out})",
    )
    parser.add_argument("--redo", action="store_true", help="compute again, even if results with these settings exist")
    return parser


def _target_parser(prog: str, about: str) -> Parser:
    parser = _study_parser(prog, about, f"{FOLDER} or, for a run, the folder gradients inside it")
    parser.add_argument(
        "--checkpoint", default="last", metavar="NAME", help="of a run: last, best or iteration-NNNNNN (default: last)"
    )
    parser.add_argument(
        "--device", default="cpu", help="cpu, cuda, cuda:N, or auto for CUDA if available (default: cpu)"
    )
    return parser


def _result_path(target: str, out: Path | None, key: dict[str, Any]) -> tuple[Path, str]:
    """Return the folder of the results and the start of their names: the run or task, except in the run folder."""
    run = key["policy"].get("run")
    if run is not None and out is None:
        return Path(target) / "gradients", ""
    return out or FOLDER, f"{run or key['task']}-"


def _print_by_horizon(result: Study, horizons: Sequence[int], columns: Sequence[str]) -> None:
    """Print a table of about ten horizons."""
    every = max(1, len(horizons) // 10)
    indices = sorted({*range(every - 1, len(horizons), every), 0, len(horizons) - 1})
    header = ("H", *(name.replace("_", " ") for name in columns))
    rows = [(str(horizons[k]), *(f"{float(result[name][k]):.4g}" for name in columns)) for k in indices]
    for line in table_lines(header, rows, left=()):
        sys.stdout.write(f"{line}\n")
