"""`ahac train | resume | eval | sweep | compare | list | doctor`: thin commands over the Python of the other rooms."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Callable, Sequence

from ahac import __version__
from ahac.cli.compare import compare
from ahac.cli.listing import listing
from ahac.cli.sweep import sweep
from ahac.cli.train import evaluate, resume, train
from ahac.core.errors import AhacError

__all__ = ["main"]

Command = Callable[[list[str]], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="ahac", description="First-order policy learning through differentiable contact simulation.",
        epilog="`ahac COMMAND --help` tells more.", formatter_class=argparse.RawTextHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"ahac {__version__}")
    parser.add_argument(
        "command",
        choices=list(COMMANDS),
        metavar="COMMAND",
        help="\n".join(f"{k + ':':8} {v.__doc__}" for k, v in COMMANDS.items()),
    )
    options = parser.parse_args(given[:1] or ["--help"])
    try:
        return COMMANDS[options.command](given[1:])
    except (AhacError, OSError) as error:
        sys.stderr.write(f"ahac: {error}\n")
        return 2
    except KeyboardInterrupt as interrupt:
        sys.stderr.write("; ".join(["ahac: interrupted", *map(str, interrupt.args)]) + "\n")
        if arguments is None:
            # A compiler's thread may still be at work, and is waited for; another Ctrl-C ends it without a word.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        return 130


def doctor(arguments: list[str]) -> int:
    """say what this machine offers"""
    from ahac.cli.doctor import findings

    argparse.ArgumentParser(
        prog="ahac doctor", description="Versions, devices, where kernels and runs are kept."
    ).parse_args(arguments)
    for line in findings():
        sys.stdout.write(f"{line}\n")
    return 0


COMMANDS: dict[str, Command] = {
    "train": train, "resume": resume, "eval": evaluate, "sweep": sweep, "compare": compare, "list": listing,
    "doctor": doctor,
}  # fmt: skip
