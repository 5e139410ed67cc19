"""Launcher `local`: several processes on this machine, each on its own cores; runs on a GPU share it through MPS."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ahac.algos.fasttd3 import FastTD3Config
from ahac.core.checks import check_int
from ahac.core.device import resolve_run_device
from ahac.core.hardware import pin_to_cores, split_cores, usable_cores
from ahac.experiments.launchers.launcher import Job, Launcher
from ahac.experiments.launchers.mps import MpsDaemon
from ahac.experiments.sweep_folders import create_folder, log_path, resume_command
from ahac.experiments.workers import Worker
from ahac.training.config import RunConfig

__all__ = ["LocalLauncher", "default_jobs"]

GPU_JOBS = 8
"""Default number of runs that share a GPU."""
FASTTD3_JOBS = 3
"""The same if all of them are of FastTD3, which fills a GPU: three runs make 1.44 times the updates of one."""
CORES_PER_JOB = 2
"""Default number of cores of a run on a machine without a GPU."""


def default_jobs(configs: Sequence[RunConfig]) -> int:
    """Return how many of these runs train at a time by default: as many as share a GPU, or one for every two cores.

    Measurements: docs/performance/several-runs.md.
    """
    if not _use_gpu(configs):
        most = max(1, usable_cores() // CORES_PER_JOB)
    else:
        wide = all(isinstance(config.algorithm, FastTD3Config) for config in configs)
        most = FASTTD3_JOBS if wide else GPU_JOBS
    return max(1, min(most, len(configs)))


class LocalLauncher(Launcher):
    """Trains runs in processes of this machine.

    Args:
        jobs: Number of runs at a time; they divide the cores of this process among them. By default `default_jobs`.
        mps: Whether to start NVIDIA MPS while several runs share a GPU, if it is installed and not running.
    """

    here = True

    def __init__(self, jobs: int | None = None, mps: bool = True) -> None:
        self.jobs = None if jobs is None else check_int("jobs", jobs, 1)
        self.mps = mps
        self._free: deque[set[int]] = deque()
        self._daemon: MpsDaemon | None = None

    def open(self, configs: Sequence[RunConfig]) -> None:
        """Divide the cores, and start MPS if several runs share a GPU."""
        jobs = min(self.jobs or default_jobs(configs), len(configs))
        self._free = split_cores(jobs)
        if self.mps and jobs > 1 and _use_gpu(configs):
            self._daemon = MpsDaemon.start()

    def free_slots(self, waiting: int) -> int:
        """Return 1 if a process can be started."""
        return min(1, waiting, len(self._free))

    def start(self, configs: Sequence[RunConfig]) -> list[Job]:
        """Start one process for each run."""
        return [self._start(config) for config in configs]

    def _start(self, config: RunConfig) -> Job:
        cores = self._free.popleft()
        try:
            with pin_to_cores(cores):  # inherited by the process, and counted in the manifest of a new run
                create_folder(config)
                env = None if self._daemon is None else self._daemon.env
                return _LocalJob(config, env, cores, self._free)
        except BaseException:
            self._free.append(cores)
            raise

    def close(self) -> None:
        """Stop MPS if it was started here."""
        if self._daemon is not None:
            self._daemon.stop()
            self._daemon = None


class _LocalJob(Worker):
    """A process and the cores that it gives back when it ends."""

    def __init__(
        self, config: RunConfig, env: Mapping[str, str] | None, cores: set[int], free: deque[set[int]]
    ) -> None:
        super().__init__(resume_command(config), log_path(config), env)
        self._cores: set[int] | None = cores
        self._free = free

    def poll(self) -> str | None:
        """Return as `Worker.poll`."""
        ended = super().poll()
        if ended is not None and self._cores is not None:
            self._free.append(self._cores)
            self._cores = None
        return ended


def _use_gpu(configs: Sequence[RunConfig]) -> bool:
    return any(resolve_run_device(device) != "cpu" for device in {config.device for config in configs})
