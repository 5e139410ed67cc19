"""`ahac inspect`: what a robot file contains, what was approximated, whether it is stable, and what it costs."""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ahac.cli.names import is_task, task_names
from ahac.cli.parser import Parser, number, one_of, whole_number
from ahac.cli.paths import ROBOT_SUFFIXES, check_file
from ahac.core.errors import InputError
from ahac.core.table import table_lines
from ahac.core.text import printable, suggestion

if TYPE_CHECKING:
    from ahac.sim import Model
    from ahac.sim.inspection import Inspection

__all__ = ["inspect"]

ABOUT = (
    "Show what a robot consists of, everything that loading approximated or dropped, whether a step is stable, and how "
    "fast it will run. TARGET is the MJCF or URDF file of a robot, or the name of a task."
)
DT, SUBSTEPS = 1 / 60, 4
VIEWS = {"oblique": (math.radians(122.0), math.radians(17.0)), "front": (math.pi, 0.0), "side": (math.pi / 2.0, 0.0)}
"""Azimuth and elevation of the cameras [rad]."""
WORLDS = 256
"""Number of worlds that --measure simulates."""


def inspect(arguments: list[str]) -> int:
    """Run `ahac inspect`."""
    parser = Parser("ahac inspect", "TARGET [options]", ABOUT)
    parser.add_argument("what", metavar="TARGET", help="robot or task")
    parser.add_argument("--image", type=Path, metavar="FILE", help="draw the robot and its contact points (.png, .svg)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--measure", action="store_true", help=f"measure the speed here, with {WORLDS} worlds")
    parser.add_argument(
        "--integrator",
        type=one_of("implicit", "explicit"),
        metavar="{implicit,explicit}",
        help="integrator (default: implicit for a robot, a task's own)",
    )
    parser.add_argument(
        "--dt", type=number, metavar="S", help="control step (default: 1/60 s for a robot, a task's own)"
    )
    parser.add_argument(
        "--substeps", type=whole_number, metavar="N", help=f"substeps (default: {SUBSTEPS} for a robot, a task's own)"
    )
    parser.add_argument("--no-ground", action="store_true", help="do not add a ground to a robot without planes")
    parser.add_argument("--floating", action="store_true", help="add a free joint to the base of a robot")
    parser.add_argument(
        "--ignore", nargs="+", default=[], metavar="FEATURE", help="features of a robot file to drop, as the error says"
    )
    options = parser.parse(arguments)
    _check_target(options.what)
    if options.image is not None:
        from ahac.plots.theme import check_format

        check_format(options.image)
    model, randomized = _model(options)
    report = _report(model, options)
    measured = _measure(model, options) if options.measure else None
    if options.json:
        content = asdict(report) | ({} if measured is None else {"measured": measured})
        content |= {"randomized": randomized} if randomized else {}
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
    else:
        lines = _text(report, measured)
        if randomized:
            lines += ["", "randomized in each episode:", *(f"  {line}" for line in randomized)]
        sys.stdout.write(printable("\n".join(lines) + "\n", keep="\n"))
    if options.image is not None:
        _draw(model, options.image)
        sys.stderr.write(f"{options.image}\n")
    return 0


def _check_target(name: str) -> None:
    """Raise an InputError if there is no such robot or task."""
    if is_task(name):
        return
    tasks = task_names()
    if Path(name).suffix not in ROBOT_SUFFIXES:
        raise InputError(
            f"{name!r} is not a robot file ({', '.join(ROBOT_SUFFIXES)}) or task{suggestion(name, tasks)}; "
            f"tasks: {', '.join(tasks)}; give a task of your own as FILE.py:NAME"
        )
    check_file(name, "the path of an MJCF or URDF file")


def _model(options: argparse.Namespace) -> tuple[Model, list[str]]:
    """Load the robot, and set the options of the step that were not given; describe what a task randomizes."""
    from ahac.envs import make_task
    from ahac.envs.planning import plan
    from ahac.sim import load_model

    if is_task(options.what):
        task = make_task(options.what)
        plan(task)  # raises the errors of its functions
        defaults: dict[str, Any] = {"dt": task.dt, "substeps": task.substeps, "integrator": task.integrator}
        model, randomized = task.model, task.randomized
    else:
        defaults = {"dt": DT, "substeps": SUBSTEPS, "integrator": "implicit"}
        model = load_model(options.what, ground=not options.no_ground, floating=options.floating, ignore=options.ignore)
        randomized = []
    for name, value in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return model, randomized


def _report(model: Model, options: argparse.Namespace) -> Inspection:
    from ahac.core.checks import check_finite, check_int
    from ahac.sim.inspection import inspect_model

    check_int("substeps", options.substeps, 1)
    if check_finite("dt", options.dt, 0.0) == 0.0:
        raise InputError("dt must be more than 0 seconds, got 0")
    return inspect_model(model, options.dt, options.substeps, options.integrator)


