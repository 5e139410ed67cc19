"""`ahac bench`: measure the speed of simulation and training on this machine."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.cli.parser import Commands, Parser, number, run_command, whole_number
from ahac.core.table import table_lines

if TYPE_CHECKING:
    from ahac.bench.rows import Row
    from ahac.training.config import RunConfig

__all__ = ["bench"]


def bench(arguments: list[str]) -> int:
    """Run `ahac bench`."""
    return run_command("ahac bench", "Measure the speed of simulation and training here.", COMMANDS, arguments)


def _robots(arguments: list[str]) -> int:
    parser = Parser(
        "ahac bench robots", "[NAME ...] [options]", "Measure the bare simulator, next to MuJoCo's mj_step."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="robots of Gymnasium, or MJCF or URDF files (default: seven of Gymnasium)",
    )
    parser.add_argument("--cold", action="store_true", help="compile without a cache, and show the compile times")
    _add_throughput_options(parser)
    options = _parse(parser, arguments)
    with ExitStack() as stack:
        if options.cold:
            # Warp reads this when it is first imported, which is below.
            os.environ["WARP_CACHE_PATH"] = stack.enter_context(tempfile.TemporaryDirectory())
        from ahac.bench.cases import against_mujoco, compile_times, throughput
        from ahac.bench.robots import STANDARD

        names, device, seconds = options.names or list(STANDARD), options.device, options.seconds
        tables: dict[str, list[Row]] = {}
        if options.cold:
            tables["Compile time (both kernels, empty cache)"] = [compile_times(name, device) for name in names]
        if device == "cpu":
            tables["One core: one substep of one world, next to MuJoCo's mj_step"] = [
                row for name in names for row in against_mujoco(name, 256, seconds)
            ]
        worlds = options.worlds or [1, 64, 1024]
        tables["Control steps of 16 substeps"] = [
            row for name in names for row in throughput(name, worlds, device, _threads(options), seconds)
        ]
    return _report(tables, options)


def _tasks(arguments: list[str]) -> int:
    about = "Measure differentiable steps of tasks: simulation, observation, reward, termination and reset."
    parser = Parser("ahac bench tasks", "[TASK ...] [options]", about)
    parser.add_argument("names", nargs="*", metavar="TASK", help="names of tasks (default: all)")
    parser.add_argument(
        "--integrators",
        nargs="+",
        choices=("explicit", "implicit"),
        default=[None],
        help="explicit, implicit or both (default: each task's own)",
    )
    _add_throughput_options(parser)
    options = _parse(parser, arguments)

    from ahac.bench.tasks import task_throughput
    from ahac.envs import make_task, tasks

    worlds, threads = options.worlds or [64, 1024], _threads(options)
    rows = [
        row
        for name in options.names or tasks()
        for integrator in options.integrators
        for row in task_throughput(
            make_task(name, integrator=integrator), worlds, options.device, threads, options.seconds
        )
    ]
    return _report({"Differentiable steps of tasks": rows}, options)


def _parameters(arguments: list[str]) -> int:
    about = "Measure what it costs to make constants of a model inputs of a step, with gradients."
    parser = Parser("ahac bench parameters", "FILE [PATTERN ...] [options]", about)
    parser.add_argument("file", metavar="FILE", help="MJCF or URDF file, or the name of a robot of Gymnasium")
    parser.add_argument(
        "patterns",
        nargs="*",
        metavar="PATTERN",
        help="parameters, as in model.parameters (default: all masses, contact frictions and actuator gains)",
    )
    parser.add_argument(
        "--servos",
        nargs=2,
        type=number,
        metavar=("KP", "KV"),
        help="drive every joint with a position servo, in place of the file's actuators",
    )
    _add_throughput_options(parser)
    options = _parse(parser, arguments)

    from ahac.bench.parameters import PATTERNS, parameter_costs
    from ahac.bench.robots import find
    from ahac.sim import Servo, load_model

    servo = None
    if options.servos is not None:
        kp, kv = options.servos
        servo = Servo(stiffness=kp, damping=kv, reach=1.0)
    model = load_model(find(options.file), motors=servo, ground=True)
    worlds, patterns = options.worlds or [512], options.patterns or PATTERNS
    rows = parameter_costs(model, patterns, worlds, options.device, _threads(options), options.seconds)
    return _report({"Steps of 4 implicit substeps, forward and backward": rows}, options)


def _memory(arguments: list[str]) -> int:
    about = "Measure what commands, a clock, noise on observations and a delay add to a step of a task."
    parser = Parser("ahac bench memory", "[TASK ...] [options]", about)
    parser.add_argument("names", nargs="*", metavar="TASK", help="names of tasks (default: ant)")
    _add_throughput_options(parser)
    options = _parse(parser, arguments)

    from ahac.bench.memory import memory_cost
    from ahac.envs import make_task

    worlds, threads = options.worlds or [64, 1024], options.threads or [1]
    rows = [
        row
        for name in options.names or ["ant"]
        for row in memory_cost(make_task(name), worlds, options.device, threads, options.seconds)
    ]
    return _report({"Steps with and without commands, clock, noise and delay": rows}, options)


def _train(arguments: list[str]) -> int:
    parser = Parser("ahac bench train", "[TASK ...] [options]", "Measure one iteration of training and its parts.")
    parser.add_argument("names", nargs="*", metavar="TASK", help="names of tasks (default: the five of the paper)")
    parser.add_argument(
        "--algos", nargs="+", default=["shac", "ahac"], metavar="ALGO", help="algorithms (default: shac ahac)"
    )
    parser.add_argument("--preset", default="default", help="preset of the hyperparameters (default: default)")
    parser.add_argument(
        "--horizon", type=whole_number, metavar="H", help="fixed horizon instead of the algorithm's rule"
    )
    parser.add_argument(
        "--iterations",
        type=whole_number,
        default=20,
        metavar="N",
        help="number of iterations; the medians are printed (default: 20)",
    )
    parser.add_argument("--no-graphs", action="store_true", help="on CUDA, run without CUDA graphs")
    _add_common_options(parser)
    options = _parse(parser, arguments)

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
    return _report({"One iteration of training and its parts, torch on one thread": rows}, options)


def _study(arguments: list[str]) -> int:
    from ahac.cli.sweep import add_selection, read_configs

    about = (
        "Estimate how long each run of a study takes alone on this machine, from its first iterations; without "
        "compiling, checkpoints and the evaluation. If the horizon adapts, there are two estimates: with the initial "
        "horizon and with the longest one."
    )
    parser = Parser("ahac bench study", "STUDY [options]", about)
    parser.add_argument("study", metavar="STUDY", help="name of a study, FILE.toml or FILE.txt, as for `ahac sweep`")
    add_selection(parser)
    parser.add_argument(
        "--iterations", type=whole_number, default=20, metavar="N", help="iterations to measure (default: 20)"
    )
    _add_report_options(parser, device=None)
    options = _parse(parser, arguments)

    from ahac.bench.training import run_time
    from ahac.core.device import resolve_device, resolve_run_device
    from ahac.envs import make_task
    from ahac.experiments.compare import group_name
    from ahac.training.process import torch_settings

    different: dict[str, RunConfig] = {}
    for config in read_configs(options.study, out=None, overrides=options.set, only=options.only):
        different.setdefault(str(replace(config, name="", seed=0)), config)
    groups = [group_name(Path(config.name), vars(config)) for config in different.values()]
    rows: list[Row] = []
    for group, config in zip(groups, different.values(), strict=True):
        device = options.device or resolve_run_device(config.device)
        with torch_settings(config, resolve_device(device)):
            times = run_time(
                config.with_integrator(make_task(config.task, config.variant)),
                config.algorithm,
                worlds=config.num_envs,
                device=device,
                run_iterations=config.iterations,
                run_env_steps=config.env_steps,
                iterations=options.iterations,
                graphs=config.graphs,
            )
        name = group if groups.count(group) == 1 else config.name  # several if names do not end in a seed
        rows.append({"group": name, "device": device, **times})
    options.device = max((row["device"] for row in rows), key=lambda device: device != "cpu")  # a GPU is described
    return _report({"Runs of a study alone, estimated from their first iterations": rows}, options)


def _identify(arguments: list[str]) -> int:
    about = (
        "Identify 49 parameters of a quadruped that hangs in the air: armature, damping, dry friction and encoder "
        "offset of 12 joints, and the delay of the controls, from a chirp of 20 s. Errors are the largest ones of each "
        "kind, relative to the true values."
    )
    parser = Parser("ahac bench identify", "[ROBOT] [options]", about)
    parser.add_argument("robot", nargs="?", metavar="ROBOT", help="MJCF file of another robot (default: ANYmal)")
    parser.add_argument(
        "--data",
        nargs="+",
        choices=("own", "mj_step", "mj_step_default"),
        default=["own", "mj_step"],
        help="recordings: of this simulator, or of mj_step with noise, with stiff dry friction or MuJoCo's default "
        "(default: own mj_step)",
    )
    parser.add_argument("--folder", type=Path, metavar="DIR", help="read the recordings from here, or write them here")
    parser.add_argument(
        "--seconds", type=number, default=20.0, metavar="S", help="duration of the recordings (default: 20)"
    )
    _add_report_options(parser)
    options = _parse(parser, arguments)

    from ahac.bench.identification import identification_error

    rows = [
        identification_error(data, options.robot, options.folder, options.device, options.seconds)
        for data in options.data
    ]
    return _report({"Identification of a quadruped": rows}, options)


def _add_throughput_options(parser: Parser) -> None:
    parser.add_argument(
        "--threads", nargs="+", type=whole_number, metavar="N", help="numbers of CPU threads (default: 1 and all cores)"
    )
    parser.add_argument(
        "--seconds", type=number, default=1.0, metavar="S", help="time spent on each measurement (default: 1)"
    )
    _add_common_options(parser)


def _add_common_options(parser: Parser) -> None:
    parser.add_argument("--worlds", nargs="+", type=whole_number, metavar="N", help="numbers of worlds")
    _add_report_options(parser)


def _add_report_options(parser: Parser, device: str | None = "cpu") -> None:
    parser.add_argument(
        "--device", default=device, help=f"cpu, cuda or cuda:N (default: {device or 'that of the runs'})"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the numbers to this file (default: print them as the last line)"
    )


def _parse(parser: Parser, arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments and check them, before anything is measured."""
    options = parser.parse(arguments)

    from ahac.core.checks import check_finite, check_int
    from ahac.core.files import check_writable

    for name in ("worlds", "threads"):
        for value in getattr(options, name, None) or []:
            check_int(name, value, 1)
    check_finite("seconds", getattr(options, "seconds", 0.0), 0.0)
    if options.json is not None:
        check_writable(Path(options.json))
    return options


