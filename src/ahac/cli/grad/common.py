"""Helpers of the `ahac grad` commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ahac.cli.options import add_settings, read_settings
from ahac.cli.parser import HELP, Parser
from ahac.core.errors import InputError

if TYPE_CHECKING:
    from ahac.gradients import Study

__all__ = ["parse_settings", "save_figures", "split_target"]


def split_target(arguments: list[str], prog: str, expected: str) -> tuple[str, list[str]]:
    """Return the first word and the others; without a first word, the words that print help."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    if arguments and not HELP & set(arguments):
        raise InputError(f"TARGET must come first: {prog} TARGET [options]; TARGET is {expected}")
    return "TARGET", ["--help"]


def parse_settings(words: Sequence[str], prog: str, about: str, *defaults: Any) -> tuple[Any, ...]:  # noqa: ANN401 - dataclasses
    """Return these dataclasses with the values of the options that were given."""
    parser = Parser(prog, "[options]", about)
    for settings in defaults:
        add_settings(parser, settings)
    options = parser.parse(words)
    return tuple(read_settings(settings, options) for settings in defaults)


def save_figures(study: Study, figures: Sequence[tuple[Callable[[Study, Sequence[Path]], None], Path]]) -> int:
    """Draw the figures of a study as .png and .svg, print their paths, and return the exit status."""
    for draw, path in figures:
        files = [path.with_suffix(".png"), path.with_suffix(".svg")]
        draw(study, files)
        sys.stdout.write("".join(f"{file}\n" for file in files))
    return 0
