"""Helpers of the `ahac grad` commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ahac.cli.options import add_settings, read_settings
from ahac.cli.parser import HELP, Parser
from ahac.core.errors import InputError

if TYPE_CHECKING:
    from ahac.gradients import Study

__all__ = ["parse_settings", "save_figures", "split_target"]

Settings = TypeVar("Settings")


def split_target(arguments: list[str], prog: str, expected: str) -> tuple[str, list[str]]:
    """Return the first word and the others; if help is asked for without a first word, the words that print it."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    if not HELP & set(arguments):
        raise InputError(f"TARGET must come first: {prog} TARGET [options]; TARGET is {expected}")
    return "TARGET", ["--help"]


def parse_settings(parser: Parser, words: Sequence[str], defaults: Settings) -> tuple[Settings, argparse.Namespace]:
    """Add the fields of a dataclass to a parser; return the dataclass with the values given, and all options."""
    add_settings(parser, defaults)
    options = parser.parse(words)
    return read_settings(defaults, options), options


def save_figures(study: Study, figures: Sequence[tuple[Callable[[Study, Sequence[Path]], None], Path]]) -> int:
    """Draw the figures of a study as .png and .svg, print their paths, and return the exit status."""
    for draw, path in figures:
        files = [path.with_suffix(".png"), path.with_suffix(".svg")]
        draw(study, files)
        sys.stdout.write("".join(f"{file}\n" for file in files))
    return 0
