"""The argument parser of all commands: argparse, with errors as one line, and short or full help."""

from __future__ import annotations

import argparse
import math
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import NoReturn, TextIO

from ahac.core.errors import InputError
from ahac.core.text import suggestion

__all__ = [
    "HELP",
    "Commands",
    "Parser",
    "finite_number",
    "number",
    "one_of",
    "port_number",
    "run_command",
    "whole_number",
]

HELP_ALL = "--help-all"
HELP = frozenset({"-h", "--help", HELP_ALL})
MAX_DIGITS = 18
"""Longest whole number: more digits do not fit in 64 bits."""
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


class _HelpAll(argparse.Action):
    """Prints the help with all options, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        assert isinstance(parser, Parser)
        sys.stdout.write(parser.format_help(everything=True))
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Parser of one command that raises `InputError` for wrong input.

    Options must be spelled out; underscores in their names count as hyphens.

    Args:
        prog: The command, "ahac eval".
        arguments: What follows it in the usage line, "RUN [options]".
        description: Text of `--help`. Each line is wrapped on its own.
        epilog: Text at the end of `--help`; by default how to list all options, where `--help` shows some of them.
        help_command: Command that error messages point to; by default `--help` of this one.
        basic: Options that `--help` shows, "--seed"; by default all. `--help-all` shows all options.
    """

    def __init__(
        self,
        prog: str,
        arguments: str,
        description: str,
        *,
        epilog: str | None = None,
        help_command: str | None = None,
        basic: Collection[str] = (),
    ) -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} {arguments}".rstrip().replace("%", "%%"),
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=_HelpFormatter,
            add_help=False,
        )
        self.help_command = help_command or f"{prog} --help"
        self.basic = frozenset({*basic, "--help"}) if basic else frozenset[str]()
        self.add_argument("-h", "--help", action="help", help="show this help and exit")
        about_all = "show all options and exit" if basic else argparse.SUPPRESS
        self.add_argument(HELP_ALL, action=_HelpAll, nargs=0, help=about_all)
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

    def format_help(self, everything: bool = False) -> str:
        """Return the help: usage, description, arguments, options, epilog; the basic options unless `everything`."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group in self._action_groups:
            shown = [action for action in group._group_actions if everything or self._is_basic(action)]
            if shown:
                formatter.start_section(group.title)
                formatter.add_text(group.description)
                formatter.add_arguments(shown)
                formatter.end_section()
        formatter.add_text(self.epilog if self.epilog or everything or not self.basic else self._more())
        return formatter.format_help()

    def _is_basic(self, action: argparse.Action) -> bool:
        return not self.basic or not action.option_strings or not self.basic.isdisjoint(action.option_strings)

    def _more(self) -> str:
        """Return how to list all options."""
        options = sum(bool(set(action.option_strings) - HELP) for action in self._actions)
        return f"`{self.help_command.removesuffix('--help')}{HELP_ALL}` lists all {options} options"

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
        self.error(f"unknown option {name}{suggestion(name, options)}")


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
    parser.error(f"unknown command {name!r}{suggestion(name, commands)}; known: {', '.join(commands)}")


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts these words only."""

    def parse(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(choices)}, got {text!r}")
        return text

    return parse


def whole_number(text: str) -> int:
    """Parse an integer, also one written as 2_000 or 1e6."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite() or value.adjusted() >= MAX_DIGITS or value != value.to_integral_value():
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}")
    return int(value)


def port_number(text: str) -> int:
    """Parse the number of a port."""
    port = whole_number(text)
    if not 0 < port < 65536:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to 65535, got {text!r}")
    return port


def number(text: str) -> float:
    """Parse a float."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None


def finite_number(text: str) -> float:
    """Parse a float that is neither infinite nor NaN."""
    if not math.isfinite(value := number(text)):
        raise argparse.ArgumentTypeError(f"expected a finite number, got {text!r}")
    return value


def _hyphenated(word: str) -> str:
    """Return an option with hyphens in place of underscores; leave other words as they are."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word
