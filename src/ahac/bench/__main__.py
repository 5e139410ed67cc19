"""Measure this machine: `ahac bench robots | tasks | train`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.core.checks import check_finite, check_int
from ahac.core.errors import AhacError, InputError
from ahac.core.hardware import usable_cores

if TYPE_CHECKING:
    from ahac.bench.rows import Row

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Print tables of what this machine does, and write them as JSON where asked to."""
    parser = _parser()
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as empty:
        if options.cold:
            # Read by Warp when it is first imported, which is below.
            os.environ["WARP_CACHE_PATH"] = empty
        try:
            _check(options)
            tables = options.measure(options)
        except AhacError as error:
            parser.error(str(error))
    for title, rows in tables.items():
        sys.stdout.write(f"\n{title}\n{_table(rows)}\n")
    report = {"machine": _machine(options.device), "tables": tables}
    if options.json is not None:
        Path(options.json).write_text(json.dumps(report, indent=1, allow_nan=False), encoding="utf-8")
    else:
        sys.stdout.write(f"\n{json.dumps(report, allow_nan=False)}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ahac bench", description="How fast it is on this machine.")
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    robots = kinds.add_parser("robots", help="the bare simulator, beside MuJoCo's mj_step")
    robots.add_argument("names", nargs="*", help="Gymnasium's robots by name, or files; default: all standard ones")
    robots.add_argument("--cold", action="store_true", help="compile everything anew, and show how long that takes")
    robots.set_defaults(measure=_robots)
    tasks = kinds.add_parser("tasks", help="differentiable steps of environments")
    tasks.add_argument("names", nargs="*", help="tasks by name; default: all")
    tasks.set_defaults(measure=_tasks)
    train = kinds.add_parser("train", help="one iteration of training, and what its parts take")
    train.add_argument("names", nargs="*", help="tasks by name; default: the five of the paper")
    train.add_argument("--algos", nargs="+", default=["shac", "ahac"], help="algorithms (default: shac ahac)")
    train.add_argument("--preset", default="default", help="of the hyper-parameters (default: default)")
    train.add_argument("--horizon", type=int, help="a fixed one, instead of the algorithm's rule")
    train.add_argument("--iterations", type=int, default=20, help="of which medians are taken (default: 20)")
    train.add_argument("--no-graphs", action="store_true", help="on CUDA, step by step instead of recorded")
    train.set_defaults(measure=_train)
    for kind in (robots, tasks, train):
        kind.add_argument("--device", default="cpu", help="cpu (default) or cuda")
        kind.add_argument("--worlds", nargs="+", type=int, help="numbers of worlds")
        kind.add_argument("--json", help="file for the numbers; without one, they are printed last, in one line")
        kind.set_defaults(**({} if kind is robots else {"cold": False}))
    for kind in (robots, tasks):
        kind.add_argument("--threads", nargs="+", type=int, help="numbers of CPU threads; default: 1 and all cores")
        kind.add_argument("--seconds", type=float, default=1.0, help="time spent on each measurement (default: 1)")
    return parser


def _check(options: argparse.Namespace) -> None:
    """What would be refused only after something was measured."""
    for name in ("worlds", "threads"):
        for number in getattr(options, name, None) or []:
            check_int(name, number, 1)
    check_finite("seconds", getattr(options, "seconds", 0.0), 0.0)
    if options.json is not None:
        _check_place(Path(options.json))


def _check_place(wanted: Path) -> None:
    if not wanted.parent.is_dir():
        raise InputError(f"cannot write {str(wanted)!r}: there is no folder {str(wanted.parent)!r}; make it first")
    if wanted.is_dir():
        raise InputError(f"cannot write {str(wanted)!r}: a folder has this name; choose another")
    if not os.access(wanted if wanted.exists() else wanted.parent, os.W_OK):
        raise InputError(f"cannot write {str(wanted)!r}: no permission to; choose another place")


def _robots(options: argparse.Namespace) -> dict[str, list[Row]]:
    from ahac.bench.cases import against_mujoco, compile_times, throughput
    from ahac.bench.robots import STANDARD

    names = options.names or list(STANDARD)
    device = options.device
    seconds = options.seconds
    tables: dict[str, list[Row]] = {}
    if options.cold:
        tables["Compiling (both kernels, nothing cached)"] = [compile_times(name, device) for name in names]
    if device == "cpu":
        rows = [row for name in names for row in against_mujoco(name, 256, seconds)]
        tables["One core: a world-substep beside MuJoCo's mj_step"] = rows
    worlds, threads = options.worlds or [1, 64, 1024], _threads(options)
    tables["Control steps of 16 substeps"] = [
        row for name in names for row in throughput(name, worlds, device, threads, seconds)
    ]
    return tables


def _tasks(options: argparse.Namespace) -> dict[str, list[Row]]:
    from ahac.bench.tasks import task_throughput
    from ahac.envs import tasks

    worlds, threads = options.worlds or [64, 1024], _threads(options)
    measured = [
        task_throughput(name, worlds, options.device, threads, options.seconds) for name in options.names or tasks()
    ]
    return {"Differentiable steps of tasks": [row for rows in measured for row in rows]}


def _train(options: argparse.Namespace) -> dict[str, list[Row]]:
    from ahac.bench.training import PAPER_TASKS, iteration_times

    rows = [
        iteration_times(
            task,
            algo,
            options.preset,
            worlds=worlds,
            device=options.device,
            horizon=options.horizon,
            iterations=options.iterations,
            graphs=not options.no_graphs,
        )
        for task in options.names or PAPER_TASKS
        for algo in options.algos
        for worlds in options.worlds or [None]
    ]
    return {"One iteration of training, its parts, torch on one thread": rows}


def _threads(options: argparse.Namespace) -> list[int]:
    return options.threads or (sorted({1, usable_cores()}) if options.device == "cpu" else [1])


def _table(rows: list[Row]) -> str:
    cells = [list(rows[0]), *([_shown(value) for value in row.values()] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    aligned = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    lines = ["| " + " | ".join(row) + " |" for row in aligned]
    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return str(value)


def _machine(device: str) -> dict[str, str]:
    import torch

    measured = device if device.startswith("cuda") else None
    gpu = torch.cuda.get_device_name(measured) if torch.cuda.is_available() else "none"
    models = [line.split(":")[1].strip() for line in _cpu_info() if line.startswith("model name")]
    packages = {name: version(name) for name in ("torch", "warp-lang", "mujoco")}
    return {
        "cpu": (*models, platform.processor())[0],
        "cores": str(usable_cores()),
        "gpu": gpu,
        "python": platform.python_version(),
        **packages,
    }


def _cpu_info() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
