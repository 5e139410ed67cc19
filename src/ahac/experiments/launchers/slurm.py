"""Launcher `slurm`: a job array of Slurm, through the package submitit."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ahac.core.checks import check_int
from ahac.core.errors import InputError
from ahac.experiments.launchers.launcher import Job, Launcher, describe, import_optional
from ahac.experiments.launchers.remote import RemoteRun
from ahac.training.config import RunConfig

__all__ = ["SlurmLauncher"]

FOLDER = ".slurm"
"""Folder of submitit's files, next to the run folders; hidden, so that it does not count as a run."""
MAX_REQUEUES = 1000
"""A job that reaches its time limit is requeued up to this often."""
SIGNAL_GRACE = 120.0
"""Time between Slurm's SIGTERM, which stops a run with a checkpoint, and the signal that requeues the job [s]."""
POLL_INTERVAL = 1.0
"""Time between two looks for the result of a job [s]."""
QUERY_INTERVAL = 15.0
"""Time between two queries of Slurm for a job that was canceled [s]."""
CLOSE_TIMEOUT = 60.0
"""Time for a canceled job to end [s]."""


class SlurmLauncher(Launcher):
    """Trains runs as jobs of a Slurm array; run folders must be on a shared file system.

    Before a job is preempted or reaches its time limit, its run stops with a checkpoint and the job is requeued, which
    resumes the run exactly.

    Args:
        options: Options of `sbatch` by their long names: partition, time, account, gres, ...
        jobs: Largest number of jobs of an array at a time; by default submitit's, 256.
        cluster: submitit's executor; "local" trains in processes of this machine, to try the launcher.
    """

    here = False

    def __init__(
        self, options: Mapping[str, str] | None = None, jobs: int | None = None, cluster: str = "slurm"
    ) -> None:
        self.submitit = import_optional("submitit", "slurm")
        self.options = dict(options or {})
        self.jobs = None if jobs is None else check_int("jobs", jobs, 1)
        self.cluster = cluster
        self._executor: Any = None

    def open(self, configs: Sequence[RunConfig]) -> None:
        """Prepare the submission of jobs, whose files are next to the run folders of the first run."""
        folder = Path(configs[0].out).absolute() / FOLDER
        try:
            self._executor = self.submitit.AutoExecutor(
                folder=folder / "%j", cluster=self.cluster, slurm_max_num_timeout=MAX_REQUEUES
            )
        except RuntimeError as error:
            raise InputError(f"{error} --launcher slurm submits jobs with sbatch; run it on a login node") from error
        self._executor.update_parameters(
            name="ahac",
            slurm_additional_parameters={"requeue": True, **self.options},
            **({} if self.jobs is None else {"slurm_array_parallelism": self.jobs}),
        )

    def free_slots(self, waiting: int) -> int:
        """Return all runs: they are submitted as one array."""
        return waiting

    def start(self, configs: Sequence[RunConfig]) -> list[Job]:
        """Submit an array with one job for each run."""
        cwd = os.getcwd()
        runs = [
            RemoteRun(replace(config, out=str(Path(config.out).absolute())), cwd, grace=SIGNAL_GRACE)
            for config in configs
        ]
        try:
            jobs = self._executor.submit_array(runs)
        except (RuntimeError, ValueError) as error:  # what sbatch says
            raise InputError(f"the jobs cannot be submitted: {describe(error)}") from error
        return [_SlurmJob(job, self.submitit) for job in jobs]

    def close(self) -> None:
        """Do nothing: jobs have ended."""


class _SlurmJob:
    """A job of the array."""

    def __init__(self, job: Any, submitit: Any) -> None:  # noqa: ANN401 - submitit's
        self.job = job
        self.error = submitit.core.utils.UncompletedJobError
        self._canceled = False
        self._next = self._query = 0.0

    def poll(self) -> str | None:
        """Return how the job has ended; a requeued job has not."""
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + POLL_INTERVAL
        force = self._canceled and now >= self._query
        if force:
            self._query = now + QUERY_INTERVAL
        if not self.job.done(force_check=force):
            return None
        try:
            return str(self.job.result())
        except self.error as error:
            return f"job {self.job.job_id}: {describe(error)}"

    def stop(self) -> None:
        """Cancel the job: Slurm sends SIGTERM, after which the run writes a checkpoint."""
        self._canceled = True
        self.job.cancel(check=False)

    def close(self) -> None:
        """Wait for the job to end."""
        end = time.monotonic() + CLOSE_TIMEOUT
        while self.poll() is None and time.monotonic() < end:
            time.sleep(POLL_INTERVAL)
