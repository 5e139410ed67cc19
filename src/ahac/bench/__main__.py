"""Measure the simulator: `python -m ahac.bench --help`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ahac.core.errors import AhacError
from ahac.core.machine import usable_cores

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> None:
    """Print tables of what this machine does, and write them as JSON where asked to."""
    parser = _parser()
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as cold:
        if options.cold:
            # Read by Warp when it is first imported, which is below.
            os.environ["WARP_CACHE_PATH"] = cold
        try:
            tables = _measure(options)
        except AhacError as error:
            parser.error(str(error))
    for title, rows in tables.items():
        sys.stdout.write(f"\n{title}\n{_table(rows)}\n")
    report = {"machine": _machine(), "tables": tables}
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
    else:
        sys.stdout.write(f"\n{json.dumps(report)}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ahac-bench", description="Speed of the simulator on this machine.")
    parser.add_argument("--robots", nargs="+", help="Gymnasium's robots by name, or files; default: all standard ones")
    parser.add_argument("--tasks", nargs="*", help="measure tasks instead: by name, or all where none is named")
    parser.add_argument("--training", nargs="*", metavar="TASK", help="measure training; hopper and ant by default")
    parser.add_argument("--algos", nargs="+", default=["shac", "ahac"], help="algorithms to measure training with")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--worlds", nargs="+", type=int, default=[1, 64, 1024], help="numbers of worlds")
    parser.add_argument("--threads", nargs="+", type=int, help="numbers of CPU threads; default: 1 and all cores")
    parser.add_argument("--seconds", type=float, default=1.0, help="time spent on each measurement")
    parser.add_argument("--cold", action="store_true", help="compile everything anew, and show how long that takes")
    parser.add_argument("--json", help="file for the numbers; without one, they are printed last, in one line")
    return parser


def _measure(options: argparse.Namespace) -> dict[str, list[Row]]:
    from ahac.bench.cases import against_mujoco, compiling, throughput
    from ahac.bench.robots import STANDARD
    from ahac.bench.tasks import task_throughput
    from ahac.bench.training import iteration_times
    from ahac.envs import tasks

    cpu = options.device == "cpu"
    threads = options.threads or (sorted({1, usable_cores()}) if cpu else [1])
    if options.tasks is not None:
        names = options.tasks or tasks()
        measured = [task_throughput(name, options.worlds, options.device, threads, options.seconds) for name in names]
        return {"Differentiable steps of tasks": [row for rows in measured for row in rows]}
    if options.training is not None:
        chosen = [(task, algo) for task in options.training or ["hopper", "ant"] for algo in options.algos]
        rows = [iteration_times(task, algo, "default", None, options.device) for task, algo in chosen]
        return {"One iteration of training, its parts, torch on one thread": rows}
    robots = options.robots or list(STANDARD)
    tables: dict[str, list[Row]] = {}
    if options.cold:
        tables["Compiling (both kernels, nothing cached)"] = [compiling(robot, options.device) for robot in robots]
    if cpu:
        rows = [row for robot in robots for row in against_mujoco(robot, 256, options.seconds)]
        tables["One core: a world-substep beside MuJoCo's mj_step"] = rows
    tables["Control steps of 16 substeps"] = [
        row for robot in robots for row in throughput(robot, options.worlds, options.device, threads, options.seconds)
    ]
    return tables


def _table(rows: list[Row]) -> str:
    cells = [list(rows[0]), *([_shown(value) for value in row.values()] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    aligned = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    lines = ["| " + " | ".join(row) + " |" for row in aligned]
    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return str(value)


def _machine() -> dict[str, str]:
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
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
    main()
