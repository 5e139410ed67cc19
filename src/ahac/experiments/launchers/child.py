"""Run a command that is asked to stop when the process that started it dies: `python -m ... PARENT COMMAND [words]`.

A killed worker of a cluster would otherwise leave its training behind, which holds the run folder's lock.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

__all__ = ["guarded"]

PR_SET_PDEATHSIG = 1
"""Option of Linux's prctl: the signal that a process gets when its parent dies; it survives exec."""


def guarded(command: Sequence[str]) -> list[str]:
    """Return the command line that runs a command as a child of this process in this way."""
    return [sys.executable, "-m", "ahac.experiments.launchers.child", str(os.getpid()), *command]


def main(parent: int, command: Sequence[str]) -> None:
    """Become the command, unless the parent is dead already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("the process that started this one has died")
    os.execv(command[0], list(command))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
