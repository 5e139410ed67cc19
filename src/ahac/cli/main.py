"""`ahac train | resume | eval | list | doctor`: thin commands over the Python of the other rooms."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ahac import __version__
from ahac.core.errors import AhacError, InputError

if TYPE_CHECKING:
    from ahac.training.config import RunConfig
    from ahac.training.run import Run

__all__ = ["main"]

Command = Callable[[list[str]], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="ahac", description="First-order policy learning through differentiable contact simulation.",
        epilog="`ahac COMMAND --help` tells more.",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"ahac {__version__}")
    parser.add_argument(
        "command", choices=list(COMMANDS), help="; ".join(f"{k}: {v.__doc__}" for k, v in COMMANDS.items())
    )
    options = parser.parse_args(given[:1] or ["--help"])
    try:
        return COMMANDS[options.command](given[1:])
    except (AhacError, OSError) as error:
        sys.stderr.write(f"ahac: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("ahac: interrupted\n")
        return 130


def train(arguments: list[str]) -> int:
    """train a policy"""
    import tyro

    from ahac.algos.recipes import ALGOS, PRESETS
    from ahac.envs import make_task, tasks
    from ahac.training.api import configure
    from ahac.training.config import RunConfig

    if arguments and not arguments[0].startswith("-"):
        task, *arguments = arguments
    elif set(arguments) <= {"-h", "--help"}:
        task = "hopper"
    else:
        raise InputError(f"say what to train first: ahac train TASK [options]; TASK is one of {', '.join(tasks())}")
    first = argparse.ArgumentParser(prog="ahac train", add_help=False, allow_abbrev=False)
    first.add_argument("--algo", default="ahac")
    first.add_argument("--preset", default="default")
    chosen, rest = first.parse_known_args(arguments)
    make_task(task)
    default = configure(task, chosen.algo, chosen.preset)
    text = f"{TRAIN} Tasks: {', '.join(tasks())}. Algorithms: {', '.join(ALGOS)}. Presets: {', '.join(PRESETS)}."
    plain = tyro.conf.configure(tyro.conf.AvoidSubcommands, tyro.conf.SuppressFixed)(RunConfig)
    config = tyro.cli(plain, default=default, args=rest, prog="ahac train TASK", description=text)
    return _train(config)


def resume(arguments: list[str]) -> int:
    """go on with a run"""
    from ahac.training.run import open_run

    parser = argparse.ArgumentParser(prog="ahac resume", description="Go on exactly where a run's last checkpoint is.")
    parser.add_argument("run", help="folder of the run")
    return _carry_on(open_run(parser.parse_args(arguments).run))


def evaluate(arguments: list[str]) -> int:
    """evaluate a run's policy"""
    from ahac.training.run import open_run

    parser = argparse.ArgumentParser(prog="ahac eval", description="Whole episodes under the policy's best actions.")
    parser.add_argument("run", help="folder of the run")
    parser.add_argument("--episodes", type=int, default=128)
    parser.add_argument("--checkpoint", default="last", help="last, best, or iteration-NNNNNN")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args(arguments)
    run = open_run(options.run)
    run.restore(options.checkpoint, with_env=False)
    sys.stdout.write(f"{run.evaluate(options.episodes, options.seed)}\n")
    return 0


def listing(arguments: list[str]) -> int:
    """list tasks, algorithms or runs"""
    parser = argparse.ArgumentParser(prog="ahac list")
    parser.add_argument("what", choices=["tasks", "algos", "runs"])
    parser.add_argument("--out", default="runs", help="folder of run folders")
    options = parser.parse_args(arguments)
    rows = {"tasks": _task_rows, "algos": _algo_rows, "runs": lambda: _run_rows(Path(options.out))}[options.what]()
    for row in rows:
        sys.stdout.write(f"{row}\n")
    return 0


def doctor(arguments: list[str]) -> int:
    """say what this machine offers"""
    from ahac.cli.doctor import findings

    argparse.ArgumentParser(prog="ahac doctor").parse_args(arguments)
    for line in findings():
        sys.stdout.write(f"{line}\n")
    return 0


COMMANDS: dict[str, Command] = {
    "train": train, "resume": resume, "eval": evaluate, "list": listing, "doctor": doctor,
}  # fmt: skip
TRAIN = "Train a policy. TASK, --algo and --preset choose the recipe whose numbers stand below."


def _train(config: RunConfig) -> int:
    from ahac.training.run import chosen_device, start

    run = start(config)
    c = run.config
    sys.stderr.write(f"{c.algo} on {c.task}, {c.num_envs} worlds on {chosen_device(c.device)}, in {run.folder}\n")
    return _carry_on(run)


def _carry_on(run: Run) -> int:
    from ahac.training.trainer import train as carry_on

    if not carry_on(run):
        sys.stderr.write(f"stopped; `ahac resume {run.folder}` goes on\n")
        return 130
    sys.stdout.write(f"{run.evaluate()}\n{run.folder}\n")
    return 0


def _task_rows() -> list[str]:
    from ahac.envs import make_task, tasks
    from ahac.envs.tracing import observation_sizes

    rows = [f"{'task':16} {'obs':>4} {'actions':>8} {'substeps':>9} {'episode':>8}"]
    for name in tasks():
        task = make_task(name)
        size = sum(observation_sizes(task).values())
        rows.append(f"{name:16} {size:4} {task.model.nu:8} {task.substeps:9} {task.episode_steps:8}")
    return rows


def _algo_rows() -> list[str]:
    from ahac.algos.recipes import ALGOS

    return [f"{name:6} {text}" for name, text in ALGOS.items()]


def _run_rows(folder: Path) -> list[str]:
    from ahac.training.sinks import read_csv

    rows = [f"{'run':40} {'iterations':>10} {'env steps':>12} {'return':>10}"]
    for path in sorted(folder.glob("*/config.json")):
        table = path.parent / "metrics.csv"
        last = (read_csv(table) or [{}])[-1] if table.exists() else {}
        numbers = (last.get("iteration", 0.0), last.get("env_steps", 0.0), last.get("episode_return", float("nan")))
        rows.append(f"{path.parent.name:40} {numbers[0]:10.0f} {numbers[1]:12,.0f} {numbers[2]:10.1f}")
    return rows
