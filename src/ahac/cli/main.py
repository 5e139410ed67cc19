"""`ahac COMMAND`: the entry point of the command line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from ahac import __version__
from ahac.cli.bench import bench
from ahac.cli.collect import collect
from ahac.cli.compare import compare
from ahac.cli.completion import completion
from ahac.cli.console import BROKEN_PIPE_STATUS, escape_unencodable, log_to_stderr, silence_broken_pipes
from ahac.cli.demo import demo
from ahac.cli.doctor import doctor
from ahac.cli.evaluate import evaluate
from ahac.cli.export import export
from ahac.cli.grad import grad
from ahac.cli.identify import identify
from ahac.cli.inspect import inspect
from ahac.cli.list import list_
from ahac.cli.new import new
from ahac.cli.parser import Commands, run_command
from ahac.cli.play import play
from ahac.cli.report import report
from ahac.cli.sweep import sweep
from ahac.cli.train import resume, train
from ahac.core.errors import INPUT_ERROR_STATUS, AhacError
from ahac.core.text import printable

__all__ = ["main"]

# The modules above import torch, Warp and the rest of the package inside their functions, so that help is fast.
COMMANDS: Commands = {
    "demo": ("watch a pretrained policy", demo),
    "train": ("train a policy", train),
    "resume": ("resume a run", resume),
    "eval": ("evaluate a trained policy", evaluate),
    "play": ("show a policy, task or robot in the browser, or save a video", play),
    "export": ("write a trained policy to an ONNX or TorchScript file", export),
    "new": ("write a task file for a robot", new),
    "inspect": ("show what a robot consists of, and whether it is stable", inspect),
    "identify": ("estimate parameters of a robot from recorded motions", identify),
    "sweep": ("train the runs of a study or a list", sweep),
    "compare": ("compare groups of runs", compare),
    "report": ("write a page with tables, learning curves and statistics of runs", report),
    "collect": ("write runs to one table, or to an archive", collect),
    "grad": ("study and check gradients", grad),
    "list": ("list tasks, algorithms, runs, pretrained policies or studies", list_),
    "doctor": ("show versions and hardware, and check the folders", doctor),
    "bench": ("measure speed on this machine", bench),
    "completion": ("print a script that completes commands in your shell", completion),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    log_to_stderr()
    escape_unencodable()
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # as in `ahac train --help | head`
        silence_broken_pipes()
        return BROKEN_PIPE_STATUS


def _run(arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    about = "First-order policy learning through differentiable contact simulation."
    try:
        return run_command("ahac", about, COMMANDS, words, version=f"ahac {__version__}")
    except BrokenPipeError:
        raise
    except (AhacError, OSError) as error:
        _print_error(f"ahac: {error}")
        return INPUT_ERROR_STATUS
    except KeyboardInterrupt as interrupt:
        _print_error("; ".join(["ahac: interrupted", *map(str, interrupt.args)]))
        if arguments is None:
            # Python waits for a compiler thread that is still running; a second Ctrl-C ends the process silently.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        return 130


def _print_error(line: str) -> None:
    """Write a line to stderr, if it is still open."""
    with suppress(OSError):
        sys.stderr.write(printable(f"{line}\n", keep="\n"))
