"""`ahac grad check`: check the gradients of a task or robot."""

from __future__ import annotations

import sys

from ahac.cli.grad.common import parse_settings, split_target
from ahac.cli.parser import Parser
from ahac.cli.progress import progress_bar

__all__ = ["check"]

ABOUT = (
    "Check the gradients of a control step against finite differences, in float64, by joint, output and contact.\n\n"
    "TARGET is a task, FILE.py:NAME (a Task, or a function that returns one), or the MJCF or URDF file of a robot.\n\n"
    "Exit status: 0 if all gradients agree, 1 if one is wrong, 2 if they could not be checked."
)


def check(arguments: list[str]) -> int:
    """Run `ahac grad check`."""
    expected = "a task, FILE.py:NAME, or the MJCF or URDF file of a robot"
    target, words = split_target(arguments, "ahac grad check", expected)

    from ahac.gradients import CheckSettings
    from ahac.gradients import check as run_check

    settings, _ = parse_settings(Parser(f"ahac grad check {target}", "[options]", ABOUT), words, CheckSettings())
    report = run_check(target, settings, progress_bar)
    sys.stdout.write(f"{report.table()}\n")
    return 0 if report.passed else 1