def _threads(options: argparse.Namespace) -> list[int]:
    from ahac.core.hardware import usable_cores

    return options.threads or (sorted({1, usable_cores()}) if options.device == "cpu" else [1])


def _report(tables: Mapping[str, list[Row]], options: argparse.Namespace) -> int:
    """Print the tables, and write them as JSON with a description of the machine."""
    from ahac.bench.machine import describe_machine

    for title, rows in tables.items():
        lines = table_lines(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows])
        sys.stdout.write("\n".join(["", title, *lines, ""]))
    report = {"machine": describe_machine(options.device), "tables": tables}
    if options.json is not None:
        Path(options.json).write_text(json.dumps(report, indent=1, allow_nan=False), encoding="utf-8")
    else:
        sys.stdout.write(f"\n{json.dumps(report, allow_nan=False)}\n")
    return 0


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return str(value)


COMMANDS: Commands = {
    "robots": ("the bare simulator, next to MuJoCo's mj_step", _robots),
    "tasks": ("differentiable steps of tasks", _tasks),
    "parameters": ("constants of a model as inputs", _parameters),
    "memory": ("what commands, a clock, noise and a delay add to a step", _memory),
    "train": ("one iteration of training and its parts", _train),
    "study": ("how long each run of a study takes alone", _study),
    "identify": ("identification of 49 parameters of a quadruped", _identify),
}
