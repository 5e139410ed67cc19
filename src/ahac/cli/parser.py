"""The argument parser of all commands: argparse, with errors as one line and help that fits the terminal."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import NoReturn, TextIO

from ahac.core.errors import InputError

__all__ = ["HELP", "Commands", "Parser", "number", "one_of", "run_command", "whole_number"]

HELP = frozenset({"-h", "--help"})
Commands = Mapping[str, tuple[str, Callable[[list[str]], int]]]
"""Summary and function of each command. The function takes the remaining arguments and returns the exit status."""


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps descriptions but keeps their line breaks."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = (
            textwrap.fill(line, width, initial_indent=indent, subsequent_indent=indent) for line in text.split("\n")
        )
        return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """Parser of one command that raises `InputError` for wrong input.

    Options must be spelled out; underscores in their names count as hyphens.

    Args:
        prog: The command, "ahac eval".
        arguments: What follows it in the usage line, "RUN [options]".
        description: Text of `--help`. Each line is wrapped on its own.
        epilog: Text at the end of `--help`.
        help_command: Command that error messages point to; by default `--help` of this one.
    """

    def __init__(
        self, prog: str, arguments: str, description: str, *, epilog: str | None = None, help_command: str | None = None
    ) -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} {arguments}".rstrip().replace("%", "%%"),
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=_HelpFormatter,
        )
        self.help_command = help_command or f"{prog} --help"
        # argparse (before Python 3.14) takes -1e-3 for an option.
        self._negative_number_matcher = re.compile(r"-(\.?\d|inf|nan)")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the options; raise an error that names the first unknown word."""
        options, unknown = self.parse_some(words)
        if unknown:
            self._unknown(unknown[0])
        return options

    def parse_some(self, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Return the options, and the words that belong to none of them."""
        return self.parse_known_args([_hyphenated(word) for word in words])

    def print_help(self, file: TextIO | None = None) -> None:
        """Write the help; unlike argparse's own, do not hide that the reader of a pipe is gone."""
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Raise an error with argparse's message, and point to the help."""
        if message.startswith("argument "):
            name, _, problem = message.removeprefix("argument ").partition(": ")
            message = f"{name}: {problem}" if name.startswith("-") else problem
        message = message.replace("the following arguments are required:", "missing")
        raise InputError(f"{message}; run `{self.help_command}` for details")

    def _unknown(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            self.error(f"unexpected argument {word!r}")
        name = word.partition("=")[0]
        options = [option for option in self._option_string_actions if option.startswith("--")]
        self.error(f"unknown option {name}{_suggestion(name, options)}")


def run_command(prog: str, about: str, commands: Commands, words: Sequence[str], version: str | None = None) -> int:
    """Run the command that the first word names; without words, print help.

    Args:
        prog: What the user typed so far, "ahac grad".
        about: Description for `--help`.
        commands: The commands to choose from.
        words: Name of the command and its arguments.
        version: Text of `--version`; None for no such option.
    """
    width = max(map(len, commands))
    listed = "\n".join(f"  {name:{width}}  {summary}" for name, (summary, _) in commands.items())
    epilog = f"Run `{prog} COMMAND --help` for details."
    parser = Parser(prog, "COMMAND [options]", f"{about}\n\ncommands:\n{listed}", epilog=epilog)
    if version is not None:
        parser.add_argument("--version", action="version", version=version, help="show the version and exit")
    name, *rest = words or ["--help"]
    if name in commands:
        return commands[name][1](rest)
    if name.startswith("-"):
        parser.parse([name])  # --help and --version exit here
        parser.error("the command is missing")
    parser.error(f"unknown command {name!r}{_suggestion(name, commands)}; known: {', '.join(commands)}")


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts these words only."""

    def parse(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(choices)}, got {text!r}")
        return text

    return parse


def whole_number(text: str) -> int:
    """Parse an integer."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None


def number(text: str) -> float:
    """Parse a float."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None


def _hyphenated(word: str) -> str:
    """Return an option with hyphens in place of underscores; leave other words as they are."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word


def _suggestion(name: str, known: Sequence[str] | Mapping[str, object]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close and close[0] != name else ""
