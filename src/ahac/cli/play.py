"""`ahac play`: look at a run, a task, a robot or a recording, in the browser or as a file."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.core.errors import InputError

if TYPE_CHECKING:
    from ahac.view.sources import ViewSource
    from ahac.view.trajectory import Trajectory

__all__ = ["RECORDINGS", "check_suffix", "play", "write_trajectory"]

ABOUT = """Look at a policy. WHAT is the folder of a run, the name of a task, the MJCF or URDF file of a robot, or a
trajectory that was saved (.npz). Without --record a viewer opens in the browser, and Ctrl-C ends it."""
ROBOTS = (".xml", ".mjcf", ".urdf")
RECORDINGS = {
    ".html": "a page that plays anywhere", ".mp4": "a film", ".gif": "a moving picture", ".npz": "the numbers",
}  # fmt: skip


def play(arguments: list[str]) -> int:
    """look at a policy, a task or a robot"""
    parser = argparse.ArgumentParser(prog="ahac play", description=ABOUT)
    parser.add_argument("what", metavar="WHAT", help="run, task, robot or trajectory")
    parser.add_argument("--checkpoint", default="last", help="of a run: last, best, iteration-NNNNNN (default: last)")
    agents = ["policy", "zero", "random"]
    parser.add_argument("--agent", choices=agents, help="who acts (default: a run's policy, else zero)")
    parser.add_argument("--worlds", type=int, default=4, help="side by side (default: 4; recordings show one)")
    parser.add_argument("--seed", type=int, default=0, help="of how episodes begin")
    parser.add_argument("--newest", action="store_true", help="of a run that trains: every new policy, at low priority")
    parser.add_argument("--port", type=int, help="of the viewer (default: the first free one from 8080 on)")
    parser.add_argument("--no-browser", action="store_true", help="only say where the viewer is")
    kinds = ", ".join(f"{suffix} ({what})" for suffix, what in RECORDINGS.items())
    parser.add_argument("--record", type=Path, metavar="FILE", help=f"write a file instead: {kinds}")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a recording (default: 10)")
    options = parser.parse_args(arguments)
    if options.record is not None:
        check_suffix(options.record)
        write_trajectory(_trajectory(options), options.record)
        sys.stdout.write(f"{options.record}\n")
        return 0
    from ahac.view.viewer import serve

    announce = _tell_and_stand_back if options.newest else _tell
    stage = _source(options)
    serve(stage, port=options.port, worlds=options.worlds, open_browser=not options.no_browser, announce=announce)
    return 0


def write_trajectory(trajectory: Trajectory, path: Path) -> None:
    """As whatever the file's name asks for."""
    match check_suffix(path):
        case ".npz":
            trajectory.save(path)
        case ".html":
            from ahac.view.html_player import save_html

            save_html(trajectory, path)
        case _:
            from ahac.view.video import save_video

            save_video(trajectory, path)


def check_suffix(path: Path, what: str = "a recording") -> str:
    """What a file's name asks for, if that can be written."""
    if path.suffix not in RECORDINGS:
        raise InputError(f"{what} is {', '.join(RECORDINGS)} by its name, got {path.name!r}")
    return path.suffix


def _trajectory(options: argparse.Namespace) -> Trajectory:
    from ahac.training.viewing import record_trajectory
    from ahac.view.trajectory import Trajectory

    if options.what.endswith(".npz"):
        return Trajectory.load(Path(options.what))
    options.worlds = 1
    return record_trajectory(_source(options), options.seconds)


def _source(options: argparse.Namespace) -> ViewSource:
    """What there is to see."""
    from ahac.envs import tasks

    what = Path(options.what)
    if what.suffix == ".npz":
        from ahac.view.sources import TrajectorySource
        from ahac.view.trajectory import Trajectory

        return TrajectorySource(Trajectory.load(what))
    if options.what in tasks():
        return _task(options)
    if what.suffix in ROBOTS:
        return _robot(options)
    if what.is_dir():
        return _run(options)
    raise InputError(
        f"{options.what!r} is neither a run's folder, nor a robot's file, nor a trajectory, nor a task; tasks: "
        f"{', '.join(tasks())}"
    )


def _run(options: argparse.Namespace) -> ViewSource:
    from ahac.envs import make
    from ahac.training.run import Run, open_run
    from ahac.training.viewing import EnvSource, dummy_policy

    found = open_run(options.what)
    run = Run(found.folder, replace(found.config, device="cpu"))
    c = run.config
    threads = 1 if options.newest else None  # the others are for training
    env = make(c.task, num_envs=options.worlds, device="cpu", seed=options.seed, variant=c.variant, num_threads=threads)
    if options.agent in ("zero", "random"):
        return EnvSource(env, dummy_policy(options.agent, env.spec.action_size, options.seed))
    if not options.newest:
        run.restore(options.checkpoint, with_env=False)
    return EnvSource(env, run.algo.act, run, newest=options.newest)


def _task(options: argparse.Namespace) -> ViewSource:
    from ahac.envs import make
    from ahac.training.viewing import EnvSource, dummy_policy

    env = make(options.what, num_envs=options.worlds, device="cpu", seed=options.seed)
    return EnvSource(env, dummy_policy(_dummy_policy_name(options), env.spec.action_size, options.seed))


def _robot(options: argparse.Namespace) -> ViewSource:
    from ahac.sim import Simulator, load_model
    from ahac.training.viewing import RobotSource, dummy_policy

    model = load_model(options.what, ground=True)
    sim = Simulator(model, num_worlds=options.worlds, dt=1 / 60, substeps=16)
    return RobotSource(sim, dummy_policy(_dummy_policy_name(options), model.nu, options.seed))


def _dummy_policy_name(options: argparse.Namespace) -> str:
    """Who acts where there is no policy."""
    if options.agent == "policy":
        raise InputError(f"{options.what} is no run and has no policy; --agent is zero or random")
    return options.agent or "zero"


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _tell_and_stand_back(line: str) -> None:
    """The steps and pictures that follow come from this thread; the page itself is served by another one."""
    from ahac.cli.watch import lower_priority

    _tell(line)
    lower_priority()
