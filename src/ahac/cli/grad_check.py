"""`ahac grad check`: are the gradients of this robot or task right?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ahac.cli.bars import bar

if TYPE_CHECKING:
    from ahac.gradients import Report

__all__ = ["check"]

ABOUT = """Gradients of a control step against finite differences, in float64, joint by joint, output by output and
contact by contact. WHAT is a task, FILE.py:NAME (a Task, or a function that returns one), or the MJCF or URDF file of a
robot.

Exit status: 0 if all agree, 1 if something is wrong, 2 if it could not be checked."""
WIDEST = 44


def check(arguments: list[str]) -> int:
    """gradients of a TASK or ROBOT.xml against finite differences"""
    from ahac.cli.grad import named, read
    from ahac.gradients import CheckSettings
    from ahac.gradients import check as checked

    what, words = named(arguments, "ahac grad check", "a task, FILE.py:NAME, or a robot's MJCF or URDF file")
    (settings,) = read(words, f"ahac grad check {what}", ABOUT, CheckSettings)
    report = checked(what, settings, bar)
    for line in lines(report):
        sys.stdout.write(f"{line}\n")
    return 0 if report.passed else 1


def lines(report: Report) -> Iterator[str]:
    """A table for inputs, outputs and contacts each, then the verdict."""
    tolerance = report.settings.tolerance
    tables = {"by input": report.inputs, "by output of a step": report.outputs, "by contact": report.contacts}
    for title, rows in tables.items():
        width = min(max([len(row.name) for row in rows] + [len(title)]), WIDEST)
        yield f"{title:{width}}  {'error':>8}  {'kinks':>5}  {'verdict':8}  largest with"
        for row in rows:
            touched = "" if row.touched is None else f" (touched in {row.touched} states)"
            error = "-" if row.error != row.error else f"{row.error:.1e}"
            yield (
                f"{row.name:{width}}  {error:>8}  {row.kinks:>5}  {row.verdict(tolerance):8}  {row.where}{touched}"
            ).rstrip()
        yield ""
    wrong = [row.name for row in report.rows if row.verdict(tolerance) == "WRONG"]
    unseen = [row.name for row in report.rows if row.verdict(tolerance) == "not seen"]
    if unseen:
        yield f"not seen in these states: {', '.join(unseen)}"
    yield f"{report.name}, {report.settings.states} states: " + (
        f"WRONG: {', '.join(wrong)}" if wrong else f"all derivatives agree with differences to {tolerance:g}"
    )
