"""What a worker of a cluster does: create the run folder there, train in a process of its own, and wait for it."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ahac.core.errors import AhacError, InputError
from ahac.core.hardware import pin_to_cores
from ahac.experiments.launchers.child import guarded
from ahac.experiments.launchers.launcher import import_optional
from ahac.experiments.sweep_folders import create_folder, folder_of, log_path, resume_command
from ahac.experiments.workers import Worker, exit_text
from ahac.training.config import RunConfig
from ahac.training.process import exclusive_lock

__all__ = ["RemoteRun", "claimed_cores"]

POLL_INTERVAL = 0.2
"""Time between two looks at the process [s]."""
LOCK_TIMEOUT = 120.0
"""Time for the process of a killed worker to write its checkpoint and end [s]."""
STOPPED = 130
"""Exit status of a run that was stopped with a checkpoint."""


@dataclass
class RemoteRun:
    """Trains one run when called; a cluster pickles it. Run folders must be shared."""

    config: RunConfig
    cwd: str
    """Working directory of the sweep, to which paths are relative."""
    cores: int = 0
    """Number of cores to pin the run to, which other runs on the machine do not use; 0 for those the cluster gives."""
    grace: float = 0.0
    """How long to wait for the signal that requeues the job, if the run was stopped by another one [s]."""

    def __post_init__(self) -> None:
        self._worker: Worker | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_worker": None}

    def __call__(self) -> str:
        """Train the run from its last checkpoint to the end; return "" if it ended well, otherwise why it did not."""
        try:
            return exit_text(self._train())
        except (AhacError, OSError) as error:
            return str(error)

    def _train(self) -> int:
        os.chdir(self.cwd)
        with claimed_cores(self.cores) as cores, pin_to_cores(cores):
            _wait_until_free(folder_of(self.config))
            create_folder(self.config)
            with _ignored_by_children("SIGUSR1", "SIGUSR2"):
                self._worker = Worker(guarded(resume_command(self.config)), log_path(self.config))
            try:
                status = self._wait()
            except BaseException:  # Ray cancels a task by a KeyboardInterrupt
                self._worker.stop()
                self._wait()
                raise
            finally:
                self._worker.poll()
        if status == STOPPED and self.grace:
            time.sleep(self.grace)  # the handler of the signal ends this process
        return status

    def checkpoint(self) -> Any:  # noqa: ANN401 - a class of submitit
        """Stop the run with a checkpoint and return what to submit again; submitit calls this before a job ends."""
        if self._worker is not None:
            self._worker.stop()
            self._wait()
        return import_optional("submitit", "slurm").helpers.DelayedSubmission(replace(self))

    def _wait(self) -> int:
        """Return the exit status of the process, and leave it to be read again: a signal handler may wait as well."""
        assert self._worker is not None
        process = self._worker.process
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while process.returncode is None:
            if (ended := os.waitid(os.P_PID, process.pid, flags)) is not None:
                return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            time.sleep(POLL_INTERVAL)
        return process.returncode


@contextmanager
def claimed_cores(count: int) -> Generator[set[int]]:
    """Reserve cores of this machine that no other run of this user has reserved; the set is empty if too few are left.

    The operating system releases them when the process ends, even if it is killed.
    """
    if not count or not hasattr(os, "sched_getaffinity"):
        yield set()
        return
    folder = Path(tempfile.gettempdir()) / f"ahac-cores-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as held:
        claimed: set[int] = set()
        # One process at a time: two would take half of what each of them needs.
        with exclusive_lock(folder, LOCK_TIMEOUT):
            for core in sorted(os.sched_getaffinity(0)):
                if len(claimed) == count:
                    break
                (folder / str(core)).mkdir(exist_ok=True)
                with suppress(InputError):  # reserved
                    held.enter_context(exclusive_lock(folder / str(core), timeout=0.0))
                    claimed.add(core)
            if len(claimed) < count:
                held.close()
                claimed.clear()
        yield claimed


def _wait_until_free(folder: Path) -> None:
    """Wait until no process trains in a folder; it may be that of a killed worker, which writes its checkpoint."""
    if folder.is_dir():
        with exclusive_lock(folder, LOCK_TIMEOUT):
            pass


@contextmanager
def _ignored_by_children(*names: str) -> Generator[None]:
    """Let processes that start in this block ignore signals, which would kill them; this process handles them."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (getattr(signal, name) for name in names)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
