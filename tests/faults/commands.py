"""Commands of the command line as child processes, and how they ended.

A child is forked from a process that has imported everything and used its kernels, which takes milliseconds; or it is
a process of its own, as a user starts it, which takes seconds. CUDA does not survive a fork.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from faults import child
from faults.moments import Hook

__all__ = ["LIMIT", "Child", "Ended", "Starter", "forked", "spawned"]

LIMIT = 180.0
"""Seconds after which a command counts as hanging; the longest take a few when the machine is idle."""
POLL = 0.005
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    command: tuple[str, ...]
    status: int | None
    """Exit status; negative: the signal that ended it; None: it was still running at the time limit."""
    out: str
    err: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether it was ended as these trials end processes."""
        return self.status == -signal.SIGKILL

    def faults(self) -> list[str]:
        """Problems that no command may have, whatever happened to its files."""
        name = self.command[0]
        found = []
        if self.status is None:
            found.append(f"hang: `{name}` ran for more than {LIMIT:.0f} s")
        elif self.status < 0:
            found.append(f"crash: `{name}` ended by signal {-self.status}; {self.tail()}")
        if TRACEBACK in self.err:
            found.append(f"traceback: `{name}`: {self.tail()}")
        elif self.status is not None and self.status not in (0, 2, 130) and self.status > 0:
            found.append(f"exit status {self.status}: `{name}`: {self.tail()}")
        return found

    def tail(self, size: int = 200) -> str:
        """The last line that it wrote to standard error."""
        return (self.err.strip().splitlines() or ["(nothing on standard error)"])[-1][-size:]


@dataclass
class Child:
    """A command that runs."""

    command: tuple[str, ...]
    pid: int
    logs: Path
    system: subprocess.Popen[bytes] | None = None
    """Set if the command is a separate process."""
    since: float = field(default_factory=time.monotonic)
    status: int | None = None
    """Once it has ended."""

    def kill(self) -> None:
        """Kill it immediately."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, limit: float = LIMIT) -> Ended:
        """Until it ends; after `limit` seconds it is killed."""
        status = self.poll(limit)
        if status is None:
            self.kill()
            self.poll(LIMIT)
        out, err = ((self.logs.with_suffix(end)).read_text("utf-8", errors="replace") for end in (".out", ".err"))
        return Ended(self.command, status, out, err, time.monotonic() - self.since)

    def poll(self, limit: float) -> int | None:
        """Its exit status, as soon as it has one; None where it has none after `limit` seconds."""
        deadline = time.monotonic() + limit
        while not self._over() and time.monotonic() < deadline:
            time.sleep(POLL)
        return self.status

    def _over(self) -> bool:
        if self.status is None and self.system is not None:
            self.status = self.system.poll()
        elif self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is not None


@dataclass(frozen=True)
class Starter:
    """Starts commands, and keeps what they say in numbered files of a folder."""

    logs: Path
    fork: bool = True

    def start(
        self,
        command: Sequence[object],
        hook: Hook | None = None,
        environment: Mapping[str, str] | None = None,
        fork: bool | None = None,
    ) -> Child:
        """Start a command, with these environment variables besides its parent's."""
        words = tuple(str(word) for word in command)
        self.logs.mkdir(parents=True, exist_ok=True)
        logs = self.logs / f"{len(list(self.logs.glob('*.out'))):03d}-{words[0]}.out"
        if self.fork if fork is None else fork:
            return Child(words, forked(lambda: child.run(hook, words), logs, environment), logs)
        driver = ["-m", "ahac"] if hook is None else ["-m", "faults.child", hook.to_json()]
        return spawned([*driver, *words], logs, environment)

    def run(self, *command: object, limit: float = LIMIT) -> Ended:
        """Start a command and wait for its end."""
        return self.start(command).wait(limit)


def spawned(words: Sequence[str], logs: Path, environment: Mapping[str, str] | None = None) -> Child:
    """Start Python with these arguments in a separate process."""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    with logs.open("wb") as out, logs.with_suffix(".err").open("wb") as err:
        system = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, "PYTHONPATH": paths, **(environment or {})},
        )
    shown = [word for word in words if not word.startswith(("-", "{")) and word not in ("ahac", "faults.child")]
    return Child(tuple(shown), system.pid, logs, system)


def forked(act: Callable[[], int], logs: Path, environment: Mapping[str, str] | None = None) -> int:
    """Run a function in a forked child, like a separate program; return its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Helper threads of the simulator wait in their queue; a child begins with none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _be_child(act, logs, environment or {})
    return pid


def _be_child(act: Callable[[], int], logs: Path, environment: Mapping[str, str]) -> NoReturn:
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, end in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(logs.with_suffix(end), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.environ.update(environment)
        status = act()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # a separate program would end with any exception
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)
