"""`ahac grad check`: are the gradients of this robot or task right?"""

from __future__ import annotations

import sys

from ahac.cli.progress import progress_bar

__all__ = ["check"]

ABOUT = """Gradients of a control step against finite differences, in float64, joint by joint, output by output and
contact by contact. WHAT is a task, FILE.py:NAME (a Task, or a function that returns one), or the MJCF or URDF file of a
robot.

Exit status: 0 if all agree, 1 if something is wrong, 2 if it could not be checked."""


def check(arguments: list[str]) -> int:
    """gradients of a TASK or ROBOT.xml against finite differences"""
    from ahac.cli.grad import parse_settings, split_target
    from ahac.gradients import CheckSettings
    from ahac.gradients import check as checked

    what, words = split_target(arguments, "ahac grad check", "a task, FILE.py:NAME, or a robot's MJCF or URDF file")
    (settings,) = parse_settings(words, f"ahac grad check {what}", ABOUT, CheckSettings)
    report = checked(what, settings, progress_bar)
    sys.stdout.write(f"{report.table()}\n")
    return 0 if report.passed else 1
