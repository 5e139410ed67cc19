"""`ahac COMMAND`: train, resume, eval, play, sweep, compare, grad, list, doctor, bench; thin over the other rooms."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from ahac import __version__
from ahac.cli.compare import compare
from ahac.cli.console import BROKEN_PIPE_STATUS, log_to_stderr, silence_broken_pipes
from ahac.cli.evaluate import evaluate
from ahac.cli.grad import grad
from ahac.cli.list import list_runs
from ahac.cli.play import play
from ahac.cli.sweep import sweep
from ahac.cli.train import resume, train
from ahac.core.errors import AhacError
from ahac.core.text import printable

__all__ = ["main"]

Command = Callable[[list[str]], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    log_to_stderr()
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # as in `ahac train --help | head`: there is nobody left to tell
        silence_broken_pipes()
        return BROKEN_PIPE_STATUS


def _run(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="ahac",
        description="First-order policy learning through differentiable contact simulation.",
        epilog="Run `ahac COMMAND --help` for details.",
        formatter_class=argparse.RawTextHelpFormatter,
    )
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
    except BrokenPipeError:
        raise
    except (AhacError, OSError) as error:
        _tell(f"ahac: {error}")
        return 2
    except KeyboardInterrupt as interrupt:
        _tell("; ".join(["ahac: interrupted", *map(str, interrupt.args)]))
        if arguments is None:
            # A compiler's thread may still be at work, and is waited for; another Ctrl-C ends it without a word.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        return 130


def _tell(line: str) -> None:
    """Write a line to the terminal, if there still is one."""
    with suppress(OSError):
        sys.stderr.write(printable(f"{line}\n", keep="\n"))


def doctor(arguments: list[str]) -> int:
    """show versions, devices and the kernel cache"""
    from ahac.cli.doctor import findings

    argparse.ArgumentParser(
        prog="ahac doctor", description="Versions, devices, where kernels and runs are kept."
    ).parse_args(arguments)
    for line in findings():
        sys.stdout.write(f"{line}\n")
    return 0


def bench(arguments: list[str]) -> int:
    """measure how fast it is here"""
    from ahac.bench.__main__ import main as measure

    return measure(arguments)


COMMANDS: dict[str, Command] = {
    "train": train, "resume": resume, "eval": evaluate, "play": play, "sweep": sweep, "compare": compare, "grad": grad,
    "list": list_runs, "doctor": doctor, "bench": bench,
}  # fmt: skip
