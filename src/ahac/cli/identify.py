"""`ahac identify`: estimate parameters of a robot from recorded motions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ahac.cli.parser import Parser, number, one_of, whole_number
from ahac.cli.paths import check_file
from ahac.core.text import printable

__all__ = ["identify"]

ABOUT = (
    "Estimate parameters of a robot from recorded motions.\n\n"
    "ROBOT is an MJCF or URDF file; for a URDF, which has no actuators, give --servos. "
    "DATA are .npz files with the arrays time [T], q [T, nq], control [T, nu] and, if measured, v [T, nv], in MuJoCo's "
    "conventions; row k of control acts from sample k to sample k + 1. The table shows "
    "estimates with 95 % confidence intervals, what the data do not determine, and how well held-out segments are "
    "predicted with the file's values and with the estimates."
)

UNBOUNDED = 1e6
"""Largest target of a servo [rad] or [m]: recorded targets are taken as they are."""


def identify(arguments: list[str]) -> int:
    """Run `ahac identify`."""
    options = _options(arguments)
    check_file(options.robot, "the path of an MJCF or URDF file")
    for path in options.data:
        check_file(path, "a recording (.npz)")

    from ahac.core.files import check_writable
    from ahac.identification import identify as run
    from ahac.sim import Servo, load_model

    if options.out is not None:
        check_writable(options.out)
    motors = None
    if options.servos is not None:
        kp, kv = options.servos
        motors = {"*": Servo(stiffness=kp, damping=kv, reach=UNBOUNDED)}
    model = load_model(
        options.robot, motors=motors, ground=options.ground, floating=options.floating, ignore=options.ignore
    )
    result = run(
        model,
        options.data,
        model.parameters(*options.parameters, max_delay=options.max_delay),
        segment=options.segment,
        substeps=options.substeps,
        integrator=options.integrator,
        held_out=options.held_out,
        prior=options.prior,
        resample=options.resample,
        max_iterations=options.max_iterations,
        device=options.device,
    )
    sys.stdout.write(printable(f"{result.table()}\n", keep="\n"))
    if options.out is not None:
        result.save(options.out)
        sys.stderr.write(f"{options.out}\n")
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    usage = "ROBOT DATA [DATA ...] --parameters PATTERN [PATTERN ...] [options]"
    basic = ("--parameters", "--out", "--segment", "--resample", "--servos", "--ground", "--floating")
    parser = Parser("ahac identify", usage, ABOUT, basic=basic)
    parser.add_argument("robot", metavar="ROBOT", help="MJCF or URDF file")
    parser.add_argument("data", nargs="+", metavar="DATA", help="recordings (.npz)")
    parser.add_argument(
        "--parameters",
        nargs="+",
        required=True,
        metavar="PATTERN",
        help="what to estimate, such as 'dof_damping:*' 'joint_offset:*' actuator_delay (docs/guides/parameters.md)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the result to this JSON file")
    parser.add_argument(
        "--segment",
        type=number,
        metavar="S",
        help="length of a segment in seconds (default: 1, or less if recordings are short)",
    )
    parser.add_argument(
        "--substeps", type=whole_number, metavar="N", help="substeps per sample (default: substeps of at most 1 ms)"
    )
    parser.add_argument(
        "--integrator",
        type=one_of("implicit", "explicit"),
        default="implicit",
        metavar="{implicit,explicit}",
        help="integrator (default: implicit)",
    )
    parser.add_argument(
        "--max-delay", type=number, default=0.1, metavar="S", help="upper bound of actuator_delay (default: 0.1 s)"
    )
    parser.add_argument(
        "--held-out",
        type=number,
        default=0.2,
        metavar="X",
        help="fraction of the segments held out from the fit, to test predictions (default: 0.2)",
    )
    parser.add_argument(
        "--prior",
        type=number,
        default=10.0,
        metavar="X",
        help="standard deviation of the prior around the file's values, relative to their size (default: 10)",
    )
    parser.add_argument(
        "--resample", type=number, metavar="S", help="interpolate the recordings to samples S seconds apart"
    )
    parser.add_argument(
        "--max-iterations",
        type=whole_number,
        default=100,
        metavar="N",
        help="maximum number of iterations (default: 100)",
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    _add_robot_options(parser)
    return parser.parse(arguments)


def _add_robot_options(parser: Parser) -> None:
    parser.add_argument(
        "--servos",
        nargs=2,
        type=number,
        metavar=("KP", "KV"),
        help="replace the file's actuators with a position servo on every hinge and slide; for a URDF, which has none",
    )
    parser.add_argument("--ground", action="store_true", help="add a ground to a robot without planes")
    parser.add_argument("--floating", action="store_true", help="add a free joint to the base of the robot")
    parser.add_argument("--ignore", nargs="+", default=[], metavar="FEATURE", help="features of the robot file to drop")