def _measure(model: Model, options: argparse.Namespace) -> dict[str, float]:
    """Return control steps per second on one core."""
    from ahac.bench.models import step_rates
    from ahac.sim import Simulator

    sim = Simulator(
        model,
        num_worlds=WORLDS,
        dt=options.dt,
        substeps=options.substeps,
        num_threads=1,
        integrator=options.integrator,
    )
    forward, both = step_rates(sim, seconds=1.0)
    return {"worlds": WORLDS, "forward_steps_per_second": forward, "steps_per_second": both}


def _text(report: Inspection, measured: dict[str, float] | None) -> list[str]:
    planes = f"{len(report.planes)} plane{'' if len(report.planes) == 1 else 's'}"
    lines = [
        f"{report.name}: {report.mass:.3g} kg in {len(report.links)} links, nq = {report.nq}, nv = {report.nv}, "
        f"{report.nu} actuators, {report.contact_points} contact points, {planes}",
        "",
        *_joint_lines(report),
        "",
        *_link_lines(report),
    ]
    if report.actuators:
        lines += ["", *_actuator_lines(report)]
    if report.contacts:
        lines += ["", *_contact_lines(report)]
    lines += ["", "approximated or dropped:", *(f"  {note}" for note in report.notes or ["nothing"])]
    cost = report.cost
    lines += [
        "",
        f"stability ({report.integrator}): {report.stability.message}",
        f"operations per substep: {cost.forward_operations:,} forward, {cost.backward_operations:,} backward",
        f"expected speed of the physics with gradients: {_rounded(cost.core_steps_per_second)} steps/s on one core of "
        f"this machine, {_rounded(cost.h200_steps_per_second)} steps/s on an H200 with 4096 worlds; training is slower",
    ]
    if measured is not None:
        forward, both = (_rounded(measured[f"{kind}steps_per_second"]) for kind in ("forward_", ""))
        lines.append(f"measured with {WORLDS} worlds on one core: {forward} steps/s, with gradients {both} steps/s")
    if report.keyframes:
        lines.append(f"keyframes: {', '.join(report.keyframes)}")
    return lines


def _joint_lines(report: Inspection) -> list[str]:
    header = ("joint", "type", "range", "inertia", "armature", "damping", "stiffness", "friction", "servo kp", "kv")
    rows = [
        (
            joint.name,
            joint.type,
            _range(joint.range),
            *map(_number, (joint.inertia, joint.armature, joint.damping, joint.stiffness)),
            *map(_number, (joint.frictionloss, joint.kp, joint.kv)),
        )
        for joint in report.joints
    ]
    return table_lines(header, rows, left=(0, 1))


def _link_lines(report: Inspection) -> list[str]:
    rows = [(link.name, link.parent, f"{link.mass:.4g}") for link in report.links]
    return table_lines(("link", "parent", "mass [kg]"), rows, left=(0, 1))


def _actuator_lines(report: Inspection) -> list[str]:
    header = ("actuator", "kind", "acts on", "gain", "control range", "force range")
    rows = [
        (a.name, a.kind, a.acts_on, f"{a.gain:.4g}", _range(a.control_range), _range(a.force_range))
        for a in report.actuators
    ]
    return table_lines(header, rows, left=(0, 1, 2))


def _contact_lines(report: Inspection) -> list[str]:
    header = ("geom in contact", "link", "plane", "points", "stiffness [N/m]", "friction")
    rows = [
        (c.geom, c.link, c.plane, str(c.points), f"{c.stiffness:.3g}", f"{c.friction:.3g}") for c in report.contacts
    ]
    return table_lines(header, rows, left=(0, 1, 2))


def _range(bounds: tuple[float, float] | None) -> str:
    return "-" if bounds is None else f"{bounds[0]:.4g} to {bounds[1]:.4g}"


def _number(value: float) -> str:
    return f"{value:.3g}" if value else "-"


def _rounded(value: float) -> str:
    """Return a number with two significant digits: the speed is an estimate."""
    digits = 1 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{round(value, digits):,.0f}"


def _draw(model: Model, path: Path) -> None:
    from ahac.plots.robot import plot_robot
    from ahac.sim.inspection import rest_poses
    from ahac.view.quaternions import from_matrix
    from ahac.view.scene import scene_of
    from ahac.view.still import take_still

    scene = scene_of(model)
    position, rotation = rest_poses(model)
    stills = {name: take_still(scene, position, from_matrix(rotation), *view) for name, view in VIEWS.items()}
    views = {name: (still.triangles, still.colors, still.contact_points) for name, still in stills.items()}
    plot_robot(path, f"{model.name}: {len(model.contact_candidates)} contact points", views)
