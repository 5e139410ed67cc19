"""`ahac grad`: gradients through contact, looked at."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ahac.cli.progress import progress_bar
from ahac.core.errors import InputError

if TYPE_CHECKING:
    from ahac.gradients import Study

__all__ = ["grad"]

FOLDER = Path("runs") / "gradients"
"""Of results that belong to no run."""
HELP = {"-h", "--help"}


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where results go."""

    out: Path | None = None
    """Folder of results and pictures; by default runs/gradients, or of a run the folder gradients in its own."""
    redo: bool = False
    """Compute anew, even if the results of these settings are there."""


@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """Who acts."""

    checkpoint: str = "last"
    """Of a run: last, best, or iteration-NNNNNN."""
    device: str = "cpu"
    """cpu, cuda or auto."""


def grad(arguments: list[str]) -> int:
    """study, draw and check gradients"""
    from ahac.cli.grad_check import check
    from ahac.cli.grad_gait import gait

    commands: dict[str, Callable[[list[str]], int]] = {
        "study": study,
        "landscape": landscape,
        "check": check,
        "gait": gait,
    }
    parser = argparse.ArgumentParser(
        prog="ahac grad",
        description="Gradients through contact: how good they are, and whether they are right.",
        epilog="Run `ahac grad COMMAND --help` for details.",
        formatter_class=argparse.RawTextHelpFormatter,
    )
    lines = (f"{name + ':':10} {command.__doc__}" for name, command in commands.items())
    parser.add_argument("command", choices=list(commands), metavar="COMMAND", help="\n".join(lines))
    options = parser.parse_args(arguments[:1] or ["--help"])
    return commands[options.command](arguments[1:])


def study(arguments: list[str]) -> int:
    """first- and zeroth-order gradients against samples and horizon: heaviside, ball, TASK or RUN"""
    what, words = split_target(arguments, "ahac grad study", "heaviside, ball, a task, FILE.py:NAME, or a run's folder")
    if what == "heaviside":
        return _heaviside(words)
    return _ball(words) if what == "ball" else _task(what, words)


def landscape(arguments: list[str]) -> int:
    """the return along a direction, with both gradients as slopes: TASK or RUN"""
    from ahac.gradients.figures import landscape as figures
    from ahac.gradients.landscape import KIND, LandscapeSettings, depends_on
    from ahac.gradients.landscape import landscape as walked
    from ahac.gradients.policies import fingerprint
    from ahac.gradients.study import load_or_compute

    what, words = split_target(arguments, "ahac grad landscape", "a task, FILE.py:NAME, or a run's folder")
    text = "The return along a direction of the policy's parameters, with both gradient estimates drawn as slopes."
    c, actor, output = parse_settings(
        words, f"ahac grad landscape {what}", text, LandscapeSettings, PolicyOptions, Output
    )
    about = depends_on(c, fingerprint(what, actor.checkpoint, c.seed))
    folder, stem = _place(what, output, about)
    path = folder / f"{stem}landscape-{Path(c.along).stem}.npz"
    found = load_or_compute(
        path,
        KIND,
        about,
        redo=output.redo,
        compute=lambda: walked(what, c, checkpoint=actor.checkpoint, device=actor.device, track=progress_bar),
    )
    for name in ("first", "zeroth"):
        slope = float(found[f"{name}_slope"])
        error = float(found[f"{name}_slope_error"])
        sys.stdout.write(f"slope by {name} order: {slope:.4g} ± {error:.2g}\n")
    return draw(found, [(figures.draw, path)])


def split_target(arguments: list[str], prog: str, wanted: str) -> tuple[str, list[str]]:
    """The first word, and all others; without one, help is asked for."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    if arguments and not HELP & set(arguments):
        raise InputError(f"say what to look at first: {prog} WHAT [options]; WHAT is {wanted}")
    return "WHAT", ["--help"]


def parse_settings(words: Sequence[str], prog: str, about: str, *kinds: type[Any]) -> tuple[Any, ...]:
    """Settings of several kinds out of options, all in one list."""
    import tyro

    both = make_dataclass("Options", [], bases=kinds, frozen=True, kw_only=True)
    found = tyro.cli(both, args=list(words), prog=prog, description=about, config=(tyro.conf.FlagCreatePairsOff,))
    return tuple(kind(**{item.name: getattr(found, item.name) for item in fields(kind)}) for kind in kinds)


def draw(found: Study, pictures: Sequence[tuple[Callable[[Study, Sequence[Path]], None], Path]]) -> int:
    """Draw a study's pictures as .png and .svg, and say where they are."""
    for function, path in pictures:
        files = [path.with_suffix(".png"), path.with_suffix(".svg")]
        function(found, files)
        sys.stdout.write("".join(f"{file}\n" for file in files))
    return 0


