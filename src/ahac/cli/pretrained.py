"""The options `--pretrained` and `--trust` of commands that take a run."""

from __future__ import annotations

from ahac.cli.parser import Parser
from ahac.cli.paths import find_run

__all__ = ["add_pretrained_option", "add_trust_option", "run_folder"]


def add_pretrained_option(parser: Parser) -> None:
    """Add the option that names a pretrained policy by its task, in place of a run."""
    parser.add_argument(
        "--pretrained",
        action="store_true",
        help="take the name of a task instead, and use its policy from the package; `ahac list pretrained` lists them",
    )


def add_trust_option(parser: Parser) -> None:
    """Add the option that allows to run the task file of somebody else's run."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run the task.py in the run folder even if you have not trained with it on this machine; read it first",
    )


def run_folder(name: str, pretrained: bool) -> str:
    """Return the run folder that a command was given; with `pretrained`, that of a task's pretrained policy."""
    if not pretrained:
        return find_run(name)

    from ahac.training.pretrained import pretrained_folder

    return str(pretrained_folder(name))
