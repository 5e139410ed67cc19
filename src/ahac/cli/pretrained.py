"""The option `--pretrained` of commands that take a run."""

from __future__ import annotations

from ahac.cli.parser import Parser

__all__ = ["add_pretrained_option", "run_folder"]


def add_pretrained_option(parser: Parser) -> None:
    """Add the option that names a pretrained policy by its task, in place of a run."""
    parser.add_argument(
        "--pretrained",
        action="store_true",
        help="take the name of a task instead, and use its policy from the package; `ahac list pretrained` lists them",
    )


def run_folder(name: str, pretrained: bool) -> str:
    """Return the run folder that a command was given; with `pretrained`, that of a task's pretrained policy."""
    if not pretrained:
        return name

    from ahac.training.pretrained import pretrained_folder

    return str(pretrained_folder(name))