def _heaviside(words: list[str]) -> int:
    from ahac.gradients import heaviside
    from ahac.gradients.figures import heaviside as figures
    from ahac.gradients.study import load_or_compute

    text = "The soft Heaviside function: estimates of its gradient, and their error against the number of samples."
    c, output = parse_settings(words, "ahac grad study heaviside", text, heaviside.HeavisideSettings, Output)
    path = (output.out or FOLDER) / "heaviside.npz"
    found = load_or_compute(path, heaviside.KIND, asdict(c), lambda: heaviside.study(c, progress_bar), output.redo)
    share = heaviside.informative_share(0.0, c.width, c.sigma)
    sys.stdout.write(f"at θ = 0, {share:.2%} of samples have a first-order gradient that is not zero\n")
    return draw(found, [(figures.draw, path), (figures.draw_appendix, path.with_stem("heaviside-appendix"))])


def _ball(words: list[str]) -> int:
    from ahac.gradients import ball
    from ahac.gradients.figures import ball as figures
    from ahac.gradients.study import load_or_compute

    text = "A ball against a wall: gradients before and after contact, the lemma's bound, and what stiffness does."
    c, output = parse_settings(words, "ahac grad study ball", text, ball.BallSettings, Output)
    path = (output.out or FOLDER) / "ball.npz"
    found = load_or_compute(path, ball.KIND, asdict(c), lambda: ball.study(c, progress_bar), output.redo)
    _table(found, range(1, c.horizon + 1), ("first", "zeroth", "error", "expected", "first_esnr", "zeroth_esnr"))
    for name, label in (("bound", "the lemma's bound"), ("tight_bound", "the bound along the way")):
        least = float((found[name] / found["error"]).min())
        verb = "holds at every horizon" if least >= 1.0 else "is VIOLATED"
        sys.stdout.write(f"{label} {verb}: at least {least:.3g} times the error\n")
    return draw(found, [(figures.draw, path), (figures.draw_sweep, path.with_stem("ball-stiffness"))])


def _task(what: str, words: list[str]) -> int:
    from ahac.gradients import task_study as task
    from ahac.gradients.figures import task as figures
    from ahac.gradients.policies import fingerprint
    from ahac.gradients.study import load_or_compute

    text = "Both gradients of the H-step return by a policy's parameters, stiffness step by step, and the gait."
    c, actor, output = parse_settings(words, f"ahac grad study {what}", text, task.TaskSettings, PolicyOptions, Output)
    about = {**asdict(c), **fingerprint(what, actor.checkpoint, c.seed)}
    folder, stem = _place(what, output, about)
    path = folder / f"{stem}study.npz"
    found = load_or_compute(
        path,
        task.KIND,
        about,
        redo=output.redo,
        compute=lambda: task.study(what, c, checkpoint=actor.checkpoint, device=actor.device, track=progress_bar),
    )
    _table(found, c.horizons, ("first_norm", "zeroth_norm", "error", "expected", "cosine", "first_esnr", "zeroth_esnr"))
    pictures = [(figures.draw, path)]
    if c.gait_steps:
        period = float(found["gait_period"])
        told = "contacts do not repeat" if math.isnan(period) else f"contacts repeat after {period:.1f} steps"
        sys.stdout.write(f"gait: {told}\n")
        pictures.append((figures.draw_gait, folder / f"{stem}gait-and-stiffness.npz"))
    return draw(found, pictures)


def _place(what: str, output: Output, about: dict[str, Any]) -> tuple[Path, str]:
    """Folder of the results, and how their names begin: with whose they are, but in a run's own folder."""
    run = about["policy"].get("run")
    if run is not None and output.out is None:
        return Path(what) / "gradients", ""
    return output.out or FOLDER, f"{run or about['task']}-"


def _table(found: Study, horizons: Sequence[int], names: Sequence[str]) -> None:
    """Numbers by horizon, about ten of them."""
    every = max(1, len(horizons) // 10)
    chosen = sorted({*range(every - 1, len(horizons), every), 0, len(horizons) - 1})
    sys.stdout.write("  H " + "".join(f"{name.replace('_', ' '):>14}" for name in names) + "\n")
    for k in chosen:
        sys.stdout.write(f"{horizons[k]:3} " + "".join(f"{float(found[name][k]):14.4g}" for name in names) + "\n")
