"""`ahac new`: write a task file to start from."""

from __future__ import annotations

import os
import re
import sys
from keyword import iskeyword
from pathlib import Path

from ahac.cli.names import TASKS
from ahac.cli.parser import Parser
from ahac.cli.paths import check_file
from ahac.core.errors import InputError

__all__ = ["new"]

ABOUT = (
    "Write a commented task file for a robot: a task that follows velocity commands for robots with two or four feet, "
    "one that runs along x for other robots that move freely, one that holds a pose for robots on a fixed base. Edit "
    "it, then train with `ahac train FILE.py:NAME`."
)

TAKEN = frozenset({"load_model", "observations", "rewards", "walk"})
"""Names that task files import."""


def new(arguments: list[str]) -> int:
    """Run `ahac new`."""
    parser = Parser("ahac new", "ROBOT [options]", ABOUT)
    parser.add_argument("robot", type=Path, metavar="ROBOT", help="MJCF or URDF file")
    parser.add_argument("--out", type=Path, metavar="FILE.py", help="file to write (default: ROBOT_task.py)")
    parser.add_argument("--name", metavar="NAME", help="name of the task (default: that of the robot file)")
    parser.add_argument("--floating", action="store_true", help="add a free joint to a fixed base, as of most URDFs")
    options = parser.parse(arguments)
    check_file(options.robot, "the path of an MJCF or URDF file")
    name = options.name or _identifier(options.robot.stem)
    if not name.isidentifier() or iskeyword(name) or name in TAKEN:
        raise InputError(
            f"--name must be a Python name that the file does not use otherwise, got {name!r}; try my_{name}"
        )
    target = options.out or Path(f"{name}_task.py")
    if target.suffix != ".py":
        raise InputError(f"--out must be a Python file, got {str(target)!r}; use the suffix .py")
    if target.exists():
        raise InputError(f"{target} exists; remove it, or choose another file with --out")

    from ahac.core.files import atomic_write
    from ahac.envs.template import task_template
    from ahac.sim import load_model

    model = load_model(options.robot, ground=True, floating=options.floating)
    robot = os.path.relpath(options.robot, target.parent)
    text = task_template(model, Path(robot).as_posix(), name, options.floating).replace("THIS_FILE.py", str(target))
    with atomic_write(target) as file:
        file.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{target}\n")
    if options.name is None and name.startswith("my_"):
        sys.stderr.write(f"the task is named {name}: {name.removeprefix('my_')} is taken\n")
    sys.stderr.write(
        f"edit it, then: `ahac play {target}:{name}` shows the robot with actions of zero, "
        f"`ahac train {target}:{name}` trains\n"
    )
    return 0


def _identifier(name: str) -> str:
    """Return a file's name as a Python name that no bundled task has."""
    words = re.sub(r"\W+", "_", name).strip("_").lower() or "robot"
    if words in TASKS or words in TAKEN or iskeyword(words):  # runs of a bundled task would have the same names
        return f"my_{words}"
    return f"robot_{words}" if words[0].isdigit() else words
