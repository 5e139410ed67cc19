"""`ahac play`: show a run, task, robot or trajectory in the browser, or save it to a file."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.cli.names import is_task, task_names
from ahac.cli.parser import Parser, finite_number, number, one_of, port_number, whole_number
from ahac.cli.paths import ROBOT_SUFFIXES, RUNS, check_file, run_names
from ahac.cli.pretrained import add_pretrained_option, add_trust_option, run_folder
from ahac.core.errors import InputError
from ahac.core.text import suggestion
from ahac.view.recording import check_target, formats_help, save_recording

if TYPE_CHECKING:
    from ahac.engines import EngineEnv
    from ahac.envs import Task
    from ahac.training.engines import EngineSettings
    from ahac.view.sources import ViewSource
    from ahac.view.trajectory import Trajectory

__all__ = [
    "add_command_option",
    "add_engine_options",
    "add_play_options",
    "engine_settings",
    "play",
    "show",
    "warn_outside_ranges",
]

logger = logging.getLogger("ahac")

ABOUT = (
    "Show a policy, task or robot. TARGET is a run folder, a task (its name, or FILE.py:NAME), the MJCF or URDF file "
    "of a robot, or a saved trajectory (.npz). Without --record, a viewer opens in the browser; Ctrl-C closes it."
)


def play(arguments: list[str]) -> int:
    """Run `ahac play`."""
    parser = Parser("ahac play", "TARGET [options]", ABOUT)
    parser.add_argument("what", metavar="TARGET", help="run, task, robot or trajectory")
    add_pretrained_option(parser)
    add_trust_option(parser)
    parser.add_argument(
        "--newest", action="store_true", help="follow a run in training: load every new policy, at low CPU priority"
    )
    add_play_options(parser)
    options = parser.parse(arguments)
    if options.pretrained and options.newest:
        raise InputError("--newest follows a run in training, but a --pretrained policy does not change; omit --newest")
    return show(options)


def add_play_options(parser: Parser) -> None:
    """Add the options for everything that has a policy, a viewer and an engine."""
    parser.add_argument(
        "--checkpoint", default="last", metavar="NAME", help="of a run: last, best or iteration-NNNNNN (default: last)"
    )
    parser.add_argument(
        "--agent",
        type=one_of("policy", "zero", "random"),
        metavar="{policy,zero,random}",
        help="source of the actions (default: policy for a run or pretrained policy, otherwise zero)",
    )
    parser.add_argument(
        "--worlds", type=whole_number, default=4, metavar="N", help="number of worlds (default: 4; --record shows one)"
    )
    parser.add_argument(
        "--seed", type=whole_number, default=0, metavar="N", help="random seed of the resets (default: 0)"
    )
    parser.add_argument(
        "--port", type=port_number, metavar="N", help="port of the viewer (default: the first free one from 8080)"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the viewer's address without opening it")
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help=f"save to a file instead; the suffix selects the format: {formats_help()}",
    )
    parser.add_argument(
        "--seconds", type=number, default=10.0, metavar="S", help="length of a recording in seconds (default: 10)"
    )
    add_command_option(parser)
    add_engine_options(parser)


def add_command_option(parser: Parser) -> None:
    """Add the option for a constant velocity command."""
    parser.add_argument(
        "--command",
        nargs=3,
        type=finite_number,
        metavar=("VX", "VY", "YAW"),
        help="velocity to follow: forward and left in m/s, yaw rate in rad/s (default: varies as in training)",
    )


def warn_outside_ranges(task: Task, command: Sequence[float]) -> None:
    """Warn of velocities that the task does not command in training."""
    from ahac.envs.components.steering import outside_ranges

    for velocity in outside_ranges(task, *command):
        logger.warning("%s: the policy may not follow it", velocity)


def show(options: argparse.Namespace) -> int:
    """Record what the options name, or show it in the browser."""
    options.what = run_folder(options.what, pretrained=True) if options.pretrained else _find_target(options.what)
    engine_settings(options)
    if options.record is not None:
        check_target(options.record)
        save_recording(_trajectory(options), options.record)
        sys.stdout.write(f"{options.record}\n")
        return 0
    from ahac.view.server import check_viewer
    from ahac.view.viewer import serve

    check_viewer()  # before a robot is compiled
    announce = _print_and_lower_priority if options.newest else _print
    source = _source(options)
    serve(source, port=options.port, worlds=options.worlds, open_browser=not options.no_browser, announce=announce)
    return 0


def add_engine_options(parser: Parser) -> None:
    """Add the options that choose a physics engine."""
    parser.add_argument(
        "--engine",
        type=one_of("ahac", "mujoco"),
        default="ahac",
        metavar="{ahac,mujoco}",
        help="physics engine: our own, or MuJoCo with its contacts and integration (default: ahac)",
    )
    parser.add_argument(
        "--model",
        type=Path,
        metavar="FILE",
        help="with --engine mujoco: MJCF or URDF file of the robot, joints matched by name (default: the task's)",
    )
    parser.add_argument(
        "--timestep", type=number, metavar="S", help="with --engine mujoco: time step in seconds (default: 0.002)"
    )
    parser.add_argument(
        "--threads", type=whole_number, metavar="N", help="with --engine mujoco: number of CPU threads (default: all)"
    )


def engine_settings(options: argparse.Namespace) -> EngineSettings:
    """Return the engine that the options choose; raise an error for options of another engine."""
    given = [name for name in ("model", "timestep", "threads") if getattr(options, name) is not None]
    if options.engine == "ahac" and given:
        raise InputError(f"--{given[0]} is an option of --engine mujoco; add it")

    from ahac.training.engines import EngineSettings

    return EngineSettings(
        engine=options.engine, model=options.model, timestep=options.timestep, num_threads=options.threads
    )


def _find_target(name: str) -> str:
    """Return a target, or the path of the run with this name in ./runs; raise an InputError if nothing is found."""
    if is_task(name) or Path(name).is_dir():
        return name
    if Path(name).suffix in (".npz", *ROBOT_SUFFIXES):
        check_file(name, "a trajectory written by Trajectory.save, or the MJCF or URDF file of a robot")
        return name
    if name in (runs := run_names()):
        return str(RUNS / name)
    tasks = task_names()
    raise InputError(
        f"{name!r} is not a run folder, task, robot file ({', '.join(ROBOT_SUFFIXES)}) or trajectory (.npz)"
        f"{suggestion(name, [*tasks, *runs])}; tasks: {', '.join(tasks)}; `ahac list runs` lists the runs"
    )


def _trajectory(options: argparse.Namespace) -> Trajectory:
    from ahac.training.viewing import EnvSource, record_trajectory
    from ahac.view.sources import TrajectorySource

    options.worlds = 1
    source = _source(options)
    if isinstance(source, TrajectorySource):
        return source.trajectory
    trajectory = record_trajectory(source, options.seconds)
    if isinstance(source, EnvSource):
        reward = trajectory.channels["reward"][1:].mean()  # frame 0 is the state before the first step
        sys.stderr.write(f"mean reward {reward:.3g} per step, terminations: {source.terminations}\n")
    return trajectory


def _source(options: argparse.Namespace) -> ViewSource:
    """Return what the viewer shows."""
    from ahac.training.viewing import EnvSource

    source = _source_of_target(options)
    if options.command is not None:
        source.set_command(tuple(options.command))
        if isinstance(source, EnvSource):
            warn_outside_ranges(source.env.task, options.command)
    return source


def _source_of_target(options: argparse.Namespace) -> ViewSource:
    what = Path(options.what)
    if what.suffix == ".npz":
        from ahac.view.sources import TrajectorySource
        from ahac.view.trajectory import Trajectory

        return TrajectorySource(Trajectory.load(what))
    if is_task(options.what):
        return _task(options)
    if what.suffix in ROBOT_SUFFIXES:
        return _robot(options)
    return _run(options)


def _run(options: argparse.Namespace) -> ViewSource:
    from ahac.envs import make
    from ahac.training.run import open_run
    from ahac.training.viewing import EnvSource, dummy_policy

    run = open_run(options.what, device="cpu", trust=options.trust)
    threads = 1 if options.newest else None  # leave the other cores to training
    task = _held_for_recording(run.task, options)
    if options.engine == "mujoco":
        env = _engine_env(task, options)
    else:
        env = make(task, num_envs=options.worlds, device="cpu", seed=options.seed, num_threads=threads)
    if options.agent in ("zero", "random"):
        return EnvSource(env, dummy_policy(options.agent, env.spec.action_size, options.seed))
    if not options.newest:
        run.restore(options.checkpoint, with_env=False)
    return EnvSource(env, run.algo.act, run, newest=options.newest)


def _task(options: argparse.Namespace) -> ViewSource:
    from ahac.envs import make, make_task
    from ahac.training.viewing import EnvSource, dummy_policy

    task = _held_for_recording(make_task(options.what), options)
    if options.engine == "mujoco":
        env = _engine_env(task, options)
    else:
        env = make(task, num_envs=options.worlds, device="cpu", seed=options.seed)
    return EnvSource(env, dummy_policy(_dummy_policy_name(options), env.spec.action_size, options.seed))


def _held_for_recording(task: Task, options: argparse.Namespace) -> Task:
    """Return the task, with a constant command if one is recorded; in the viewer, commands may vary again."""
    from ahac.envs import hold_command

    return task if options.command is None or options.record is None else hold_command(task)


def _engine_env(task: Task, options: argparse.Namespace) -> EngineEnv:
    import torch

    from ahac.training.engines import engine_env

    return engine_env(task, engine_settings(options), options.worlds, options.seed, torch.device("cpu"))


def _robot(options: argparse.Namespace) -> ViewSource:
    if options.engine == "mujoco":
        raise InputError("--engine mujoco plays runs and tasks; a robot alone is shown in our own engine")

    from ahac.sim import Simulator, load_model
    from ahac.training.viewing import RobotSource, dummy_policy

    model = load_model(options.what, ground=True)
    sim = Simulator(model, num_worlds=options.worlds, dt=1 / 60, substeps=4)
    return RobotSource(sim, dummy_policy(_dummy_policy_name(options), model.nu, options.seed))


def _dummy_policy_name(options: argparse.Namespace) -> str:
    """Return the source of the actions where there is no trained policy."""
    if options.agent == "policy":
        raise InputError(f"{options.what} is not a run and has no policy; use --agent zero or --agent random")
    return options.agent or "zero"


def _print(address: str) -> None:
    sys.stderr.write(f"viewer: {address}\n")


def _print_and_lower_priority(address: str) -> None:
    """Print the address and lower the priority of this thread, which simulates and draws; another serves the page."""
    from ahac.cli.watch import lower_priority

    _print(address)
    lower_priority()
